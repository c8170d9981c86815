#include <charconv>

#include "benchmarks/gpu/mma_roof.h"
#include "benchmarks/gpu/parts.h"
#include "benchmarks/model/harness.h"

namespace saccade {
namespace {

void add_timing(Figures& figures, std::string_view part, const std::string& name,
                const Timing& timing, double tokens) {
  figures.add(part, name,
              {{"seconds", timing.seconds},
               {"submit_seconds", timing.submit_seconds},
               {"bytes", timing.bytes},
               {"flops", timing.flops},
               {"tokens", tokens},
               {"launches", static_cast<double>(timing.launches)}});
}

// The middle one of a few.
template <typename Step>
Timing middle(const Step& step, int times) {
  std::vector<Timing> all;
  for (int i = 0; i < times; ++i) all.push_back(step());
  std::ranges::sort(all, {}, &Timing::seconds);
  return all[all.size() / 2];
}

}  // namespace

Result<void> measure_model(std::unique_ptr<Device> device, Figures& figures,
                           const ModelFigures& model, bool rehearsal) {
  const SteadyClock clock;
  const HarnessSizes sizes =
      rehearsal ? HarnessSizes{.prompt = 8, .decode_steps = 3, .sequences = 2, .image_side = 56}
                : HarnessSizes{.prompt = 1024, .decode_steps = 32, .sequences = 64};
  LoadOptions options;
  options.random_weights = model.random_weights;
  options.compute = DType::kBf16;
  const Nanos begin = clock.now();
  TRY(const auto harness, Harness::create(model.checkpoint, std::move(device), options, sizes));
  const auto add = [&](const std::string& name, const Timing& timing, double tokens) {
    add_timing(figures, "model", fmt::format("{} {}", model.name, name), timing, tokens);
  };
  figures.add("model", fmt::format("{} loading", model.name),
              {{"seconds", seconds(clock.now() - begin)},
               {"bytes", static_cast<double>(harness->shape().weight_bytes)}});
  harness->prefill();
  add(fmt::format("prefill of {}", sizes.prompt), harness->prefill(),
      static_cast<double>(sizes.prompt));
  for (const std::int64_t streams : {1, 8, 64}) {
    if (streams > sizes.sequences) break;
    // As graphs, as a server decodes, and launch by launch.
    harness->decode(streams, true);
    add(fmt::format("decode of {} after {}", streams, sizes.prompt), harness->decode(streams, true),
        static_cast<double>(streams));
    add(fmt::format("decode of {} after {}, eager", streams, sizes.prompt),
        harness->decode(streams), static_cast<double>(streams));
  }
  if (!harness->shape().has_vision) return {};
  std::vector<int> sides = {512, 1024};
  if (rehearsal) sides = {static_cast<int>(sizes.image_side)};
  for (const int side : sides) {
    TRY(const PreparedImage image, harness->noise_image(side));
    harness->encode(image);
    add(fmt::format("image {} x {}", side, side), harness->encode(image),
        static_cast<double>(image.layout.tokens));
  }
  return {};
}

Result<void> measure_step(std::unique_ptr<Device> device, Figures& figures,
                          const ModelFigures& model, bool rehearsal) {
  std::int64_t streams = 1;
  if (constexpr std::string_view kDecode = "decode-"; model.step.starts_with(kDecode)) {
    const std::string_view number = std::string_view(model.step).substr(kDecode.size());
    const auto read = std::from_chars(number.data(), number.data() + number.size(), streams);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size() || streams < 1 ||
        streams > 256)
      return fail(ErrorCode::kInvalid, "--step {}: want decode-1 to decode-256", model.step);
  }
  const HarnessSizes sizes =
      rehearsal
          ? HarnessSizes{.prompt = 8, .decode_steps = 1, .sequences = streams, .image_side = 56}
          : HarnessSizes{.prompt = 1024, .decode_steps = 1, .sequences = streams};
  LoadOptions options;
  options.random_weights = model.random_weights;
  options.compute = DType::kBf16;
  TRY(const auto harness, Harness::create(model.checkpoint, std::move(device), options, sizes));
  PreparedImage image;
  double tokens = static_cast<double>(streams);
  std::function<Timing()> step = [&] { return harness->decode(streams); };
  std::function<Timing()> served = [&] { return harness->decode(streams, true); };
  if (model.step == "prefill") {
    tokens = static_cast<double>(sizes.prompt);
    served = step = [&] { return harness->prefill(); };
  } else if (model.step == "image") {
    if (!harness->shape().has_vision)
      return fail(ErrorCode::kInvalid, "{} has no tower", model.checkpoint);
    TRY(image, harness->noise_image(sizes.image_side));
    tokens = static_cast<double>(image.layout.tokens);
    served = step = [&] { return harness->encode(image); };
  } else if (!model.step.starts_with("decode-")) {
    return fail(ErrorCode::kInvalid, "--step {}: want decode-N, prefill or image", model.step);
  }
  const int times = rehearsal ? 1 : 9;
  for (int i = 0; i < 4; ++i) served();  // modules are loaded, a graph is made
  const std::string name = fmt::format("{} {}", model.name, model.step);
  add_timing(figures, "step", name, middle(served, times), tokens);
  step();
  add_timing(figures, "step", name + ", launch by launch", middle(step, times), tokens);
  begin_profile();
  step();
  end_profile();
  return {};
}

}  // namespace saccade
