// Every command of the benchmark against a server that turns away whatever a real one may.
#include "tests/support/strict_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/e2e/checkpoints.h"
#include "tests/support/command.h"

namespace saccade::test {
namespace {

using testing::IsEmpty;

class StrictServerTest : public testing::Test {
 protected:
  // `saccade bench ARGUMENTS --port PORT`, in a directory of its own.
  void bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "bench");
    arguments.insert(arguments.end(), {"--port", std::to_string(server_.port())});
    expect_accepted(arguments);
  }
  void expect_accepted(const std::vector<std::string>& arguments) {
    const int before = server_.posts();
    const CommandOutcome run = run_command(SACCADE_BINARY, arguments);
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_THAT(server_.refusals(), IsEmpty());
    EXPECT_GT(server_.posts(), before);
  }
  StrictServer server_;
  TemporaryDirectory work_;
};

TEST_F(StrictServerTest, Serve) {
  for (const char* backend : {"openai", "openai-chat"}) {
    const std::vector<std::string> words = {
        "serve", "--backend",           backend, "--num-prompts", "4", "--random-input-len",
        "8",     "--random-output-len", "3"};
    bench(words);
    std::vector<std::string> whole = words;
    whole.push_back("--no-stream");
    bench(whole);
    std::vector<std::string> watched = words;
    watched.insert(watched.end(), {"--reset-cache", "--scrape-period", "0.05",
                                   "--ready-check-timeout-sec", "60", "--num-warmups", "2"});
    bench(watched);
  }
  bench({"serve", "--backend", "openai-chat", "--dataset-name", "random-mm", "--num-prompts", "3",
         "--random-output-len", "3", "--random-mm-bucket-config", "{(64,48,1): 1.0}"});
  // Headers of the user's own stand; none is sent twice.
  bench({"serve", "--num-prompts", "2", "--random-input-len", "8", "--random-output-len", "3",
         "--header", "content-type=application/json; charset=utf-8", "--header",
         "User-Agent=someone", "--header", "accept=application/json"});
}

TEST_F(StrictServerTest, Methods) {
  std::string rows;
  for (int i = 0; i < 4; ++i)
    rows += R"({"image":"small.png","conversations":[{"from":"human","value":"What is it?"},)"
            R"({"from":"gpt","value":"tok tok is it"}]})"
            "\n";
  write_file(work_ / "captions.jsonl", rows);
  write_file(work_ / "gaps.txt", "0.001\n0.001\n");
  bench({"profile-ttft", "--sizes", "56", "--repeats", "1"});
  bench({"dashinfer", "--prompt-file", work_ / "captions.jsonl", "--image-folder", kPictures,
         "--req-nums", "2", "--batch-size", "2", "--image-nums-mean", "1", "--image-nums-range",
         "0", "--response-mean", "3", "--response-len-range", "0", "--inline-images"});
  bench({"summarization", "--reset-cache", "--num-prompts", "2", "--max-input-len", "8",
         "--max-output-len", "3"});
  bench({"kit", "vision", "32", "32", "--profile", "2", "--output", work_ / "kit"});
  const std::string port = std::to_string(server_.port());
  expect_accepted({"bench", "trace-run", "--task-name", "strict", "--experiments", work_.path(),
                   "--trace-file", work_ / "gaps.txt", "--api-port", port, "--dataset-path",
                   work_ / "captions.jsonl", "--image-folder", kPictures});
  expect_accepted({"bench", "similarity", work_ / "strict/Trace with Peak QPS_gaps.json",
                   "--embedding-url", "http://127.0.0.1:" + port});
}

}  // namespace
}  // namespace saccade::test
