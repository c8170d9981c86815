// Checkpoints that are cut, forged or of another format, against the real binary: each is refused
// with a message that names the thing, the value and the limit.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json/serialize.hpp>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// The golden checkpoint, taken apart so that a test can put it together wrongly.
class BadCheckpoint : public testing::Test {
 protected:
  BadCheckpoint() {
    for (const auto& entry : fs::directory_iterator(kCheckpoint)) {
      if (entry.is_regular_file())
        fs::copy(entry.path(), folder_ / entry.path().filename().string());
    }
    const std::string file = read_file(folder_ / "model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    header_ = json::parse(std::string_view(file).substr(8, length))->as_object();
    data_ = file.substr(8 + length);
  }

  // The name of the tensor that begins (or ends) the data.
  std::string tensor_at(std::size_t offset, int end) const {
    for (const auto& member : header_) {
      if (member.key() == "__metadata__") continue;
      const auto& range = member.value().at("data_offsets").as_array();
      if (range[static_cast<std::size_t>(end)].as_int64() == static_cast<std::int64_t>(offset))
        return std::string(member.key());
    }
    return {};
  }
  std::int64_t begin_of(const std::string& tensor) const {
    return header_.at(tensor).at("data_offsets").as_array()[0].as_int64();
  }

  void expect_refused(const Words& words, std::uint64_t length_of_header = 0) {
    const std::string header = boost::json::serialize(header_);
    if (length_of_header == 0) length_of_header = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length_of_header, 8);
    write_file(folder_ / "model.safetensors", file + header + data_);
    const Ended ended = run_to_end(SACCADE_BINARY, {"serve", "--model", folder_.path()});
    EXPECT_EQ(ended.status, 1) << ended.output;
    for (const auto& word : words)
      EXPECT_NE(ended.output.find(word), std::string::npos) << word << " in: " << ended.output;
  }

  TemporaryDirectory folder_;
  json::object header_;
  std::string data_;
};

// Nobody writes into them: who opens one without a care waits for ever, deaf to SIGTERM.
TEST_F(BadCheckpoint, FilesThatAreFifosAreRefusedByName) {
  ASSERT_TRUE(fs::exists(folder_ / "model.safetensors"));
  for (const char* const name :
       {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json",
        "preprocessor_config.json", "generation_config.json", "chat_template.jinja",
        "chat_template.json"}) {
    const std::string path = folder_ / name;
    const bool was_there = fs::exists(path);
    if (was_there) fs::rename(path, path + ".kept");
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0) << path;
    const Ended ended =
        run_to_end(SACCADE_BINARY, {"serve", "--port", "0", "--model", folder_.path()});
    EXPECT_EQ(ended.status, 1) << name << ": " << ended.output;
    EXPECT_NE(ended.output.find(std::string(name) + ": a FIFO"), std::string::npos) << ended.output;
    fs::remove(path);
    if (was_there) fs::rename(path + ".kept", path);
  }
}

// Each is told before the weights are looked at, which here cannot be read, and may take minutes.
TEST_F(BadCheckpoint, WhatTakesMillisecondsIsCheckedBeforeTheWeights) {
  fs::resize_file(folder_ / "model.safetensors", 4);
  const TcpListener busy;
  const std::string port = std::to_string(busy.port());
  write_file(folder_ / "bad.jinja", "{% for a in %}");
  write_file(folder_ / "slow.jinja",
             "{% for a in range(99999) %}{% for b in range(99999) %}"
             "{% endfor %}{% endfor %}");
  const std::vector<std::pair<Words, Words>> mistakes = {
      {{"--port", port}, {"cannot listen on 127.0.0.1:" + port}},
      {{"--host", "nowhere.invalid"}, {"host nowhere.invalid"}},
      {{"--ssl-certfile", folder_ / "none.pem"}, {"none.pem"}},
      {{"--chat-template", folder_ / "none.jinja"}, {"--chat-template", "none.jinja"}},
      {{"--chat-template", folder_ / "bad.jinja"}, {"--chat-template", "line 1"}},
      {{"--chat-template", folder_ / "slow.jinja"}, {"--chat-template", "steps"}},
      {{"--max-model-len", "10000000"}, {"max_model_len 10000000", "positions"}},
      {{"--kv-cache-bytes", "549755813888000"}, {"--kv-cache-bytes", "512000.00 GiB", "are free"}},
  };
  for (const auto& [flags, words] : mistakes) {
    std::vector<std::string> line = {"serve", "--model", folder_.path()};
    line.insert(line.end(), flags.begin(), flags.end());
    if (flags.front() != "--port") line.insert(line.end(), {"--port", "0"});
    const Ended ended = run_to_end(SACCADE_BINARY, line);
    EXPECT_EQ(ended.status, 1) << ended.output;
    for (const std::string& word : words)
      EXPECT_NE(ended.output.find(word), std::string::npos) << word << " in: " << ended.output;
    EXPECT_EQ(ended.output.find("model.safetensors"), std::string::npos) << ended.output;
  }
}

TEST_F(BadCheckpoint, Truncated) {
  const std::string last = tensor_at(data_.size(), 1);
  data_.resize(data_.size() - 1000);
  expect_refused({"model.safetensors", last, std::to_string(data_.size())});
}

TEST_F(BadCheckpoint, OverlappingOffsets) {
  const std::string last = tensor_at(data_.size(), 1);
  auto& range = header_.at(last).at("data_offsets").as_array();
  for (auto& offset : range) offset = offset.as_int64() - 16;
  expect_refused({"model.safetensors", last, "inside"});
}

TEST_F(BadCheckpoint, AbsurdSizes) {
  expect_refused({"model.safetensors", "4611686018427387904"}, std::uint64_t{1} << 62);
  const std::string last = tensor_at(data_.size(), 1);
  const json::object good = header_;
  header_.at(last).at("shape") = json::array{std::int64_t{1} << 40, std::int64_t{1} << 40};
  expect_refused({"model.safetensors", last, "1099511627776"});
  header_ = good;
  header_.at(last).at("data_offsets").as_array()[1] = std::int64_t{1} << 60;
  expect_refused({"model.safetensors", last, "1152921504606846976"});
}

TEST_F(BadCheckpoint, MissingTensor) {
  const std::string last = tensor_at(data_.size(), 1);
  data_.resize(static_cast<std::size_t>(begin_of(last)));
  header_.erase(last);
  expect_refused({"lacks 1 of", last});
}

TEST_F(BadCheckpoint, ExtraTensor) {
  const auto end = static_cast<std::int64_t>(data_.size());
  header_["model.layers.0.nonsense.weight"] =
      json::object{{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  data_ += std::string(4, '\0');
  expect_refused({"has 1 tensors", "model.layers.0.nonsense.weight"});
}

TEST_F(BadCheckpoint, OtherFormatsAreRefusedByName) {
  const auto refused = [](const std::string& model, const Words& words) {
    const Ended ended = run_to_end(SACCADE_BINARY, {"serve", "--model", model});
    EXPECT_EQ(ended.status, 1) << ended.output;
    for (const auto& word : words)
      EXPECT_NE(ended.output.find(word), std::string::npos) << word << " in: " << ended.output;
  };
  fs::remove(folder_ / "model.safetensors");
  write_file(folder_ / "model-q4.gguf", "GGUF");
  refused(folder_ / "model-q4.gguf", {"model-q4.gguf", "the version takes 4 bytes at 4"});
  refused(folder_.path(), {"model-q4.gguf", "the version takes 4 bytes at 4"});
  fs::rename(folder_ / "model-q4.gguf", folder_ / "pytorch_model.bin");
  refused(folder_ / "pytorch_model.bin", {"pytorch_model.bin", "pickle", "safetensors"});
  refused(folder_.path(), {"pytorch_model.bin", "pickle", "safetensors"});
  refused(folder_.path() + "/nowhere", {"nowhere", "no such directory"});
  refused(folder_ / "config.json", {"config.json is neither a directory nor a GGUF", "ORG/NAME"});
}

}  // namespace
}  // namespace saccade::test
