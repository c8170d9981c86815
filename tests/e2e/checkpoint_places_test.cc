// Where `saccade serve` finds a checkpoint: folders, the cache, a hub, GGUF of each.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/hash.h"
#include "base/json.h"
#include "base/text/base64.h"
#include "net/server/http_server.h"
#include "tests/e2e/serve_requests.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

TEST(Checkpoints, AnotherTokenizer) {
  const TemporaryDirectory folder;
  link_files(kCheckpoint, folder.path(), "tokenizer");
  expect_refused({"serve", folder.path()}, {"tokenizer"});
  ServerProcess with(SACCADE_BINARY, {"serve", folder.path(), "--tokenizer", kCheckpoint});
  ServerProcess plain(SACCADE_BINARY, serve({}));
  EXPECT_EQ(text_of(complete(with)), text_of(complete(plain)));
  expect_refused({"serve", kCheckpoint, "--tokenizer", "/none"}, {"--tokenizer", "/none"});
}

TEST(Checkpoints, RevisionsInAFolder) {
  const TemporaryDirectory folder;
  const fs::path repository = fs::path(folder.path()) / "models--Org--Name";
  fs::create_directories(repository / "refs");
  fs::create_directories(repository / "snapshots");
  fs::create_directory_symlink(kCheckpoint, repository / "snapshots" / kCommit);
  std::ofstream(repository / "refs/v2") << kCommit;
  const Environment offline = {{"HF_HUB_OFFLINE", "1"}};
  for (const std::string& revision : {std::string("v2"), kCommit}) {
    ServerProcess server(
        SACCADE_BINARY,
        {"serve", "Org/Name", "--download-dir", folder.path(), "--revision", revision}, offline);
    expect_words(exchange(server.port(), "GET", "/v1/models", "").body, {R"("id":"Org/Name")"});
  }
  expect_refused({"serve", "Org/Name", "--download-dir", folder.path()},
                 {"HF_HUB_OFFLINE", "Org/Name", "saccade model pull Org/Name"}, offline);
  expect_refused({"serve", "Org/Name", "--download-dir", folder.path(), "--revision", "v3"},
                 {"v3", "--revision v3"}, offline);
  expect_refused({"serve", "Org/Name", "--download-dir", folder.path(), "--revision", "../x"},
                 {"revision", "../x"}, offline);
}

// By their names on a hub, where they are here.
using HubFiles = std::map<std::string, std::string>;

HubFiles files_of(const std::string& folder) {
  HubFiles files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().filename()] = entry.path();
  }
  return files;
}

// A hub that has one repository.
class Hub {
 public:
  explicit Hub(HubFiles files) : files_(std::move(files)) {
    net::HttpServerSettings settings;
    settings.port = 0;
    auto server = net::HttpServer::listen(
        settings, [this](const net::HttpRequest& request, const net::Responder& to) {
          to.respond(answer(request));
        });
    EXPECT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  std::string token() const {
    const std::scoped_lock lock(mutex_);
    return token_;
  }

 private:
  net::HttpResponse answer(const net::HttpRequest& request) {
    {
      const std::scoped_lock lock(mutex_);
      token_ = request.header("authorization");
    }
    if (request.path == "/api/models/Org/Name/revision/v2" ||
        request.path == "/api/models/Org/Name/revision/main") {
      std::string list;
      for (const auto& [name, path] : files_)
        list += (list.empty() ? "" : ", ") + ("{\"rfilename\": \"" + name + "\"}");
      return {200,
              "application/json",
              R"({"sha": ")" + kCommit + R"(", "siblings": [)" + list + "]}",
              {}};
    }
    const std::string prefix = "/Org/Name/resolve/" + kCommit + "/";
    if (!request.path.starts_with(prefix)) return {404, "text/plain", "", {}};
    std::string text = read_file(files_.at(request.path.substr(prefix.size())));
    const std::string digest = to_hex(sha256(text));
    return {200, "application/octet-stream", std::move(text), {{"ETag", "\"" + digest + "\""}}};
  }

  const HubFiles files_;
  mutable std::mutex mutex_;
  std::string token_;  // of the last request; guarded by mutex_
  std::unique_ptr<net::HttpServer> server_;
};

TEST(Checkpoints, WhatIsNotThereIsDownloaded) {
  const Hub hub(files_of(kCheckpoint));
  const TemporaryDirectory folder;
  const Environment environment = {{"HF_ENDPOINT", hub.address()}};
  const Arguments arguments = {"serve",      "Org/Name", "--download-dir", folder.path(),
                               "--revision", "v2",       "--hf-token",     "secret"};
  {
    ServerProcess server(SACCADE_BINARY, arguments, environment);
    expect_words(server.log(), {"downloading v2 of Org/Name to " + folder.path()});
    EXPECT_EQ(server.log().find("secret"), std::string::npos);
    EXPECT_EQ(complete(server).status, 200);
  }
  EXPECT_EQ(hub.token(), "Bearer secret");
  ServerProcess again(SACCADE_BINARY, arguments, {{"HF_HUB_OFFLINE", "1"}});
  EXPECT_EQ(again.log().find("downloading"), std::string::npos) << again.log();
  expect_refused({"serve", "Org/Other", "--download-dir", folder.path()},
                 {"Org/Other", "downloading it failed"}, environment);
}

TEST(Checkpoints, RandomWeightsAreThoseOfMakeDummy) {
  const TemporaryDirectory folder;
  const std::string whole = folder / "whole";
  ASSERT_EQ(run_to_end(SACCADE_BINARY, {"model", "make-dummy", "--family", "qwen2-vl", "--size",
                                        "tiny", "--out", whole})
                .status,
            0);
  const std::string bare = folder / "bare";
  link_files(whole, bare, "model");
  expect_refused({"serve", bare}, {"safetensors"});
  ServerProcess read(SACCADE_BINARY, {"serve", whole, "--max-model-len", "64"});
  ServerProcess made(SACCADE_BINARY,
                     {"serve", bare, "--max-model-len", "64", "--load-format", "dummy"});
  expect_words(made.log(), {"random", "--load-format dummy"});
  const std::string text = text_of(complete(read));
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text_of(complete(made)), text);
  expect_refused(serve({"--load-format", "gguf"}), {"--load-format", "gguf", "safetensors"});
}

const std::string kGgufFolder = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/gguf/qwen2_vl";

RawAnswer ask_about_image(const ServerProcess& server) {
  const std::string image =
      read_file(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/images/small.png");
  const std::string chat =
      R"({"max_tokens": 8, "temperature": 0, "ignore_eos": true, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,)" +
      base64_encode(image) + R"("}}, {"type": "text", "text": "What is it?"}]}]})";
  return exchange(server.port(), "POST", "/v1/chat/completions", chat, -1, "");
}

std::string message_of(const RawAnswer& answer) {
  const json::object tree = tree_of(answer);
  const json::value* choices = json::find(tree, "choices");
  return choices == nullptr ? std::string() : boost::json::serialize(choices->at(0).at("message"));
}

// A GGUF by its two files, and by the folder that they are in: the same answer about an image,
// under the first file's name. Without its tower a model has no images.
TEST(Checkpoints, GgufIsServedWithItsProjector) {
  const std::string model = kGgufFolder + "/model.gguf";
  const std::string projector = kGgufFolder + "/mmproj.gguf";
  ServerProcess files(SACCADE_BINARY,
                      {"serve", model, "--mmproj", projector, "--kv-cache-bytes", "16MiB"});
  ServerProcess whole(SACCADE_BINARY, {"serve", kGgufFolder, "--kv-cache-bytes", "16MiB"});
  const std::string answer = message_of(ask_about_image(files));
  EXPECT_FALSE(answer.empty());
  EXPECT_EQ(message_of(ask_about_image(whole)), answer);
  expect_words(files.log(), {"quantised tensors: 13 of Q4_0", "stays in four bits"});
  expect_words(exchange(files.port(), "GET", "/v1/models", "", -1, "").body,
               {"\"id\":\"" + model + "\""});

  ServerProcess text(SACCADE_BINARY, {"serve", model, "--kv-cache-bytes", "16MiB"});
  EXPECT_EQ(ask_about_image(text).status, 400);
  EXPECT_FALSE(text_of(complete(text)).empty());
  ServerProcess less(SACCADE_BINARY,
                     {"serve", kGgufFolder, "--no-mmproj", "--kv-cache-bytes", "16MiB"});
  EXPECT_EQ(ask_about_image(less).status, 400);
  expect_refused({"serve", kCheckpoint, "--mmproj", projector},
                 {"--mmproj", "goes with a model in GGUF"});
  expect_refused({"serve", kCheckpoint, "--no-mmproj"},
                 {"--no-mmproj", "goes with a model in GGUF"});
  expect_refused({"serve", projector}, {"holds a vision tower alone"});
}

// ORG/NAME:PATTERN of a hub: the one model, with the tower that has lost least, and both again
// without the hub.
TEST(Checkpoints, GgufIsDownloadedByAPattern) {
  const std::string model = kGgufFolder + "/model.gguf";
  const std::string projector = kGgufFolder + "/mmproj.gguf";
  const Hub hub({{"vl-Q4_0.gguf", model},
                 {"vl-Q8_0.gguf", "/none"},
                 {"mmproj-vl-Q8_0.gguf", "/none"},
                 {"mmproj-vl-BF16.gguf", projector}});
  const TemporaryDirectory folder;
  const Environment online = {{"HF_ENDPOINT", hub.address()}, {"HF_HUB_CACHE", folder.path()}};
  const Environment offline = {{"HF_HUB_OFFLINE", "1"}, {"HF_HUB_CACHE", folder.path()}};
  const Arguments arguments = {"serve", "Org/Name:q4_0", "--kv-cache-bytes", "16MiB"};
  expect_refused(arguments, {"HF_HUB_OFFLINE", "saccade model pull Org/Name:q4_0"}, offline);
  std::string answer;
  {
    ServerProcess server(SACCADE_BINARY, arguments, online);
    expect_words(server.log(), {"downloading main of Org/Name:q4_0",
                                "vl-Q4_0.gguf, with mmproj-vl-BF16.gguf (not mmproj-vl-Q8_0.gguf"});
    answer = message_of(ask_about_image(server));
    EXPECT_FALSE(answer.empty());
    expect_words(exchange(server.port(), "GET", "/v1/models", "", -1, "").body,
                 {R"("id":"Org/Name:q4_0")"});
  }
  ServerProcess files(SACCADE_BINARY,
                      {"serve", model, "--mmproj", projector, "--kv-cache-bytes", "16MiB"});
  EXPECT_EQ(message_of(ask_about_image(files)), answer);
  ServerProcess again(SACCADE_BINARY, arguments, offline);
  EXPECT_EQ(message_of(ask_about_image(again)), answer);
  ServerProcess text(SACCADE_BINARY,
                     {"serve", "--model", "Org/Name", "--no-mmproj", "--kv-cache-bytes", "16MiB"},
                     offline);
  EXPECT_EQ(ask_about_image(text).status, 400);
  ServerProcess own(SACCADE_BINARY,
                    {"serve", "Org/Name:Q4_0", "--mmproj", projector, "--kv-cache-bytes", "16MiB"},
                    offline);
  EXPECT_EQ(message_of(ask_about_image(own)), answer);

  ServerProcess named(
      SACCADE_BINARY,
      {"serve", "Org/Name:Q4_0", "--mmproj", "mmproj-vl-BF16.gguf", "--kv-cache-bytes", "16MiB"},
      offline);
  EXPECT_EQ(message_of(ask_about_image(named)), answer);

  expect_refused({"serve", "Org/Name:Q5_K_M"},
                 {"no model in GGUF fits \"Q5_K_M\"; there are vl-Q4_0.gguf, vl-Q8_0.gguf"},
                 online);
  expect_refused({"serve", "Org/Name:vl-*"}, {"name one of vl-Q4_0.gguf, vl-Q8_0.gguf"},
                 {{"HF_ENDPOINT", hub.address()}, {"HF_HUB_CACHE", folder / "other"}});
  const Ended pulled =
      run_to_end(SACCADE_BINARY, {"model", "pull", "Org/Name:q4_0", "--no-mmproj"}, online);
  EXPECT_EQ(pulled.status, 0) << pulled.output;
  expect_words(pulled.output, {kCommit + "/vl-Q4_0.gguf\n"});
}

}  // namespace
}  // namespace saccade::test
