// From an image reference of a request to the image's bytes: data: URLs, file:// under an allowed
// folder, http(s) from allowed domains (http_media.h). Everything else is refused.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade::serve {

struct MediaSettings {
  std::string allowed_local_path;  // folder for file://; empty: none
  std::vector<std::string>
      allowed_domains;  // for http(s)://; empty: none. "example.org" also allows its subdomains
  bool allow_private_addresses =
      false;  // loopback, private and link-local addresses behind an allowed domain
  std::size_t max_bytes = 64u << 20;  // of one image, as fetched or decoded from base64
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds total_timeout{30'000};  // of all images and frames of a request
  int max_redirects = 3;
};

// Whether HttpDownloads brings it.
bool is_remote_media(std::string_view reference);

// The bytes behind a data: or file:// URL. Any thread; blocks for as long as reading a file takes.
// kDenied for what the settings forbid, kUndecodable for bad base64 and files that cannot be read,
// kTooLarge, kCancelled when `cancelled` turns true, kInvalid for every other reference. Messages
// name the reference, shortened.
Result<std::string> read_media(std::string_view reference, const MediaSettings& settings,
                               const std::atomic<bool>& cancelled);

}  // namespace saccade::serve
