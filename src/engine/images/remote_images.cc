#include "engine/images/remote_images.h"

namespace saccade {
namespace {

// Nothing where the host cannot read them.
std::optional<Digest> digest_of(View rows) {
  if (rows.empty() || rows.space() != Space::kHost) return std::nullopt;
  Sha256 hash;
  const std::size_t row_bytes = static_cast<std::size_t>(rows.cols()) * size_of(rows.dtype());
  for (std::int64_t row = 0; row < rows.rows(); ++row)
    hash.update(std::span<const std::byte>(
        rows.data() + static_cast<std::size_t>(row) * rows.row_bytes(), row_bytes));
  return hash.finish();
}

}  // namespace

void RemoteImages::compared(const Digest& key, View rows) {
  if (comparisons_.erase(key) > 0) exchange_.compared(key, digest_of(rows));
}

void RemoteImages::want(const SequenceImage& image, const RequestImage& what) {
  const auto [found, fresh] = open_.try_emplace(image.key);
  if (!fresh) return;
  found->second.ticket = ++last_ticket_;
  found->second.source = what.source;
  const ReducedCopy* const copy = what.source->copy();
  const ImageLayout& layout = copy != nullptr ? copy->layout : what.layout;
  exchange_.want({image.key, last_ticket_, what.content, layout.tokens, layout.key,
                  copy != nullptr ? copy->source : what.source, copy != nullptr});
}

void RemoteImages::prune(const std::function<bool(const Digest&)>& wanted) {
  std::erase_if(open_, [&](const auto& entry) {
    if (wanted(entry.first)) return false;
    exchange_.unwant(entry.first, entry.second.ticket);
    return true;
  });
}

std::vector<ImageNews> RemoteImages::take() {
  std::vector<ImageNews> all = exchange_.take();
  std::erase_if(all, [&](const ImageNews& news) {
    if (news.kind == ImageNews::Kind::kCompare) {
      comparisons_.insert(news.key);
      return false;
    }
    const auto found = open_.find(news.key);
    if (found == open_.end() || found->second.ticket != news.ticket) return true;
    if (news.kind == ImageNews::Kind::kEncodeHere) {
      found->second.digest_wanted = news.digest_wanted;
    } else {
      open_.erase(found);
    }
    return false;
  });
  // Rows of another that came right behind the decision to encode here: it is not done any more.
  std::erase_if(all, [&](const ImageNews& news) {
    return news.kind == ImageNews::Kind::kEncodeHere && !open_.contains(news.key);
  });
  return all;
}

std::shared_ptr<const ImageSource> RemoteImages::source(const Digest& key) const {
  const auto found = open_.find(key);
  return found == open_.end() ? nullptr : found->second.source;
}

void RemoteImages::made_here(const Digest& key, View rows) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  std::optional<Digest> digest;
  if (found->second.digest_wanted) digest = digest_of(rows);
  exchange_.made_here(key, found->second.ticket, digest);
  open_.erase(found);
}

bool RemoteImages::failed_here(const Digest& key, const Error& error) {
  const auto found = open_.find(key);
  if (found == open_.end()) return false;
  exchange_.failed_here(key, found->second.ticket, error);
  return true;
}

}  // namespace saccade
