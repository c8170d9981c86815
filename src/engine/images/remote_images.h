// The engine's side of an ImageExchange: which of its wishes are open there, by ticket, so that
// news of a wish that is no more is not taken for that of another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/admission/sequence.h"
#include "engine/images/image_exchange.h"
#include "engine/request.h"
#include "tensor/tensor.h"

namespace saccade {

// Engine thread.
class RemoteImages {
 public:
  explicit RemoteImages(ImageExchange& exchange) : exchange_(exchange) {}

  // Does nothing for a key that is open.
  void want(const SequenceImage& image, const RequestImage& what);
  // Lets go of what nobody wants any more.
  void prune(const std::function<bool(const Digest&)>& wanted);

  // News of open wishes. Of kRows and kFailed the wish has ended with it.
  std::vector<ImageNews> take();
  // What to decode for kEncodeHere.
  std::shared_ptr<const ImageSource> source(const Digest& key) const;
  // The encoder here has made these rows, or has not.
  void made_here(const Digest& key, View rows);
  // False: nobody was asked, and the image has failed for good. Else the news will tell.
  bool failed_here(const Digest& key, const Error& error);
  // What is being made for comparison alone.
  bool compares(const Digest& key) const { return comparisons_.contains(key); }
  void compared(const Digest& key, View rows);  // empty: there are none
  void measured(const EncodeCost& cost) { exchange_.measured(cost); }

  std::size_t open() const { return open_.size(); }

 private:
  struct Wish {
    std::uint64_t ticket = 0;
    std::shared_ptr<const ImageSource> source;
    bool digest_wanted = false;
  };
  ImageExchange& exchange_;
  std::unordered_map<Digest, Wish, DigestHash> open_;
  std::unordered_set<Digest, DigestHash> comparisons_;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace saccade
