// Whole models whose long chunks and segments go to a library's attention, a stand-in for it: no
// further from f32 than with the own kernel, the same bits in any chunks, and the engine's tokens.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_stream.h"
#include "tests/golden/golden_requests.h"
#include "tests/gpu/fakes/fake_flash.h"

namespace saccade {
namespace {

using test::GoldenRequests;

struct Of {
  const char* checkpoint;
  const char* golden;
};

constexpr std::int64_t kLeast = 4;  // rows: the models and their prompts are tiny

class FlashModels : public ::testing::TestWithParam<Of> {
 protected:
  std::unique_ptr<Device> make(bool with_flash, std::uint64_t seed = 5) {
    auto device = std::make_unique<cuda::CudaDevice>(
        emulator::make_emulated_runtime({.late = true, .seed = seed}), 2, DType::kBf16);
    if (with_flash) {
      std::vector<cuda::FlashForm> forms;
      for (const std::int32_t head_dim : {8, 16, 24, 32, 40})
        for (const bool paged : {true, false}) forms.push_back({paged, head_dim, 8, 12});
      auto library = std::make_unique<test::FakeFlash>(forms, 7);
      fake = library.get();
      device->use_flash({.library = std::move(library), .forms = forms, .least_rows = kLeast});
    }
    return device;
  }
  static GoldenRequests requests(std::unique_ptr<Device> device) {
    return GoldenRequests(GetParam().checkpoint, {GetParam().golden}, std::move(device),
                          {.compute = DType::kBf16, .kv = {}});
  }

  test::FakeFlash* fake = nullptr;
};

double flash_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(sum);
}

// Of the golden's prompt in chunks of so many tokens, 0 for whole: the logits behind it, and the
// first tokens said. Nothing where a piece would be the own kernel's.
struct Said {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
};
Said say(Device& device, const Of& of, DType compute, std::int64_t chunk, std::int64_t count) {
  const std::string folder = test::golden_folder(of.checkpoint);
  const auto golden = read_golden(folder + "/golden/" + of.golden + ".safetensors");
  const auto model = test::load(folder, device, {.compute = compute, .kv = {}});
  const auto tokenizer = load_tokenizer(folder);
  const auto media = prepare_golden_media(*model->processor, *golden);
  auto prompt =
      model->processor->build_prompt(**tokenizer, golden->rendered, media->layouts, false);
  const auto tokens = static_cast<std::int64_t>(prompt->ids.size());
  if (chunk > 0 && (chunk >= tokens || (tokens % chunk > 0 && tokens % chunk < kLeast))) return {};
  auto run = SoloRun::create(*model->network, device, *std::move(prompt), media->prepared,
                             std::max<std::int64_t>(1, count));
  CHECK(run.has_value(), "{}", run.error().message);
  Buffer staging;
  const View row = *readable(device.lane(Lane::kStep), (*run)->prefill(chunk), staging);
  Said said{{row.row<float>(0), row.row<float>(0) + row.cols()}, {}};
  if (count > 0) said.tokens = (*run)->greedy(count);
  return said;
}

// bf16 moves logits by so much with the own kernel; the other rounds as often.
TEST_P(FlashModels, LogitsAreAsNearAsWithTheOwnKernel) {
  const auto cpu = engine_device("");
  const std::vector<float> want = say(*cpu, GetParam(), DType::kF32, 0, 0).logits;
  const std::vector<float> own = say(*make(false), GetParam(), DType::kBf16, 0, 0).logits;
  const auto device = make(true);
  const std::vector<float> flash = say(*device, GetParam(), DType::kBf16, 0, 0).logits;
  EXPECT_GT(fake->launches(), 0);
  EXPECT_NE(flash, own);
  EXPECT_LE(flash_distance(flash, want), 2 * flash_distance(own, want));
}

// Each piece of a prompt has as many rows as the library wants, and that is all that counts.
TEST_P(FlashModels, ChunksMakeNoDifference) {
  if (std::string_view(GetParam().golden) != "text") GTEST_SKIP() << "images set chunks";
  const auto device = make(true, 9);
  const std::vector<float> whole = say(*device, GetParam(), DType::kBf16, 0, 0).logits;
  int tried = 0;
  for (std::int64_t chunk = kLeast; chunk < 40 && tried < 4; chunk += 3) {
    const std::vector<float> got = say(*device, GetParam(), DType::kBf16, chunk, 0).logits;
    if (got.empty()) continue;
    ++tried;
    EXPECT_EQ(got, whole) << "chunks of " << chunk;
  }
  EXPECT_GE(tried, 2);
  EXPECT_GT(fake->launches(), 0);
}

// Two at once, with two steps in flight.
TEST_P(FlashModels, TheEngineSaysTheSame) {
  constexpr std::int64_t kTokens = 4;
  GoldenRequests from = requests(make(true, 3));
  const std::vector<TokenId> want = say(from.device(), GetParam(), DType::kBf16, 0, kTokens).tokens;
  const std::int64_t before = fake->launches();
  EngineSettings settings = test::settings_of(512);
  settings.steps_in_flight = 2;
  settings.prefix_caching = false;  // what is left of a prompt may be the own kernel's
  const SteadyClock clock;
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_TRUE(engine) << engine.error().message;
  std::vector<std::vector<TokenId>> answers(2);
  std::size_t unfinished = 0;
  for (std::vector<TokenId>& answer : answers) {
    Request request = from.request(0);
    request.sampling.max_tokens = kTokens;
    const auto id =
        (*engine)->submit(std::move(request),
                          [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
                            answer.insert(answer.end(), delta.tokens.begin(), delta.tokens.end());
                            if (delta.finish != FinishReason::kNone) --unfinished;
                          });
    ASSERT_TRUE(id) << id.error().message;
    ++unfinished;
  }
  while (unfinished > 0 && (*engine)->step()) {
  }
  for (const std::vector<TokenId>& answer : answers) EXPECT_EQ(answer, want);
  EXPECT_GT(fake->launches(), before);
}

INSTANTIATE_TEST_SUITE_P(Families, FlashModels,
                         ::testing::Values(Of{"qwen2/odd_heads", "text"},
                                           Of{"qwen2_vl/odd_heads", "one_image"}),
                         [](const auto& each) {
                           std::string name = each.param.checkpoint;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace saccade
