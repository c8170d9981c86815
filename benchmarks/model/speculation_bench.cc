// What guessing tokens ahead is worth on given texts: the engine with and without it in turns (A B
// A B ...), each step a real forward, over an answer that is known beforehand. The model says what
// the answer's file says: to the logits of each row, after the forward that made them, the next
// token of the file is added, so that any weights will do and texts decide how often guesses come
// true. With --answer random no token is added to, and answers are drawn from the model.
//
// With --draft a second model guesses: of each token of the answer it says what the file says with
// the chance of --truth (in percent, for each token by itself and the same in every run), and else
// another token. With --truth -1 it says what it likes.
//   speculation_bench --model DIR [--random-weights] --tokenizer DIR --prompt FILE --answer FILE
//                     [--skip N] [--streams N] [--prompt-tokens N] [--tokens N] [--runs N]
//                     [--threads N] [--steps-in-flight N] [--config JSON]
//                     [--draft DIR] [--truth PERCENT]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/log.h"
#include "engine/local_engine.h"
#include "model/checkpoint/checkpoint.h"
#include "model/families.h"
#include "text/tokenizer.h"

namespace saccade {
namespace {

struct Arguments {
  std::string model;
  std::string tokenizer;
  std::string prompt;
  std::string answer;
  std::string config =
      R"({"method":"ngram","num_speculative_tokens":7,"prompt_lookup_max":4,"prompt_lookup_min":2})";
  bool random_weights = false;
  int skip = 0;  // tokens of the answer's file
  int streams = 1;
  int prompt_tokens = 512;
  int tokens = 256;
  int runs = 2;
  int threads = 0;
  int steps_in_flight = 1;
  std::string draft;
  int truth = -1;
};

using Tokens = std::vector<TokenId>;

// A network that says what it is told to: stream s begins with token kFirstMark + s.
class ToldNetwork final : public Network {
 public:
  static constexpr TokenId kFirstMark = 1000;

  // texts[s]: prompt and answer of stream s; empty: it says what it likes. truth: of a hundred
  // tokens, how many it says right.
  ToldNetwork(Network& inner, std::vector<Tokens> texts, int truth = 100)
      : inner_(inner), texts_(std::move(texts)), truth_(truth) {
    shape_ = inner.shape();
  }
  Result<void> reserve(Device& device, const Capacity& capacity) override {
    return inner_.reserve(device, capacity);
  }
  std::size_t scratch_bytes() const override { return inner_.scratch_bytes(); }

  void forward(Stream& stream, const Batch& batch, const Tap& tap) override {
    inner_.forward(stream, batch, tap);
    if (texts_.empty()) return;
    const auto ids = batch.ids.host();
    const auto logit_rows = batch.logit_rows.host();
    for (const SequenceSpan& span : batch.spans[0]) {
      const std::int32_t page = span.blocks.front();
      if (span.context == 0)
        of_page_[page] = ids[static_cast<std::size_t>(span.row_begin)] - kFirstMark;
      const Tokens& text = texts_[static_cast<std::size_t>(of_page_.at(page))];
      for (std::size_t i = 0; i < logit_rows.size(); ++i) {
        const std::int64_t row = logit_rows[i] - span.row_begin;
        if (row < 0 || row >= span.row_count) continue;
        const auto next = static_cast<std::size_t>(span.context + row + 1);
        if (next < text.size())
          batch.logits.row<float>(static_cast<std::int64_t>(i))[told(text, next)] += 1e4f;
      }
    }
  }

 private:
  TokenId told(const Tokens& text, std::size_t at) const {
    const std::uint64_t dice = hash_combine(static_cast<std::uint64_t>(text.front()), at) >> 32;
    const bool right = static_cast<int>(dice % 100) < truth_;
    return right ? text[at] : text[at] == 0 ? 1 : text[at] - 1;
  }

  Network& inner_;
  std::vector<Tokens> texts_;
  int truth_;
  std::map<std::int32_t, std::int32_t> of_page_;  // a sequence's first page, and its stream
};

Result<Tokens> tokens_of(const Tokenizer& tokenizer, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "{} cannot be read", path);
  return tokenizer.encode(std::string(std::istreambuf_iterator<char>(file), {}), {});
}

struct Outcome {
  double tokens_per_second = 0;  // while all streams generate
  EngineStats stats;
  std::vector<Tokens> answers;
};

class Bench {
 public:
  Bench(const Arguments& arguments, Model model, std::optional<Model> draft,
        std::unique_ptr<Device> device)
      : arguments_(arguments),
        device_(std::move(device)),
        model_(std::move(model)),
        draft_(std::move(draft)) {}

  Result<void> read_texts() {
    TRY(const auto tokenizer, load_tokenizer(arguments_.tokenizer));
    TRY(const Tokens prompt, tokens_of(*tokenizer, arguments_.prompt));
    told_ = arguments_.answer != "random";
    Tokens answer;
    if (told_) {
      TRY(answer, tokens_of(*tokenizer, arguments_.answer));
      answer.erase(answer.begin(),
                   answer.begin() + std::min<std::ptrdiff_t>(arguments_.skip, std::ssize(answer)));
    }
    for (int stream = 0; stream < arguments_.streams; ++stream) {
      Tokens& text = prompts_.emplace_back(1, ToldNetwork::kFirstMark + stream);
      const auto most = std::min<std::ptrdiff_t>(arguments_.prompt_tokens, std::ssize(prompt));
      text.insert(text.end(), prompt.begin(), prompt.begin() + most);
      if (!told_) continue;
      Tokens& whole = texts_.emplace_back(text);
      whole.insert(whole.end(), answer.begin(), answer.end());
    }
    if (told_ && std::ssize(answer) < arguments_.tokens)
      return fail(ErrorCode::kInvalid, "{} has {} tokens behind the first {}, {} are asked for",
                  arguments_.answer, answer.size(), arguments_.skip, arguments_.tokens);
    return {};
  }

  Result<Outcome> run(const SpeculationSettings& speculation) {
    ToldNetwork network(*model_.network, texts_);
    EngineSettings settings;
    settings.max_sequences = arguments_.streams;
    settings.max_batched_tokens = 1024;
    settings.max_model_len = arguments_.prompt_tokens + arguments_.tokens + 16;
    settings.prefix_caching = false;
    settings.encoder_cache_bytes = std::size_t{64} << 20;
    settings.kv_cache_bytes = std::size_t{1} << 30;
    settings.steps_in_flight = arguments_.steps_in_flight;
    settings.speculation = speculation;
    std::optional<ToldNetwork> guessing;
    if (draft_ && speculation.max_tokens > 0) {
      const bool likes = arguments_.truth < 0;
      guessing.emplace(*draft_->network, likes ? std::vector<Tokens>() : texts_, arguments_.truth);
      settings.draft = &*guessing;
    }
    const SteadyClock clock;
    TRY(const auto engine, Engine::create(settings, network, *device_, clock, {.tower = false}));
    Outcome outcome;
    outcome.answers.resize(prompts_.size());
    std::size_t begun = 0;
    std::size_t unfinished = prompts_.size();
    std::size_t counted = 0;
    Nanos from = 0;
    for (std::size_t stream = 0; stream < prompts_.size(); ++stream) {
      Request request;
      TRY(request.prompt, model_.processor->wrap_tokens(prompts_[stream]));
      request.sampling.max_tokens = arguments_.tokens;
      request.sampling.ignore_eos = true;
      request.sampling.temperature = told_ ? 0 : 1;
      request.sampling.seed = 11 + stream;
      TRY_DO(engine->submit(
          std::move(request),
          [&, stream](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
            Tokens& to = outcome.answers[stream];
            if (begun == prompts_.size()) counted += delta.tokens.size();
            if (to.empty() && ++begun == prompts_.size()) from = clock.now();
            to.insert(to.end(), delta.tokens.begin(), delta.tokens.end());
            if (delta.finish != FinishReason::kNone) --unfinished;
          }));
    }
    while (unfinished > 0 && engine->step()) {
    }
    outcome.tokens_per_second = static_cast<double>(counted) / seconds(clock.now() - from);
    outcome.stats = engine->stats();
    return outcome;
  }

 private:
  const Arguments& arguments_;
  std::unique_ptr<Device> device_;
  Model model_;
  std::optional<Model> draft_;  // that guesses
  bool told_ = true;
  std::vector<Tokens> prompts_;
  std::vector<Tokens> texts_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<void> measure(const Arguments& arguments) {
  log::set_level(log::Level::kError);
  TRY(SpeculationSettings speculation, parse_speculative_config(arguments.config));
  TRY(auto device, make_cpu_device(arguments.threads));
  TRY(const std::string directory, resolve_checkpoint(arguments.model));
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  LoadOptions options;
  options.random_weights = arguments.random_weights;
  options.parts = Parts::kText;
  TRY(Model model, load_model(checkpoint, *device, options));
  std::optional<Model> draft;
  if (!arguments.draft.empty()) {
    TRY(const std::string folder, resolve_checkpoint(arguments.draft));
    TRY(const Checkpoint of, open_checkpoint(folder));
    TRY(draft, load_model(of, *device, options));
    speculation.draft.model = folder;
  }
  std::puts("loaded");
  std::fflush(stdout);
  Bench bench(arguments, std::move(model), std::move(draft), std::move(device));
  TRY_DO(bench.read_texts());
  std::vector<double> plain;
  std::vector<double> guessing;
  EngineStats stats;
  for (int run = 0; run < arguments.runs; ++run) {
    std::vector<std::vector<Tokens>> answers;
    for (int turn = 0; turn < 2; ++turn) {
      const bool guesses = turn != run % 2;
      TRY(const Outcome outcome, bench.run(guesses ? speculation : SpeculationSettings{}));
      (guesses ? guessing : plain).push_back(outcome.tokens_per_second);
      if (guesses) stats = outcome.stats;
      answers.push_back(outcome.answers);
    }
    CHECK(answers[0] == answers[1], "run {}: answers with and without guesses differ", run);
    std::printf("run %d: %.2f tok/s without, %.2f with\n", run, plain.back(), guessing.back());
    std::fflush(stdout);
  }
  const auto drafted = static_cast<double>(stats.spec_decode_num_draft_tokens);
  const auto accepted = static_cast<double>(stats.spec_decode_num_accepted_tokens);
  std::printf(
      "%s, %d streams, %d tokens: %.2f tok/s without, %.2f with, %.3f times; %.0f tokens guessed "
      "in %llu drafts, %.0f %% came; %.2f tokens a sequence and step\n",
      arguments.answer.c_str(), arguments.streams, arguments.tokens, median(plain),
      median(guessing), median(guessing) / median(plain), drafted,
      static_cast<unsigned long long>(stats.spec_decode_num_drafts),
      100 * accepted / std::max(1.0, drafted),
      static_cast<double>(stats.generation_tokens) /
          (static_cast<double>(stats.generation_tokens) - accepted));
  if (!arguments.draft.empty())
    std::printf("the draft model read %llu tokens, and its steps took %.2f s\n",
                static_cast<unsigned long long>(stats.draft_tokens_read), stats.draft_busy_seconds);
  return {};
}

int run(int argc, char** argv) {
  Arguments arguments;
  const std::map<std::string, std::string*> texts = {
      {"--model", &arguments.model},   {"--tokenizer", &arguments.tokenizer},
      {"--prompt", &arguments.prompt}, {"--answer", &arguments.answer},
      {"--config", &arguments.config}, {"--draft", &arguments.draft}};
  const std::map<std::string, int*> counts = {{"--skip", &arguments.skip},
                                              {"--streams", &arguments.streams},
                                              {"--prompt-tokens", &arguments.prompt_tokens},
                                              {"--tokens", &arguments.tokens},
                                              {"--runs", &arguments.runs},
                                              {"--truth", &arguments.truth},
                                              {"--threads", &arguments.threads},
                                              {"--steps-in-flight", &arguments.steps_in_flight}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--random-weights") {
      arguments.random_weights = true;
    } else if (i + 1 < argc && texts.contains(name)) {
      *texts.at(name) = argv[++i];
    } else if (i + 1 < argc && counts.contains(name)) {
      *counts.at(name) = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "%s is not known, or has no value\n", name.c_str());
      return 2;
    }
  }
  const auto done = measure(arguments);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return 1;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) { return saccade::run(argc, argv); }
