// What a step keeps for prompts that end in it: as much where one can begin, and nothing where none
// can, whatever it is that keeps it back.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/admission/scheduler.h"
#include "model/checkpoint/safetensors.h"

namespace saccade {
namespace {

constexpr std::int64_t kStep = 64;
constexpr std::int64_t kQuarter = kStep / 4;
constexpr std::int64_t kBlock = 16;

// An adapter of its name, of which nothing but the identity matters here.
std::shared_ptr<const LoraAdapter> adapter_of(const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / ("saccade_short_prompts_" + name);
  fs::create_directories(folder);
  std::ofstream(folder / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": "all-linear", )"
      << R"("revision": ")" << name << "\"}";
  const std::string module = "layers.0.mlp.up_proj";
  const std::vector<SafetensorsPlan> plan = {{module + ".lora_A.weight", DType::kF32, {1, 2}},
                                             {module + ".lora_B.weight", DType::kF32, {2, 1}}};
  std::ofstream(folder / "adapter_model.safetensors", std::ios::binary)
      << make_safetensors_header(plan, {}) << std::string(16, '\0');
  static const std::vector<LoraTarget> targets = {{module, nullptr, 2, 2, 0}};
  auto adapter = LoraAdapter::load({name, folder.string(), 1, 1}, targets);
  EXPECT_TRUE(adapter) << adapter.error().message;
  fs::remove_all(folder);
  return adapter ? *adapter : nullptr;
}

struct Asked {
  std::int64_t tokens = 0;
  std::int64_t image_at = -1;  // a token of it; -1: there is no image
  std::shared_ptr<const LoraAdapter> adapter = nullptr;
  std::int64_t answer = 1000;
  std::int64_t short_length = 0;
};

struct Room {
  std::int64_t pages = 1000;
  std::int64_t places = 8;
  std::int64_t loras = 1;
  std::int64_t images = 64;  // rows in the store
};

class World {
 public:
  explicit World(const Room& room = {})
      : images_(EncoderCache::kStore, room.images * 4, 4, 4),
        kv_(allocator(room.pages)),
        settings_(settings(room)),
        scheduler_(settings_, *kv_, images_) {}
  ~World() {
    for (const auto& sequence : sequences_)
      if (!sequence->ended()) scheduler_.finish(*sequence);
  }

  Sequence& add(const Asked& asked) {
    Prompt prompt;
    prompt.ids.assign(static_cast<std::size_t>(asked.tokens), 1);
    Request request;
    request.id = ++last_id_;
    request.adapter = asked.adapter;
    request.sampling.max_tokens = asked.answer;
    if (asked.image_at >= 0) {
      prompt.images.push_back({asked.image_at, 1, 0, 0});
      RequestImage image;
      image.content = sha256(std::to_string(request.id));
      image.layout.tokens = 1;
      request.images = Shared<std::vector<RequestImage>>({image});
    }
    request.prompt = Shared<Prompt>(std::move(prompt));
    sequences_.push_back(std::make_unique<Sequence>(std::move(request), "model", asked.short_length,
                                                    kBlock, 1 << 20));
    scheduler_.add(*sequences_.back());
    return *sequences_.back();
  }
  StepPlan plan() { return scheduler_.plan(); }
  void launch(const StepPlan& plan) { scheduler_.launch(plan); }
  void settle(const StepPlan& plan) {
    scheduler_.settle(plan, std::vector<TokenId>(plan.rows.size(), 2));
    for (const auto& sequence : sequences_)
      if (!sequence->ended() && sequence->known() >= sequence->max_length)
        scheduler_.finish(*sequence);
  }
  StepPlan step() {
    StepPlan plan = this->plan();
    launch(plan);
    settle(plan);
    return plan;
  }
  void encoded(const Sequence& sequence) { images_.set_ready(sequence.images->front().key); }
  void finish(Sequence& sequence) { scheduler_.finish(sequence); }
  Scheduler& scheduler() { return scheduler_; }
  const KvAllocator& kv() const { return *kv_; }
  const ImagePlanner& images() const { return images_; }
  const std::vector<std::unique_ptr<Sequence>>& sequences() const { return sequences_; }

 private:
  static std::unique_ptr<KvAllocator> allocator(std::int64_t pages) {
    LayerSpec layer;
    layer.kv_heads = layer.head_dim = 1;
    KvSettings settings;
    settings.plan.block_tokens = kBlock;
    settings.pool_bytes = pages * layer.page_bytes(kBlock);
    settings.prefix_caching = false;
    settings.watermark = 0;
    auto made = KvAllocator::create({&layer, 1}, settings);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  static EngineSettings settings(const Room& room) {
    EngineSettings settings;
    settings.max_batched_tokens = kStep;
    settings.max_sequences = room.places;
    settings.max_loras = room.loras;
    return settings;
  }

  ImagePlanner images_;
  std::unique_ptr<KvAllocator> kv_;
  EngineSettings settings_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  RequestId last_id_ = 0;
};

std::int64_t rows_of(const StepPlan& plan, const Sequence& sequence) {
  for (const PlannedRows& rows : plan.rows)
    if (rows.sequence == &sequence) return rows.count;
  return 0;
}

// A long prompt that runs, and what it gets of the next step where `asked` waits.
class ShortPrompts : public ::testing::Test {
 protected:
  World& world(const Room& room = {}) {
    world_ = std::make_unique<World>(room);
    long_ = &world_->add({.tokens = 1000});
    EXPECT_EQ(rows_of(world_->step(), *long_), kStep);
    return *world_;
  }
  std::int64_t next() { return rows_of(world_->step(), *long_); }

  std::unique_ptr<World> world_;
  Sequence* long_ = nullptr;
};

TEST_F(ShortPrompts, NoLongerThanAQuarterBeginAtOnce) {
  for (const std::int64_t tokens : {std::int64_t{1}, kQuarter - 1, kQuarter}) {
    World& with = world();
    Sequence& one = with.add({.tokens = tokens});
    EXPECT_EQ(next(), kStep - kQuarter);
    EXPECT_TRUE(one.kv.admitted()) << tokens;
    EXPECT_EQ(one.generated(), 1) << tokens;
  }
  World& with = world();
  const Sequence& longer = with.add({.tokens = kQuarter + 1});
  EXPECT_EQ(next(), kStep);
  EXPECT_FALSE(longer.kv.admitted());
}

TEST_F(ShortPrompts, WaitForTheirImagesWithoutAShare) {
  World& with = world();
  const Sequence& one = with.add({.tokens = 12, .image_at = 4});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(), kStep);
  with.encoded(one);
  EXPECT_EQ(next(), kStep - kQuarter);
  EXPECT_EQ(one.generated(), 1);
}

TEST_F(ShortPrompts, WaitForAPlaceWithoutAShare) {
  World& with = world({.places = 1});
  (void)with.add({.tokens = 12});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(), kStep);
}

TEST_F(ShortPrompts, WaitForAnAdaptersPlaceWithoutAShare) {
  World& with = world();
  const auto a = adapter_of("a");
  const auto b = adapter_of("b");
  Sequence& runs = with.add({.tokens = 4, .adapter = a});
  EXPECT_EQ(next(), kStep - kQuarter);
  const Sequence& other = with.add({.tokens = 12, .adapter = b});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next(), kStep);
  const Sequence& same = with.add({.tokens = 12, .adapter = a});
  EXPECT_EQ(next(), kStep - kQuarter);
  EXPECT_EQ(same.generated(), 1);
  with.finish(runs);
  EXPECT_FALSE(other.kv.admitted());
}

// Who has been overtaken often enough holds up those that would go on doing it, and nothing is kept
// for them either.
TEST_F(ShortPrompts, ThatMayNotOvertakeAnotherAdapterHaveNoShare) {
  World& with = world({.places = 4});
  const auto a = adapter_of("a");
  (void)with.add({.tokens = 4, .adapter = a});
  EXPECT_EQ(next(), kStep - kQuarter);
  Sequence& other = with.add({.tokens = 12, .adapter = adapter_of("b")});
  for (int i = 0; i < 4; ++i) {
    (void)with.add({.tokens = 1, .adapter = a, .answer = 1});
    EXPECT_EQ(next(), kStep - kQuarter);
  }
  EXPECT_EQ(other.standing->overtaken, 4);
  const Sequence& same = with.add({.tokens = 12, .adapter = a});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next(), kStep);
  EXPECT_FALSE(same.kv.admitted());
}

// There are no pages: it is asked once, and not again before some come free.
TEST_F(ShortPrompts, WaitForPagesWithoutAShare) {
  World& with = world({.pages = 1000 / kBlock + 2});
  Sequence& holds = with.add({.tokens = 1, .answer = 1000});
  EXPECT_EQ(next(), kStep - kQuarter);
  const Sequence& one = with.add({.tokens = 12});
  EXPECT_EQ(next(), kStep - kQuarter) << "asked for the first time";
  for (int i = 0; i < 3; ++i) EXPECT_GE(next(), kStep - 1) << "and the other's one token";
  const Sequence& behind = with.add({.tokens = 12});
  for (int i = 0; i < 3; ++i)
    EXPECT_GE(next(), kStep - 1) << "who waits behind it does not overtake it";
  EXPECT_FALSE(one.kv.admitted());
  EXPECT_FALSE(behind.kv.admitted());
  with.finish(holds);
  EXPECT_EQ(next(), kStep - kQuarter);
  EXPECT_EQ(one.generated(), 1);
}

// Its last token is still being sampled: it cannot be computed again before that is known.
TEST_F(ShortPrompts, WaitForTheirOwnTokensWithoutAShare) {
  World with;
  Sequence& turns = with.add({.tokens = 8, .short_length = 8});
  const StepPlan first = with.plan();
  with.launch(first);  // its ninth token makes it a long one, which is computed from the beginning
  EXPECT_EQ(turns.progress->unknown, 1);
  EXPECT_FALSE(turns.kv.admitted());
  const Sequence& other = with.add({.tokens = 1000});
  const StepPlan second = with.plan();
  EXPECT_EQ(rows_of(second, other), kStep);
  with.launch(second);
  with.settle(first);
  const StepPlan third = with.plan();
  EXPECT_EQ(rows_of(third, other), kStep - kQuarter);
  EXPECT_EQ(rows_of(third, turns), 9);
  with.launch(third);
  with.settle(second);
  with.settle(third);
}

// What waits before a step, and whether one of them is sure to begin in it.
struct Waiting {
  std::int64_t count = 0;
  std::int64_t refused = 0;
  bool any_could_begin = false;
};

Waiting waiting_in(const World& world) {
  Waiting waiting;
  for (const auto& sequence : world.sequences()) {
    if (sequence->ended() || sequence->kv.admitted()) continue;
    ++waiting.count;
    waiting.refused += sequence->standing->refused_at == world.kv().releases() + 1;
    waiting.any_could_begin |= sequence->images->empty() && sequence->request.adapter == nullptr &&
                               sequence->progress->unknown == 0 &&
                               sequence->length() <= kQuarter / 2;
  }
  return waiting;
}

// Somebody comes, perhaps; images that are wanted get ready at some time.
void change(World& world, Rng& rng, std::span<const std::shared_ptr<const LoraAdapter>> adapters) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); };
  if (below(3) == 0) {
    Asked asked;
    asked.tokens = below(4) == 0 ? 100 + below(300) : 1 + below(20);
    asked.answer = 1 + below(12);
    if (below(4) == 0) asked.image_at = below(static_cast<std::uint64_t>(asked.tokens));
    if (below(3) == 0) asked.adapter = adapters[rng.below(2)];
    (void)world.add(asked);
  }
  for (const auto& sequence : world.sequences()) {
    if (sequence->ended() || sequence->images->empty()) continue;
    const SequenceImage& image = sequence->images->front();
    if (image.leased && !world.images().ready(image) && below(8) == 0) world.encoded(*sequence);
  }
}

TEST(SchedulerDescription, TellsWhetherTheRowsOfAnImageAreThere) {
  World world;
  const Sequence& one = world.add({.tokens = 12, .image_at = 4});
  world.step();
  EXPECT_NE(world.scheduler().describe().find("image at [4, 5) encoding and leased"),
            std::string::npos);
  world.encoded(one);
  EXPECT_NE(world.scheduler().describe().find("image at [4, 5) ready and leased"),
            std::string::npos);
}

// Whoever comes and goes, with and without images and adapters, in a pool that is too small: no
// step loses a quarter for nobody, and who could begin in one does.
TEST(ShortPromptsProperty, NothingIsKeptInVainAndNobodyShortWaitsForALongOne) {
  const std::vector<std::shared_ptr<const LoraAdapter>> adapters = {adapter_of("a"),
                                                                    adapter_of("b")};
  std::int64_t cut = 0;
  std::int64_t sure = 0;
  for (std::uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); };
    const std::int64_t places = 3 + below(6);
    World world({.pages = 40 + below(60), .places = places, .loras = 1, .images = 2});
    std::vector<StepPlan> launched;
    for (int step = 0; step < 120 && !HasFailure(); ++step) {
      SCOPED_TRACE(step);
      change(world, rng, adapters);
      const Waiting before = waiting_in(world);
      const bool has_place = std::ssize(world.scheduler().running()) < places;
      const StepPlan plan = world.plan();
      const Waiting after = waiting_in(world);
      const bool newly_refused = after.refused > before.refused;
      std::int64_t cut_short = 0;  // rows of prompts that do not end in this step
      for (const PlannedRows& rows : plan.rows)
        if (rows.begin + rows.count < rows.sequence->length()) cut_short += rows.count;
      const bool undisturbed = plan.preempted.empty() && !newly_refused;
      if (cut_short > 0 && undisturbed && plan.started.empty()) {
        const bool for_want_of_images = std::ranges::all_of(plan.rows, [](const PlannedRows& rows) {
          return rows.begin + rows.count == rows.sequence->length() ||
                 !rows.sequence->images->empty();
        });
        if (!for_want_of_images) {
          EXPECT_GT(plan.tokens, kStep - kQuarter) << "a quarter is lost";
        }
        ++cut;
      }
      if (before.any_could_begin && before.count < 16 && before.refused == 0 && has_place &&
          undisturbed && !plan.blocked_on_memory) {
        EXPECT_LE(cut_short, kStep - kQuarter) << "a prompt that goes on took all";
        if (plan.started.empty()) {
          EXPECT_GT(plan.tokens, kStep - kQuarter / 2) << "who could begin waits";
        }
        sure += cut_short > 0;
      }
      world.launch(plan);
      launched.push_back(plan);
      while (std::ssize(launched) > below(2)) {
        world.settle(launched.front());
        launched.erase(launched.begin());
      }
    }
    for (const StepPlan& plan : launched) world.settle(plan);
  }
  EXPECT_GT(cut, 500);
  EXPECT_GT(sure, 200);
}

}  // namespace
}  // namespace saccade
