#include "serve/media/kept_images.h"

#include <fmt/format.h>

#include <iterator>

namespace saccade::serve {
namespace {

constexpr std::size_t kEntryBytes = 256;  // of an image besides its own: many small ones count too

// Lengths keep one part from reading as the next one's begin.
Digest key_of(const ImageName& name) {
  return sha256(fmt::format("{} {} {}{}", name.client, name.salt.size(), name.salt, name.uuid));
}

}  // namespace

void KeptImages::erase(std::list<Kept>::iterator at) {
  bytes_ -= at->bytes->size() + kEntryBytes;
  by_key_.erase(at->key);
  kept_.erase(at);
}

void KeptImages::keep(const ImageName& name, std::string_view bytes) {
  const Digest key = key_of(name);
  const std::size_t size = bytes.size() + kEntryBytes;
  const std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    if (*found->second->bytes == bytes) {
      kept_.splice(kept_.begin(), kept_, found->second);
      return;
    }
    erase(found->second);
  }
  if (size > max_bytes_) return;
  while (bytes_ + size > max_bytes_) erase(std::prev(kept_.end()));
  kept_.push_front({key, std::make_shared<const std::string>(bytes)});
  by_key_.emplace(key, kept_.begin());
  bytes_ += size;
}

std::shared_ptr<const std::string> KeptImages::find(const ImageName& name) {
  const Digest key = key_of(name);
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return found->second->bytes;
}

std::size_t KeptImages::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace saccade::serve
