// A server that guesses tokens ahead beside one that does not: the same answers to the byte, chunk
// by chunk, and what it says of its guesses.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/text/base64.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

const std::string kRoot = SACCADE_SOURCE_DIR;
const std::string kConfig =
    R"({"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":3,"prompt_lookup_min":1})";

// A checkpoint served twice, once with guesses.
class Pair {
 public:
  explicit Pair(const std::string& checkpoint, std::vector<std::string> more = {},
                const std::string& config = kConfig) {
    std::vector<std::string> arguments = {
        "serve", "--model", checkpoint, "--served-model-name", "tiny", "--max-model-len", "512"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    plain_ = std::make_unique<ServerProcess>(SACCADE_BINARY, arguments);
    arguments.insert(arguments.end(), {"--speculative-config", config});
    guessing_ = std::make_unique<ServerProcess>(SACCADE_BINARY, arguments);
  }
  ~Pair() {
    EXPECT_EQ(plain_->stop(), 0) << plain_->log();
    EXPECT_EQ(guessing_->stop(), 0) << guessing_->log();
  }

  // Of both: all but what names the answer and tells the time. Returns the plain one's.
  std::string expect_equal(const std::string& path, const std::string& body) {
    const std::string plain = stripped(exchange(plain_->port(), "POST", path, body));
    EXPECT_EQ(stripped(exchange(guessing_->port(), "POST", path, body)), plain) << body;
    return plain;
  }
  double metric(const std::string& name) const {
    const std::string page = exchange(guessing_->port(), "GET", "/metrics", "").body;
    std::smatch found;
    const std::regex line("\n" + name + "(?:\\{[^\n]*\\})? ([0-9.e+]+)\n");
    return std::regex_search(page, found, line) ? std::stod(found[1]) : -1;
  }
  std::string plain_metrics() const { return exchange(plain_->port(), "GET", "/metrics", "").body; }

 private:
  static std::string stripped(const RawAnswer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body.substr(0, 500);
    static const std::regex names(R"re("id":"[^"]*"|"created":[0-9]+)re");
    const std::string body = std::regex_replace(answer.body, names, "");
    if (!body.starts_with("data: ")) return body;
    // Chunks of a choice in their order; of several choices they come as steps have it.
    std::vector<std::pair<std::string, std::string>> chunks;
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 2) {
      end = body.find("\n\n", begin);
      const std::string chunk = body.substr(begin, end - begin);
      const std::size_t index = chunk.find("\"index\":");
      chunks.emplace_back(index == std::string::npos ? "~" : chunk.substr(index, 10), chunk);
    }
    std::ranges::stable_sort(chunks, {}, &std::pair<std::string, std::string>::first);
    std::string sorted;
    for (const auto& [of, chunk] : chunks) sorted += chunk + "\n\n";
    return sorted;
  }
  std::unique_ptr<ServerProcess> plain_;
  std::unique_ptr<ServerProcess> guessing_;
};

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

TEST(Speculation, AnswersOfATextModelAreTheSame) {
  for (const bool ahead : {false, true}) {
    Pair pair(kRoot + "/tests/golden/llama3/plain",
              {"--dtype", "float32", "--max-num-batched-tokens", "64", "--max-num-seqs", "8",
               ahead ? "--async-scheduling" : "--no-async-scheduling"});
    const std::string start = R"({"prompt":"one two three one two three one two","max_tokens":120,)"
                              R"("ignore_eos":true,"logprobs":2,)";
    for (const std::string how :
         {R"("temperature":0)", R"("temperature":0,"repetition_penalty":1.2,"n":3)",
          R"("temperature":0.7,"seed":5)", R"("temperature":0.9,"seed":6,"n":4,"top_k":3)",
          R"("temperature":0,"frequency_penalty":0.5,"min_tokens":40)",
          R"("temperature":0.3,"seed":7,"logit_bias":{"70":4,"71":-4},"presence_penalty":0.3)",
          R"("temperature":0,"prompt_logprobs":1)"}) {
      SCOPED_TRACE(how);
      pair.expect_equal("/v1/completions", start + how + "}");
      if (how.find("prompt_logprobs") != std::string::npos) continue;
      const std::string stream = pair.expect_equal(
          "/v1/completions",
          start + how + R"(,"stream":true,"stream_options":{"include_usage":true}})");
      // Tokens of one step are chunks of their own.
      EXPECT_GE(count_of(stream, "data: "), 120u);
    }
    pair.expect_equal("/v1/completions",
                      R"({"prompt":"one two","max_tokens":6,"temperature":0,"n":2,)"
                      R"("use_beam_search":true})");
    pair.expect_equal("/v1/completions",
                      R"({"prompt":"one two one two","max_tokens":60,"temperature":0,)"
                      R"("structured_outputs":{"regex":"(ab)+"},"seed":1})");
    const double drafts = pair.metric("vllm:spec_decode_num_drafts_total");
    const double tokens = pair.metric("vllm:spec_decode_num_draft_tokens_total");
    const double accepted = pair.metric("vllm:spec_decode_num_accepted_tokens_total");
    EXPECT_GT(drafts, 0);
    EXPECT_GE(tokens, drafts);
    EXPECT_LE(accepted, tokens);
    EXPECT_GT(accepted, 0);
    EXPECT_GE(pair.metric("vllm:spec_decode_num_accepted_tokens_per_pos_total"), 0);
    EXPECT_EQ(pair.plain_metrics().find("spec_decode"), std::string::npos);
  }
}

std::string glimpse_picture(const std::string& name) {
  std::ifstream file(kRoot + "/data/glimpse/" + name, std::ios::binary);
  return base64_encode(std::string(std::istreambuf_iterator<char>(file), {}));
}

// A trained model, whose answers end by themselves, with pictures before them.
TEST(Speculation, AnswersAboutPicturesAreTheSame) {
  Pair pair(kRoot + "/models/glimpse");
  for (const std::string name : {"000-read.png", "001-read.png", "004-count.png"}) {
    const std::string image = R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
                              glimpse_picture(name) + R"("}})";
    for (const std::string how : {R"("temperature":0)", R"("temperature":1.2,"seed":3,"n":3)",
                                  R"("temperature":0,"ignore_eos":true,"max_tokens":80)"}) {
      SCOPED_TRACE(name + " " + how);
      const std::string answer = pair.expect_equal(
          "/v1/chat/completions", R"({"messages":[{"role":"user","content":[)" + image +
                                      R"(,{"type":"text","text":"What does it say?"}]}],)" + how +
                                      R"(,"logprobs":true,"top_logprobs":2})");
      EXPECT_NE(answer.find("content"), std::string::npos);
    }
  }
  // How many were accepted hangs on what a step is measured to take: on a busy machine guessing may
  // not have paid.
  EXPECT_GE(pair.metric("vllm:spec_decode_num_accepted_tokens_total"), 0);
}

std::string draft_of(const std::string& model, const std::string& more = "") {
  return R"({"model":")" + kRoot + "/" + model + R"(","num_speculative_tokens":3)" + more + "}";
}

// A smaller model guesses: here one of the same tokens, and the model itself with its matrices
// rounded.
TEST(Speculation, AnswersWithADraftModelAreTheSame) {
  for (const std::string& draft :
       {draft_of("tests/golden/llama3/scaled"),
        draft_of("tests/golden/llama3/plain",
                 R"(,"method":"draft_model","quantization":"int8","kv_cache_bytes":100000)")}) {
    SCOPED_TRACE(draft);
    Pair pair(kRoot + "/tests/golden/llama3/plain",
              {"--dtype", "float32", "--max-num-batched-tokens", "64", "--max-num-seqs", "8",
               "--async-scheduling"},
              draft);
    for (const std::string how : {R"("temperature":0)", R"("temperature":0.7,"seed":5,"n":4)",
                                  R"("temperature":0,"repetition_penalty":1.2,"stream":true)",
                                  R"("temperature":0,"prompt_logprobs":1)",
                                  R"("temperature":0,"n":2,"use_beam_search":true)",
                                  R"("temperature":0,"structured_outputs":{"regex":"(ab)+"})"}) {
      SCOPED_TRACE(how);
      const bool beams = how.find("beam") != std::string::npos;
      pair.expect_equal("/v1/completions",
                        R"({"prompt":"one two three one two three one two","max_tokens":60,)" +
                            std::string(beams ? "" : R"("ignore_eos":true,"logprobs":2,)") + how +
                            "}");
    }
    EXPECT_GT(pair.metric("saccade:draft_kv_cache_bytes"), 0);
    EXPECT_GT(pair.metric("saccade:draft_tokens_read_total"), 0);
    EXPECT_EQ(pair.metric("saccade:draft_kv_cache_usage_perc"), 0);
    EXPECT_GE(pair.metric("vllm:spec_decode_num_draft_tokens_total"), 0);
    EXPECT_EQ(pair.plain_metrics().find("saccade:draft"), std::string::npos);
  }
}

// What is asked of the model's four bits is not asked of a draft that has none.
TEST(Speculation, ADraftModelOfNumbersBesideCodes) {
  Pair pair(kRoot + "/tests/golden/qwen2_vl/odd_heads",
            {"--quantization", "int4", "--quantize-activations"},
            draft_of("tests/golden/qwen2_vl/odd_heads"));
  pair.expect_equal("/v1/completions", R"({"prompt":"one two three one two","max_tokens":20,)"
                                       R"("ignore_eos":true,"temperature":0})");
}

TEST(Speculation, WhatIsNotSupportedIsRefusedByName) {
  const std::string checkpoint = kRoot + "/tests/golden/llama3/plain";
  const auto expect_refusal = [&](const std::string& config, std::vector<std::string> parts) {
    const Tried tried = start_or_end(
        SACCADE_BINARY, {"serve", "--model", checkpoint, "--speculative-config", config});
    EXPECT_FALSE(tried.started);
    for (const std::string& part : parts)
      EXPECT_NE(tried.ended.output.find(part), std::string::npos) << tried.ended.output;
  };
  expect_refusal(R"({"method":"eagle","model":"x","num_speculative_tokens":3})",
                 {"--speculative-config: method \"eagle\" is not supported"});
  expect_refusal(R"({"method":"ngram","num_speculative_tokens":3,"disable_padding":1})",
                 {"\"disable_padding\" is not supported"});
  expect_refusal(draft_of("tests/golden/no_such"),
                 {"--speculative-config, model", "tests/golden/no_such"});
  expect_refusal(draft_of("tests/golden/mistral/windowed"),
                 {"--speculative-config, model", "its tokens are others: token", "llama3/plain",
                  "mistral/windowed"});
  expect_refusal(draft_of("tests/golden/qwen3_5/odd_heads"),
                 {"--speculative-config, model", "qwen3_5/odd_heads", "keeps a state"});
  expect_refusal(draft_of("tests/golden/mllama/thirds"),
                 {"--speculative-config, model", "mllama", "across"});
  expect_refusal(draft_of("tests/golden/minilm/cls_long"),
                 {"--speculative-config, model", "embeds text"});
  expect_refusal(draft_of("tests/golden/llama3/scaled", R"(,"quantization":"int9")"),
                 {"--speculative-config, model", "--quantization int9"});
}

}  // namespace
}  // namespace saccade::test
