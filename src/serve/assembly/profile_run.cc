#include "serve/assembly/profile_run.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "serve/assembly/made_requests.h"

namespace saccade::serve {
namespace {

constexpr int kRuns = 3;
constexpr int kSizes = 6;
constexpr double kTooLongMs = 10'000;
constexpr double kRepeatedMs = 2'000;          // what takes longer is measured once
constexpr std::int64_t kLargestImage = 8'192;  // tokens
constexpr std::int64_t kLongestPrompt = 8'192;
constexpr int kSide = 2'576;  // pixels of the square that all sizes are made from

// What one request took of each stage, in milliseconds.
struct Took {
  double encode = 0;
  double prefill = 0;
};

// Requests one after another through an engine of its own.
class Bench {
 public:
  Bench(Engine& engine, const Processor& processor, const Tokenizer& tokenizer)
      : engine_(engine), requests_(processor, tokenizer, 20) {}

  Result<Took> prompt(std::int64_t tokens) {
    TRY(Request request, requests_.text(tokens));
    return run(std::move(request));
  }

  Result<Took> image(const ImageLayout& layout) {
    TRY(Request request, requests_.image(layout));
    return run(std::move(request));
  }

 private:
  Result<Took> run(Request request) {
    request.sampling.max_tokens = 1;
    request.sampling.temperature = 0;
    const EngineStats before = engine_.stats();
    bool done = false;
    std::optional<Error> error;
    const auto sink = [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
      if (delta.finish == FinishReason::kError) error = Error{delta.error_code, delta.error, {}};
      done = done || delta.finish != FinishReason::kNone;
    };
    TRY_DO(engine_.submit(std::move(request), sink));
    while (!done) engine_.step();
    engine_.step();  // publishes what the last one counted
    if (error) return fail(*std::move(error));
    const EngineStats after = engine_.stats();
    return Took{1e3 * (after.encoder_busy_seconds - before.encoder_busy_seconds),
                1e3 * (after.prefill_busy_seconds - before.prefill_busy_seconds)};
  }

  Engine& engine_;
  MadeRequests requests_;
};

// `measure(size)` for each size, ascending: the least of a few times.
template <typename Measure>
Result<void> measure_points(const std::vector<std::int64_t>& sizes, const Measure& measure,
                            std::vector<cluster::CostPoint>& points) {
  if (sizes.empty()) return {};
  TRY_DO(measure(sizes.front()));  // warms caches
  for (const std::int64_t size : sizes) {
    double least = 0;
    for (int i = 0; i < kRuns && (i == 0 || least < kRepeatedMs); ++i) {
      TRY(const double ms, measure(size));
      least = i == 0 ? ms : std::min(least, ms);
    }
    if (least > 0) points.push_back({size, least});
    if (least > kTooLongMs) break;
  }
  return {};
}

// Halves of the largest, the least first.
std::vector<std::int64_t> halves(std::int64_t largest) {
  std::set<std::int64_t> sizes;
  for (int i = 0; i < kSizes && largest >> i >= 1; ++i) sizes.insert(largest >> i);
  return {sizes.begin(), sizes.end()};
}

std::string model_name(const Model& model) {
  const ModelShape& shape = model.shape();
  // What was measured with keys and values of the embeddings' type keeps its name.
  const std::string types =
      shape.cache_dtype == shape.embedding_dtype
          ? std::string(name_of(shape.cache_dtype))
          : fmt::format("{} beside {}", name_of(shape.cache_dtype), name_of(shape.embedding_dtype));
  return fmt::format("{}, {} parameters, {} bytes, {} of hidden size, {}, {}", shape.family,
                     shape.parameters, shape.weight_bytes, shape.hidden, types,
                     shape.tower_fingerprint.empty() ? "no tower" : shape.tower_fingerprint);
}

std::string default_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::string(cache) + "/saccade";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && *home != '\0' ? home : "/tmp") + "/.cache/saccade";
}

}  // namespace

Result<cluster::Profile> measure_profile(const EngineSettings& given, const Model& model,
                                         Device& device, const Tokenizer& tokenizer,
                                         const Clock& clock) {
  EngineSettings settings = given;
  settings.max_sequences = 1;  // and so the KV cache is no larger than one needs
  settings.prefix_caching = false;
  settings.encoder_cache = EncoderCache::kStore;
  settings.steps_in_flight = 1;
  settings.tpot_target_ms = 0;
  settings.speculation = {};
  TRY(const auto engine, Engine::create(settings, *model.network, device, clock));
  Bench bench(*engine, *model.processor, tokenizer);

  cluster::Profile profile;
  profile.machine = device.description();
  profile.model = model_name(model);
  const std::int64_t longest =
      std::max<std::int64_t>(1, std::min(kLongestPrompt, engine->settings().max_model_len - 1));
  const auto prompt = [&](std::int64_t tokens) -> Result<double> {
    TRY(const Took took, bench.prompt(tokens));
    return took.prefill;
  };
  TRY_DO(measure_points(halves(longest), prompt, profile.prefill));

  std::map<std::int64_t, ImageLayout> layouts;
  if (model.shape().has_vision) {
    // An image, and the few tokens about it, must fit beside the answer.
    constexpr std::int64_t kAround = 64;
    const std::int64_t largest = std::min({kLargestImage, model.shape().max_image_tokens,
                                           engine->settings().max_model_len - kAround});
    for (const std::int64_t tokens : halves(std::max<std::int64_t>(1, largest))) {
      ImageControls controls;
      controls.max_tokens = tokens;
      TRY(ImageLayout layout, model.processor->image_layout(kSide, kSide, controls));
      if (layout.tokens <= largest) layouts.emplace(layout.tokens, std::move(layout));
    }
  }
  std::vector<std::int64_t> sizes;
  for (const auto& [tokens, layout] : layouts) sizes.push_back(tokens);
  const auto image = [&](std::int64_t tokens) -> Result<double> {
    TRY(const Took took, bench.image(layouts.at(tokens)));
    return took.encode;
  };
  TRY_DO(measure_points(sizes, image, profile.encode));
  profile.fit();
  return profile;
}

Result<cluster::Profile> profile_of(const ProfileSettings& settings, const Model& model,
                                    Device& device, const Tokenizer& tokenizer,
                                    const Clock& clock) {
  const std::string machine = device.description();
  const std::string name = model_name(model);
  const std::string path = cluster::profile_path(
      settings.folder.empty() ? default_folder() : settings.folder, machine, name);
  if (!settings.again) {
    auto kept = cluster::load_profile(path, machine, name);
    if (kept) {
      log::info("costs of encoding and prefill: from {}", path);
      return kept;
    }
    if (kept.error().code != ErrorCode::kNotFound) log::warning("{}", kept.error().message);
  }
  log::info("measuring what encoding and prefill take; kept in {}", path);
  const Nanos begin = clock.now();
  TRY(cluster::Profile profile, measure_profile(settings.engine, model, device, tokenizer, clock));
  log::info("measured in {:.1f} s", seconds(clock.now() - begin));
  const auto saved = cluster::save_profile(path, profile);
  if (!saved) log::warning("the profile is not kept: {}", saved.error().message);
  return profile;
}

std::string describe(const cluster::Profile& profile) {
  std::string text = fmt::format("machine  {}\nmodel    {}\n", profile.machine, profile.model);
  const auto stage = [&](std::string_view name, const std::vector<cluster::CostPoint>& points,
                         const cluster::StageCost& cost) {
    if (points.empty()) return;
    text += fmt::format(
        "\n{}: {:.4g} ms + {:.4g} ms a token + {:.4g} ns a token squared, worst "
        "residual {:.1f} %\n",
        name, cost.base, cost.linear, cost.square * 1e6, 100 * cost.worst_residual);
    for (const cluster::CostPoint& point : points)
      text += fmt::format("  {:>6} tokens {:>10.2f} ms, fitted {:>10.2f}\n", point.tokens, point.ms,
                          cost.ms(static_cast<double>(point.tokens)));
  };
  stage("encode", profile.encode, profile.encode_cost);
  stage("prefill", profile.prefill, profile.prefill_cost);
  if (profile.encode.size() < 2) return text;
  std::vector<cluster::CostPoint> both;
  for (const cluster::CostPoint& point : profile.encode)
    both.push_back(
        {point.tokens, point.ms + profile.prefill_cost.ms(static_cast<double>(point.tokens))});
  const cluster::StraightLine line = cluster::fit_line(both);
  text += fmt::format(
      "\nas a straight line over both stages, {} to {} tokens: {:.4f} ms a token {:+.2f} ms, R2 "
      "{:.4f}\n(published, two H100 and Qwen2.5-VL-3B, 3721 to 16384 tokens: 0.1197 ms a token "
      "-36.72 ms)\n",
      both.front().tokens, both.back().tokens, line.slope, line.intercept, line.r_squared);
  return text;
}

cluster::StageCosts costs_of(const cluster::Profile& profile) {
  cluster::StageCosts costs;
  costs.encode = profile.encode_cost;
  costs.prefill = profile.prefill_cost;
  return costs;
}

}  // namespace saccade::serve
