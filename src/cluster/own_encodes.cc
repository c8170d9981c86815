#include "cluster/own_encodes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "memory/embedding_store.h"

namespace saccade::cluster {

Order OwnEncodes::wanted(const WantedImage& image, std::string_view fingerprint,
                         std::uint64_t row_bytes) {
  Order order;
  order.key = image.key;
  order.content = image.content;
  order.name = embedding_key(image.content, image.layout_key, fingerprint);
  order.layout_key = image.layout_key;
  order.rows = image.rows;
  order.row_bytes = row_bytes;
  const PortableImage portable = image.source->portable();
  order.recipe = std::string(portable.recipe);
  order.media = {portable.files, image.source};
  rows_[image.key] = image.rows;
  return order;
}

ImageNews OwnEncodes::begin(const Digest& key, Ticket ticket, bool digest_wanted) {
  if (here_.empty()) here_since_ = clock_.now();
  here_[key] = rows_.at(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kEncodeHere;
  news.key = key;
  news.ticket = ticket;
  news.digest_wanted = digest_wanted;
  return news;
}

void OwnEncodes::end(const Digest& key) {
  if (here_.erase(key) > 0) here_since_ = clock_.now();
  rows_.erase(key);
}

ImageNews OwnEncodes::rows(const Digest& key, Ticket ticket, Rows rows) {
  end(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kRows;
  news.key = key;
  news.ticket = ticket;
  news.rows = rows->bytes;
  news.held = std::move(rows);
  return news;
}

ImageNews OwnEncodes::failure(const Digest& key, Ticket ticket, const Error& error) {
  end(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kFailed;
  news.key = key;
  news.ticket = ticket;
  news.error = error;
  return news;
}

LocalLoad OwnEncodes::load(bool possible) const {
  LocalLoad load;
  load.possible = possible;
  load.cost = cost_;
  for (const auto& [key, rows] : here_) load.backlog += cost_.duration(rows);
  // The first of them has been running since the last one ended.
  if (!here_.empty())
    load.backlog = std::max<Nanos>(0, load.backlog - (clock_.now() - here_since_));
  return load;
}

}  // namespace saccade::cluster
