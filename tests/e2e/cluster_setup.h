// A small cluster of real processes, and what is asked of it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "base/text/base64.h"
#include "image/pixels.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/eventually.h"
#include "tests/support/server_process.h"

namespace saccade::test {

using Flags = std::vector<std::string>;

inline Flags serve(const std::string& model, const Flags& more = {}) {
  Flags flags = {"serve", "--model", model, "--threads", "1"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// A free port at this moment.
inline std::uint16_t listening_port(const ServerProcess& encoder) {
  const std::string text = encoder.log();
  const std::string before = "encoding for others on 127.0.0.1:";
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos
             ? 0
             : static_cast<std::uint16_t>(std::stoi(text.substr(at + before.size())));
}

// An encoder on a free port of this machine.
class EncoderRole {
 public:
  explicit EncoderRole(const std::string& model = kCheckpoint, const Flags& more = {},
                       const std::string& listen = "127.0.0.1:0")
      : server_(SACCADE_BINARY,
                serve(model, join({"--role", "encoder", "--cluster-listen", listen}, more))) {}
  ServerProcess& process() { return server_; }
  std::uint16_t cluster_port() const { return listening_port(server_); }
  std::string address() const { return "127.0.0.1:" + std::to_string(cluster_port()); }
  static Flags join(Flags first, const Flags& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

 private:
  ServerProcess server_;
};

inline Flags pd(const std::string& encoders, const Flags& more = {}) {
  return EncoderRole::join({"--role", "pd", "--encoders", encoders}, more);
}

// A picture that no other seed has.
inline std::string noise(std::uint64_t seed, int width = 120, int height = 90) {
  Rng rng(seed);
  Pixels pixels{width, height,
                std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3))};
  for (auto& value : pixels.rgb) value = static_cast<std::uint8_t>(rng.below(256));
  const auto png = encode_png(pixels);
  return "data:image/png;base64," +
         base64_encode({reinterpret_cast<const char*>(png->data()), png->size()});
}

inline std::string chat(const std::vector<std::string>& images, const std::string& members = "") {
  std::string parts;
  for (const std::string& image : images)
    parts += R"({"type": "image_url", "image_url": {"url": ")" + image + R"("}}, )";
  return R"({"temperature": 0, "max_tokens": 12, "ignore_eos": true, "return_token_ids": true)" +
         members + R"(, "messages": [{"role": "user", "content": [)" + parts +
         R"({"type": "text", "text": "what is it?"}]}]})";
}

// The tokens of an answer; what went wrong, as one that no answer has.
inline std::vector<std::int64_t> tokens_of(const RawAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  const auto tree = json::parse(answer.body);
  std::vector<std::int64_t> tokens;
  if (answer.status != 200 || !tree) return {-1};
  for (const auto& token : tree->at("choices").at(0).at("token_ids").as_array())
    tokens.push_back(token.as_int64());
  return tokens;
}

inline std::vector<std::int64_t> ask(const ServerProcess& server, const std::string& body) {
  return tokens_of(exchange(server.port(), "POST", "/v1/chat/completions", body));
}

// A number of the metrics page; labels as they are written, in part. -1: it is not there.
inline double metric(const ServerProcess& server, const std::string& name,
                     const std::string& label = "") {
  std::istringstream page(exchange(server.port(), "GET", "/metrics", "").body);
  for (std::string line; std::getline(page, line);) {
    if (line.rfind(name, 0) != 0 || line.find(label) == std::string::npos) continue;
    if (line.size() > name.size() && line[name.size()] != '{' && line[name.size()] != ' ') continue;
    return std::stod(line.substr(line.rfind(' ') + 1));
  }
  return -1;
}

inline double images_from(const ServerProcess& server, const std::string& source) {
  return metric(server, "saccade:exchange_images_total", "source=\"" + source + "\"");
}

inline void wait_until_connected(const ServerProcess& server, double encoders = 1) {
  EXPECT_TRUE(eventually([&] {
    if (!server.running()) return true;
    double up = 0;
    std::istringstream page(exchange(server.port(), "GET", "/metrics", "").body);
    for (std::string line; std::getline(page, line);)
      up += line.rfind("saccade:encoder_up{", 0) == 0 && line.ends_with(" 1");
    return up >= encoders;
  })) << server.log();
  EXPECT_TRUE(server.running()) << server.log();
}

// Nothing is held for images that are done.
inline void expect_nothing_left(const ServerProcess& server) {
  EXPECT_TRUE(eventually([&] {
    return metric(server, "saccade:exchange_open_images") == 0 &&
           metric(server, "saccade:exchange_receiving_bytes") == 0 &&
           metric(server, "saccade:request_bytes") == 0;
  })) << exchange(server.port(), "GET", "/metrics", "").body;
}
inline void expect_nothing_left_at(const ServerProcess& encoder) {
  EXPECT_TRUE(eventually([&] {
    return metric(encoder, "saccade:lent_calls") == 0 &&
           metric(encoder, "saccade:lent_images") == 0 &&
           metric(encoder, "saccade:lent_media_bytes") == 0;
  })) << exchange(encoder.port(), "GET", "/metrics", "").body;
}

}  // namespace saccade::test
