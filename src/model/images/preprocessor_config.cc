#include "model/images/preprocessor_config.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

namespace saccade {
namespace {

// By PIL's numbers.
constexpr std::array kFilters = {ResampleFilter::kNearest,  ResampleFilter::kLanczos,
                                 ResampleFilter::kBilinear, ResampleFilter::kBicubic,
                                 ResampleFilter::kBox,      ResampleFilter::kHamming};
constexpr std::int64_t kMaxSide = 1 << 14;

thread_local PreprocessorDefaults* noted = nullptr;

Result<std::array<double, 3>> channels(const json::object& from, std::string_view name,
                                       std::array<double, 3> fallback) {
  const json::value* found = json::find(from, name);
  if (found == nullptr) {
    PreprocessorDefaults::note(
        name, fmt::format("[{:.6g}, {:.6g}, {:.6g}]", fallback[0], fallback[1], fallback[2]));
    return fallback;
  }
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalid, "{} is not a list of three numbers", name);
  };
  if (!found->is_array() || found->get_array().size() != 3) return wrong();
  std::array<double, 3> values{};
  for (std::size_t i = 0; i < 3; ++i) {
    const json::value& value = found->get_array()[i];
    if (!value.is_number()) return wrong();
    values[i] = value.to_number<double>();
  }
  return values;
}

}  // namespace

PreprocessorDefaults::PreprocessorDefaults() { noted = this; }
PreprocessorDefaults::~PreprocessorDefaults() { noted = nullptr; }

void PreprocessorDefaults::note(std::string_view name, const std::string& value) {
  if (noted == nullptr || !noted->names_.emplace(name).second) return;
  noted->taken_ += fmt::format("{}{} {}", noted->taken_.empty() ? "" : ", ", name, value);
}

Result<void> require_image_steps(const json::object& preprocessor) {
  for (const std::string_view step : {"do_resize", "do_convert_rgb"}) {
    TRY(const bool on, json::get_bool_or(preprocessor, step, true));
    if (!on)
      return fail(ErrorCode::kUnsupported, "{} is false; images are always resized, as RGB", step);
  }
  return {};
}

Result<ResampleFilter> parse_resample(const json::object& preprocessor, ResampleFilter fallback) {
  if (json::find(preprocessor, "resample") == nullptr) {
    const auto number = std::ranges::find(kFilters, fallback) - kFilters.begin();
    PreprocessorDefaults::note("resample", fmt::format("{}", number));
    return fallback;
  }
  TRY(const std::int64_t filter, json::get_int(preprocessor, "resample"));
  if (filter < 0 || filter >= static_cast<std::int64_t>(kFilters.size()))
    return fail(ErrorCode::kInvalid, "resample is {}, 0 to {} are PIL's filters", filter,
                kFilters.size() - 1);
  return kFilters[static_cast<std::size_t>(filter)];
}

Result<NormalizeTable> parse_normalize(const json::object& preprocessor,
                                       const NormalizeSettings& defaults) {
  NormalizeSettings normalize = defaults;
  TRY(normalize.rescale, json::get_double_or(preprocessor, "rescale_factor", normalize.rescale));
  TRY(normalize.mean, channels(preprocessor, "image_mean", normalize.mean));
  TRY(normalize.std, channels(preprocessor, "image_std", normalize.std));
  for (const double std : normalize.std)
    if (!(static_cast<float>(std) > 0))
      return fail(ErrorCode::kInvalid, "image_std has {}, more than 0 is required", std);
  TRY(const bool rescales, json::get_bool_or(preprocessor, "do_rescale", true));
  if (!rescales) normalize.rescale = 1;
  TRY(const bool normalizes, json::get_bool_or(preprocessor, "do_normalize", true));
  if (!normalizes) {
    normalize.mean = {0, 0, 0};
    normalize.std = {1, 1, 1};
  }
  return NormalizeTable(normalize);
}

Result<int> parse_square_size(const json::object& preprocessor, int fallback) {
  const json::value* found = json::find(preprocessor, "size");
  if (found == nullptr) {
    PreprocessorDefaults::note("size", fmt::format("{0}x{0}", fallback));
    return fallback;
  }
  if (!found->is_object())
    return fail(ErrorCode::kInvalid, "size is {}, an object is required", json::kind_name(*found));
  const json::object& size = found->get_object();
  std::int64_t height = 0;
  std::int64_t width = 0;
  if (json::find(size, "shortest_edge") != nullptr) {
    TRY(height, json::get_int(size, "shortest_edge"));
    width = height;
  } else {
    TRY(height, json::get_int(size, "height"));
    TRY(width, json::get_int(size, "width"));
  }
  if (height != width || height < 1 || height > kMaxSide)
    return fail(ErrorCode::kUnsupported, "size is {}x{}, a square of up to {} pixels is done",
                width, height, kMaxSide);
  return static_cast<int>(height);
}

Result<int> parse_longest_edge(const json::object& from, std::string_view name, int fallback) {
  constexpr std::int64_t kMaxEdge = 4096;
  const json::value* found = json::find(from, name);
  if (found == nullptr) return fallback;
  if (!found->is_object())
    return fail(ErrorCode::kInvalid, "{} is {}, an object is required", name,
                json::kind_name(*found));
  TRY(const std::int64_t edge, json::get_int(found->get_object(), "longest_edge"));
  if (edge < 1 || edge > kMaxEdge)
    return fail(ErrorCode::kInvalid, "{}.longest_edge is {}, 1 to {} is possible", name, edge,
                kMaxEdge);
  return static_cast<int>(edge);
}

Result<void> check_processor_kwargs(const ImageControls& controls,
                                    std::span<const std::string_view> known) {
  for (const auto& member : controls.processor_kwargs) {
    const std::string_view name = member.key();
    if (std::ranges::find(known, name) != known.end()) continue;
    std::string names;
    for (const std::string_view each : known)
      names += (names.empty() ? "" : ", ") + std::string(each);
    Error error{ErrorCode::kInvalid,
                fmt::format("mm_processor_kwargs.{} is not known; there {}", name,
                            names.empty() ? "is none" : "are " + names),
                "mm_processor_kwargs"};
    return fail(std::move(error));
  }
  return {};
}

}  // namespace saccade
