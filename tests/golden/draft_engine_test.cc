// A second model guesses ahead: the same tokens and log-probabilities as without, whatever it
// guesses, whatever requests ask for and however little room there is.
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::golden_folder;
using test::GoldenRequests;
using test::load;
using test::settings_of;

constexpr std::int64_t kTokens = 40;  // of an answer, usually

// What a model says, with numbers added to its logits: it is right now and then.
class PerturbedNetwork final : public Network {
 public:
  explicit PerturbedNetwork(Network& inner) : inner_(inner) { shape_ = inner.shape(); }
  Result<void> reserve(Device& device, const Capacity& capacity) override {
    return inner_.reserve(device, capacity);
  }
  std::size_t scratch_bytes() const override { return inner_.scratch_bytes(); }
  void forward(Stream& stream, const Batch& batch, const Tap& tap) override {
    inner_.forward(stream, batch, tap);
    std::vector<float> noise(static_cast<std::size_t>(shape_.vocab));
    for (std::size_t i = 0; i < noise.size(); ++i)
      noise[i] = static_cast<float>(hash_combine(batches_, i) >> 40) * 0x1.0p-23f;
    ++batches_;
    if (batch.logits.rows() == 0) return;
    if (!noise_.data()) noise_ = *stream.device().allocate(noise.size() * sizeof(float));
    const View added = noise_.view(DType::kF32, 1, shape_.vocab);
    stream.upload(View(reinterpret_cast<std::byte*>(noise.data()), DType::kF32, 1, shape_.vocab,
                       shape_.vocab, Space::kHost),
                  added);
    stream.add(added, batch.logits, 1);
  }

 private:
  Network& inner_;
  Buffer noise_;
  std::uint64_t batches_ = 0;
};

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;
};

struct Run {
  std::vector<Answer> answers;
  EngineStats stats;
};

// Each golden's prompt three times: greedy, drawn, and with penalties.
std::vector<Request> requests_of(GoldenRequests& from, std::int64_t tokens) {
  std::vector<Request> requests;
  for (std::size_t i = 0; i < from.count(); ++i) {
    Request& greedy = requests.emplace_back(from.request(i));
    greedy.sampling.max_tokens = tokens;
    greedy.sampling.logprobs = 2;
    Request& drawn = requests.emplace_back(from.request(i));
    drawn.sampling.max_tokens = tokens;
    drawn.sampling.temperature = 0.4;
    drawn.sampling.top_k = 20;
    drawn.sampling.seed = 11 + i;
    drawn.sampling.logprobs = 1;
    Request& penalised = requests.emplace_back(from.request(i));
    penalised.sampling.max_tokens = tokens - 3;
    penalised.sampling.temperature = i % 2 == 0 ? 0 : 0.7;
    penalised.sampling.repetition_penalty = 1.1;
    penalised.sampling.presence_penalty = 0.5;
    penalised.sampling.min_tokens = 7;
    penalised.sampling.ignore_eos = false;
    penalised.sampling.seed = 5;
    penalised.sampling.logprobs = 0;
  }
  return requests;
}

// `together` at a time. The clock stands still: nothing is known of prices, and guessing goes on.
Run run_drafted(GoldenRequests& from, EngineSettings settings, Network* draft, std::int64_t tokens,
                std::size_t together) {
  const VirtualClock clock;
  settings.draft = draft;
  if (draft != nullptr) settings.speculation.max_tokens = 4;
  const std::vector<Request> requests = requests_of(from, tokens);
  Run run{std::vector<Answer>(requests.size()), {}};
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  EXPECT_TRUE(engine) << engine.error().message;
  if (!engine) return run;
  const auto hear = [&](std::size_t i, const Delta& delta) {
    Answer& to = run.answers[i];
    to.tokens.insert(to.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    to.logprobs.insert(to.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  };
  if (!test::keep_running(
          **engine, requests.size(), together, [&](std::size_t i) { return requests[i]; }, hear))
    return run;
  const auto& local = static_cast<const LocalEngine&>(**engine);
  if (draft != nullptr) {
    EXPECT_EQ(local.parts().draft->usage(), 0);
  }
  run.stats = (*engine)->stats();
  return run;
}

void expect_equal(const Run& got, const Run& wanted) {
  ASSERT_EQ(got.answers.size(), wanted.answers.size());
  for (std::size_t i = 0; i < wanted.answers.size(); ++i) {
    const Answer& is = got.answers[i];
    const Answer& should = wanted.answers[i];
    ASSERT_EQ(is.tokens, should.tokens) << "request " << i;
    ASSERT_EQ(is.logprobs.size(), should.logprobs.size()) << "request " << i;
    for (std::size_t k = 0; k < should.logprobs.size(); ++k) {
      ASSERT_EQ(is.logprobs[k].token, should.logprobs[k].token);
      ASSERT_EQ(is.logprobs[k].logprob, should.logprobs[k].logprob);
      ASSERT_EQ(is.logprobs[k].top, should.logprobs[k].top);
    }
  }
}

double accepted_share(const EngineStats& stats) {
  return static_cast<double>(stats.spec_decode_num_accepted_tokens) /
         static_cast<double>(std::max<std::uint64_t>(1, stats.spec_decode_num_draft_tokens));
}

// Any chunks, batches and steps in flight; then with hardly any room for the model's pages, and for
// the draft's. Returns the first run.
EngineStats expect_same_answers(GoldenRequests& from, Network& draft, std::int64_t tokens) {
  const Run plain = run_drafted(from, settings_of(64), nullptr, tokens, 1);
  EngineStats first;
  for (const std::int64_t chunk : {16, 1000}) {
    for (const std::size_t together : {1, 8}) {
      for (const int steps : {1, 2}) {
        SCOPED_TRACE(
            fmt::format("chunk {}, {} together, {} steps in flight", chunk, together, steps));
        EngineSettings settings = settings_of(chunk);
        settings.steps_in_flight = steps;
        const Run guessed = run_drafted(from, settings, &draft, tokens, together);
        expect_equal(guessed, plain);
        if (::testing::Test::HasFailure()) return first;
        EXPECT_GT(guessed.stats.spec_decode_num_draft_tokens, 20u);
        if (first.steps == 0) first = guessed.stats;
      }
    }
  }
  std::int64_t longest = 0;
  for (const Request& request : requests_of(from, tokens))
    longest = std::max(longest, std::ssize(request.prompt->ids) + tokens + 1);
  const LayerShape& layer = from.network().shape().layers.front();
  const LayerShape& its = draft.shape().layers.front();
  const auto token_bytes = [](const LayerShape& of, std::size_t layers) {
    return 2 * of.kv_heads * of.head_dim * 4 * static_cast<std::int64_t>(layers);
  };
  EngineSettings tight = settings_of(100);
  tight.max_model_len = longest;
  tight.prefix_caching = false;
  tight.kv_cache_bytes = static_cast<std::size_t>(
      (longest + 64) * token_bytes(layer, from.network().shape().layers.size()));
  std::uint64_t preempted = 0;
  std::uint64_t blocked = 0;
  for (const int steps : {1, 2}) {
    for (const std::int64_t held : {longest / 3, longest + 16, 3 * longest}) {
      SCOPED_TRACE(fmt::format("a draft pool of {} tokens, {} steps in flight", held, steps));
      tight.steps_in_flight = steps;
      tight.speculation.draft.kv_cache_bytes = held * token_bytes(its, draft.shape().layers.size());
      const Run guessed = run_drafted(from, tight, &draft, tokens, 8);
      expect_equal(guessed, plain);
      preempted += guessed.stats.num_preemptions;
      blocked += guessed.stats.steps_blocked_on_memory;
      if (::testing::Test::HasFailure()) return first;
    }
  }
  // Short answers may find room one after the other.
  EXPECT_GT(tokens < kTokens ? preempted + blocked : preempted, 0u);
  return first;
}

// The model itself: greedy answers come as they were guessed, others now and then.
TEST(DraftEngine, TheModelItself) {
  GoldenRequests from("llama3/plain", {"text", "multi_turn"});
  const auto draft = load(golden_folder("llama3/plain"), from.device());
  const EngineStats stats = expect_same_answers(from, *draft->network, kTokens);
  EXPECT_GT(accepted_share(stats), 0.1);
  // Each further token of a draft comes less often.
  const auto& places = stats.spec_decode_num_accepted_tokens_per_pos;
  ASSERT_EQ(places.size(), 4u);
  EXPECT_GE(places[0], places[3]);
  EXPECT_GT(places[3], 0u);
}

// Greedy answers alone: every guess comes but those behind an answer's end.
TEST(DraftEngine, GreedyGuessesOfTheModelItselfAllCome) {
  GoldenRequests from("llama3/plain", {"text", "multi_turn", "long"});
  const auto draft = load(golden_folder("llama3/plain"), from.device());
  const VirtualClock clock;
  EngineSettings settings = settings_of(1000);
  settings.draft = draft->network.get();
  settings.speculation.max_tokens = 4;
  const auto engine = *Engine::create(settings, from.network(), from.device(), clock);
  std::vector<std::vector<TokenId>> answers(from.count());
  for (std::size_t i = 0; i < from.count(); ++i) {
    ASSERT_TRUE(engine->submit(from.request(i), [&, i](RequestId, Delta&& delta,
                                                       const RequestUsage&, const RequestTimes&) {
      answers[i].insert(answers[i].end(), delta.tokens.begin(), delta.tokens.end());
    }));
  }
  while (engine->step()) {
  }
  for (std::size_t i = 0; i < from.count(); ++i) EXPECT_EQ(answers[i], from.golden(i).greedy);
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.spec_decode_num_draft_tokens, 0u);
  EXPECT_EQ(stats.spec_decode_num_accepted_tokens, stats.spec_decode_num_draft_tokens);
}

// Another checkpoint of the same tokens, with rows of logits for two more.
TEST(DraftEngine, AnotherCheckpoint) {
  GoldenRequests from("llama3/plain", {"text", "multi_turn"});
  const auto draft = load(golden_folder("llama3/scaled"), from.device());
  ASSERT_GT(draft->shape().vocab, from.network().shape().vocab);
  const EngineStats stats = expect_same_answers(from, *draft->network, kTokens);
  EXPECT_LT(accepted_share(stats), 0.5);
}

TEST(DraftEngine, APerturbedModel) {
  GoldenRequests from("llama3/plain", {"text", "multi_turn"});
  const auto inner = load(golden_folder("llama3/plain"), from.device());
  PerturbedNetwork draft(*inner->network);
  const EngineStats stats = expect_same_answers(from, draft, kTokens);
  EXPECT_GT(stats.spec_decode_num_accepted_tokens, 0u);
  EXPECT_LT(accepted_share(stats), 0.98);
}

// Pictures in the prompt: it reads their placeholders, and a family's own text alone.
TEST(DraftEngine, Pictures) {
  for (const char* folder : {"qwen2_vl/odd_heads", "qwen3/odd_heads"}) {
    SCOPED_TRACE(folder);
    GoldenRequests from("qwen2_vl/odd_heads", {"text", "one_image", "three_images"});
    const auto draft = load(golden_folder(folder), from.device(),
                            {.compute = DType::kF32, .kv = {}, .parts = Parts::kText});
    expect_same_answers(from, *draft->network, 16);
    if (HasFailure()) return;
  }
}

// Windows of a draft go back with the rest.
TEST(DraftEngine, ADraftWithWindows) {
  GoldenRequests from("llama3/plain", {"text", "long"});
  const auto draft = load(golden_folder("qwen2/mixed_window"), from.device());
  expect_same_answers(from, *draft->network, 24);
}

}  // namespace
}  // namespace saccade
