#include "model/given_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/rows_file.h"
#include "model/processor.h"
#include "model/safetensors.h"
#include "model/tensor_file.h"
#include "tensor/tensor.h"

namespace saccade {
namespace {

constexpr std::string_view kRows = "image_embeds";
constexpr std::string_view kGrid = "image_grid_thw";

// How much a family's prompts need to know of an image.
enum class Lays { kByGrid, kByTiles, kAlike, kByRows };
struct FamilyLayout {
  std::string_view family;
  Lays lays;
};
// kByGrid: positions count the grid's rows and columns. kByTiles: any number of tiles of one number
// of rows. kAlike: all images have one number. kByRows: a placeholder a row, whatever their number.
constexpr std::array kFamilies = {
    FamilyLayout{"qwen2-vl", Lays::kByGrid},        FamilyLayout{"qwen2.5-vl", Lays::kByGrid},
    FamilyLayout{"qwen3-vl", Lays::kByGrid},        FamilyLayout{"qwen3-vl-moe", Lays::kByGrid},
    FamilyLayout{"internvl2", Lays::kByTiles},      FamilyLayout{"paligemma", Lays::kAlike},
    FamilyLayout{"paligemma2", Lays::kAlike},       FamilyLayout{"gemma-3", Lays::kAlike},
    FamilyLayout{"llava-onevision", Lays::kByRows}, FamilyLayout{"phi-3-vision", Lays::kByRows},
};

template <typename T>
T element(std::string_view bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename To, typename From, typename Convert>
std::string each(std::string_view bytes, Convert convert) {
  const std::size_t count = bytes.size() / sizeof(From);
  std::string converted(count * sizeof(To), '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const To value = convert(element<From>(bytes, i));
    std::memcpy(converted.data() + i * sizeof(To), &value, sizeof(To));
  }
  return converted;
}

std::string as_floats(DType from, std::string_view bytes) {
  const auto widen = [](auto x) { return to_float(x); };
  if (from == DType::kBf16) return each<float, Bf16>(bytes, widen);
  if (from == DType::kF16) return each<float, F16>(bytes, widen);
  return std::string(bytes);
}

// By bits, so that no conversion is needed to see one.
template <typename Bits>
std::optional<std::size_t> first_infinite(std::string_view bytes, Bits exponent) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Bits); ++i)
    if ((element<Bits>(bytes, i) & exponent) == exponent) return i;
  return std::nullopt;
}

std::optional<std::size_t> first_infinite(DType type, std::string_view bytes) {
  if (type == DType::kBf16) return first_infinite<std::uint16_t>(bytes, 0x7f80);
  if (type == DType::kF16) return first_infinite<std::uint16_t>(bytes, 0x7c00);
  return first_infinite<std::uint32_t>(bytes, 0x7f800000);
}

// Of a file: the tensor of this name, or torch.save's one. Null: there is none.
const FileTensor* find(const std::vector<FileTensor>& tensors, std::string_view name) {
  for (const FileTensor& tensor : tensors)
    if (tensor.name == name || tensor.name.empty()) return &tensor;
  return nullptr;
}

Result<void> take_rows(const FileTensor& tensor, std::int64_t width, GivenRows& given) {
  const auto& shape = tensor.shape;
  if (shape.size() == 3 && shape[0] != 1)
    return fail(ErrorCode::kInvalid,
                "{} is {}, of {} images; each image is a part of its own, [rows, {}]", kRows,
                shape_text(shape), shape[0], width);
  if ((shape.size() != 2 && shape.size() != 3) || shape.back() != width)
    return fail(ErrorCode::kInvalid, "{} is {}, the model's rows are [rows, {}]", kRows,
                shape_text(shape), width);
  given.rows = shape[shape.size() - 2];
  given.width = width;
  if (given.rows < 1) return fail(ErrorCode::kInvalid, "{} has no rows", kRows);
  if (tensor.dtype == "F64") {
    given.bytes = each<float, double>(tensor.bytes, [](double x) { return static_cast<float>(x); });
  } else if (tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16") {
    given.dtype = *safetensors_dtype(tensor.dtype);
    given.bytes = tensor.bytes;
  } else {
    return fail(ErrorCode::kInvalid,
                "{} is of type {}; float32, bfloat16, float16 and float64 are taken", kRows,
                tensor.dtype);
  }
  if (const auto at = first_infinite(given.dtype, given.bytes)) {
    const auto columns = static_cast<std::size_t>(width);
    return fail(ErrorCode::kInvalid, "{}[{}][{}] is {}; all numbers must be finite and within {}",
                kRows, *at / columns, *at % columns,
                element<float>(as_floats(given.dtype, given.bytes), *at), name_of(given.dtype));
  }
  return {};
}

Result<PatchGrid> grid_of(const FileTensor& tensor) {
  const bool wide = tensor.dtype == "I64";
  if (!wide && tensor.dtype != "I32")
    return fail(ErrorCode::kInvalid, "{} is of type {}; int64 and int32 are taken", kGrid,
                tensor.dtype);
  const std::size_t width = wide ? 8 : 4;
  if (tensor.bytes.size() != 3 * width)
    return fail(ErrorCode::kInvalid, "{} is {}; one image's is [3]: t, h, w", kGrid,
                shape_text(tensor.shape));
  std::array<std::int64_t, 3> thw{};
  for (std::size_t i = 0; i < thw.size(); ++i)
    thw[i] = wide ? element<std::int64_t>(tensor.bytes, i) : element<std::int32_t>(tensor.bytes, i);
  return PatchGrid{thw[0], thw[1], thw[2]};
}

Result<std::vector<FileTensor>> read_named(std::string_view file, std::string_view name) {
  auto tensors = read_tensor_file(file);
  if (!tensors) return fail_within(name, std::move(tensors).error());
  return tensors;
}

}  // namespace

Result<GivenRows> read_given_rows(std::string_view file, std::int64_t width) {
  TRY(const RowsFile parts, split_rows_file(file));
  const auto [grid_file, rows_file] = parts;
  GivenRows given;
  TRY(const std::vector<FileTensor> tensors, read_named(rows_file, kRows));
  const FileTensor* const rows = find(tensors, kRows);
  if (rows == nullptr)
    return fail(ErrorCode::kInvalid, "the safetensors file has no tensor '{}'", kRows);
  TRY_DO(take_rows(*rows, width, given));
  if (const FileTensor* grid = find(tensors, kGrid); grid != nullptr && grid != rows) {
    TRY(given.grid, grid_of(*grid));
  }
  if (grid_file.empty()) return given;
  TRY(const std::vector<FileTensor> grids, read_named(grid_file, kGrid));
  const FileTensor* const grid = find(grids, kGrid);
  if (grid == nullptr)
    return fail(ErrorCode::kInvalid, "the safetensors file has no tensor '{}'", kGrid);
  TRY(given.grid, grid_of(*grid));
  return given;
}

// What a family makes of images is asked of it with one, so that nothing of it is said twice.
Result<ImageLayout> given_layout(const Processor& processor, const GivenRows& given) {
  const ModelShape& shape = processor.shape();
  const auto family = std::ranges::find(kFamilies, shape.family, &FamilyLayout::family);
  if (family == kFamilies.end())
    return fail(ErrorCode::kUnsupported,
                "{} is not taken by {}: its prompts say how an image was cut, and rows do not tell",
                kRows, shape.family);
  if (given.rows > shape.max_image_tokens)
    return fail(ErrorCode::kInvalid, "{} has {} rows, the largest image has {}", kRows, given.rows,
                shape.max_image_tokens);
  constexpr int kSide = 336;
  TRY(const ImageLayout square, processor.image_layout(kSide, kSide, {}));
  ImageLayout layout;
  layout.tokens = given.rows;
  layout.key = "given";
  switch (family->lays) {
    case Lays::kByRows:
      return layout;
    case Lays::kAlike:
      if (given.rows != square.tokens)
        return fail(ErrorCode::kInvalid, "{} has {} rows, an image has {}", kRows, given.rows,
                    square.tokens);
      return layout;
    case Lays::kByTiles: {
      const std::int64_t rows = square.tokens / square.grid_t;
      if (given.rows % rows != 0)
        return fail(ErrorCode::kInvalid, "{} has {} rows, a tile of an image has {}", kRows,
                    given.rows, rows);
      layout.grid_t = given.rows / rows;
      return layout;
    }
    case Lays::kByGrid:
      break;
  }
  if (!given.grid)
    return fail(ErrorCode::kInvalid, "{} needs {} beside it for {}", kRows, kGrid, shape.family);
  const auto [t, h, w] = *given.grid;
  const std::int64_t patches = square.grid_h * square.grid_w / square.tokens;  // of a row
  std::int64_t merge = 1;
  while (merge * merge < patches) ++merge;
  const std::int64_t most = given.rows * patches;  // keeps the product below from overflowing
  if (t != 1 || h < 1 || w < 1 || h > most || w > most || h % merge != 0 || w % merge != 0 ||
      h * w != most)
    return fail(
        ErrorCode::kInvalid,
        "{} is [{}, {}, {}] for {} rows: t must be 1, h and w multiples of {}, and h * w {}", kGrid,
        t, h, w, given.rows, merge, most);
  layout.grid_h = h;
  layout.grid_w = w;
  layout.key = fmt::format("given {}x{}", h, w);
  return layout;
}

Digest content_of(const GivenRows& given) {
  // No image begins so: a digest of pixels' file is never that of rows.
  Sha256 hash;
  hash.update(
      fmt::format("image_embeds {} {} {}\n", name_of(given.dtype), given.rows, given.width));
  hash.update(given.bytes);
  return hash.finish();
}

std::string converted(const GivenRows& given, DType to) {
  if (given.dtype == to) return given.bytes;
  std::string floats = as_floats(given.dtype, given.bytes);
  if (to == DType::kBf16) return each<Bf16, float>(floats, [](float x) { return to_bf16(x); });
  if (to == DType::kF16) return each<F16, float>(floats, [](float x) { return to_f16(x); });
  return floats;
}

}  // namespace saccade
