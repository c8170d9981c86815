// Where each rank has what the first rank has at an address.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace saccade {

// Read by all ranks at once while nobody changes it.
class TeamPlaces {
 public:
  // at: [ranks], of `bytes` each.
  void add(std::vector<const std::byte*> at, std::size_t bytes);
  void remove(const std::byte* of_first) { pieces_.erase(of_first); }
  void clear() { pieces_.clear(); }

  // The rank's own address of what lies at `address` of the first rank's; null: it is in none of
  // the pieces.
  std::byte* of(int rank, const std::byte* address) const;

 private:
  struct Piece {
    std::vector<const std::byte*> at;
    std::size_t bytes = 0;
  };
  std::map<const std::byte*, Piece> pieces_;  // by the first rank's address
};

}  // namespace saccade
