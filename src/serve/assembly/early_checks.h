// What can be told of settings in milliseconds: before minutes of reading weights.
#pragma once

#include "base/result.h"
#include "model/checkpoint/checkpoint.h"
#include "net/server/http_server.h"
#include "ops/device.h"
#include "serve/settings.h"

namespace saccade::serve {

net::HttpServerSettings http_settings(const ServeSettings& settings);

// --chat-template: a path, or the template itself.
Result<std::string> template_source(const std::string& given);

// Host and port can be listened on, the files of TLS be read, and --chat-template is a template.
Result<void> check_listener(const ServeSettings& settings);

// The checkpoint takes --max-model-len, and the device has memory for --kv-cache-bytes. Of models
// that generate.
Result<void> check_sizes(const ServeSettings& settings, const Checkpoint& checkpoint,
                         const Device& device);

}  // namespace saccade::serve
