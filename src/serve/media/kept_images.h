// Images that clients have sent under a name of their own (vLLM's `uuid`), so that later requests
// need only say the name. As they came, compressed; the one used longest ago leaves first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/hash.h"

namespace saccade::serve {

// Whose name it is: nobody else finds the image by it. `client` is one API key, or one address
// where there are no keys; `salt` is a request's cache_salt, by which a gateway with one key tells
// its tenants apart.
struct ImageName {
  std::uint64_t client = 0;
  std::string_view salt;
  std::string_view uuid;
};

// Any thread.
class KeptImages {
 public:
  // max_bytes: of all images and names together.
  explicit KeptImages(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Takes the place of what the name stood for. What is larger than all that may be kept is not.
  void keep(const ImageName& name, std::string_view bytes);
  // Null: nothing is kept under the name, or not any more.
  std::shared_ptr<const std::string> find(const ImageName& name);
  std::size_t bytes() const;

 private:
  struct Kept {
    Digest key;
    std::shared_ptr<const std::string> bytes;
  };
  void erase(std::list<Kept>::iterator at);

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::list<Kept> kept_;  // guarded by mutex_; used last first
  std::unordered_map<Digest, std::list<Kept>::iterator, DigestHash> by_key_;  // guarded by mutex_
  std::size_t bytes_ = 0;                                                     // guarded by mutex_
};

}  // namespace saccade::serve
