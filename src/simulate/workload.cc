#include "simulate/workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "base/rng.h"
#include "bench/traces/trace.h"

namespace saccade::simulate {
namespace {

constexpr double kPixelsOfToken = 28.0 * 28.0;
constexpr double kMinImageTokens = 16;
constexpr double kMaxImageTokens = 16'384;
constexpr double kBytesOfPixel = 0.15;  // of a JPEG
constexpr std::array<double, 5> kShapes = {1, 4.0 / 3, 3.0 / 4, 16.0 / 9, 3.0 / 2};

// Arrivals and lengths from many small draws; each image's size follows from its own number, so
// that it is the same whoever asks for it.
class Draw {
 public:
  explicit Draw(const WorkloadSettings& settings) : s_(settings), rng_(settings.seed) {
    double sum = 0;
    for (std::int64_t i = 0; i < s_.pool; ++i)
      zipf_.push_back(sum += 1.0 / static_cast<double>(i + 1));
  }

  double uniform() { return rng_.uniform(); }
  double exponential() { return -std::log(1 - rng_.uniform()); }

  SimImage image() {
    std::uint64_t content = ++last_;
    if (!zipf_.empty()) {
      const auto found = std::ranges::lower_bound(zipf_, rng_.uniform() * zipf_.back());
      content = static_cast<std::uint64_t>(found - zipf_.begin()) + 1;
    }
    Rng own(hash_combine(s_.seed, content));
    const double tokens = std::clamp(s_.image_tokens * std::exp(s_.image_sigma * normal(own)),
                                     kMinImageTokens, kMaxImageTokens);
    const double shape = kShapes[own.below(kShapes.size())];
    SimImage image;
    image.content = hash_combine(hash_combine(s_.seed, 1), content);
    image.width =
        static_cast<std::int32_t>(std::lround(std::sqrt(tokens * kPixelsOfToken * shape)));
    image.height =
        static_cast<std::int32_t>(std::lround(std::sqrt(tokens * kPixelsOfToken / shape)));
    image.bytes = static_cast<std::int64_t>(kBytesOfPixel * image.width * image.height);
    return image;
  }

 private:
  static double normal(Rng& rng) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
    return radius * std::cos(2 * std::numbers::pi * rng.uniform());
  }
  const WorkloadSettings& s_;
  Rng rng_;
  std::vector<double> zipf_;
  std::uint64_t last_ = 0;
};

Result<void> check(const WorkloadSettings& s) {
  const auto range = [](std::string_view name, double value, double least,
                        double most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return fail(ErrorCode::kInvalid, "{} is {}, {} to {} is possible", name, value, least, most);
  };
  TRY_DO(range("--input-tokens", static_cast<double>(s.input_tokens), 1, 1 << 24));
  TRY_DO(range("--output-tokens", static_cast<double>(s.output_tokens), 1, 1 << 24));
  TRY_DO(range("--images", s.images, 0, 1000));
  TRY_DO(range("--image-tokens", s.image_tokens, kMinImageTokens, kMaxImageTokens));
  TRY_DO(range("--image-sigma", s.image_sigma, 0, 4));
  TRY_DO(range("--image-share", s.image_share, 0, 1));
  TRY_DO(range("--image-pool", static_cast<double>(s.pool), 0, 1e7));
  TRY_DO(range("--speed", s.speed, 1e-6, 1e6));
  if (!s.trace.empty()) {
    if (s.repeat && s.duration == 0)
      return fail(ErrorCode::kInvalid,
                  "--repeat needs --duration: a trace would be repeated for ever");
    return {};
  }
  TRY_DO(range("--request-rate", s.request_rate, 1e-6, 1e6));
  if (s.duration == 0 && s.num_prompts == 0)
    return fail(ErrorCode::kInvalid,
                "--request-rate needs --duration or --num-prompts: requests would come for ever");
  return {};
}

Result<void> add(Workload& to, const WorkloadSettings& s, Draw& draw, Nanos at,
                 const bench::TraceRow& row) {
  if (static_cast<std::int64_t>(to.requests.size()) >= kMaxRequests)
    return fail(ErrorCode::kTooLarge, "the traffic has over {} requests", kMaxRequests);
  SimRequest request;
  request.at = at;
  request.text_tokens =
      std::max<std::int64_t>(1, row.input_tokens >= 0 ? row.input_tokens : s.input_tokens);
  request.output_tokens =
      std::max<std::int64_t>(1, row.output_tokens >= 0 ? row.output_tokens : s.output_tokens);
  request.first_hash = row.first_hash;
  request.num_hashes = row.num_hashes;
  request.first_image = static_cast<std::uint32_t>(to.images.size());
  int images = row.num_images;
  if (images < 0) images = s.image_share < 1 && draw.uniform() >= s.image_share ? 0 : s.images;
  for (int i = 0; i < images; ++i) to.images.push_back(draw.image());
  request.num_images = static_cast<std::uint32_t>(images);
  request.record = static_cast<std::uint32_t>(to.requests.size());
  to.requests.push_back(request);
  return {};
}

bool full(const Workload& workload, const WorkloadSettings& s, Nanos at) {
  return (s.duration > 0 && at >= s.duration) ||
         (s.num_prompts > 0 &&
          static_cast<std::int64_t>(workload.requests.size()) >= s.num_prompts);
}

Result<void> from_trace(Workload& workload, const WorkloadSettings& s, Draw& draw) {
  TRY(bench::Trace trace, bench::read_trace(s.trace));
  bench::TraceWindow window;
  window.speed = s.speed;
  TRY(bench::TraceCut part, bench::cut(trace, window));
  const auto& rows = part.trace.rows;
  // A round ends a mean gap after its last arrival.
  const Nanos last = rows.back().at;
  const Nanos round =
      last +
      std::max<Nanos>(1, last / static_cast<Nanos>(std::max<std::size_t>(1, rows.size() - 1)));
  workload.hash_ids = part.trace.hash_ids;
  for (Nanos origin = 0;; origin += round) {
    for (const bench::TraceRow& row : rows) {
      if (full(workload, s, origin + row.at)) return {};
      TRY_DO(add(workload, s, draw, origin + row.at, row));
    }
    if (!s.repeat) return {};
  }
}

}  // namespace

Result<Workload> make_workload(const WorkloadSettings& s) {
  TRY_DO(check(s));
  Workload workload;
  Draw draw(s);
  if (!s.trace.empty()) {
    workload.name = s.trace;
    workload.arrivals = "trace";
    TRY_DO(from_trace(workload, s, draw));
  } else {
    workload.name = fmt::format("{} a second", s.request_rate);
    workload.arrivals = "poisson";
    for (Nanos at = 0; !full(workload, s, at);
         at += static_cast<Nanos>(draw.exponential() / s.request_rate * 1e9))
      TRY_DO(add(workload, s, draw, at, {}));
  }
  if (workload.requests.empty())
    return fail(ErrorCode::kInvalid, "{}: no request comes within {} s", workload.name,
                seconds(s.duration));
  return workload;
}

Result<Workload> workload_of(const bench::RunLog& log, const std::string& name) {
  Workload workload;
  workload.name = name;
  workload.arrivals = log.header.arrivals;
  std::int64_t unknown = 0;
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    const bench::RequestRecord& record = log.requests[i];
    if (record.warmup || record.prompt >= log.prompts.size() ||
        bench::error_class(record, log.events_of(i)) != bench::ErrorClass::kNone)
      continue;
    const bench::PromptRecord& prompt = log.prompts[record.prompt];
    const std::int64_t image_tokens =
        record.image_tokens >= 0 ? record.image_tokens : prompt.predicted_image_tokens;
    const bool knows_images = prompt.images.empty() || image_tokens >= 0;
    const std::int64_t text = record.prompt_tokens >= 0 && knows_images
                                  ? record.prompt_tokens - std::max<std::int64_t>(0, image_tokens)
                                  : prompt.text_tokens;
    const std::int64_t output =
        record.completion_tokens >= 0 ? record.completion_tokens : record.retokenized_tokens;
    if (text < 0 || output < 1) {
      ++unknown;
      continue;
    }
    SimRequest request;
    request.at = record.start;
    request.text_tokens = std::max<std::int64_t>(1, text);
    request.output_tokens = output;
    request.content = hash64(
        prompt.content_hash.empty() ? std::to_string(record.prompt) : prompt.content_hash, 1);
    request.first_image = static_cast<std::uint32_t>(workload.images.size());
    request.num_images = static_cast<std::uint32_t>(prompt.images.size());
    request.record = static_cast<std::uint32_t>(i);
    for (const bench::PromptImage& image : prompt.images) {
      const std::uint64_t content = image.sha256.empty()
                                        ? hash_combine(request.content, workload.images.size())
                                        : hash64(image.sha256, 2);
      workload.images.push_back(
          {image.width, image.height, content, static_cast<std::int64_t>(image.bytes)});
    }
    workload.requests.push_back(request);
  }
  if (workload.requests.empty())
    return fail(ErrorCode::kInvalid,
                "{}: of {} requests none succeeded with lengths that are known ({} without): the "
                "server must send usage",
                name, log.requests.size(), unknown);
  std::ranges::stable_sort(workload.requests, {}, &SimRequest::at);
  return workload;
}

}  // namespace saccade::simulate
