#include "model/golden.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "image/pixels.h"
#include "model/checkpoint/mapped_file.h"
#include "model/solo_run.h"

namespace saccade {
namespace {

template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  const auto bytes = file.bytes(entry);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

Result<std::vector<std::int32_t>> integers(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr || entry->dtype != "I32")
    return fail(ErrorCode::kInvalid, "{}: no I32 tensor \"{}\"", file.path(), name);
  return values_of<std::int32_t>(file, *entry);
}

// Which list of rows a tap goes by: "text.layer.0" by rows.text.
std::string rows_name(std::string_view tap) {
  if (tap == "vision.merged" || tap.starts_with("vision.deepstack.")) return "rows.merged";
  return "rows." + std::string(tap.substr(0, tap.find('.')));
}

Result<GoldenTap> read_tap(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr || entry->dtype != "F32" || entry->shape.size() != 2)
    return fail(ErrorCode::kInvalid, "{}: no F32 matrix \"{}\"", file.path(), name);
  GoldenTap tap{name, {}, entry->shape[1], values_of<float>(file, *entry)};
  if (name != "logits") {
    TRY(tap.rows, integers(file, rows_name(name)));
    if (static_cast<std::int64_t>(tap.rows.size()) != entry->shape[0])
      return fail(ErrorCode::kInvalid, "{}: {} has {} rows, {} lists {}", file.path(), name,
                  entry->shape[0], rows_name(name), tap.rows.size());
  } else {
    for (std::int64_t row = 0; row < entry->shape[0]; ++row)
      tap.rows.push_back(static_cast<std::int32_t>(row));
  }
  return tap;
}

std::string string_member(const json::object& from, std::string_view name) {
  const json::value* found = json::find(from, name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

// Member `name` as paths in `folder`: a string or a list of them.
std::vector<std::string> paths_member(const json::object& from, std::string_view name,
                                      const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  const json::value* found = json::find(from, name);
  if (found == nullptr) return paths;
  const json::array list = found->is_array() ? found->get_array() : json::array{*found};
  for (const json::value& each : list)
    if (each.is_string()) paths.push_back((folder / std::string(each.get_string())).string());
  return paths;
}

std::vector<GoldenImage> read_images(const json::object& about,
                                     const std::filesystem::path& folder) {
  std::vector<GoldenImage> images;
  const json::value* list = json::find(about, "images");
  if (list == nullptr || !list->is_array()) return images;
  for (const json::value& each : list->get_array()) {
    if (!each.is_object()) continue;
    const json::object& members = each.get_object();
    GoldenImage image;
    image.sources = paths_member(members, "source", folder);
    image.pixels = paths_member(members, "pixels", folder);
    image.fps = json::get_double_or(members, "fps", 0).value_or(0);
    if (const json::value* grid = json::find(members, "grid"); grid != nullptr && grid->is_array())
      for (const json::value& extent : grid->get_array())
        image.grid.push_back(extent.is_int64() ? extent.get_int64() : 0);
    images.push_back(std::move(image));
  }
  return images;
}

Result<Pixels> decode_file(const std::string& path) {
  TRY(const MappedFile file, MappedFile::open(path));
  auto pixels = decode_image(file.bytes());
  if (!pixels) return fail_within(path, std::move(pixels).error());
  return pixels;
}

// Largest |a - b| over largest |b| of a row.
double row_error(const float* got, const float* wanted, std::int64_t cols) {
  double difference = 0;
  double magnitude = 0;
  for (std::int64_t i = 0; i < cols; ++i) {
    if (!std::isfinite(got[i])) return HUGE_VAL;
    difference = std::max(difference,
                          std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])));
    magnitude = std::max(magnitude, std::abs(static_cast<double>(wanted[i])));
  }
  return magnitude > 0 ? difference / magnitude : difference;
}

template <typename T>
StageResult compare_exact(std::string name, const std::vector<T>& got,
                          const std::vector<T>& wanted) {
  StageResult stage{std::move(name), true, 0, 0, ""};
  if (got.size() != wanted.size()) {
    stage.error = 1;
    stage.note = fmt::format("{} elements, the golden has {}", got.size(), wanted.size());
    return stage;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted[i]) continue;
    if (stage.error == 0) {
      stage.worst_row = static_cast<std::int64_t>(i);
      stage.note = fmt::format("element {} is {}, the golden has {}", i, got[i], wanted[i]);
    }
    stage.error += 1;
  }
  return stage;
}

// Collects the taps of a run and compares them as they come.
class TapComparison {
 public:
  explicit TapComparison(const Golden& golden) : golden_(golden) {
    for (const GoldenTap& tap : golden.taps)
      stages_.push_back({tap.name, false, 0, 0, "never came"});
    next_row_.resize(golden.taps.size());
  }

  Tap tap() {
    return [this](std::string_view name, View value) { add(name, value); };
  }
  std::vector<StageResult> take() { return std::move(stages_); }

 private:
  void add(std::string_view name, View value) {
    const auto found = std::ranges::find(golden_.taps, name, &GoldenTap::name);
    if (found == golden_.taps.end()) return;
    const GoldenTap& tap = *found;
    const auto index = static_cast<std::size_t>(found - golden_.taps.begin());
    StageResult& stage = stages_[index];
    if (value.cols() != tap.cols) {
      stage.note = fmt::format("{} columns, the golden has {}", value.cols(), tap.cols);
      return;
    }
    stage.note.clear();
    const std::int64_t begin = next_row_[index];
    next_row_[index] += value.rows();
    for (std::size_t i = 0; i < tap.rows.size(); ++i) {
      const std::int64_t row = tap.rows[i] - begin;
      if (row < 0 || row >= value.rows()) continue;
      const double error =
          row_error(value.row<float>(row),
                    tap.values.data() + static_cast<std::int64_t>(i) * tap.cols, tap.cols);
      if (error > stage.error) {
        stage.error = error;
        stage.worst_row = tap.rows[i];
      }
    }
  }

  const Golden& golden_;
  std::vector<StageResult> stages_;
  std::vector<std::int64_t> next_row_;
};

// Each resized picture of an image or video.
Result<void> compare_pixels(const Processor& processor, const GoldenImage& image,
                            const ImageLayout& layout, std::size_t index,
                            std::vector<StageResult>& stages) {
  for (std::size_t i = 0; i < image.pixels.size() && i < image.sources.size(); ++i) {
    TRY(const Pixels wanted, decode_file(image.pixels[i]));
    TRY(const Pixels source, decode_file(image.sources[i]));
    TRY(const Pixels got, processor.resized_image(source, layout, {}));
    const std::string name = image.fps > 0 ? fmt::format("image.{}.pixels.{}", index, i)
                                           : fmt::format("image.{}.pixels", index);
    if (wanted.width != got.width || wanted.height != got.height) {
      stages.push_back({name, true, 1, 0,
                        fmt::format("{}x{}, the golden has {}x{}", got.width, got.height,
                                    wanted.width, wanted.height)});
    } else {
      stages.push_back(compare_exact(name, got.rgb, wanted.rgb));
    }
  }
  return {};
}

Result<void> prepare_video(const Processor& processor, const GoldenImage& video,
                           GoldenMedia& media) {
  std::vector<Pixels> frames;
  for (const std::string& source : video.sources) {
    TRY(Pixels frame, decode_file(source));
    frames.push_back(std::move(frame));
  }
  if (frames.empty()) return fail(ErrorCode::kInvalid, "a video without frames");
  VideoControls controls;
  controls.frames = static_cast<std::int64_t>(frames.size());
  controls.fps = video.fps;
  TRY(const ImageLayout layout,
      processor.video_layout(frames.front().width, frames.front().height, controls));
  const auto depth = static_cast<std::size_t>(processor.shape().frames_per_grid);
  for (std::size_t begin = 0; begin < frames.size(); begin += depth) {
    const auto group = std::span(frames).subspan(begin, std::min(depth, frames.size() - begin));
    TRY(PreparedImage prepared, processor.prepare_frames(group, layout, {}));
    media.prepared.push_back(std::move(prepared));
    media.names.push_back(video.sources[begin] + " " + video.sources[begin + group.size() - 1] +
                          " " + layout.key);
  }
  media.layouts.push_back(layout);
  return {};
}

}  // namespace

Result<Golden> read_golden(const std::string& path) {
  TRY(const SafetensorsFile file, SafetensorsFile::open(path));
  const auto about = file.metadata().find("golden");
  if (about == file.metadata().end())
    return fail(ErrorCode::kInvalid, "{}: not a golden file", path);
  TRY(const json::value parsed, json::parse(about->second));
  if (!parsed.is_object()) return fail(ErrorCode::kInvalid, "{}: metadata is no object", path);
  const json::object& members = parsed.get_object();

  Golden golden;
  golden.path = path;
  golden.rendered = string_member(members, "rendered");
  golden.images = read_images(members, std::filesystem::path(path).parent_path());
  for (const std::string_view note : {"family", "case", "transformers", "torch"})
    golden.notes[std::string(note)] = string_member(members, note);
  if (const json::value* messages = json::find(members, "messages");
      messages != nullptr && messages->is_array())
    golden.messages = messages->get_array();
  TRY(golden.ids, integers(file, "ids"));
  TRY(golden.greedy, integers(file, "greedy"));
  TRY(const std::vector<std::int32_t> positions, integers(file, "positions"));
  const std::size_t count = golden.ids.size();
  if (count == 0 || positions.size() % count != 0)
    return fail(ErrorCode::kInvalid, "{}: {} positions for {} ids", path, positions.size(), count);
  for (std::size_t begin = 0; begin < positions.size(); begin += count)
    golden.positions.emplace_back(positions.begin() + static_cast<std::ptrdiff_t>(begin),
                                  positions.begin() + static_cast<std::ptrdiff_t>(begin + count));
  const json::value* taps = json::find(members, "taps");
  if (taps == nullptr || !taps->is_array())
    return fail(ErrorCode::kInvalid, "{}: no list of taps", path);
  for (const json::value& name : taps->get_array()) {
    if (!name.is_string()) continue;
    TRY(GoldenTap tap, read_tap(file, std::string(name.get_string())));
    golden.taps.push_back(std::move(tap));
  }
  return golden;
}

const StageResult* GoldenReport::first_divergence(double tolerance) const {
  for (const StageResult& stage : stages) {
    if (!stage.note.empty() || stage.error > (stage.exact ? 0 : tolerance)) return &stage;
  }
  return nullptr;
}

Result<GoldenMedia> prepare_golden_media(const Processor& processor, const Golden& golden) {
  GoldenMedia media;
  for (const GoldenImage& image : golden.images) {
    if (image.fps > 0) {
      TRY_DO(prepare_video(processor, image, media));
      continue;
    }
    if (image.sources.size() != 1)
      return fail(ErrorCode::kInvalid, "{}: an image has {} sources", golden.path,
                  image.sources.size());
    TRY(const Pixels pixels, decode_file(image.sources.front()));
    TRY(const ImageLayout layout, processor.image_layout(pixels.width, pixels.height, {}));
    TRY(PreparedImage prepared, processor.prepare_image(pixels, layout, {}));
    media.prepared.push_back(std::move(prepared));
    media.names.push_back(image.sources.front());
    media.layouts.push_back(layout);
  }
  return media;
}

Result<GoldenReport> compare_with_golden(const Model& model, Device& device,
                                         const Tokenizer& tokenizer, const Golden& golden,
                                         const LoraAdapter* adapter) {
  const Processor& processor = *model.processor;
  TRY(const GoldenMedia media, prepare_golden_media(processor, golden));
  const std::vector<ImageLayout>& layouts = media.layouts;
  GoldenReport report;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const ImageLayout& layout = layouts[i];
    TRY_DO(compare_pixels(processor, golden.images[i], layout, i, report.stages));
    if (!golden.images[i].grid.empty())
      report.stages.push_back(compare_exact<std::int64_t>(
          fmt::format("image.{}.grid", i), {layout.grid_t, layout.grid_h, layout.grid_w},
          golden.images[i].grid));
  }
  TRY(Prompt prompt, processor.build_prompt(tokenizer, golden.rendered, layouts, false));
  report.stages.push_back(compare_exact("ids", prompt.ids, golden.ids));
  if (report.stages.back().error > 0) return report;  // nothing after it would say more
  for (std::size_t axis = 0; axis < golden.positions.size() && axis < prompt.positions.size();
       ++axis)
    report.stages.push_back(compare_exact(fmt::format("positions.{}", axis), prompt.positions[axis],
                                          golden.positions[axis]));

  TapComparison comparison(golden);
  const Tap tap = comparison.tap();
  const auto last = std::ranges::find(golden.taps, "logits", &GoldenTap::name);
  const auto rows =
      last == golden.taps.end() ? std::int64_t{1} : static_cast<std::int64_t>(last->rows.size());
  TRY(const auto run,
      SoloRun::create(*model.network, device, std::move(prompt), media.prepared,
                      static_cast<std::int64_t>(golden.greedy.size()), {tap, adapter}));
  run->prefill(0, rows, tap);
  for (StageResult& stage : comparison.take()) report.stages.push_back(std::move(stage));
  report.stages.push_back(compare_exact(
      "greedy", run->greedy(static_cast<std::int64_t>(golden.greedy.size())), golden.greedy));
  return report;
}

}  // namespace saccade
