// Flags of `saccade serve` that came from vLLM, by what they do: where a checkpoint comes from,
// what answers are by default, what HTTP shows of them.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "base/base64.h"
#include "base/hash.h"
#include "base/json.h"
#include "net/http_server.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

const std::string kCheckpoint =
    std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/odd_heads";
const std::string kQuantised = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/quantised/awq_row";
const std::string kGreedy =
    R"({"prompt": "one two", "max_tokens": 8, "temperature": 0, "ignore_eos": true})";
const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

Arguments serve(Arguments flags) {
  flags.insert(flags.begin(), {"serve", "--model", kCheckpoint});
  return flags;
}

void expect_words(const std::string& text, const Arguments& words) {
  for (const auto& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

void expect_refused(const Arguments& arguments, const Arguments& words,
                    const Environment& environment = {}) {
  const Tried tried = start_or_end(SACCADE_BINARY, arguments, environment);
  EXPECT_FALSE(tried.started) << tried.ended.output;
  EXPECT_TRUE(tried.ended.status == 1 || tried.ended.status == 2) << tried.ended.output;
  expect_words(tried.ended.output, words);
}

json::object tree_of(const RawAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  const auto tree = json::parse(answer.body);
  return tree && tree->is_object() ? tree->get_object() : json::object{};
}

std::string text_of(const RawAnswer& answer) {
  const json::object tree = tree_of(answer);
  const json::value* choices = json::find(tree, "choices");
  if (choices == nullptr) return {};
  return json::get_string(choices->at(0).get_object(), "text").value_or("");
}

std::int64_t completion_tokens(const RawAnswer& answer) {
  const json::object tree = tree_of(answer);
  const json::value* usage = json::find(tree, "usage");
  return usage == nullptr ? -1
                          : json::get_int(usage->get_object(), "completion_tokens").value_or(-1);
}

RawAnswer complete(const ServerProcess& server, const std::string& body = kGreedy,
                   const std::string& headers = "") {
  return exchange(server.port(), "POST", "/v1/completions", body, -1, headers);
}

// A folder of links to a checkpoint's files, but for those that begin with `without`.
void link_files(const std::string& from, const fs::path& to, const std::string& without = "-") {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(without)) fs::create_symlink(entry.path(), to / name);
  }
}

// --- where a checkpoint comes from --------------------------------------------------------------

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

TEST(Choices, AnotherNameIsRefusedWithThoseThereAre) {
  for (const auto& [flag, names] :
       std::map<std::string, std::string>{{"--kv-policy", "jenga,maxpage,static,paged"},
                                          {"--encoder-cache", "off,store,overlay"},
                                          {"--scheduling-policy", "fcfs,priority"},
                                          {"--fairness", "client,none"},
                                          {"--role", "all,encoder,pd"},
                                          {"--dtype", "auto,float32,float,bfloat16,float16,half"},
                                          {"--encoder-fallback", "local,refuse"},
                                          {"--over-target", "accept,refuse"}})
    expect_refused(serve({flag, "other"}), {flag, "other", names});
  expect_refused(serve({"--kv-cache-dtype", "other"}),
                 {"--kv-cache-dtype", "other", "int8 or fp8"});
}

TEST(Checkpoints, QuantizationIsWhatTheCheckpointSays) {
  for (const char* name : {"awq", "awq_marlin"}) {
    const Tried tried = start_or_end(SACCADE_BINARY, {"serve", kQuantised, "-q", name});
    EXPECT_TRUE(tried.started) << tried.ended.output;
  }
  for (const std::string& checkpoint : {kQuantised, kCheckpoint}) {
    const Tried tried =
        start_or_end(SACCADE_BINARY, {"serve", checkpoint, "-q", "int8", "--quantize-head"});
    EXPECT_TRUE(tried.started) << tried.ended.output;
  }
  expect_refused(serve({"--quantize-head"}), {"--quantize-head", "--quantization int8"});
  for (const Arguments& four_bits : {Arguments{"serve", kQuantised}, serve({"-q", "int4"})}) {
    Arguments flags = four_bits;
    flags.emplace_back("--quantize-activations");
    const Tried tried = start_or_end(SACCADE_BINARY, flags);
    EXPECT_TRUE(tried.started) << tried.ended.output;
    EXPECT_NE(tried.ended.output.find("activations before four bits in int8"), std::string::npos)
        << tried.ended.output;
  }
  for (const char* method : {"int8", "int4"}) {
    const Tried plain = start_or_end(SACCADE_BINARY, serve({"-q", method}));
    EXPECT_NE(plain.ended.output.find(std::string("--quantization ") + method + ": text layers W"),
              std::string::npos)
        << plain.ended.output;
    EXPECT_NE(plain.ended.output.find("head in int8"), std::string::npos) << plain.ended.output;
    const Tried only = start_or_end(SACCADE_BINARY, serve({"-q", method, "--weight-only"}));
    EXPECT_TRUE(only.started) << only.ended.output;
    EXPECT_EQ(only.ended.output.find("head in int8"), std::string::npos) << only.ended.output;
  }
  for (const Arguments& flags :
       {Arguments{"--quantize-tower"}, {"--quantize-tower", "-q", "int8"}}) {
    const Tried tried = start_or_end(SACCADE_BINARY, serve(flags));
    EXPECT_TRUE(tried.started) << tried.ended.output;
    EXPECT_NE(tried.ended.output.find("tower's layers in int8"), std::string::npos)
        << tried.ended.output;
  }
  expect_refused({"serve", kQuantised, "--quantize-tower"}, {"no vision tower"});
  expect_refused(serve({"--quantize-activations", "--weight-only", "-q", "int4"}),
                 {"--quantize-activations", "--weight-only"});
  for (const char* method : {"none", "int8"})
    expect_refused(serve({"--quantize-activations", "-q", method}),
                   {"--quantize-activations", "no matrix has four bits"});
  expect_refused({"serve", kQuantised, "--quantization", "gptq"},
                 {"--quantization gptq", "stored as awq"});
  expect_refused(serve({"--quantization", "fp8"}), {"--quantization fp8", "not quantised"});
  expect_refused(serve({"-q", "bitsandbytes"}), {"--quantization bitsandbytes", "awq, gptq, fp8"});
}

TEST(Checkpoints, ConfigurationThatIsLaidOver) {
  ServerProcess server(SACCADE_BINARY, serve({"--hf-overrides.max_position_embeddings", "100"}));
  expect_words(exchange(server.port(), "GET", "/v1/models", "").body, {R"("max_model_len":100)"});
  expect_refused(serve({"--hf-overrides", R"({"architectures": ["Other"]})"}), {"Other"});
  expect_refused(serve({"--hf-overrides", "none"}), {"--hf-overrides", "JSON"});
}

// --- sizes --------------------------------------------------------------------------------------

TEST(Sizes, AsPeopleWriteThem) {
  const std::map<std::string, std::string> lengths = {
      {"1k", "1000"}, {"1K", "1024"}, {"1.5k", "1500"}, {"auto", "2048"}, {"-1", "2048"}};
  for (const auto& [given, length] : lengths) {
    ServerProcess server(SACCADE_BINARY, serve({"--max-model-len", given, "--max-num-seqs", "2",
                                                "--max-num-batched-tokens", "2k",
                                                "--kv-cache-memory-bytes", "64M"}));
    expect_words(exchange(server.port(), "GET", "/v1/models", "").body,
                 {"\"max_model_len\":" + length});
  }
  expect_refused(serve({"--max-model-len", "1.5K"}), {"--max-model-len", "1.5K"});
  expect_refused(serve({"--max-model-len", "1x"}), {"--max-model-len", "1x"});
  expect_refused(serve({"--max-num-batched-tokens", "9t"}), {"--max-num-batched-tokens"});
  expect_refused(serve({"--kv-cache-dtype", "nvfp4"}),
                 {"--kv-cache-dtype", "nvfp4", "bfloat16", "int8", "fp8"});
  expect_refused(serve({"--kv-cache-dtype", "fp8_e5m2"}), {"--kv-cache-dtype", "fp8_e4m3 takes"});
}

TEST(Sizes, KeysAndValuesInBf16) {
  ServerProcess server(SACCADE_BINARY,
                       serve({"--dtype", "float32", "--kv-cache-dtype", "bfloat16"}));
  expect_words(server.log(), {"keys and values as bfloat16"});
  EXPECT_EQ(completion_tokens(complete(server)), 8);
}

TEST(Sizes, KeysAndValuesInBytes) {
  const std::map<std::string, std::string> stored = {{"int8", "int8"},
                                                     {"int8_per_token_head", "int8"},
                                                     {"fp8", "float8_e4m3"},
                                                     {"fp8_e4m3", "float8_e4m3"}};
  for (const auto& [given, name] : stored) {
    ServerProcess server(SACCADE_BINARY, serve({"--kv-cache-dtype", given}));
    expect_words(server.log(), {"keys and values as " + name});
    EXPECT_EQ(completion_tokens(complete(server)), 8);
  }
}

// --- answers by default -------------------------------------------------------------------------

TEST(Answers, LengthOfTheCheckpointsAndTheOperators) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "generation_config.json") << R"({"max_new_tokens": 5})";
  const std::string chat = "/v1/chat/completions";
  const auto tokens = [&](const ServerProcess& server, const std::string& more) {
    return completion_tokens(exchange(
        server.port(), "POST", chat,
        R"({"messages": [{"role": "user", "content": "x"}], "ignore_eos": true)" + more + "}"));
  };
  ServerProcess server(SACCADE_BINARY, serve({"--generation-config", folder.path()}));
  EXPECT_EQ(tokens(server, ""), 5);                      // where the request says nothing
  EXPECT_EQ(tokens(server, R"(, "max_tokens": 9)"), 9);  // no bound
  ServerProcess bounded(SACCADE_BINARY,
                        serve({"--generation-config", folder.path(), "--override-generation-config",
                               R"({"max_new_tokens": 3})"}));
  EXPECT_EQ(tokens(bounded, ""), 3);
  EXPECT_EQ(tokens(bounded, R"(, "max_tokens": 9)"), 3);
  EXPECT_EQ(tokens(bounded, R"(, "max_tokens": 2)"), 2);
  EXPECT_EQ(completion_tokens(complete(bounded)), 3);
  std::ofstream(folder / "generation_config.json") << R"({"max_new_tokens": 0})";
  expect_refused(serve({"--generation-config", folder.path()}), {"max_new_tokens", "0"});
}

TEST(Answers, SamplingByTheOperator) {
  const std::string any = R"({"prompt": "one two", "max_tokens": 8, "ignore_eos": true, "seed": )";
  ServerProcess server(SACCADE_BINARY,
                       serve({"--override-generation-config", R"({"temperature": 0})"}));
  const std::string text = text_of(complete(server, any + "1}"));
  for (const char* seed : {"2}", "3}", "4}"})
    EXPECT_EQ(text_of(complete(server, any + seed)), text);
  expect_refused(serve({"--override-generation-config", R"({"warmth": 0})"}),
                 {"--override-generation-config", "warmth", "temperature"});
}

// A template from elsewhere names the tokens of a checkpoint that has no template itself.
TEST(Answers, TemplatesFromElsewhereNameTheCheckpointsTokens) {
  const std::string paligemma = SACCADE_SOURCE_DIR "/tests/golden/paligemma/first";
  const ServerProcess server(SACCADE_BINARY,
                             {"serve", "--model", paligemma, "--chat-template",
                              "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"});
  const RawAnswer answer =
      exchange(server.port(), "POST", "/tokenize",
               R"({"messages": [{"role": "user", "content": "x"}], "return_token_strs": true})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::object tree = tree_of(answer);
  const json::value* strings = json::find(tree, "token_strs");
  ASSERT_NE(strings, nullptr) << answer.body;
  ASSERT_GE(strings->get_array().size(), 3U);
  EXPECT_EQ(strings->get_array().front().get_string(), "<bos>");
  EXPECT_EQ(strings->get_array().back().get_string(), "<eos>");
}

TEST(Answers, WhatTemplatesSee) {
  ServerProcess server(
      SACCADE_BINARY,
      serve({"--chat-template", "{{ greeting }}{{ messages[0].content }}{% if tools %}T{% endif %}",
             "--default-chat-template-kwargs.greeting", "hello",
             "--exclude-tools-when-tool-choice-none"}));
  const auto rendered = [&](const std::string& more) {
    const json::object tree = tree_of(
        exchange(server.port(), "POST", "/tokenize",
                 R"({"messages": [{"role": "user", "content": "x"}], "return_token_strs": true)" +
                     more + "}"));
    std::string text;
    if (const json::value* strings = json::find(tree, "token_strs"))
      for (const json::value& each : strings->get_array()) text += each.get_string().c_str();
    return text;
  };
  const std::string tools =
      R"(, "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": )";
  EXPECT_EQ(rendered(""), "hellox");
  EXPECT_EQ(rendered(R"(, "chat_template_kwargs": {"greeting": "bye"})"), "byex");
  EXPECT_EQ(rendered(tools + "\"none\""), "hellox");
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt"})
    expect_refused(
        serve({"--default-chat-template-kwargs", R"({")" + std::string(name) + R"(": []})"}),
        {"--default-chat-template-kwargs", name});
}

TEST(Answers, AsIfEveryRequestHadAsked) {
  ServerProcess server(SACCADE_BINARY,
                       serve({"--enable-force-include-usage", "--return-tokens-as-token-ids",
                              "--enable-per-request-metrics", "--no-enable-auto-tool-choice"}));
  const RawAnswer stream =
      complete(server, R"({"prompt": "x", "max_tokens": 2, "stream": true, "logprobs": 1})");
  expect_words(stream.body, {R"("usage":{)", "token_id:"});
  expect_words(complete(server).body, {R"("metrics":{)"});
  const RawAnswer refused =
      exchange(server.port(), "POST", "/v1/chat/completions",
               R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1,
          "tools": [{"type": "function", "function": {"name": "f"}}]})");
  EXPECT_EQ(refused.status, 400);
  expect_words(refused.body, {"--no-enable-auto-tool-choice"});
}

TEST(Answers, MediaThatMayCome) {
  const std::string image =
      R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": )"
      R"("data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"}}]}],)"
      R"( "max_tokens": 1})";
  for (const Arguments& flags :
       {Arguments{"--limit-mm-per-prompt.image", "0"}, Arguments{"--language-model-only"},
        Arguments{"--limit-mm-per-prompt", R"({"image": {"count": 0, "width": 512}})"}}) {
    ServerProcess server(SACCADE_BINARY, serve(flags));
    const RawAnswer answer = exchange(server.port(), "POST", "/v1/chat/completions", image);
    EXPECT_EQ(answer.status, 400) << answer.body;
    expect_words(answer.body, {"image"});
  }
  ServerProcess uncached(SACCADE_BINARY,
                         serve({"--mm-processor-cache-gb", "0", "--limit-mm-per-prompt.image=1"}));
  EXPECT_EQ(exchange(uncached.port(), "POST", "/v1/chat/completions", image).status, 200);
}

// --- HTTP ---------------------------------------------------------------------------------------

// The page asks for the key itself: it is there without one.
TEST(Http, ThePageIsThereUnlessItIsNotWanted) {
  {
    ServerProcess server(SACCADE_BINARY, serve({"--api-key", "secret"}));
    const RawAnswer page = exchange(server.port(), "GET", "/", "");
    if (page.status == 404 && server.log().find("built without npm") != std::string::npos)
      GTEST_SKIP() << "built without npm";
    EXPECT_EQ(page.status, 200);
    expect_words(page.head, {"Content-Security-Policy: default-src 'none'"});
    expect_words(page.body, {"<title>Saccade</title>", "</html>"});
    EXPECT_EQ(exchange(server.port(), "GET", "/v1/models", "").status, 401);
  }
  ServerProcess server(SACCADE_BINARY, serve({"--no-ui"}));
  EXPECT_EQ(exchange(server.port(), "GET", "/", "").status, 404);
}

TEST(Http, PathsWithAndWithoutTheRoot) {
  ServerProcess server(SACCADE_BINARY, serve({"--root-path", "/x/"}));
  const RawAnswer page = exchange(server.port(), "GET", "/", "");
  EXPECT_EQ(exchange(server.port(), "GET", "/x/", "").body, page.body);
  for (const char* path : {"/v1/models", "/x/v1/models"})
    EXPECT_EQ(exchange(server.port(), "GET", path, "").status, 200) << path;
  EXPECT_EQ(exchange(server.port(), "POST", "/x/v1/completions", kGreedy).status, 200);
  for (const char* path : {"/xv1/models", "/y/v1/models", "/x"})
    EXPECT_EQ(exchange(server.port(), "GET", path, "").status, 404) << path;
  expect_refused(serve({"--root-path", "x"}), {"--root-path", "'x'"});
}

// What `path` answers; empty where nobody listens.
std::string ask_socket(const std::string& path, const std::string& request) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::ranges::copy(path, address.sun_path);
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
    char piece[4096];
    for (ssize_t n = 0; (n = read(fd, piece, sizeof piece)) > 0;)
      answer.append(piece, static_cast<std::size_t>(n));
  }
  close(fd);
  return answer;
}

// Whoever may open the socket may use the server, under whichever name.
TEST(Http, AUnixSocketInsteadOfAPort) {
  TemporaryDirectory folder;
  const std::string path = folder.path() + "/saccade.sock";
  ServerProcess server(SACCADE_BINARY, serve({"--uds", path}));
  EXPECT_NE(server.log().find("listening on " + path + ", a Unix socket"), std::string::npos)
      << server.log();
  const std::string tail = " HTTP/1.1\r\nHost: backend.example\r\nConnection: close\r\n";
  EXPECT_TRUE(ask_socket(path, "GET /v1/models" + tail + "\r\n").starts_with("HTTP/1.1 200"));
  const std::string answer = ask_socket(
      path, "POST /v1/completions" + tail + "Content-Type: application/json\r\n" +
                "Content-Length: " + std::to_string(kGreedy.size()) + "\r\n\r\n" + kGreedy);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  expect_refused(serve({"--uds", path}), {path, "another server does"});
  expect_refused(serve({"--uds", path, "--host", "127.0.0.1"}), {"--uds", "--host"});
  EXPECT_EQ(server.stop(), 0) << server.log();
  EXPECT_FALSE(fs::exists(path));
}

// Before the weights are loaded, which here are missing.
TEST(Http, AUnixSocketThatCannotBeIsRefusedFirst) {
  const TemporaryDirectory folder;
  const std::string model = folder / "model";
  link_files(kCheckpoint, model, "model.safetensors");
  const auto refused = [&](const std::string& path, const Arguments& words) {
    expect_refused({"serve", model, "--uds", path}, words);
  };
  refused(folder / "none/s.sock", {"none/s.sock", "No such file", "folder is missing"});
  refused(folder / std::string(108, 'x'), {"107"});
  refused("/proc/s.sock", {"cannot listen on /proc/s.sock"});
  refused(folder.path(), {"no socket"});
  refused("", {"--uds is empty"});
  // What can be is left as it was.
  refused(folder / "s.sock", {"safetensors"});
  EXPECT_FALSE(fs::exists(folder / "s.sock"));
}

TEST(Http, HeadersOfAnswers) {
  ServerProcess server(SACCADE_BINARY, serve({"--enable-request-id-headers", "--allow-credentials",
                                              "--cors-allow-origins", "http://a.example"}));
  expect_words(complete(server, kGreedy, "X-Request-Id: mine\r\nOrigin: http://a.example\r\n").head,
               {"X-Request-Id: mine", "Access-Control-Allow-Credentials: true"});
  const std::string head = complete(server).head;
  expect_words(head, {"X-Request-Id: "});
  EXPECT_EQ(head.find("Credentials"), std::string::npos) << head;
  EXPECT_NE(complete(server).head, head);
  ServerProcess plain(SACCADE_BINARY, serve({}));
  EXPECT_EQ(complete(plain).head.find("X-Request-Id"), std::string::npos);
}

// --- the environment ----------------------------------------------------------------------------

TEST(Variables, AsVllmNamesThem) {
  ServerProcess server(SACCADE_BINARY, serve({}),
                       {{"VLLM_CPU_OMP_THREADS_BIND", "0"},
                        {"VLLM_CPU_KVCACHE_SPACE", "0.01"},
                        {"VLLM_LOGGING_LEVEL", "DEBUG"},
                        {"VLLM_HOST_IP", "10.0.0.1"}});
  expect_words(server.log(), {"1 thread", "VLLM_HOST_IP has no effect here: "});
  EXPECT_EQ(complete(server).status, 200);
  for (const auto& [name, value] : {std::pair{"VLLM_CPU_OMP_THREADS_BIND", "0-"},
                                    {"VLLM_CPU_OMP_THREADS_BIND", "4000"},
                                    {"VLLM_CPU_KVCACHE_SPACE", "much"},
                                    {"VLLM_LOGGING_LEVEL", "loud"}})
    expect_refused(serve({}), {name, value}, {{name, value}});
}

TEST(Variables, TheLogsLevelByTheNearest) {
  // It starts without a word, so it is ended by a port that is taken.
  net::HttpServerSettings settings;
  settings.port = 0;
  const auto taken =
      net::HttpServer::listen(settings, [](const net::HttpRequest&, const net::Responder&) {});
  ASSERT_TRUE(taken);
  const Arguments on_it = {"--port", std::to_string((*taken)->port()), "--enforce-eager"};
  const auto said = [&](const Arguments& more, const Environment& environment) {
    Arguments flags = on_it;
    flags.insert(flags.end(), more.begin(), more.end());
    return run_to_end(SACCADE_BINARY, serve(flags), environment).output.find("--enforce-eager") !=
           std::string::npos;
  };
  EXPECT_TRUE(said({}, {}));
  EXPECT_FALSE(said({}, {{"VLLM_LOGGING_LEVEL", "ERROR"}}));
  EXPECT_FALSE(said({"--uvicorn-log-level", "warning"}, {{"VLLM_LOGGING_LEVEL", "INFO"}}));
  EXPECT_TRUE(said({"--uvicorn-log-level", "warning", "--log-level", "INFO"}, {}));
}

}  // namespace
}  // namespace saccade::test
