#include "memory/prefix/prefix_content.h"

#include <algorithm>

#include "base/check.h"

namespace saccade {
namespace {

void append_number(Sha256& hash, std::int64_t number) {
  hash.update(std::as_bytes(std::span(&number, 1)));
}

void append_images(Sha256& hash, std::span<const PrefixImage> images) {
  append_number(hash, static_cast<std::int64_t>(images.size()));
  for (const PrefixImage& image : images) {
    append_number(hash, image.begin);
    append_number(hash, image.tokens);
    append_number(hash, image.first_row);
    hash.update(std::as_bytes(std::span(image.identity)));
  }
}

// What names begin with: before the salt, which is a client's to choose.
std::string adapter_root(const PrefixContent& content) {
  if (content.adapter.identity.empty()) return {};
  std::string name = "lora ";
  name += content.adapter.identity;
  return name + ' ';
}

}  // namespace

std::string prefix_root(const PrefixContent& content) {
  std::string name = adapter_root(content);
  name += content.is_long ? "long text " : "text ";
  name += content.salt;
  if (content.bidirectional_prefix == 0 && content.encoder_images.empty()) return name;
  const auto prefix = static_cast<std::size_t>(content.bidirectional_prefix);
  CHECK(prefix <= content.tokens.size(), "prefix of {} in {} tokens", prefix,
        content.tokens.size());
  Sha256 hash;
  append_number(hash, content.bidirectional_prefix);
  hash.update(std::as_bytes(content.tokens.first(prefix)));
  append_images(hash, content.encoder_images);
  if (prefix > 0) append_images(hash, content.images);
  name += '\0';
  name += to_hex(hash.finish());
  return name;
}

std::string encoder_root(const PrefixContent& content) {
  std::string name = adapter_root(content);
  name += "encoder ";
  name += content.salt;
  return name;
}

BlockContent block_content(std::span<const std::int32_t> tokens,
                           std::span<const PrefixImage> images, std::int64_t begin,
                           std::int64_t count) {
  BlockContent content;
  if (!tokens.empty()) {
    content.tokens =
        tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }
  auto image = std::partition_point(images.begin(), images.end(), [&](const PrefixImage& at) {
    return at.begin + at.tokens <= begin;
  });
  for (; image != images.end() && image->begin < begin + count; ++image) {
    const std::int64_t first = std::max(begin, image->begin);
    const std::int64_t last = std::min(begin + count, image->begin + image->tokens);
    content.marks.push_back({image->identity, static_cast<std::int32_t>(first - begin),
                             static_cast<std::int32_t>(last - first),
                             image->first_row + first - image->begin});
  }
  return content;
}

std::int64_t last_image_end(std::span<const PrefixImage> images, std::int64_t after,
                            std::int64_t until) {
  auto image = std::partition_point(images.begin(), images.end(), [&](const PrefixImage& at) {
    return at.begin + at.tokens <= until;
  });
  if (image == images.begin()) return 0;
  --image;
  const std::int64_t end = image->begin + image->tokens;
  return end > after ? end : 0;
}

}  // namespace saccade
