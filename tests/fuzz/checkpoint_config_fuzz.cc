// config.json and preprocessor_config.json (a zero byte between them) as anybody may have written
// them: a model whose arithmetic of images and prompts holds, or an error that names the field.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "model/checkpoint/checkpoint.h"
#include "model/families.h"

namespace {

using namespace saccade;

void check_error(const Error& error) {
  CHECK(!error.message.empty() && error.message.size() < 4096, "a message of {} bytes",
        error.message.size());
  CHECK(error.code != ErrorCode::kInternal, "{}", error.message);
}

void check_layouts(const Processor& model) {
  constexpr int kSizes[][2] = {{1, 1}, {64, 64}, {3000, 40}, {7, 2000}, {65'535, 1}, {9000, 9000}};
  for (const auto& [width, height] : kSizes) {
    const auto layout = model.image_layout(width, height, {});
    if (!layout) {
      check_error(layout.error());
      continue;
    }
    CHECK(layout->tokens > 0 && layout->resized_width > 0 && layout->resized_height > 0,
          "{}x{}: {} tokens of {}x{}", width, height, layout->tokens, layout->resized_width,
          layout->resized_height);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool quiet = [] {
    log::set_level(log::Level::kError);
    return true;
  }();
  (void)quiet;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = text.find('\0');
  const auto config = json::parse(text.substr(0, cut));
  if (!config || !config->is_object()) return 0;
  Checkpoint checkpoint;
  checkpoint.directory = "fuzz";
  checkpoint.config = config->get_object();
  if (cut != std::string_view::npos) {
    const auto preprocessor = json::parse(text.substr(cut + 1));
    if (preprocessor && preprocessor->is_object())
      checkpoint.preprocessor = preprocessor->get_object();
  }
  const auto family = family_of(checkpoint.config);
  if (!family) {
    check_error(family.error());
    return 0;
  }
  if ((*family)->create_encoder != nullptr) {
    const auto encoder = create_encoder(checkpoint);
    if (!encoder) check_error(encoder.error());
    return 0;
  }
  const auto model = create_model(checkpoint);
  if (!model) {
    check_error(model.error());
    return 0;
  }
  const ModelShape& shape = model->shape();
  CHECK(shape.vocab > 0 && !shape.layers.empty() && shape.max_position > 0, "an empty shape");
  if (shape.has_vision) check_layouts(*model->processor);
  return 0;
}
