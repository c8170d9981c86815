// `saccade model quantize`: what it writes is served, and answers as its source does when it is
// rounded at load; what it cannot do leaves nothing behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

const std::string kPrompt =
    R"({"prompt": "one two three", "max_tokens": 24, "ignore_eos": true, "temperature": 0,
        "return_token_ids": true, "logprobs": 2})";

std::string choices_text(const std::string& body) {
  const std::size_t at = body.find("\"choices\"");
  return at == std::string::npos ? "none in " + body : body.substr(at);
}

std::string answer(const Arguments& flags) {
  ServerProcess server(SACCADE_BINARY, flags);
  const auto got = exchange(server.port(), "POST", "/v1/completions", kPrompt);
  EXPECT_EQ(got.status, 200) << got.body;
  return choices_text(got.body);
}

class Quantize : public ::testing::TestWithParam<const char*> {};

TEST_P(Quantize, AnswersAsItsSourceRoundedAtLoad) {
  const std::string kind = GetParam();
  const TemporaryDirectory folder;
  const std::string source = std::string(SACCADE_SOURCE_DIR) + "/models/glimpse";
  const std::string out = folder.path() + "/out";
  const Ended made =
      run_to_end(SACCADE_BINARY, {"model", "quantize", source, out, "--quantization", kind});
  ASSERT_EQ(made.status, 0) << made.output;
  EXPECT_NE(made.output.find("matrices in " + kind), std::string::npos) << made.output;
  EXPECT_EQ(answer({"serve", out}),
            answer({"serve", source, "--quantization", kind, "--weight-only"}));
  const Ended again =
      run_to_end(SACCADE_BINARY, {"model", "quantize", source, out, "--quantization", kind});
  EXPECT_NE(again.status, 0);
  EXPECT_NE(again.output.find(out), std::string::npos) << again.output;
}

INSTANTIATE_TEST_SUITE_P(, Quantize, ::testing::Values("int8", "int4"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(QuantizeCommand, WhatItCannotDoLeavesNothing) {
  const TemporaryDirectory folder;
  const std::string out = folder.path() + "/out";
  const auto refused = [&](const Arguments& arguments, const std::string& word) {
    Arguments all = {"model", "quantize"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Ended ended = run_to_end(SACCADE_BINARY, all);
    EXPECT_NE(ended.status, 0) << word;
    EXPECT_NE(ended.output.find(word), std::string::npos) << ended.output;
    EXPECT_TRUE(fs::is_empty(folder.path())) << word;
  };
  const std::string source = kGoldens + "llama3/plain";
  refused({source, out}, "--quantization");
  refused({source, out, "--quantization", "int3"}, "int3");
  refused({source, out, "--quantization", "int4", "--group-size", "48"}, "48");
  refused({folder.path() + "/none", out, "--quantization", "int8"}, "none");
  refused({kGoldens + "quantised/awq_row", out, "--quantization", "int8"}, "quantised");
  refused({kGoldens + "qwen2/mixed_window", out, "--quantization", "int4"}, "32");
}

// Runs it, and interrupts it as soon as something lies there under its temporary name. How it
// ended.
int interrupted(const std::string& source, const std::string& folder) {
  const std::string out = folder + "/out";
  const pid_t pid = fork();
  if (pid == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execl(SACCADE_BINARY, SACCADE_BINARY, "model", "quantize", source.c_str(), out.c_str(),
          "--quantization", "int4", "--threads", "1", nullptr);
    _exit(127);
  }
  int status = 0;
  while (fs::is_empty(folder)) {
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(pid, SIGINT);
  waitpid(pid, &status, 0);
  return status;
}

// Ctrl-C in the middle of a checkpoint of some megabytes.
TEST(QuantizeCommand, InterruptedLeavesNothing) {
  const TemporaryDirectory folder;
  const std::string source = std::string(SACCADE_SOURCE_DIR) + "/models/glimpse";
  // On a busy machine it may have done all when this process looks: then once more.
  int status = 0;
  for (int tries = 0; status == 0 && tries < 20; ++tries) {
    fs::remove_all(folder.path() + "/out");
    status = interrupted(source, folder.path());
  }
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace saccade::test
