// From a reference to an image or a video of a request to its bytes: data: URLs, file:// under an
// allowed folder, http(s) from allowed domains (http_media.h). Everything else is refused.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade::serve {

struct MediaSettings {
  std::string allowed_local_path;  // folder for file://; empty: none
  std::vector<std::string>
      allowed_domains;  // for http(s)://; empty: none. "example.org" also allows its subdomains
  // Loopback, private and link-local addresses behind an allowed domain.
  bool allow_private_addresses = false;
  // HTTP_PROXY, HTTPS_PROXY and NO_PROXY count; a proxy looks names up itself, so that addresses
  // behind them are its affair.
  bool environment_proxies = false;
  std::size_t max_bytes = 64u << 20;        // of one image, as fetched or decoded from base64
  std::size_t max_video_bytes = 64u << 20;  // of one video file, likewise
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds total_timeout{30'000};  // of all images and frames of a request
  int max_redirects = 3;
};

// What a reference is to be: a frame of a list is an image.
enum class MediaKind { kImage, kVideoFile };

// How many bytes one of a kind may have, and how messages speak of it.
struct MediaLimit {
  std::size_t bytes = 0;
  std::string_view noun;  // "the image"
  std::string_view flag;  // " (--flag)", if there is one
};
MediaLimit limit_of(const MediaSettings& settings, MediaKind kind);

// Whether HttpDownloads brings it.
bool is_remote_media(std::string_view reference);

// The bytes behind a data: or file:// URL. Any thread; blocks for as long as reading a file takes.
// kDenied for what the settings forbid, kUndecodable for bad base64 and files that cannot be read,
// kTooLarge, kCancelled when `cancelled` turns true, kInvalid for every other reference. Messages
// name the reference, shortened.
Result<std::string> read_media(std::string_view reference, const MediaSettings& settings,
                               const std::atomic<bool>& cancelled,
                               MediaKind kind = MediaKind::kImage);

}  // namespace saccade::serve
