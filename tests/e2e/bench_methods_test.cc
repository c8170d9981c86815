// The published methods, one command each, by the real binary against its mock server: the lines
// that are printed and the files that are left are those of the publications.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "base/json.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/command.h"
#include "tests/support/recording_server.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// The label of every row of a console block; titles whole.
std::vector<std::string> labels_of(const std::string& text) {
  std::vector<std::string> labels;
  const std::size_t begin = text.find("============ Serving");
  std::size_t at = begin == std::string::npos ? text.size() : begin;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    if (const std::size_t colon = line.find(':'); colon != std::string::npos) {
      EXPECT_EQ(line.size(), 51U) << line;  // "{:<40} {:<10}"
      line.resize(colon);
    }
    labels.push_back(line);
    if (line == std::string(50, '=')) break;
  }
  return labels;
}

json::value parsed_file(const std::string& path) {
  auto tree = json::parse(read_file(path));
  EXPECT_TRUE(tree.has_value()) << path;
  return tree ? *tree : json::value();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

double number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  EXPECT_NE(at, std::string::npos) << label << " is not in\n" << text;
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + label.size(), nullptr);
}

// The command lines as published, after `benchmark_serving.py`, in a directory with a folder copy
// of the dataset under its hub name.
TEST(BenchMethods, VisionLanguageCommandLinesAsPrinted) {
  MockProcess mock(SACCADE_BINARY, {"--ttft", "2"});
  TemporaryDirectory work;
  fs::create_directories(work / "MMMU/MMMU_Pro");
  std::string rows;
  for (const char* name : {"small", "wide", "tall", "square"}) {
    fs::copy_file(kPictures + "/" + name + ".png",
                  work / ("MMMU/MMMU_Pro/" + std::string(name) + ".png"));
    rows += std::string(R"({"id":"test_)") + name + R"(","file_name":")" + name +
            R"(.png","answer":"A"})" + "\n";
  }
  write_file(work / "MMMU/MMMU_Pro/test.jsonl", rows);
  const std::string common =
      "cd " + work.path() + " && " + SACCADE_BINARY +
      " bench serve --backend openai-chat --base-url http://localhost:" +
      std::to_string(mock.port()) +
      "/v1 --endpoint /chat/completions --model OpenGVLab/InternVL2-8B --dataset-path "
      "MMMU/MMMU_Pro "
      "--dataset-name hf --hf-subset \"vision\" --hf-split test --num_prompts=4 --seed 55555 "
      "--hf-output-len 20 ";
  const CommandOutcome throughput =
      run_command("/bin/sh", {"-c", common + "--trust_remote_code --ignore-eos"});
  ASSERT_EQ(throughput.exit_code, 0) << throughput.err;
  EXPECT_THAT(
      labels_of(throughput.out),
      ElementsAre(
          "============ Serving Benchmark Result ============", "Successful requests",
          "Benchmark duration (s)", "Total input tokens", "Total generated tokens",
          "Request throughput (req/s)", "Output token throughput (tok/s)",
          "Total Token throughput (tok/s)", "---------------Time to First Token----------------",
          "Mean TTFT (ms)", "Median TTFT (ms)", "P99 TTFT (ms)",
          "-----Time per Output Token (excl. 1st token)------", "Mean TPOT (ms)",
          "Median TPOT (ms)", "P99 TPOT (ms)", "---------------Inter-token Latency----------------",
          "Mean ITL (ms)", "Median ITL (ms)", "P99 ITL (ms)",
          "=================================================="));
  EXPECT_THAT(throughput.out, HasSubstr("Successful requests:                     4         \n"));
  EXPECT_THAT(throughput.out, HasSubstr("Total generated tokens:                  80        \n"));

  const CommandOutcome latency = run_command(
      "/bin/sh", {"-c", common + "--percentile-metrics ttft,tpot,itl,e2el --request-rate 40 "
                                 "--trust_remote_code --ignore-eos"});
  ASSERT_EQ(latency.exit_code, 0) << latency.err;
  EXPECT_GT(number_after(latency.out, "Mean E2EL (ms):"), 2.0);
  EXPECT_THAT(mock.stop(), HasSubstr("10 requests"));  // 2 x (4 and a warm-up)
}

TEST(BenchMethods, ProfileOfImageSizes) {
  MockProcess mock(SACCADE_BINARY, {"--ttft", "3"});
  TemporaryDirectory work;
  const CommandOutcome sizes =
      run_command(SACCADE_BINARY, {"bench", "profile-ttft", "--port", std::to_string(mock.port()),
                                   "--sizes", "56..168:56", "-o", work / "profile.json"});
  ASSERT_EQ(sizes.exit_code, 0) << sizes.err;
  EXPECT_TRUE(
      sizes.out.starts_with("Benchmarking latency for Multimodal Request...\nModel: mock\n"
                            "Endpoint: http://127.0.0.1:"))
      << sizes.out;
  const json::value profile = parsed_file(work / "profile.json");
  const auto& points = profile.at("points").as_array();
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[2].at("tokens").as_int64(), 36);  // (168 / 28)^2
  EXPECT_EQ(points[2].at("ttft_s").as_array().size(), 3U);
  for (const auto& point : points) EXPECT_GE(point.at("median_s").as_double(), 0.003);
  EXPECT_GT(profile.at("curve").at("a").as_double(), 0.0);

  // As the published script: the file and the port from the environment.
  const CommandOutcome file =
      run_command(SACCADE_BINARY, {"bench", "profile-ttft"},
                  {{"FILE", kPictures + "/wide.png"}, {"PROXY_PORT", std::to_string(mock.port())}});
  ASSERT_EQ(file.exit_code, 0) << file.err;
  EXPECT_NE(file.out.find("\nCaches: each request has an image of its own"), std::string::npos)
      << file.out;
  EXPECT_TRUE(std::regex_search(
      file.out,
      std::regex("\nImage File: .*/wide\\.png\nLatency: 0\\.\\d{4} seconds\ndata: "
                 "\\{\"id\":\"chatcmpl-mock\",\"object\":\"chat\\.completion\\.chunk\".*\\}\n")))
      << file.out;
}

TEST(BenchMethods, TraceRunAndSimilarity) {
  MockProcess mock(SACCADE_BINARY, {"--tokens", "4"});
  TemporaryDirectory work;
  std::string rows;
  for (int i = 0; i < 12; ++i)
    rows += R"({"image":"small.png","conversations":[{"from":"human","value":"What is it?"},)"
            R"({"from":"gpt","value":"tok tok is it"}]})"
            "\n";
  write_file(work / "captions.jsonl", rows);
  write_file(work / "burst.txt", "0.002\n0.001\n0.0\n0.004\n0.001\n");
  const std::string command =
      "cd " + work.path() + " && " + SACCADE_BINARY +
      " bench trace-run --task-name \"demo\" --trace-file burst.txt --api-port " +
      std::to_string(mock.port()) + " --seed 41 --dataset-path captions.jsonl --image-folder " +
      kPictures;
  const CommandOutcome run = run_command("/bin/sh", {"-c", command});
  ASSERT_EQ(run.exit_code, 0) << run.err;

  const std::string folder = work / "experiments/sharegpt4o_image_caption/demo";
  EXPECT_THAT(names_in(folder),
              ElementsAre("Trace with Peak QPS_burst.json", "Trace with Peak QPS_burst.run.jsonl",
                          "Trace with Peak QPS_burst_e2e_cdf.svg",
                          "Trace with Peak QPS_burst_ttft_cdf.svg", "experiment_metadata.json"));
  const std::string result = folder + "/Trace with Peak QPS_burst.json";
  const json::value tree = parsed_file(result);
  const auto& requests = tree.at("individual_request_metrics").as_array();
  ASSERT_EQ(requests.size(), 6U);  // a line each, and one more after the last
  for (const auto& request : requests) {
    for (const char* field :
         {"ttft", "tpot", "e2e_latency", "output_latency", "output_inference_speed",
          "num_input_tokens", "num_output_tokens", "total_tokens", "input_throughput",
          "output_throughput", "generated_text", "answer_text"})
      EXPECT_TRUE(request.as_object().contains(field)) << field;
    EXPECT_EQ(request.at("generated_text").as_string(), " tok tok tok tok");
    EXPECT_EQ(request.at("answer_text").as_string(), "tok tok is it");
  }
  EXPECT_THAT(read_file(folder + "/Trace with Peak QPS_burst_ttft_cdf.svg"), HasSubstr("P95"));
  EXPECT_EQ(parsed_file(folder + "/experiment_metadata.json").at("iteration_type").as_string(),
            "poisson_arrival_rate");

  // 2 of 4 words in common on either side.
  const CommandOutcome alike =
      run_command(SACCADE_BINARY, {"bench", "similarity", "--file-path", result});
  ASSERT_EQ(alike.exit_code, 0) << alike.err;
  EXPECT_THAT(alike.out, HasSubstr("pairs                        6\n"));
  EXPECT_NEAR(number_after(alike.out, "ROUGE-L F1"), 0.5, 1e-9);
  EXPECT_NEAR(number_after(alike.out, "token F1"), 0.5, 1e-9);
}

TEST(BenchMethods, ShippedPeakTracesGoByTheirNumber) {
  MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  write_file(work / "captions.jsonl",
             R"({"image":"small.png","conversations":[{"from":"human","value":"What?"},)"
             R"({"from":"gpt","value":"It."}]})");
  const CommandOutcome run = run_command(
      SACCADE_BINARY,
      {"bench", "trace-run", "--trace-file", "7", "--port", std::to_string(mock.port()),
       "--dataset-path", work / "captions.jsonl", "--image-folder", kPictures, "--experiments",
       work / "out", "--max-requests-per-run", "20", "--trace-speed", "50"});
  if (run.err.find("peak7") != std::string::npos || run.exit_code == 2)
    GTEST_SKIP() << "no shipped traces beside this build: " << run.err;
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json::value tree = parsed_file(work / "out/run/Trace with Peak QPS_7.json");
  EXPECT_EQ(tree.at("individual_request_metrics").as_array().size(), 20U);
}

// Three turns of two conversations: lengths drawn by MT19937, sampling and images of the script.
TEST(BenchMethods, DashInferRequestsAndLines) {
  const std::string answer =
      R"({"id":"c","object":"chat.completion","created":1,"model":"recorded","choices":[{"index":0,)"
      R"("message":{"role":"assistant","content":"served"},"finish_reason":"length"}],)"
      R"("usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107}})";
  RecordingServer server(answer);
  TemporaryDirectory work;
  std::string rows;
  for (int i = 0; i < 12; ++i)
    rows += R"({"conversations":[{"from":"human","value":"<image>\nquestion )" + std::to_string(i) +
            R"("},{"from":"gpt","value":"answer"}]})" + "\n";
  write_file(work / "docvqa.jsonl", rows);
  const CommandOutcome run = run_command(SACCADE_BINARY, {"bench",
                                                          "dashinfer",
                                                          "--prompt-file",
                                                          work / "docvqa.jsonl",
                                                          "--image-folder",
                                                          kPictures,
                                                          "--req-nums",
                                                          "4",
                                                          "--batch-size",
                                                          "1",
                                                          "--image-nums-mean",
                                                          "3",
                                                          "--image-nums-range",
                                                          "1",
                                                          "--response-mean",
                                                          "120",
                                                          "--response-len-range",
                                                          "64",
                                                          "--multi-turn",
                                                          "2",
                                                          "--wrap-images",
                                                          "--num-warmups",
                                                          "0",
                                                          "--host",
                                                          "127.0.0.1",
                                                          "--port",
                                                          std::to_string(server.port())});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(std::regex_match(
      run.out, std::regex("Total time: \\d+\\.\\d\\d sec\n"
                          "input token lens: 100\\.00 \\(average\\) / 1200 \\(total\\) --- \n"
                          "output token lens: 7\\.00 \\(average\\) / 84 \\(total\\) --- \n"
                          "QPS: \\d+\\.\\d\\d requests/sec, TPS: \\d+\\.\\d\\d tokens/sec\n")))
      << run.out;

  const std::vector<std::string> bodies = server.bodies();
  ASSERT_EQ(bodies.size(), 12U);
  const int lengths[] = {117, 101, 142, 136};  // random.seed(0xCADE), randint(88, 152)
  std::vector<std::string> firsts;             // what each request begins with: text, images
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const json::value body = *json::parse(bodies[i]);
    EXPECT_EQ(body.at("max_tokens").as_int64(), lengths[i / 3]);
    EXPECT_EQ(body.at("top_p").as_double(), 0.01);
    EXPECT_EQ(body.at("temperature").as_double(), 0.1);
    EXPECT_EQ(body.at("frequency_penalty").as_double(), 1.05);
    const auto& messages = body.at("messages").as_array();
    ASSERT_EQ(messages.size(), 2 * (i % 3) + 1);
    const auto& first = messages[0].at("content").as_array();
    ASSERT_EQ(first.size(), 4U);  // the text, then three images
    EXPECT_TRUE(
        std::string_view(first[1].at("image_url").at("url").as_string()).starts_with("file:///"));
    json::JsonWriter(firsts.emplace_back()).value(messages[0]);
    if (i % 3 > 0) {
      std::string said;
      json::JsonWriter(said).value(messages[1].at("content"));
      EXPECT_THAT(said, HasSubstr("served"));
    }
  }
  // The turns of a conversation begin alike, with its own images: what a prefix cache lives by.
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    EXPECT_EQ(firsts[i], firsts[i / 3 * 3]);
    if (i >= 3) {
      EXPECT_NE(firsts[i], firsts[i - 3]);
    }
  }
  // Questions come from the end of the file.
  EXPECT_THAT(bodies[0], HasSubstr("question 11"));
  EXPECT_THAT(bodies[3], HasSubstr("question 8"));
}

TEST(BenchMethods, TwoRunsOfSummarization) {
  MockProcess mock(SACCADE_BINARY, {"--ttft", "20", "--itl", "5"});
  TemporaryDirectory work;
  const std::vector<std::string> words = {
      "bench", "summarization",   "--port", std::to_string(mock.port()), "--num-prompts",
      "8",     "--max-input-len", "64",     "--max-output-len",          "21",
      "--log", work / "run.jsonl"};
  std::vector<std::string> with_reset = words;
  with_reset.push_back("--reset-cache");
  const CommandOutcome run = run_command(SACCADE_BINARY, with_reset);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(number_after(run.out, "number of requests:"), 8);
  EXPECT_EQ(number_after(run.out, "total input tokens:"), 8 * 64);
  EXPECT_EQ(number_after(run.out, "total generated tokens:"), 8 * 21);
  const double whole = number_after(run.out, "end-to-end latency (s):");
  const double prefill = number_after(run.out, "summarization latency (s):");
  EXPECT_NEAR(number_after(run.out, "generation latency (s):"), whole - prefill, 0.011);
  EXPECT_GE(whole, 0.12);  // 20 ms and 20 gaps of 5 ms
  EXPECT_GE(prefill, 0.02);
  EXPECT_TRUE(fs::exists(work / "run.jsonl"));
  EXPECT_TRUE(fs::exists(work / "run.jsonl.prefill"));
}

// As the publication goes about it: a person restarts the server between two commands.
TEST(BenchMethods, SummarizationInTwoCommands) {
  // Two seconds for the tokens, which is more than one run is slower than the other by chance.
  MockProcess mock(SACCADE_BINARY, {"--ttft", "20", "--itl", "100"});
  TemporaryDirectory work;
  const auto command = [&](const std::string& output_len) {
    return run_command(
        SACCADE_BINARY,
        {"bench", "summarization", "--port", std::to_string(mock.port()), "--dataset",
         std::string(SACCADE_SOURCE_DIR) + "/tests/golden/bench/frame_2.2_lists_p5.pkl", "-n", "6",
         "--concurrency", "6", "--max-input-len", "64", "--max-output-len", output_len, "--folder",
         work / "runs"});
  };
  const CommandOutcome full = command("21");
  ASSERT_EQ(full.exit_code, 0) << full.err;
  EXPECT_THAT(full.err, HasSubstr("cold rests on"));
  EXPECT_EQ(number_after(full.out, "number of requests:"), 4);  // the data has no more rows
  EXPECT_EQ(number_after(full.out, "total generated tokens:"), 4 * 21);
  EXPECT_EQ(full.out.find("TWO RUNS"), std::string::npos);

  const CommandOutcome prefill = command("1");
  ASSERT_EQ(prefill.exit_code, 0) << prefill.err;
  EXPECT_EQ(number_after(prefill.out, "total generated tokens:"), 4);
  EXPECT_GE(number_after(prefill.out, "end-to-end latency (s):"), 2.02);
  EXPECT_GE(number_after(prefill.out, "generation latency (s):"), 0.5);

  const std::string a = work / "runs/full.run.jsonl";
  const std::string b = work / "runs/prefill.run.jsonl";
  const std::vector<std::vector<std::string>> ways = {{a, b}, {b, a}, {work / "runs"}};
  for (const std::vector<std::string>& logs : ways) {
    std::vector<std::string> arguments = {"bench", "summarization", "--summarize"};
    arguments.insert(arguments.end(), logs.begin(), logs.end());
    const CommandOutcome both = run_command(SACCADE_BINARY, arguments);
    ASSERT_EQ(both.exit_code, 0) << both.err;
    EXPECT_THAT(both.out, HasSubstr("TWO RUNS"));
    EXPECT_EQ(number_after(both.out, "total generated tokens:"), 4 * 21);
  }
  EXPECT_EQ(run_command(SACCADE_BINARY, {"bench", "summarization", "--summarize", a, a}).exit_code,
            2);
}

// The trace's last request is still running when no more may begin: it is waited for.
TEST(BenchMethods, TheTailOfATraceIsWaitedFor) {
  MockProcess mock(SACCADE_BINARY, {"--ttft", "900"});
  TemporaryDirectory work;
  write_file(work / "captions.jsonl",
             R"({"image":"small.png","conversations":[{"from":"human","value":"?"},)"
             R"({"from":"gpt","value":"!"}]})"
             "\n");
  write_file(work / "gaps.txt", "0.1\n0.8\n");
  const std::vector<std::string> words = {"bench",
                                          "trace-run",
                                          "--task-name",
                                          "tail",
                                          "--experiments",
                                          work.path(),
                                          "--trace-file",
                                          work / "gaps.txt",
                                          "--api-port",
                                          std::to_string(mock.port()),
                                          "--dataset-path",
                                          work / "captions.jsonl",
                                          "--image-folder",
                                          kPictures,
                                          "--max-time-per-run",
                                          "0.0166"};
  const CommandOutcome run = run_command(SACCADE_BINARY, words);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("Successful requests:                     3"));
  std::vector<std::string> impatient = words;
  impatient.insert(impatient.end(), {"--drain-limit", "0"});
  const CommandOutcome cut = run_command(SACCADE_BINARY, impatient);
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_THAT(cut.err, HasSubstr("unfinished: the run ended first"));
}

TEST(BenchMethods, TextKit) {
  MockProcess mock(SACCADE_BINARY, {"--max-model-len", "2200"});
  TemporaryDirectory work;
  const CommandOutcome run = run_command(
      SACCADE_BINARY,
      {"bench", "kit", "text", "--port", std::to_string(mock.port()), "--output", work / "output"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::vector<std::string> expected = {"engine_params.txt", "mem_usage.txt"};
  for (const char* load :
       {"152-2048_1", "152-2048_5", "152-2048_10", "200-250_32", "200-250_64", "200-250_128",
        "100-150_1", "100-150_4", "100-150_8", "100-150_16", "100-150_32"}) {
    expected.push_back("mock_" + std::string(load) + ".json");
    expected.push_back("mock_" + std::string(load) + ".json.run.jsonl");
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names_in(work / "output"), expected);
  const json::value high = parsed_file(work / "output/mock_152-2048_10.json");
  EXPECT_EQ(high.at("completed").as_int64(), 10);
  EXPECT_EQ(high.at("total_output_tokens").as_int64(), 20480);
  EXPECT_THAT(read_file(work / "output/engine_params.txt"), HasSubstr("bench mock --port 0"));
  const std::string memory = read_file(work / "output/mem_usage.txt");
  for (const char* block : {"GPU Name\n", "Warm up status\n", "After Benchmark status\n"})
    EXPECT_THAT(memory, HasSubstr(block));
  EXPECT_THAT(memory, HasSubstr("server resident_bytes: "));
}

// Lengths of the kit's loads are exact: by the tokenizer here, by the checkpoint that /v1/models
// names as its root, or by the server's own count.
TEST(BenchMethods, KitLengthsAreExact) {
  TemporaryDirectory work;
  const std::string tiny = work / "tiny";
  ASSERT_EQ(run_command(SACCADE_BINARY, {"model", "make-dummy", "--family", "qwen2-vl", "--size",
                                         "tiny", "--out", tiny})
                .exit_code,
            0);
  const ServerProcess server(
      SACCADE_BINARY, {"serve", "--model", tiny, "--served-model-name", "tiny", "--max-model-len",
                       "2148", "--kv-cache-bytes", "64MiB"});
  const auto asked = [&] {
    const std::string page = exchange(server.port(), "GET", "/metrics", "").body;
    return number_after(page, "vllm:prompt_tokens_total{engine=\"0\",model_name=\"tiny\"} ");
  };
  const auto kit = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "bench",     "kit", "text",     "--port",   std::to_string(server.port()),
        "--profile", "low", "--output", work / name};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const double before = asked();
    const CommandOutcome run = run_command(SACCADE_BINARY, arguments);
    EXPECT_EQ(run.exit_code, 0) << name << run.out << run.err;
    int prompts = 2;  // before the first load
    for (const int requests : {1, 4, 8, 16, 32}) {
      const json::value result =
          parsed_file(work / (name + "/tiny_100-150_" + std::to_string(requests) + ".json"));
      EXPECT_EQ(result.at("total_input_tokens").as_int64(), 100 * requests) << name;
      // Who counted: the server only where there is no checkpoint to count with.
      EXPECT_EQ(result.at("tokenizer_id").as_string() == tiny, name != "counted") << name;
      prompts += 1 + requests;  // with the one that warms up
    }
    EXPECT_EQ(asked() - before, 100 * prompts) << name;  // as the server counts
  };
  kit("named", {"--tokenizer", tiny});
  kit("root", {});
  fs::rename(tiny, work / "moved");
  kit("counted", {});
  // What the model's length leaves is used to the last token, as the publication prints it.
  MockProcess mock(SACCADE_BINARY, {"--max-model-len", "16384"});
  const CommandOutcome high = run_command(
      SACCADE_BINARY, {"bench", "kit", "text", "--port", std::to_string(mock.port()), "--profile",
                       "high", "--tokenizer", work / "moved", "--output", work / "high"});
  ASSERT_EQ(high.exit_code, 0) << high.err;
  EXPECT_THAT(high.out, HasSubstr("Total input tokens:                      14336     \n"));
}

TEST(BenchMethods, VisionKit) {
  MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  const CommandOutcome run =
      run_command(SACCADE_BINARY, {"bench", "kit", "vision", "64", "48", "--port",
                                   std::to_string(mock.port()), "--output", work / "output"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* load : {"50-300_8", "50-300_16", "50-300_32", "50-300_64", "50-300_128",
                           "100-100_1", "100-100_8", "100-100_16", "100-100_32"})
    EXPECT_TRUE(fs::exists(work / ("output/mock_" + std::string(load) + ".json"))) << load;
  EXPECT_THAT(read_file(work / "output/mock_100-100_8.json.run.jsonl"), HasSubstr("[64,48,"));
}

// A server that begins 100 answers a second: more than that cannot hold for long.
TEST(BenchMethods, SearchFindsTheCapacity) {
  MockProcess mock(SACCADE_BINARY, {"--service-time", "10", "--ttft", "1"});
  const CommandOutcome run = run_command(SACCADE_BINARY, {"bench",
                                                          "search",
                                                          "--port",
                                                          std::to_string(mock.port()),
                                                          "--num-prompts",
                                                          "150",
                                                          "--random-input-len",
                                                          "8",
                                                          "--random-output-len",
                                                          "4",
                                                          "--goodput",
                                                          "ttft:250",
                                                          "--attainment",
                                                          "90",
                                                          "--first-rate",
                                                          "40",
                                                          "--precision",
                                                          "0.3",
                                                          "--confirmations",
                                                          "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err << run.out;
  const double rate = number_after(run.out, "highest rate:");
  EXPECT_GE(rate, 20);
  EXPECT_LE(rate, 160);
  EXPECT_TRUE(std::regex_search(run.out, std::regex("interval \\[\\d+\\.\\d+, \\d+\\.\\d+\\]")))
      << run.out;
}

}  // namespace
}  // namespace saccade::test
