// A model that several ranks share, served by the real binary on the CPU: the answers of one rank,
// images and encoders elsewhere included; and what is refused, by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/text/base64.h"
#include "base/threads/processors.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> serving_ranks(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"serve", "--model",   kCheckpoint, "--served-model-name",
                                        "tiny",  "--dtype",   "float32",   "--max-model-len",
                                        "512",   "--threads", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string image_part(const std::string& name) {
  std::ifstream file(kGoldens + "qwen2_vl/images/" + name, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(bytes.empty());
  return R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
         base64_encode(bytes) + R"("}})";
}

// Of chat completions about images and text, streamed and not: all but names and times.
std::vector<std::string> answers_of_ranks(const ServerProcess& server) {
  static const std::regex names(R"re("id":"[^"]*"|"created":[0-9]+|"logprob":-?[0-9.e-]+)re");
  std::vector<std::string> answers;
  const auto ask = [&](const std::string& content, const std::string& members) {
    const RawAnswer answer = exchange(
        server.port(), "POST", "/v1/chat/completions",
        R"({"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"What?"})" +
            content + R"(]}],"max_tokens":12,"ignore_eos":true)" + members + "}");
    EXPECT_EQ(answer.status, 200) << answer.body << server.log();
    answers.push_back(std::regex_replace(answer.body, names, ""));
  };
  for (const std::string members :
       {R"(,"temperature":0)", R"(,"temperature":0,"stream":true)",
        R"(,"temperature":0.8,"seed":4,"frequency_penalty":0.5,"logprobs":true)"}) {
    ask("", members);
    ask("," + image_part("wide.png"), members);
    ask("," + image_part("tall.png") + "," + image_part("wide.png"), members);
  }
  return answers;
}

TEST(TensorParallel, TwoRanksGiveTheAnswersOfOne) {
  std::vector<std::string> want;
  {
    ServerProcess one(SACCADE_BINARY, serving_ranks({"--tensor-parallel-size", "1"}));
    want = answers_of_ranks(one);
    EXPECT_EQ(one.stop(), 0) << one.log();
    EXPECT_THAT(one.log(), ::testing::Not(HasSubstr("ranks")));
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"-tp", "2"},
        {"-tp=2", "--async-scheduling", "--encoder-cache", "off"}}) {
    ServerProcess two(SACCADE_BINARY, serving_ranks(more));
    EXPECT_EQ(answers_of_ranks(two), want);
    const auto info = json::parse(exchange(two.port(), "GET", "/server_info", "").body);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->at("tp_size").as_int64(), 2);
    EXPECT_EQ(two.stop(), 0) << two.log();
    EXPECT_THAT(two.log(), HasSubstr("1 thread, on each of 2 ranks"));
    EXPECT_THAT(two.log(), HasSubstr("rank 1 of 2"));
  }
}

// Of the threads of a process: what each may run on, as Linux lists it.
std::vector<std::string> places_of(pid_t process) {
  std::vector<std::string> places;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream file(task.path() / "status");
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kKey = "Cpus_allowed_list:\t";
      if (line.starts_with(kKey)) places.push_back(line.substr(kKey.size()));
    }
  }
  return places;
}

TEST(TensorParallel, RanksStayOnProcessorsOfTheirOwn) {
  const ProcessorSet usable = find_processors().usable;
  if (usable.size() < 2) GTEST_SKIP() << "one processor";
  const std::string first = std::to_string(usable[0]);
  const std::string second = std::to_string(usable[1]);
  ServerProcess one(SACCADE_BINARY, serving_ranks({}));
  ServerProcess two(SACCADE_BINARY, serving_ranks({"-tp", "2"}),
                    {{"VLLM_CPU_OMP_THREADS_BIND", first + "|" + second}});
  EXPECT_EQ(answers_of_ranks(two), answers_of_ranks(one));
  EXPECT_THAT(two.log(), HasSubstr("rank 1: 1 thread on processors " + second));
  const std::vector<std::string> places = places_of(two.pid());
  // The engine's thread and the second rank's; all others go between the two.
  EXPECT_EQ(std::ranges::count(places, first), 1) << ::testing::PrintToString(places);
  EXPECT_EQ(std::ranges::count(places, second), 1) << ::testing::PrintToString(places);
  for (const std::string& place : places_of(one.pid()))
    EXPECT_THAT(place, ::testing::Not(::testing::AnyOf(first, second)));
  const Ended ended = run_to_end(SACCADE_BINARY, serving_ranks({"-tp", "2"}),
                                 {{"VLLM_CPU_OMP_THREADS_BIND", first + "|" + second + "|0"}});
  EXPECT_THAT(ended.output, HasSubstr("3 lists for 2 ranks"));
}

TEST(TensorParallel, ImagesMayBeEncodedElsewhere) {
  const TemporaryDirectory folder;
  const std::string socket = "unix:" + (folder / "encoder");
  ServerProcess encoder(SACCADE_BINARY,
                        serving_ranks({"--role", "encoder", "--cluster-listen", socket}));
  ServerProcess one(SACCADE_BINARY, serving_ranks({}));
  ServerProcess two(SACCADE_BINARY, serving_ranks({"-tp", "2", "--role", "pd", "--encoders", socket,
                                                   "--encoder-fallback", "refuse"}));
  EXPECT_EQ(answers_of_ranks(two), answers_of_ranks(one));
  EXPECT_EQ(two.stop(), 0) << two.log();
  EXPECT_EQ(one.stop(), 0) << one.log();
  EXPECT_EQ(encoder.stop(), 0) << encoder.log();
}

// In a build with CUDA on a machine without a GPU the words are others.
TEST(TensorParallel, GpusThatAreNotThereAreSaid) {
  const Ended ended = run_to_end(SACCADE_BINARY, serving_ranks({"-tp", "64", "--device", "cuda"}));
  EXPECT_EQ(ended.status, 1) << ended.output;
  EXPECT_THAT(ended.output,
              ::testing::AnyOf(HasSubstr("64 ranks on GPUs were asked for"),
                               HasSubstr("64 ranks want a GPU each"), HasSubstr("NCCL")));
}

TEST(TensorParallel, WhatCannotBeSharedIsRefusedByName) {
  struct Refusal {
    std::vector<std::string> more;
    std::string words;
  };
  for (const auto& [more, words] : std::vector<Refusal>{
           {{"-tp", "3"}, "num_key_value_heads is 2, 3 ranks cannot share it evenly"},
           {{"-tp", "2", "--model", kGoldens + "llama3/plain"},
            "num_attention_heads is 3, 2 ranks cannot share it evenly"},
           {{"-tp", "2", "--model", kGoldens + "qwen3_5/odd_heads"}, "layers that keep a state"},
           {{"-tp", "2", "--model", kGoldens + "minilm/mean_short"},
            "--tensor-parallel-size 2: a sentence encoder is not shared by ranks"},
           {{"-tp", "2", "--enable-lora"},
            "--tensor-parallel-size 2: a model that is shared by ranks takes no adapters"},
           {{"-tp", "2", "--role", "encoder", "--cluster-listen", "127.0.0.1:0"},
            "--tensor-parallel-size 2: a tower is not shared by ranks"},
           {{"-tp", "2", "--device", "cuda:1"}, "ranks take GPUs from the first on"},
           {{"-tp", "0"}, "--tensor-parallel-size"},
           {{"-pp", "2"}, "--pipeline-parallel-size 2 is not supported"},
           {{"-dp", "2"}, "--data-parallel-size 2 is not supported"}}) {
    const Ended ended = run_to_end(SACCADE_BINARY, serving_ranks(more));
    EXPECT_NE(ended.status, 0) << ended.output;
    EXPECT_NE(ended.status, 124) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(words));
  }
}

}  // namespace
}  // namespace saccade::test
