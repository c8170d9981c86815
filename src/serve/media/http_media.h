// Images and videos from http(s) URLs, under the rules of MediaSettings. No worker waits for one: a
// single thread drives every transfer of the server, and hands over what has come.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_budget.h"
#include "base/result.h"
#include "serve/media/media_fetcher.h"

namespace saccade::serve {

// Of one request: what to fetch, and the bounds on all of it together.
struct DownloadOrder {
  struct Item {
    std::string url;
    std::string name;  // for messages: "image 0"
    MediaKind kind = MediaKind::kImage;
  };
  std::vector<Item> items;
  std::size_t max_bytes = 0;
  std::shared_ptr<ByteReservation> reserved;  // grows by what comes; null: not counted
  // Looked at several times a second, on the thread of the downloads; must not block.
  std::function<bool()> cancelled;
};

// Every hop of a redirect is held against the allowed domains, and every address against the
// private ranges at the moment of connecting, so that a DNS answer cannot change in between.
// Proxies from the environment are not used: behind one, the address check would be of the proxy.
class HttpDownloads {
 public:
  // One for each item, in their order; or the first failure, which ends the rest. Codes as
  // read_media's, and kTimeout, kCancelled, kUnavailable for no room in the reservation's budget.
  using Files = Result<std::vector<std::string>>;
  using Done = std::function<void(Files files)>;

  explicit HttpDownloads(MediaSettings settings);
  ~HttpDownloads();  // as stop()

  // What is unfinished, and what is started later, ends as kUnavailable. Returns when nothing calls
  // back any more.
  void stop();

  // Any thread; returns at once. The items come side by side, all within
  // MediaSettings::total_timeout. `done` is called once, on the thread of the downloads: it must
  // not block.
  void start(DownloadOrder order, Done done);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace saccade::serve
