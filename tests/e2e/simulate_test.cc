// saccade simulate from a real run: a server is measured, costs are fitted to its log, and the
// program says how far its replay is off. How far that is depends on the machine, and is not
// tested; that it is said, and said truly, is.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/checkpoints.h"
#include "tests/support/command.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

const std::string kCosts =
    R"({"format":"saccade.costs.v1","encode":{"base_ms":30,"ms_per_token":0.048},)"
    R"("step":{"base_ms":20,"ms_per_decode_row":0.05,"ms_per_prefill_token":0.048},"noise":0.05})";

CommandOutcome saccade(const std::vector<std::string>& words) {
  return run_command(SACCADE_BINARY, words);
}

// The errors of "  TTFT   P50 ..." lines, per cent.
std::vector<double> ttft_errors(const std::string& said) {
  std::vector<double> errors;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string metric;
    std::string percentile;
    double real = 0;
    double simulated = 0;
    double error = 0;
    if (!(words >> metric >> percentile >> real >> simulated >> error) || metric != "TTFT")
      continue;
    // The line's own figures, printed to four places, agree with it.
    if (real > 0.05) {
      EXPECT_NEAR(100 * (simulated / real - 1), error, 0.4) << line;
    }
    if (percentile != "P99") errors.push_back(error);
  }
  return errors;
}

TEST(Simulate, CalibratesFromARealRun) {
  const TemporaryDirectory work;
  const ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGlimpse, "--max-num-seqs", "8"});
  const auto measure = [&](const std::string& log, const std::string& seed) {
    const CommandOutcome bench = saccade({"bench",
                                          "serve",
                                          "--port",
                                          std::to_string(server.port()),
                                          "--backend",
                                          "openai-chat",
                                          "--dataset-name",
                                          "random-mm",
                                          "--num-prompts",
                                          "24",
                                          "--random-input-len",
                                          "20",
                                          "--random-output-len",
                                          "8",
                                          "--random-mm-base-items-per-request",
                                          "1",
                                          "--random-mm-bucket-config",
                                          "{(224, 224, 1): 0.5, (448, 336, 1): 0.5}",
                                          "--ignore-eos",
                                          "--request-rate",
                                          "8",
                                          "--server-timings",
                                          "--seed",
                                          seed,
                                          "--log",
                                          log});
    ASSERT_EQ(bench.exit_code, 0) << bench.err;
  };
  measure(work / "run.jsonl", "1");
  measure(work / "other.jsonl", "2");

  const CommandOutcome said =
      saccade({"simulate", kGlimpse, "--max-num-seqs", "8", "--calibrate", work / "run.jsonl",
               "--held-out", work / "other.jsonl", "--costs-output", work / "costs.json"});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_NE(said.out.find("run.jsonl (fitted to it): 24 requests replayed"), std::string::npos)
      << said.out;
  EXPECT_NE(said.out.find("other.jsonl (held out): 24 requests replayed"), std::string::npos);
  const std::vector<double> errors = ttft_errors(said.out);
  ASSERT_EQ(errors.size(), 4u) << said.out;
  // The verdict is about the run that was held out.
  const bool within = std::abs(errors[2]) <= 15 && std::abs(errors[3]) <= 15;
  const bool claims = said.out.find("\ncalibrated: ") != std::string::npos;
  EXPECT_EQ(claims, within) << said.out;
  EXPECT_EQ(said.out.find("NOT calibrated") != std::string::npos, !within) << said.out;

  // The costs serve, and the log is one that reports are made of.
  const CommandOutcome run =
      saccade({"simulate", kGlimpse, "--costs", work / "costs.json", "--request-rate", "2",
               "--num-prompts", "20", "--image-tokens", "100", "-o", work / "simulated.jsonl"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("20 answered, 0 refused"), std::string::npos) << run.out;
  const CommandOutcome report = saccade({"bench", "report", work / "simulated.jsonl"});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  EXPECT_NE(report.out.find("20"), std::string::npos) << report.out;
}

TEST(Simulate, ClustersAndTheSameBytes) {
  const TemporaryDirectory work;
  write_file(work / "costs.json", kCosts);
  const auto simulate = [&](const std::string& seed, const std::string& log) {
    return saccade({"simulate", work / "costs.json", "--cluster", "2E2PD", "--request-rate", "6",
                    "--num-prompts", "60", "--image-size", "dynamic", "--seed", seed, "-o", log});
  };
  const CommandOutcome first = simulate("5", work / "a.jsonl");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("2E2PD: 60 requests"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("60 answered, 0 refused"), std::string::npos) << first.out;
  ASSERT_EQ(simulate("5", work / "b.jsonl").out, first.out);
  EXPECT_EQ(read_file(work / "a.jsonl"), read_file(work / "b.jsonl"));
  ASSERT_EQ(simulate("6", work / "b.jsonl").exit_code, 0);
  EXPECT_NE(read_file(work / "a.jsonl"), read_file(work / "b.jsonl"));
}

TEST(Simulate, WhatIsWrongIsNamed) {
  const TemporaryDirectory work;
  write_file(work / "costs.json", kCosts);
  write_file(work / "broken.json",
             R"({"format":"saccade.costs.v1","encode":{},"step":{"base_ms":-2}})");
  write_file(work / "trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nnever,1,2\n");
  struct Case {
    std::vector<std::string> words;
    std::string says;
  };
  const std::string costs = work / "costs.json";
  const std::vector<std::string> traffic = {"--request-rate", "1", "--num-prompts", "2"};
  for (Case each : {
           Case{{costs, "--cluster", "0E1PD"}, "number of encoders is \"0E1PD\", 1 to 256"},
           Case{{costs, "--cluster", "2Z"}, "not of the form"},
           Case{{work / "broken.json"}, "broken.json: 'step.base_ms' is -2"},
           Case{{work / "absent.json"}, "absent.json"},
           Case{{kGlimpse}, "--costs FILE"},
           Case{{costs, "--trace", work / "trace.csv"}, "trace.csv"},
           Case{{costs, "--image-size", "huge"}, "huge"},
           Case{{costs, "--image-size", "seed-as-published"}, "seed-as-published is not simulated"},
           Case{{costs, "--encoder-fallback", "refuse"}, "1PD has no encoders"},
           Case{{costs, "--held-out", "x"}, "--calibrate"},
           Case{{costs, "--kv-cache-bytes", "4KiB"}, "4096 bytes"},
           Case{{costs, "--calibrate", work / "costs.json"}, "line 1"},
       }) {
    std::vector<std::string> words = {"simulate"};
    words.insert(words.end(), each.words.begin(), each.words.end());
    words.insert(words.end(), traffic.begin(), traffic.end());
    const CommandOutcome said = saccade(words);
    EXPECT_EQ(said.exit_code, 1) << each.says << "\n" << said.out << said.err;
    EXPECT_NE(said.err.find(each.says), std::string::npos) << each.says << "\n" << said.err;
  }
}

}  // namespace
}  // namespace saccade::test
