// preprocessor_config.json: the fields that image pipelines share.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "image/normalize.h"
#include "image/pixels.h"
#include "model/images/image_controls.h"

namespace saccade {

// While one lives, what this thread's parsers below take where the file does not say.
class PreprocessorDefaults {
 public:
  PreprocessorDefaults();
  ~PreprocessorDefaults();
  PreprocessorDefaults(const PreprocessorDefaults&) = delete;
  PreprocessorDefaults& operator=(const PreprocessorDefaults&) = delete;
  // "image_mean [0.5, 0.5, 0.5], resample 3"
  const std::string& taken() const { return taken_; }
  // Called by parsers: what was taken for a member that is not there. Once for each name.
  static void note(std::string_view name, const std::string& value);

 private:
  std::string taken_;
  std::set<std::string, std::less<>> names_;
};

// kUnsupported, naming it, for a step of every pipeline (do_resize, do_convert_rgb) that is turned
// off.
Result<void> require_image_steps(const json::object& preprocessor);

// resample, PIL's number; `fallback` where it is not said.
Result<ResampleFilter> parse_resample(const json::object& preprocessor, ResampleFilter fallback);

// rescale_factor, image_mean, image_std, as far as do_rescale and do_normalize are not off;
// `defaults` are the family's class's.
Result<NormalizeTable> parse_normalize(const json::object& preprocessor,
                                       const NormalizeSettings& defaults);

// size.{height, width} or size.shortest_edge of square images; `fallback` where it is not said.
Result<int> parse_square_size(const json::object& preprocessor, int fallback);

// A member that is {"longest_edge": n}: pixels, up to 4096. `fallback` where it is not said.
Result<int> parse_longest_edge(const json::object& from, std::string_view name, int fallback);

// kInvalid, naming it, for a member of mm_processor_kwargs that is not among `known`.
Result<void> check_processor_kwargs(const ImageControls& controls,
                                    std::span<const std::string_view> known);

// `read` from mm_processor_kwargs: an error of it names them.
template <typename T>
Result<T> of_processor_kwargs(Result<T> read) {
  if (!read) read.error().param = "mm_processor_kwargs";
  return read;
}

}  // namespace saccade
