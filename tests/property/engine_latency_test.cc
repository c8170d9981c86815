// Text streams beside images on a simulated machine: a virtual clock that each forward and each
// stage of the encoder moves on by what it costs there, with noise. What the latency target
// promises, and that nobody starves for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "base/log.h"
#include "engine/local_engine.h"
#include "tests/support/choices.h"
#include "tests/support/fake_model.h"

namespace saccade {
namespace {

constexpr std::int64_t kLargeImageTokens = 64;

// What things take, in seconds. A forward reads the weights and computes its rows, whatever takes
// longer; a stage computes its patches.
struct Costs {
  double read = 0.020;
  double row = 0.0005;
  double fixed = 0.002;
  double patch = 0.000025;  // of one stage
  int stages = 10;
  double noise = 0.05;  // up to so much longer or shorter
  bool cuts = false;    // stages into pieces
  double hiccups = 0;   // share of forwards and stages that take three times as long
  double encode() const { return stages * 4 * kLargeImageTokens * patch; }
};

class Simulation {
 public:
  Simulation(const Costs& costs, EngineSettings settings, std::uint64_t seed)
      : costs_(costs), rng_(seed), device_(make_reference_device()), model_(options()) {
    log::set_level(log::Level::kError);
    settings.block_size = 16;
    settings.kv_cache_bytes = 8 << 20;
    settings.max_model_len = 1000;
    settings.max_batched_tokens = std::min<std::int64_t>(settings.max_batched_tokens, 512);
    settings.prefix_caching = false;
    auto made = Engine::create(settings, model_, *device_, clock_);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    engine_.reset(static_cast<LocalEngine*>(made->release()));
  }

  RequestId text(std::int64_t prompt, std::int64_t tokens) {
    return submit(
        fake_request(std::vector<TokenId>(static_cast<std::size_t>(prompt), 7), {}, tokens));
  }
  RequestId image(std::int64_t tokens = 1) {
    std::vector<TokenId> ids(static_cast<std::size_t>(kLargeImageTokens + 12), 8);
    return submit(fake_request(std::move(ids), {{4, next_image_++, kLargeImageTokens}}, tokens));
  }
  // False: nothing to do; time goes on a little.
  bool step() {
    const bool busy = engine_->step();
    if (!busy) clock_.advance(kMillisecond);
    ++steps_;
    return busy;
  }
  double now() const { return seconds(clock_.now()); }
  std::int64_t steps() const { return steps_; }
  bool finished(RequestId id) const { return requests_.at(id).finished; }
  // From another thread, as it were: in the middle of a forward or a stage.
  void call_at(double when, std::function<void()> call) {
    calls_.emplace_back(when, std::move(call));
  }
  double first_token(RequestId id) const { return requests_.at(id).times.front(); }
  double wait(RequestId id) const { return first_token(id) - requests_.at(id).submitted; }
  double duration(RequestId id) const {
    return requests_.at(id).times.back() - requests_.at(id).submitted;
  }
  std::int64_t unfinished() const {
    return std::ranges::count_if(requests_, [](const auto& at) { return !at.second.finished; });
  }
  // Times between two tokens of these requests, sorted.
  std::vector<double> gaps(const std::vector<RequestId>& of) const {
    std::vector<double> all;
    for (const RequestId id : of) {
      const std::vector<double>& times = requests_.at(id).times;
      for (std::size_t i = 1; i < times.size(); ++i) all.push_back(times[i] - times[i - 1]);
    }
    std::ranges::sort(all);
    return all;
  }
  LocalEngine& engine() { return *engine_; }

 private:
  struct Seen {
    double submitted = 0;
    std::vector<double> times;  // of tokens
    bool finished = false;
  };
  FakeModelOptions options() {
    FakeModelOptions made;
    made.layers = {{LayerKind::kFull, 0, 1, 4}};
    made.hidden = 4;
    made.max_image_tokens = kLargeImageTokens;
    made.encoder_stages = costs_.stages;
    made.cut_stages = costs_.cuts;
    made.on_forward = [this](const Batch& batch) {
      const auto rows = static_cast<double>(batch.ids.size());
      pass(costs_.fixed + std::max(costs_.read, costs_.row * rows));
    };
    made.on_stage = [this](std::int64_t patches) {
      pass(costs_.patch * static_cast<double>(patches));
    };
    return made;
  }
  void pass(double cost) {
    cost *= 1 + costs_.noise * (2 * rng_.uniform() - 1);
    if (rng_.uniform() < costs_.hiccups) cost *= 3;
    const double end = now() + cost;
    while (!calls_.empty() && calls_.front().first <= end) {
      const auto [when, call] = std::move(calls_.front());
      calls_.pop_front();
      advance_to(when);
      call();
    }
    advance_to(end);
  }
  void advance_to(double when) {
    clock_.advance(std::max<Nanos>(0, static_cast<Nanos>((when - now()) * 1e9)));
  }
  RequestId submit(Request request) {
    request.sampling.ignore_eos = true;
    auto id = engine_->submit(std::move(request), [this](RequestId of, Delta&& delta,
                                                         const RequestUsage&, const RequestTimes&) {
      Seen& seen = requests_[of];
      for (std::size_t i = 0; i < delta.tokens.size(); ++i) seen.times.push_back(now());
      seen.finished = delta.finish != FinishReason::kNone;
    });
    EXPECT_TRUE(id.has_value()) << id.error().message;
    requests_[*id].submitted = now();
    return *id;
  }

  Costs costs_;
  Rng rng_;
  VirtualClock clock_;
  std::unique_ptr<Device> device_;
  FakeModel model_;
  std::unique_ptr<LocalEngine> engine_;
  std::map<RequestId, Seen> requests_;
  std::deque<std::pair<double, std::function<void()>>> calls_;  // by time
  std::uint64_t next_image_ = 0;
  std::int64_t steps_ = 0;
};

double at_share(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

EngineSettings target(double milliseconds, EncoderCache cache = EncoderCache::kStore) {
  EngineSettings settings;
  settings.tpot_target_ms = milliseconds;
  settings.encoder_cache = cache;
  return settings;
}

// Four text streams; images arrive at a share of what the encoder alone could do.
struct Beside {
  std::vector<double> gaps;
  std::vector<RequestId> images;
  std::int64_t left = 0;    // images that had not ended with the text
  double longest_wait = 0;  // of an image request, from arrival to its end
};

Beside beside(Simulation& simulation, const Costs& costs, double share, std::int64_t tokens) {
  Beside result;
  simulation.image();  // what an image takes is seen once before
  while (simulation.unfinished() > 0) simulation.step();
  std::vector<RequestId> texts;
  for (int i = 0; i < 4; ++i) texts.push_back(simulation.text(16, tokens));
  std::map<RequestId, double> arrived;
  double next = simulation.now();
  Rng rng(7);
  const auto running = [&] {
    return std::ranges::any_of(texts, [&](RequestId id) { return !simulation.finished(id); });
  };
  while (running()) {
    while (share > 0 && next <= simulation.now()) {
      const RequestId id = simulation.image();
      result.images.push_back(id);
      arrived[id] = next;
      next -= std::log(1 - rng.uniform()) * costs.encode() / share;
    }
    simulation.step();
    std::erase_if(arrived, [&](const auto& at) {
      if (!simulation.finished(at.first)) return false;
      result.longest_wait = std::max(result.longest_wait, simulation.now() - at.second);
      return true;
    });
  }
  result.left = static_cast<std::int64_t>(arrived.size());
  while (simulation.unfinished() > 0) simulation.step();
  result.gaps = simulation.gaps(texts);
  return result;
}

// The promise of the target: beside images at 60 % of the encoder's capacity the time between
// tokens is at most 1.3 times what it is alone, and one layer.
TEST(EngineLatency, TextBesideImagesKeepsToTheTarget) {
  for (const EncoderCache cache :
       {EncoderCache::kStore, EncoderCache::kOverlay, EncoderCache::kOff}) {
    for (const double hiccups : {0.0, 0.002}) {
      SCOPED_TRACE(fmt::format("{}, {} hiccups", name_of(cache), hiccups));
      Costs costs;
      costs.hiccups = hiccups;
      Simulation quiet(costs, target(27), 1);
      const Beside alone = beside(quiet, costs, 0, 500);
      Simulation busy(costs, target(27), 1);
      const Beside with = beside(busy, costs, 0.6, 500);
      const double layer = 4 * kLargeImageTokens * costs.patch;
      EXPECT_LE(at_share(with.gaps, 0.99), 1.3 * at_share(alone.gaps, 0.99) + layer);
      EXPECT_LE(at_share(with.gaps, 0.5), 0.027 * (1 + costs.noise));
      EXPECT_GT(with.images.size(), 30u);
      EXPECT_LT(with.left, static_cast<std::int64_t>(with.images.size()));
    }
  }
}

// A target that leaves room for them serves the images as they come.
TEST(EngineLatency, ImagesAtSixtyPercentOfTheCapacityAreServed) {
  for (const EncoderCache cache : {EncoderCache::kStore, EncoderCache::kOverlay}) {
    SCOPED_TRACE(name_of(cache));
    Costs costs;
    costs.row = 0.0002;
    Simulation simulation(costs, target(120, cache), 2);
    const Beside with = beside(simulation, costs, 0.6, 800);
    EXPECT_GT(with.images.size(), 300u);
    EXPECT_LE(with.left, 8);
    EXPECT_LE(with.longest_wait, 20 * costs.encode());
    EXPECT_LE(at_share(with.gaps, 0.99), 0.12 * (1 + 2 * costs.noise));
  }
}

// A target is there to be used: beside one stream a prompt takes the steps that it leaves room for.
TEST(EngineLatency, PromptsUseTheRoom) {
  Costs costs;
  costs.noise = 0;
  Simulation simulation(costs, target(60), 6);
  simulation.text(16, 900);
  for (int i = 0; i < 4; ++i) simulation.step();
  std::int64_t steps = 0;
  for (int round = 0; round < 6; ++round) {  // what chunks take is learnt on the way
    const RequestId prompt = simulation.text(900, 1);
    const std::int64_t before = simulation.steps();
    while (!simulation.finished(prompt)) simulation.step();
    steps = simulation.steps() - before;
  }
  const double rows = (0.060 - costs.fixed) / costs.row;
  EXPECT_LE(static_cast<double>(steps), 1.2 * 900 / rows + 1);
  EXPECT_GE(static_cast<double>(steps), 0.9 * 900 / rows);
}

// Nobody waits for a token: images are encoded as fast as the machine can.
TEST(EngineLatency, WithoutDecodeTheEncoderIsNotHeldBack) {
  Costs costs;
  costs.noise = 0;
  for (const double milliseconds : {0.0, 25.0}) {
    Simulation simulation(costs, target(milliseconds), 3);
    const double begin = simulation.now();
    for (int i = 0; i < 10; ++i) simulation.image();
    while (simulation.unfinished() > 0) simulation.step();
    const double prefill = costs.fixed + costs.row * (kLargeImageTokens + 12);
    EXPECT_LE(simulation.now() - begin, 10 * (costs.encode() + prefill) + 0.01);
  }
}

// A newcomer does not wait until all images that came before are encoded.
TEST(EngineLatency, ANewcomerInterruptsTheEncoder) {
  const Costs costs;
  Simulation simulation(costs, target(0), 4);
  simulation.image();
  simulation.step();  // a whole batch, as nobody else is there
  EXPECT_GE(simulation.now(), costs.encode() * 0.9);
}

// A picture of 40 stages of a quarter of a second each.
Costs large_picture() {
  Costs costs;
  costs.patch = 0.001;
  costs.stages = 40;
  costs.noise = 0;
  costs.cuts = true;
  return costs;
}

// Texts come while it is being encoded, each for itself.
TEST(EngineLatency, ALargePictureHoldsUpNobody) {
  const Costs costs = large_picture();
  Simulation simulation(costs, target(0), 8);
  const RequestId alone = simulation.text(16, 20);
  while (!simulation.finished(alone)) simulation.step();
  const RequestId picture = simulation.image();
  std::vector<RequestId> beside;
  const double begin = simulation.now();
  for (int i = 1; i <= 8; ++i)
    simulation.call_at(begin + 1.5 * i, [&] { beside.push_back(simulation.text(16, 20)); });
  while (simulation.unfinished() > 0) simulation.step();
  EXPECT_EQ(beside.size(), 8u);
  for (const RequestId text : beside) {
    EXPECT_LT(simulation.first_token(text), simulation.first_token(picture)) << "all came before";
    EXPECT_LE(simulation.wait(text), 1.5 * simulation.wait(alone) + 0.1);
    EXPECT_LE(simulation.duration(text), 2 * simulation.duration(alone) + 0.1)
        << "half of the time is the text's";
  }
  const double texts = 8 * simulation.duration(alone);
  EXPECT_LE(simulation.wait(picture), costs.encode() + texts + 0.5) << "and no time is lost";
}

// A prompt of fifteen steps, and short ones that come while it is computed: each begins in the next
// step, and the long one has three quarters of them at the least.
TEST(EngineLatency, ALongPromptHoldsUpNobody) {
  Costs costs;
  costs.noise = 0;
  EngineSettings settings = target(0);
  settings.max_batched_tokens = 64;
  Simulation simulation(costs, settings, 10);
  const RequestId alone = simulation.text(960, 1);
  while (!simulation.finished(alone)) simulation.step();
  const double step = simulation.wait(alone) / 15;
  const RequestId prompt = simulation.text(960, 1);
  const RequestId next = simulation.text(960, 1);
  std::vector<RequestId> beside;
  const double begin = simulation.now();
  for (int i = 1; i <= 10; ++i)
    simulation.call_at(begin + 1.4 * step * i, [&] { beside.push_back(simulation.text(12, 1)); });
  while (simulation.unfinished() > 0) simulation.step();
  EXPECT_EQ(beside.size(), 10u);
  for (const RequestId text : beside) EXPECT_LE(simulation.wait(text), 2.1 * step);
  EXPECT_LE(simulation.wait(prompt), simulation.wait(alone) * 4 / 3 + step);
  EXPECT_LT(simulation.first_token(prompt), simulation.first_token(next)) << "one after the other";
}

TEST(EngineLatency, APictureThatNobodyWantsEndsWithinAPiece) {
  Simulation simulation(large_picture(), target(0), 9);
  for (int i = 0; i < 8; ++i) {
    const RequestId picture = simulation.image();
    double left = 0;
    simulation.call_at(simulation.now() + 1.03 * (i + 1), [&] {
      left = simulation.now();
      simulation.engine().cancel(picture);
    });
    while (simulation.engine().step()) {
    }
    EXPECT_GT(left, 0);
    EXPECT_LE(simulation.now() - left, EncoderLimits().piece_seconds);
  }
  EXPECT_EQ(simulation.engine().stats().images_encoded, 0u);
}

// Whatever the target, the costs and the load, every image and every prompt ends. Streams of text
// never do: where one has ended, the next begins.
TEST(EngineLatency, NobodyStarvesWhateverTheTarget) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Choices choices = Choices::random(seed);
    static constexpr double kTargets[] = {0.001, 1, 15, 23, 25, 40, 100, 1000};
    static constexpr double kScales[] = {0, 0.01, 1, 10};
    Costs costs;
    costs.row *= kScales[choices.pick(4)];
    costs.patch *= kScales[choices.pick(4)];
    costs.read *= kScales[1 + choices.pick(2)];
    costs.noise = choices.coin() ? 0.5 : 0;
    costs.hiccups = choices.coin() ? 0.05 : 0;
    const double milliseconds = kTargets[choices.pick(8)];
    const EncoderCache cache = kEncoderCaches[choices.pick(3)].value;
    SCOPED_TRACE(fmt::format("seed {}: target {} ms, {}", seed, milliseconds, name_of(cache)));
    Simulation simulation(costs, target(milliseconds, cache), seed);
    std::vector<RequestId> texts;
    for (int i = 0; i < 3; ++i) texts.push_back(simulation.text(16, 50));
    std::vector<RequestId> wanted;
    for (int i = 0; i < 4; ++i) wanted.push_back(simulation.image());
    wanted.push_back(simulation.text(200, 2));
    const auto waiting = [&] {
      return std::ranges::any_of(wanted, [&](RequestId id) { return !simulation.finished(id); });
    };
    while (waiting()) {
      for (RequestId& text : texts) {
        if (simulation.finished(text)) text = simulation.text(16, 50);
      }
      simulation.step();
      // Images, stages of each and chunks of each prompt, one in twice the patience of steps.
      ASSERT_LT(simulation.steps(), 5000) << simulation.engine().scheduler().describe();
    }
  }
}

// Whose image is being encoded has left: the encoder does not go on for nobody, and what is
// reported to wait is what waits.
TEST(EngineLatency, ImagesOfWhoHasLeftAreLetGo) {
  const Costs costs;
  EngineSettings settings = target(25);
  settings.encoder_batch_patches = 1;
  Simulation simulation(costs, settings, 5);
  std::vector<RequestId> all = {simulation.text(16, 400)};
  for (int i = 0; i < 4; ++i) simulation.step();
  for (int i = 0; i < 3; ++i) all.push_back(simulation.image());
  while (simulation.engine().stats().encoder_queue_images != 2) simulation.step();
  const std::uint64_t encoded = simulation.engine().stats().images_encoded;
  for (const RequestId id : all) simulation.engine().cancel(id);
  while (simulation.step()) {
  }
  EXPECT_EQ(simulation.engine().stats().encoder_queue_images, 0);
  EXPECT_EQ(simulation.engine().stats().images_encoded, encoded);
}

// A prompt of 900 tokens beside two texts that decode at 22 ms a step: unlimited it is one step of
// half a second.
TEST(DecodeShare, ALongPromptDoesNotStopThoseThatDecode) {
  for (const double share : {0.0, 0.2, 0.5}) {
    SCOPED_TRACE(share);
    EngineSettings settings;
    settings.decode_share = share;
    settings.max_batched_tokens = 512;
    Costs costs;
    costs.row = 0.001;
    Simulation simulation(costs, settings, 5);
    simulation.text(300, 4);  // what a prompt takes has been seen
    while (simulation.unfinished() > 0) simulation.step();
    std::vector<RequestId> texts;
    for (int i = 0; i < 2; ++i) texts.push_back(simulation.text(16, 200));
    for (int i = 0; i < 40; ++i) simulation.step();
    const RequestId prompt = simulation.text(900, 2);
    while (simulation.unfinished() > 0) simulation.step();
    const double longest = simulation.gaps(texts).back();
    const double step = costs.fixed + costs.read;
    if (share == 0) {
      EXPECT_GT(longest, 0.4);
    } else {
      // What is predicted may be a quarter off, and a prompt has 50 ms whatever the share.
      EXPECT_LT(longest, 1.25 * (step + std::max(0.05, step * (1 / share - 1))));
      // Of the time that the prompt took to its first token, those that decode had no more than
      // their share needs.
      EXPECT_LT(simulation.wait(prompt), 0.9 / (1 - share) * 1.6);
    }
  }
}

}  // namespace
}  // namespace saccade
