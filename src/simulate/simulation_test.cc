#include "simulate/simulation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bench/metrics/metrics.h"
#include "simulate/calibration.h"

namespace saccade::simulate {
namespace {

// The study's machine: E(n) = 30 + .048 n + .75e-6 n^2, P(n) = 20 + .048 n + .4e-6 n^2.
CostModel study_costs() {
  CostModel costs;
  costs.encode = {30, 0.048, 0.75e-6, 0};
  costs.step = {20, 0.05, 0.048, 0, 0.8e-6};
  return costs;
}

SimulationSettings settings_of(const char* cluster, const CostModel& costs) {
  SimulationSettings settings;
  settings.cluster = *parse_cluster_spec(cluster);
  settings.engine.kv_cache_bytes = std::size_t{1} << 30;
  settings.engine.max_batched_tokens = 1 << 15;
  settings.costs = settings.believed = costs;
  return settings;
}

SimulationResult run(const SimulationSettings& settings, const Workload& workload) {
  static const ServedModel model = *model_of_costs("costs", {});
  auto result = simulate(settings, model, workload);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return std::move(*result);
}

Workload poisson(double rate, Nanos duration, int images, double tokens, std::int64_t output,
                 std::uint64_t seed) {
  WorkloadSettings settings;
  settings.request_rate = rate;
  settings.duration = duration;
  settings.images = images;
  settings.image_tokens = tokens;
  settings.image_sigma = 0;
  settings.input_tokens = 100;
  settings.output_tokens = output;
  settings.seed = seed;
  return *make_workload(settings);
}

double ttft_ms(const SimulationResult& result, std::size_t request) {
  const auto events = result.log.events_of(request);
  return milliseconds(events.front().at - result.log.requests[request].start);
}

// One machine, one request at a time: what arithmetic says, to the nanosecond's rounding.
TEST(Simulation, OneRequestIsArithmetic) {
  Workload workload;
  for (int i = 0; i < 3; ++i) {
    SimRequest request;
    request.at = i * 10 * kSecond;
    request.text_tokens = 100 + 10 * i;
    request.output_tokens = 5;
    request.first_image = static_cast<std::uint32_t>(workload.images.size());
    request.num_images = 1;
    workload.images.push_back({28 * 20, 28 * 30, static_cast<std::uint64_t>(i) + 1, 1000});
    workload.requests.push_back(request);
  }
  CostModel costs = study_costs();
  costs.prepare = {7, 10};
  costs.pixels = 20;
  costs.delivery = 2;
  const SimulationResult result = run(settings_of("1PD", costs), workload);
  const double megapixels = 28 * 20 * 28 * 30 / 1e6;
  for (int i = 0; i < 3; ++i) {
    const double prompt = 600 + 100 + 10 * i;
    const double encode = 30 + 0.048 * 600 + 0.75e-6 * 600 * 600;
    const double prefill = 20 + 0.048 * prompt + 0.8e-6 * prompt * prompt / 2;
    const double ttft = 7 + 10 * megapixels + 20 * megapixels + encode + prefill + 2;
    EXPECT_NEAR(ttft_ms(result, static_cast<std::size_t>(i)), ttft, 1e-3) << i;
    const auto& record = result.log.requests[static_cast<std::size_t>(i)];
    EXPECT_NEAR(milliseconds(record.end - record.start), ttft + 4 * 20.05, 1e-3);
    EXPECT_EQ(record.prompt_tokens, static_cast<std::int32_t>(prompt));
    EXPECT_EQ(record.completion_tokens, 5);
  }
}

// Constant service, Poisson arrivals, one at a time: the mean wait is rho D / (2 (1 - rho)).
TEST(Simulation, OneServerIsMD1) {
  CostModel costs;
  costs.encode = {1, 0, 0, 0};
  costs.step = {50, 0, 0, 0, 0};  // a step takes 50 ms, whatever is in it
  SimulationSettings settings = settings_of("1PD", costs);
  settings.engine.max_sequences = 1;
  settings.engine.max_waiting = 1 << 20;
  for (const double rho : {0.5, 0.8}) {
    double sum = 0;
    double squares = 0;
    constexpr int kRuns = 8;
    for (int seed = 0; seed < kRuns; ++seed) {
      const Workload workload =
          poisson(rho / 0.05, 300 * kSecond, 0, 100, 1, 100 + static_cast<std::uint64_t>(seed));
      const SimulationResult result = run(settings, workload);
      double wait = 0;
      for (std::size_t i = 0; i < workload.requests.size(); ++i) wait += ttft_ms(result, i) - 50;
      wait /= static_cast<double>(workload.requests.size());
      sum += wait;
      squares += wait * wait;
    }
    const double mean = sum / kRuns;
    const double error = std::sqrt((squares / kRuns - mean * mean) / (kRuns - 1));
    const double theory = rho * 50 / (2 * (1 - rho));
    EXPECT_NEAR(mean, theory, 4 * error) << "rho " << rho << ", standard error " << error;
    EXPECT_LT(error, 0.2 * theory);
  }
}

// Every request ends, in time order, and nothing is left behind, whatever the cluster and the load.
TEST(Simulation, NothingIsLostAndNothingStays) {
  Rng rng(7);
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE(round);
    CostModel costs = study_costs();
    costs.noise = 0.1 * static_cast<double>(rng.below(3));
    costs.pixels = static_cast<double>(rng.below(2)) * 15;
    const char* const clusters[] = {"1PD", "2PD", "1E1PD", "2E1PD", "1E3PD", "3E2PD"};
    SimulationSettings settings = settings_of(clusters[rng.below(6)], costs);
    settings.engine.kv_cache_bytes = (std::size_t{8} << 20) << rng.below(6);
    settings.engine.encoder_cache_bytes = (std::size_t{4} << 20) << rng.below(4);
    settings.engine.max_waiting = 1 << (2 + rng.below(8));
    settings.engine.max_batched_tokens = 256 << rng.below(5);
    settings.engine.max_sequences = 1 << rng.below(6);
    const EncoderCache caches[] = {EncoderCache::kStore, EncoderCache::kOverlay,
                                   EncoderCache::kOff};
    settings.engine.encoder_cache = caches[rng.below(3)];
    settings.pd_tower = settings.cluster.encoders == 0 || rng.below(3) > 0;
    settings.encoder_row_bytes = (std::size_t{8} << 20) << rng.below(5);
    settings.image_size.mode = static_cast<serve::ImageSizeMode>(rng.below(4));
    settings.image_size.static_tokens = 500;
    settings.image_size.refuse_late = rng.below(2) == 1;
    settings.seed = rng();
    WorkloadSettings traffic;
    traffic.request_rate = 1 + static_cast<double>(rng.below(12));
    traffic.num_prompts = 120;
    traffic.images = static_cast<int>(rng.below(4));
    traffic.image_tokens = 100 + static_cast<double>(rng.below(1500));
    traffic.image_share = 0.5 + 0.5 * static_cast<double>(rng.below(2));
    traffic.pool = static_cast<std::int64_t>(rng.below(2) * 20);
    traffic.output_tokens = 1 + static_cast<std::int64_t>(rng.below(60));
    traffic.seed = rng();
    const Workload workload = *make_workload(traffic);
    const SimulationResult result = run(settings, workload);
    ASSERT_EQ(result.log.requests.size(), workload.requests.size());
    std::size_t refused = 0;
    for (const auto& [status, count] : result.refused) {
      EXPECT_TRUE(status == 200 || status == 400 || status == 413 || status == 429 || status == 503)
          << status;
      refused += count;
    }
    std::size_t failed = 0;
    for (std::size_t i = 0; i < result.log.requests.size(); ++i) {
      const bench::RequestRecord& record = result.log.requests[i];
      Nanos before = record.start;
      std::int64_t tokens = 0;
      for (const bench::LoggedEvent& event : result.log.events_of(i)) {
        EXPECT_GE(event.at, before);
        before = event.at;
        tokens += std::max(0, event.tokens);
      }
      EXPECT_GE(record.end, before);
      if (bench::error_class(record, result.log.events_of(i)) == bench::ErrorClass::kNone) {
        EXPECT_EQ(tokens, record.completion_tokens);
        EXPECT_GE(record.completion_tokens, 1);
      } else {
        ++failed;
        EXPECT_FALSE(result.log.text_of(record.error).empty());
      }
    }
    EXPECT_EQ(failed, refused);
    EXPECT_TRUE(result.left.none())
        << result.left.sequences << " sequences, " << result.left.held_bytes << " held bytes, "
        << result.left.leased_bytes << " leased bytes, " << result.left.open_items << " items, "
        << result.left.encoder_calls << " calls, " << result.left.receiving_rows << " rows";
  }
}

// In bytes a pool of the same size holds nearly twice as many tokens.
TEST(Simulation, KeysAndValuesInBytes) {
  const std::string checkpoint = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2/odd_heads";
  const auto numbers = model_of_checkpoint(checkpoint);
  const auto bytes = model_of_checkpoint(checkpoint, DType::kI8);
  ASSERT_TRUE(numbers) << numbers.error().message;
  ASSERT_TRUE(bytes) << bytes.error().message;
  const LayerSpec& layer = numbers->layers.front();
  EXPECT_EQ(layer.page_bytes(1), 2 * layer.kv_heads * 2 * layer.head_dim);
  EXPECT_EQ(bytes->layers.front().page_bytes(1), 2 * layer.kv_heads * (layer.head_dim + 4));
  WorkloadSettings traffic;
  traffic.request_rate = 40;
  traffic.num_prompts = 80;
  traffic.image_share = 0;
  traffic.input_tokens = 40;
  traffic.output_tokens = 30;
  traffic.seed = 5;
  const Workload workload = *make_workload(traffic);
  const auto ended = [&](const ServedModel& model) {
    SimulationSettings settings = settings_of("1PD", study_costs());
    std::int64_t token_bytes = 0;
    for (const LayerSpec& of : numbers->layers) token_bytes += of.page_bytes(1);
    settings.engine.kv_cache_bytes = static_cast<std::size_t>(300 * token_bytes);
    settings.engine.max_model_len = 96;
    settings.engine.prefix_caching = false;
    const auto result = simulate(settings, model, workload);
    EXPECT_TRUE(result) << result.error().message;
    return result->ended;
  };
  EXPECT_GT(ended(*numbers), ended(*bytes));
}

// Llama 3.2 Vision's layers: an image stands as one token of the prompt, and its rows lie in the
// cache of the layers that attend to them, which a pool of few of them is short of.
TEST(Simulation, ImagesThatAreAttendedToAcross) {
  const auto model =
      model_of_checkpoint(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/mllama/quarters");
  ASSERT_TRUE(model) << model.error().message;
  std::int64_t row_bytes = 0;  // keys and values of all rows of the largest image
  for (const LayerSpec& layer : model->layers)
    if (layer.kind == CacheKind::kCrossAttention) row_bytes += layer.page_bytes(1);
  ASSERT_GT(row_bytes, 0);
  row_bytes *= model->shape.max_image_tokens;
  WorkloadSettings traffic;
  traffic.request_rate = 20;
  traffic.num_prompts = 60;
  traffic.images = 2;
  traffic.input_tokens = 50;
  traffic.output_tokens = 20;
  traffic.seed = 5;
  const Workload workload = *make_workload(traffic);
  const auto simulated = [&](std::size_t bytes) {
    SimulationSettings settings = settings_of("1E1PD", study_costs());
    settings.engine.kv_cache_bytes = bytes;
    settings.engine.max_model_len = 80;
    settings.engine.prefix_caching = false;
    auto result = simulate(settings, *model, workload);
    EXPECT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->left.none());
    return *std::move(result);
  };
  const SimulationResult roomy = simulated(std::size_t{1} << 30);
  EXPECT_TRUE(roomy.refused.empty());
  for (std::size_t i = 0; i < roomy.log.requests.size(); ++i) {
    EXPECT_EQ(roomy.log.requests[i].prompt_tokens, 50 + 2);
    EXPECT_EQ(roomy.log.requests[i].completion_tokens, 20);
  }
  // For four images and their text: the others wait.
  const SimulationResult tight = simulated(static_cast<std::size_t>(5 * row_bytes));
  EXPECT_TRUE(tight.refused.empty());
  EXPECT_GT(tight.log.requests.back().end, roomy.log.requests.back().end);
  // For less than the two of one request.
  const SimulationResult none = simulated(static_cast<std::size_t>(2 * row_bytes - 1));
  ASSERT_EQ(none.refused.size(), 1u);
  EXPECT_EQ(none.refused.begin()->first, 413);
}

TEST(Simulation, EqualSeedsAreEqualBytes) {
  CostModel costs = study_costs();
  costs.noise = 0.2;
  SimulationSettings settings = settings_of("2E2PD", costs);
  settings.image_size.mode = serve::ImageSizeMode::kDynamic;
  const Workload workload = poisson(8, 20 * kSecond, 1, 1500, 20, 3);
  const std::string first = bench::to_text(run(settings, workload).log);
  EXPECT_EQ(first, bench::to_text(run(settings, workload).log));
  settings.seed = 1;
  EXPECT_NE(first, bench::to_text(run(settings, workload).log));
}

// Encoders take work from a PD that is busy encoding; an image-light load does not suffer by them.
TEST(Simulation, EncodersHelpWhereImagesAreTheLoad) {
  const CostModel costs = study_costs();
  const Workload heavy = poisson(5, 60 * kSecond, 1, 2500, 4, 5);
  const auto p90 = [&](const char* cluster) {
    return bench::compute_metrics(run(settings_of(cluster, costs), heavy).log).ttft.percentile(90);
  };
  EXPECT_LT(p90("2E1PD"), 0.5 * p90("1PD"));
  const SimulationResult apart = run(settings_of("2E1PD", costs), heavy);
  EXPECT_GT(apart.items.items[static_cast<std::size_t>(cluster::Source::kRemote)], 100u);
}

// The controllers' known effects: vanilla collapses under a doubled load, dynamic holds the target
// and keeps more tokens than the published rule where both hold it.
TEST(Simulation, ImageSizesUnderLoad) {
  const CostModel costs = study_costs();
  struct Outcome {
    double in_time = 0;
    double kept = 0;
    double longest = 0;
  };
  const auto outcome = [&](serve::ImageSizeMode mode, double rate, double slower) {
    SimulationSettings settings = settings_of("1PD", costs);
    settings.costs = slowed(costs, slower);
    settings.image_size.mode = mode;
    settings.image_size.static_tokens = 4096;
    const SimulationResult result = run(settings, poisson(rate, 120 * kSecond, 1, 6000, 2, 11));
    const bench::RunMetrics metrics = bench::compute_metrics(result.log);
    Outcome of;
    for (const double ttft : metrics.ttft.sorted()) of.in_time += ttft <= 2 ? 1 : 0;
    of.in_time /= static_cast<double>(result.log.requests.size());
    of.kept = static_cast<double>(result.applied_image_tokens) /
              static_cast<double>(result.native_image_tokens);
    of.longest = metrics.ttft.max();
    return of;
  };
  // 6000 tokens take 0.69 s of one device: 3 a second is twice what it can.
  const Outcome vanilla = outcome(serve::ImageSizeMode::kVanilla, 3, 1);
  const Outcome fixed = outcome(serve::ImageSizeMode::kStatic, 3, 1);
  const Outcome seed = outcome(serve::ImageSizeMode::kSeed, 3, 1);
  const Outcome dynamic = outcome(serve::ImageSizeMode::kDynamic, 3, 1);
  EXPECT_LT(vanilla.in_time, 0.2);
  EXPECT_DOUBLE_EQ(vanilla.kept, 1);
  EXPECT_LT(fixed.kept, 0.8);
  EXPECT_GT(dynamic.in_time, 0.97);
  EXPECT_GT(seed.in_time, 0.9);
  EXPECT_GT(dynamic.in_time, fixed.in_time);
  EXPECT_GT(dynamic.kept, 0.2);
  // With a profile that is 1.5 times too fast the rule collapses and the controller does not.
  const Outcome seed_wrong = outcome(serve::ImageSizeMode::kSeed, 4, 1.5);
  const Outcome dynamic_wrong = outcome(serve::ImageSizeMode::kDynamic, 4, 1.5);
  EXPECT_GT(dynamic_wrong.in_time, seed_wrong.in_time);
  EXPECT_GT(dynamic_wrong.in_time, 0.9);
  // Without load hardly anything is reduced.
  EXPECT_GT(outcome(serve::ImageSizeMode::kDynamic, 0.1, 1).kept, 0.9);
}

// A jump to twice the load that the level was in balance with: the wait of a fluid stays under
// 1.62 s at 2 s (0.35 S + 1.5 S (k - 1 - ln k)); that of requests may have one of them on top, of
// 0.4 s before the jump. Everybody has a first token within the target.
TEST(Simulation, StepResponseOfTheLevel) {
  SimulationSettings settings = settings_of("1PD", study_costs());
  settings.image_size.mode = serve::ImageSizeMode::kDynamic;
  settings.sample_every = 50 * kMillisecond;
  WorkloadSettings traffic;
  traffic.request_rate = 3;
  traffic.duration = 60 * kSecond;
  traffic.image_tokens = 8000;
  traffic.image_sigma = 0;
  traffic.output_tokens = 1;
  Workload workload = *make_workload(traffic);
  // Even gaps, half as long from 30 s on.
  workload.requests.clear();
  workload.images.clear();
  std::uint64_t content = 0;
  for (Nanos at = 0; at < 60 * kSecond; at += (at < 30 * kSecond ? 400 : 200) * kMillisecond) {
    SimRequest request;
    request.at = at;
    request.text_tokens = 50;
    request.first_image = static_cast<std::uint32_t>(workload.images.size());
    request.num_images = 1;
    workload.images.push_back({28 * 80, 28 * 100, ++content, 1000});
    workload.requests.push_back(request);
  }
  const SimulationResult result = run(settings, workload);
  double peak = 0;
  for (const bench::Sample& sample : result.log.samples) {
    if (sample.at < 30 * kSecond) continue;
    double wait = 0;
    for (const auto& [name, value] : sample.values)
      if (name.ends_with("_wait_seconds")) wait += value;
    peak = std::max(peak, wait);
  }
  EXPECT_GT(peak, 0.3);
  EXPECT_LE(peak, 1.62 + 0.4);
  EXPECT_LT(bench::compute_metrics(result.log).ttft.max(), 2.0);
}

TEST(Simulation, TrafficOfATraceAndItsErrors) {
  const std::string path = testing::TempDir() + "/gaps.txt";
  {
    std::FILE* file = std::fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs("0.5\n1.5\n0.25\n", file);
    std::fclose(file);
  }
  WorkloadSettings settings;
  settings.trace = path;
  settings.duration = 10 * kSecond;
  settings.repeat = true;
  const auto repeated = make_workload(settings);
  ASSERT_TRUE(repeated.has_value()) << repeated.error().message;
  EXPECT_EQ(repeated->requests.size(), 9u);  // three rounds of 2.25 s and a mean gap
  EXPECT_LT(repeated->requests.back().at, 10 * kSecond);
  for (std::size_t i = 1; i < repeated->requests.size(); ++i)
    EXPECT_GE(repeated->requests[i].at, repeated->requests[i - 1].at);
  settings.duration = 0;
  EXPECT_NE(make_workload(settings).error().message.find("--repeat needs --duration"),
            std::string::npos);
  settings.trace = "/nowhere/at/all";
  settings.repeat = false;
  EXPECT_NE(make_workload(settings).error().message.find("/nowhere/at/all"), std::string::npos);
  settings.trace.clear();
  EXPECT_NE(make_workload(settings).error().message.find("--request-rate"), std::string::npos);
  settings.request_rate = 1;
  settings.num_prompts = 5;
  settings.image_tokens = 1;
  EXPECT_NE(make_workload(settings).error().message.find("--image-tokens is 1, 16 to 16384"),
            std::string::npos);
}

// What a run was made with is found again from its log: the same run, and another that was held
// out.
TEST(Calibration, FindsTheCostsOfASimulatedRun) {
  static const ServedModel model = *model_of_costs("costs", {});
  CostModel costs = study_costs();
  costs.prepare = {2, 0};
  costs.delivery = 1;
  SimulationSettings settings = settings_of("1PD", costs);
  const auto log_of = [&](std::uint64_t seed) {
    WorkloadSettings traffic;
    traffic.request_rate = 2;
    traffic.num_prompts = 120;
    traffic.image_tokens = 800;
    traffic.image_share = 0.7;
    traffic.output_tokens = 12;
    traffic.seed = seed;
    return run(settings, *make_workload(traffic)).log;
  };
  const bench::RunLog seen = log_of(1);
  settings.costs = settings.believed = {};
  auto calibration = calibrate(settings, model, seen, "seen");
  ASSERT_TRUE(calibration.has_value()) << calibration.error().message;
  EXPECT_TRUE(calibration->calibrated()) << describe(calibration->fitted, "seen");
  settings.costs = costs;
  const bench::RunLog other = log_of(2);
  const Workload workload = *workload_of(other, "other");
  settings.costs = settings.believed = calibration->costs;
  calibration->held_out = replay_error(other, workload, run(settings, workload).log);
  EXPECT_TRUE(calibration->calibrated()) << describe(*calibration->held_out, "held out");
}

TEST(Calibration, IsNotSaidWhereItIsNot) {
  ReplayError error;
  error.rows = {
      {"TTFT", 50, 1, 1.14}, {"TTFT", 90, 1, 0.86}, {"TTFT", 99, 1, 3}, {"E2E", 50, 1, 2}};
  EXPECT_TRUE(error.calibrated());
  error.rows[1].simulated = 0.84;
  EXPECT_FALSE(error.calibrated());
  EXPECT_NE(describe(error, "x").find("-16.0 %"), std::string::npos);
  error.rows[1].simulated = 1;
  error.refused = 1;
  EXPECT_FALSE(error.calibrated());
  Calibration calibration;
  calibration.fitted.rows = {{"TTFT", 50, 1, 1}};
  EXPECT_TRUE(calibration.calibrated());
  calibration.held_out = ReplayError{};
  calibration.held_out->rows = {{"TTFT", 50, 1, 2}};
  EXPECT_FALSE(calibration.calibrated());
}

}  // namespace
}  // namespace saccade::simulate
