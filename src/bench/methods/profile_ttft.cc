#include "bench/methods/profile_ttft.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <random>

#include "base/hash.h"
#include "base/json_scopes.h"
#include "bench/datasets/image_source.h"
#include "bench/datasets/text_file.h"
#include "bench/load/leg_runner.h"
#include "bench/load/server/server_probe.h"
#include "bench/metrics/metrics.h"
#include "image/smart_resize.h"

namespace saccade::bench {
namespace {

constexpr std::int32_t kFactor = 28;
constexpr std::int32_t kMaxSide = 16'384;
constexpr const char* kQuestion = "What is in this image?";

Result<std::int32_t> parse_side(std::string_view text) {
  std::int32_t side = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), side);
  if (code != std::errc() || end != text.data() + text.size() || side < 1 || side > kMaxSide)
    return fail(ErrorCode::kInvalid, "image side '{}' is not a number from 1 to {}", text,
                kMaxSide);
  return side;
}

struct Picture {
  std::string name;
  SharedImage image;
};

// `repeats` pictures a size. Each differs from all others, of this run and of those before, so that
// no cache helps: noise is drawn anew, a file's corner changes. A file that the server reads itself
// cannot: it is asked for once, and the server's caches are emptied before.
Result<std::vector<Picture>> pictures(const ProfileSettings& settings,
                                      const DatasetContext& context) {
  std::random_device device;
  const std::uint64_t salt = std::uint64_t{device()} << 32 | device();
  std::vector<Picture> all;
  std::vector<SyntheticImage> drawings;
  for (const std::int32_t side : settings.sides)
    for (int i = 0; i < settings.repeats; ++i)
      drawings.push_back({.pattern = ImagePattern::kNoise,
                          .width = side,
                          .height = side,
                          .seed = hash_combine(salt, drawings.size())});
  TRY(const auto drawn, draw_images(drawings, context.encoding, context.threads));
  for (const SharedImage& image : drawn)
    all.push_back({fmt::format("{0}-{0}", image->width), image});
  for (const std::string& path : settings.files) {
    for (int i = 0; i < (settings.file_urls ? 1 : settings.repeats); ++i) {
      Picture picture{path, {}};
      if (settings.file_urls) {
        TRY(picture.image, file_image(path, true));
      } else {
        TRY(picture.image, changed_image(path, hash_combine(salt, all.size())));
      }
      all.push_back(std::move(picture));
    }
  }
  return all;
}

Dataset dataset_of(const std::vector<Picture>& all) {
  Dataset dataset{.name = "profile", .path = {}, .prompts = {}, .notes = {}};
  for (const Picture& picture : all) {
    Prompt prompt;
    prompt.row_id = picture.name;
    prompt.max_tokens = 1;
    prompt.messages = {{.role = "system", .parts = {{.text = "You are a helpful assistant."}}},
                       {.parts = {{.image = picture.image}, {.text = kQuestion}}}};
    dataset.prompts.push_back(std::move(prompt));
  }
  return dataset;
}

Result<std::vector<TtftPoint>> points_of(const RunLog& log) {
  const RunMetrics metrics = compute_metrics(log);
  std::map<std::string, TtftPoint> points;
  for (const RequestMetrics& m : metrics.requests) {
    const RequestRecord& record = log.requests[m.position];
    const PromptRecord& prompt = log.prompts[record.prompt];
    // An answer is one token: where that has no text (part of a character), it came with the end.
    const std::optional<double> ttft = m.ttft ? m.ttft : m.e2el;
    if (!m.success || !ttft)
      return fail(ErrorCode::kUnavailable, "{} failed: {} {}", prompt.row_id, name_of(m.error),
                  log.text_of(record.error));
    TtftPoint& point = points[prompt.row_id];
    point.name = prompt.row_id;
    point.width = prompt.images.front().width;
    point.height = prompt.images.front().height;
    if (record.image_tokens != kUnknownTokens) {
      point.tokens = record.image_tokens;
    } else {
      TRY(point.tokens, qwen_vision_tokens(point.width, point.height));
    }
    if (point.ttft_s.empty()) point.first_event = log.text_of(record.first_event);
    point.ttft_s.push_back(*ttft);
  }
  std::vector<TtftPoint> sorted;
  for (auto& [name, point] : points) {
    point.median_s = Distribution(point.ttft_s).median();
    sorted.push_back(std::move(point));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TtftPoint& a, const TtftPoint& b) { return a.tokens < b.tokens; });
  return sorted;
}

std::string profile_json(const std::string& model, const std::vector<TtftPoint>& points,
                         const TtftCurve& curve) {
  std::string out;
  json::JsonWriter w(out);
  json::put_object(w, [&] {
    w.member("saccade_ttft_profile", 1);
    w.member("model", model);
    json::array_member(w, "points", points, [&w](const TtftPoint& point) {
      json::put_object(w, [&] {
        w.member("image", point.name);
        w.member("width", point.width);
        w.member("height", point.height);
        w.member("tokens", point.tokens);
        w.member("median_s", point.median_s);
        json::array_member(w, "ttft_s", point.ttft_s);
      });
    });
    json::object_member(w, "curve", [&] {
      w.member("a", curve.a);
      w.member("b", curve.b);
      w.member("c", curve.c);
    });
  });
  return out + "\n";
}

// Least squares for a + b x, or a + b x + c x^2 when `quadratic`, by the normal equations of x
// scaled to its largest value.
TtftCurve solve(const std::vector<TtftPoint>& points, bool quadratic) {
  double scale = 1;
  for (const TtftPoint& p : points) scale = std::max(scale, static_cast<double>(p.tokens));
  double s[5] = {};
  double t[3] = {};
  for (const TtftPoint& p : points) {
    const double x = static_cast<double>(p.tokens) / scale;
    double power = 1;
    for (int k = 0; k < 5; ++k, power *= x) {
      s[k] += power;
      if (k < 3) t[k] += power * p.median_s;
    }
  }
  if (!quadratic) {
    const double det = s[0] * s[2] - s[1] * s[1];
    if (std::abs(det) < 1e-12) return {t[0] / s[0], 0, 0};
    return {(t[0] * s[2] - t[1] * s[1]) / det, (s[0] * t[1] - s[1] * t[0]) / det / scale, 0};
  }
  const auto det3 = [](const double m[3][3]) {
    return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
           m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
           m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
  };
  const double full[3][3] = {{s[0], s[1], s[2]}, {s[1], s[2], s[3]}, {s[2], s[3], s[4]}};
  const double det = det3(full);
  double solution[3] = {};
  for (int column = 0; column < 3; ++column) {
    double m[3][3];
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) m[i][j] = j == column ? t[i] : full[i][j];
    solution[column] = std::abs(det) < 1e-12 ? -1 : det3(m) / det;
  }
  return {solution[0], solution[1] / scale, solution[2] / (scale * scale)};
}

}  // namespace

Result<std::vector<std::int32_t>> parse_sides(std::string_view text) {
  std::vector<std::int32_t> sides;
  if (const std::size_t dots = text.find(".."); dots != std::string_view::npos) {
    std::string_view rest = text.substr(dots + 2);
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    TRY(const std::int32_t first, parse_side(text.substr(0, dots)));
    TRY(const std::int32_t last, parse_side(rest.substr(0, colon)));
    std::int32_t step = 4 * kFactor;
    if (colon < rest.size()) {
      TRY(step, parse_side(rest.substr(colon + 1)));
    }
    if (first > last)
      return fail(ErrorCode::kInvalid, "image sides '{}': {} is above {}", text, first, last);
    for (std::int32_t side = first; side < last; side += step) sides.push_back(side);
    sides.push_back(last);
    return sides;
  }
  for (;;) {
    const std::size_t comma = text.find(',');
    TRY(const std::int32_t side, parse_side(text.substr(0, comma)));
    sides.push_back(side);
    if (comma == std::string_view::npos) return sides;
    text.remove_prefix(comma + 1);
  }
}

Result<std::int64_t> qwen_vision_tokens(std::int32_t width, std::int32_t height) {
  constexpr std::int64_t kMinPixels = 56 * 56;
  constexpr std::int64_t kMaxPixels = 12'845'056;
  TRY(const ImageSize size, smart_resize(height, width, kFactor, kMinPixels, kMaxPixels));
  return std::int64_t{size.width / kFactor} * (size.height / kFactor);
}

TtftCurve fit_curve(const std::vector<TtftPoint>& points) {
  if (points.empty()) return {};
  if (points.size() >= 3) {
    const TtftCurve quadratic = solve(points, true);
    if (quadratic.c > 0 && quadratic.b >= 0) return quadratic;
  }
  return solve(points, false);
}

Result<std::string> profile_ttft(const ProfileSettings& settings, std::atomic<bool>& stop) {
  const ServeSettings& s = settings.serve;
  if (settings.sides.empty() && settings.files.empty())
    return fail(ErrorCode::kInvalid, "give image sizes (--sizes) or files (--file)");
  if (settings.repeats < 1) return fail(ErrorCode::kInvalid, "--repeats must be at least 1");
  TRY(Session session, open_session(s));
  const DatasetContext context = dataset_context(s, session);
  TRY(const auto all, pictures(settings, context));
  const Dataset dataset = dataset_of(all);
  TRY(BodySettings body, body_settings(s, session.model, false));
  body.continuous_usage_stats = false;
  body.endpoint = Endpoint::kChat;
  RunSettings run;
  run.target = session.target;
  run.endpoint = endpoint_of(s.target);
  run.load.max_concurrency = 1;
  run.load.keep_first_event = true;
  run.arrivals = closed_loop_arrivals(dataset.prompts.size());
  run.progress = s.output.progress;
  run.header = run_header(s, session, dataset);
  TRY(const auto warm, warm_up_requests(dataset, body, context, s.check.num_warmups));
  TRY_DO(warm_up(run, warm, 1));
  std::string caches = "each request has an image of its own (noise, or a changed corner)";
  if (settings.file_urls) {
    TRY(ServerProbe probe, ServerProbe::create(session.target));
    TRY(const std::string done, probe.reset_caches());
    run.header.cache_reset = true;
    caches = fmt::format("files that the server reads are asked for once, after {}", done);
  }
  TRY(const RunLog log, measure(run, encode_requests(dataset, body, false), stop));
  if (!s.output.log.empty()) TRY_DO(write_run_log(log, s.output.log));
  TRY(const auto points, points_of(log));
  const TtftCurve curve = fit_curve(points);

  std::string out = "Benchmarking latency for Multimodal Request...\n";
  out += fmt::format("Model: {}\nEndpoint: {}{}\nCaches: {}\n", session.model,
                     session.target.base_url, run.endpoint, caches);
  for (const TtftPoint& point : points)
    out += fmt::format("Image File: {}\nLatency: {:.4f} seconds\ndata: {}\nVisual tokens: {}\n",
                       point.name, point.median_s, point.first_event, point.tokens);
  out += fmt::format("Fit: {:.6g} + {:.6g} t + {:.6g} t^2 seconds for t visual tokens\n", curve.a,
                     curve.b, curve.c);
  if (!settings.output.empty()) {
    TRY_DO(write_text_file(settings.output, profile_json(session.model, points, curve)));
    out += settings.output + "\n";
  }
  return out;
}

}  // namespace saccade::bench
