// Images that another process may encode. The engine asks for every image that it wants; whoever
// answers for others decides where its rows are made, and says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.h"
#include "engine/images/encode_cost.h"
#include "engine/images/image_source.h"

namespace saccade {

// An image that is wanted. A key that is wanted again has another ticket.
struct WantedImage {
  Digest key{};
  std::uint64_t ticket = 0;
  Digest content{};  // RequestImage's
  std::int64_t rows = 0;
  std::string layout_key;
  std::shared_ptr<const ImageSource> source;
  // `source` is a reduced copy (ImageSource::copy()), `key` the image's own. Encoders encode the
  // copy, and its rows are not read: kEncodeHere follows, for the image itself.
  bool unread = false;
};

struct ImageNews {
  enum class Kind : std::uint8_t {
    kEncodeHere,  // this process is to do it
    kRows,        // they are here
    kFailed,      // there will be none
    kCompare,     // this process is to make `source`'s rows for compared(), and keep them from all
  };
  Kind kind = Kind::kFailed;
  Digest key{};
  std::uint64_t ticket = 0;
  bool digest_wanted = false;                 // kEncodeHere: of the rows, with made_here()
  std::span<const std::byte> rows;            // kRows: of the host
  std::shared_ptr<const void> held;           // what `rows` points at
  Error error;                                // kFailed
  std::shared_ptr<const ImageSource> source;  // kCompare
};

// Called by the engine thread; does not wait.
class ImageExchange {
 public:
  virtual ~ImageExchange() = default;
  // Before the first want(). `wake` is called by any thread when there is something to take; must
  // not block.
  virtual void set_wake(std::function<void()> wake) = 0;

  virtual void want(WantedImage image) = 0;
  virtual void unwant(const Digest& key, std::uint64_t ticket) = 0;
  // How it went, after kEncodeHere.
  virtual void made_here(const Digest& key, std::uint64_t ticket, std::optional<Digest> digest) = 0;
  virtual void failed_here(const Digest& key, std::uint64_t ticket, const Error& error) = 0;
  // After kCompare: the rows' digest, or nothing where there are none.
  virtual void compared(const Digest& key, std::optional<Digest> digest) = 0;
  // What an encode takes here, as measured so far.
  virtual void measured(const EncodeCost& cost) = 0;

  virtual std::vector<ImageNews> take() = 0;
};

}  // namespace saccade
