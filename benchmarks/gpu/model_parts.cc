#include "benchmarks/gpu/parts.h"
#include "benchmarks/model/harness.h"

namespace saccade {

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
    figures.add("model", fmt::format("{} {}", model.name, name),
                {{"seconds", timing.seconds},
                 {"submit_seconds", timing.submit_seconds},
                 {"bytes", timing.bytes},
                 {"flops", timing.flops},
                 {"tokens", tokens},
                 {"launches", static_cast<double>(timing.launches)}});
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

}  // namespace saccade
