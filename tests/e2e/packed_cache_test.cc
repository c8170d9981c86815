// --packed-cache with the real binary: the second start reads what the first wrote, says so, and
// answers as one without it, images included, however weights are rounded and shared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/text/base64.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

const std::string kModel = SACCADE_SOURCE_DIR "/models/glimpse";

// What follows from the weights alone of a completion about text and of one about an image.
std::string answers_with_cache(const ServerProcess& server) {
  std::ifstream file(kGoldens + "qwen2_vl/images/wide.png", std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(image.empty());
  std::string answers;
  const auto ask = [&](const std::string& path, const std::string& body) {
    const RawAnswer got = exchange(server.port(), "POST", path, body);
    EXPECT_EQ(got.status, 200) << got.body << server.log();
    const std::size_t at = got.body.find("\"choices\"");
    answers += at == std::string::npos ? "none in " + got.body : got.body.substr(at);
  };
  ask("/v1/completions",
      R"({"prompt": "one two three", "max_tokens": 24, "ignore_eos": true, "temperature": 0,
          "return_token_ids": true, "logprobs": 2})");
  ask("/v1/chat/completions",
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},
          {"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
          base64_encode(image) +
          R"("}}]}],"max_tokens":16,"ignore_eos":true,"temperature":0,"logprobs":true})");
  return answers;
}

Arguments serving_glimpse(const Arguments& flags, const Arguments& more = {}) {
  Arguments all = {"serve", kModel, "--served-model-name", "glimpse"};
  all.insert(all.end(), flags.begin(), flags.end());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(PackedCacheServed, ASecondStartReadsTheFileAndAnswersAsOneWithout) {
  const TemporaryDirectory place;
  const std::string folder = place / "new/cache";
  std::size_t files = 0;
  for (const Arguments& flags : {Arguments{},
                                 {"--dtype", "float32"},
                                 {"--quantization", "int8"},
                                 {"--quantization", "int8", "--weight-only"},
                                 {"--quantization", "int4"},
                                 {"--quantization", "int4", "--weight-only"},
                                 {"--quantize-tower"},
                                 {"--tensor-parallel-size", "2"}}) {
    SCOPED_TRACE(::testing::PrintToString(flags));
    std::string want;
    {
      ServerProcess server(SACCADE_BINARY, serving_glimpse(flags));
      want = answers_with_cache(server);
      EXPECT_THAT(server.log(), Not(HasSubstr("packed cache")));
    }
    {
      ServerProcess first(SACCADE_BINARY, serving_glimpse(flags, {"--packed-cache", folder}));
      EXPECT_EQ(answers_with_cache(first), want);
      EXPECT_THAT(first.log(), HasSubstr(" written: "));
      EXPECT_THAT(first.log(), Not(HasSubstr("packed cache: read")));
    }
    files += flags.empty() || flags.front() != "--tensor-parallel-size" ? 1 : 2;
    EXPECT_EQ(files_in(folder), files);
    {
      ServerProcess second(SACCADE_BINARY, serving_glimpse(flags, {"--packed-cache", folder}));
      EXPECT_EQ(answers_with_cache(second), want);
      EXPECT_THAT(second.log(), HasSubstr("packed cache: read " + folder));
      EXPECT_THAT(second.log(), Not(HasSubstr(" written: ")));
    }
    EXPECT_EQ(files_in(folder), files);
  }
}

TEST(PackedCacheServed, ADamagedFileIsOneWarningAndMadeAgain) {
  const TemporaryDirectory place;
  {
    ServerProcess(SACCADE_BINARY, serving_glimpse({}, {"--packed-cache", place.path()}));
  }
  ASSERT_EQ(files_in(place.path()), 1U);
  const std::string path = fs::directory_iterator(place.path())->path();
  fs::resize_file(path, fs::file_size(path) - 1);
  {
    ServerProcess again(SACCADE_BINARY, serving_glimpse({}, {"--packed-cache", place.path()}));
    EXPECT_THAT(again.log(), HasSubstr(path + " is made again: "));
    EXPECT_THAT(again.log(), HasSubstr(" written: "));
  }
  ServerProcess last(SACCADE_BINARY, serving_glimpse({}, {"--packed-cache", place.path()}));
  EXPECT_THAT(last.log(), HasSubstr("packed cache: read " + path));
}

TEST(PackedCacheServed, ACheckpointThatChangedIsAnother) {
  const TemporaryDirectory place;
  const std::string model = place / "model";
  const std::string folder = place / "cache";
  fs::copy(kModel, model, fs::copy_options::recursive);
  const Arguments arguments = {"serve", model, "--packed-cache", folder};
  {
    ServerProcess(SACCADE_BINARY, arguments);
  }
  const auto time = fs::last_write_time(model + "/model.safetensors");
  {
    // Elsewhere it is the same one.
    fs::rename(model, place / "moved");
    ServerProcess moved(SACCADE_BINARY, {"serve", place / "moved", "--packed-cache", folder});
    EXPECT_THAT(moved.log(), HasSubstr("packed cache: read "));
    fs::rename(place / "moved", model);
  }
  fs::last_write_time(model + "/model.safetensors", time + std::chrono::seconds(1));
  ServerProcess changed(SACCADE_BINARY, arguments);
  EXPECT_THAT(changed.log(), Not(HasSubstr("packed cache: read")));
  EXPECT_EQ(files_in(folder), 2U);
}

}  // namespace
}  // namespace saccade::test
