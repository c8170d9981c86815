// Rows that stand for an image and that a client has made itself (vLLM's `image_embeds`): what the
// model's own encoder would have made of it. given_layouts.h has what a prompt makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace saccade {

// What clients call them.
constexpr std::string_view kGivenRows = "image_embeds";
constexpr std::string_view kGivenGrid = "image_grid_thw";

// An image's place in patches, as Hugging Face processors have it (image_grid_thw).
struct PatchGrid {
  std::int64_t t = 1;
  std::int64_t h = 0;
  std::int64_t w = 0;
  bool operator==(const PatchGrid&) const = default;
};

struct GivenRows {
  DType dtype = DType::kF32;  // kF32, kBf16 or kF16
  std::int64_t rows = 0;
  std::int64_t width = 0;         // numbers of a row
  std::string bytes;              // [rows, width], all finite
  std::optional<PatchGrid> grid;  // where the client has said it
};

// Each is what read_tensor_file() takes; or `rows` is a safetensors file with a tensor of each
// name, image_embeds and image_grid_thw, and `grid` is empty.
struct GivenFiles {
  std::string_view grid;  // may be empty
  std::string_view rows;
};

// Rows: [rows, width] or [1, rows, width], float32, bfloat16, float16 or float64
// (which becomes float32). A grid: three whole numbers. `width`: ModelShape::embedding_width().
// kInvalid and kUnsupported name the tensor, the value and what is possible.
Result<GivenRows> read_given_rows(const GivenFiles& files, std::int64_t width);

// RequestImage::content: of the numbers as they came. No image file has it.
Digest content_of(const GivenRows& given);

// The same numbers as `to` (kF32, kBf16, kF16) has them, rounded to nearest.
std::string converted(const GivenRows& given, DType to);

}  // namespace saccade
