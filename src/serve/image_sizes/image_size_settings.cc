#include "serve/image_sizes/image_size_settings.h"

#include <charconv>

namespace saccade::serve {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 24;

}  // namespace

Result<void> choose_image_size(std::string_view text, ImageSizeSettings& settings) {
  constexpr std::string_view kStatic = "static:";
  if (text == "vanilla") {
    settings.mode = ImageSizeMode::kVanilla;
  } else if (text == "seed") {
    settings.mode = ImageSizeMode::kSeed;
  } else if (text == "seed-as-published") {
    settings.mode = ImageSizeMode::kSeedAsPublished;
  } else if (text == "dynamic") {
    settings.mode = ImageSizeMode::kDynamic;
  } else if (text.starts_with(kStatic)) {
    const std::string_view number = text.substr(kStatic.size());
    const char* const last = number.data() + number.size();
    const auto [end, error] = std::from_chars(number.data(), last, settings.static_tokens);
    if (error != std::errc() || end != last || settings.static_tokens < 1 ||
        settings.static_tokens > kMaxTokens)
      return fail(ErrorCode::kInvalid,
                  "--image-size {}: static:N takes tokens of an image, 1 to {}", text, kMaxTokens);
    settings.mode = ImageSizeMode::kStatic;
  } else {
    return fail(ErrorCode::kInvalid,
                "--image-size is '{}'; vanilla, static:N, seed, seed-as-published and "
                "dynamic are known",
                text);
  }
  return {};
}

}  // namespace saccade::serve
