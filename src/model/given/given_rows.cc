#include "model/given/given_rows.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "model/checkpoint/safetensors.h"
#include "model/given/tensor_file.h"
#include "tensor/tensor.h"

namespace saccade {
namespace {

constexpr std::string_view kRows = kGivenRows;
constexpr std::string_view kGrid = kGivenGrid;

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

Result<GivenRows> read_given_rows(const GivenFiles& files, std::int64_t width) {
  GivenRows given;
  TRY(const std::vector<FileTensor> tensors, read_named(files.rows, kRows));
  const FileTensor* const rows = find(tensors, kRows);
  if (rows == nullptr)
    return fail(ErrorCode::kInvalid, "the safetensors file has no tensor '{}'", kRows);
  TRY_DO(take_rows(*rows, width, given));
  if (const FileTensor* grid = find(tensors, kGrid); grid != nullptr && grid != rows) {
    TRY(given.grid, grid_of(*grid));
  }
  if (files.grid.empty()) return given;
  TRY(const std::vector<FileTensor> grids, read_named(files.grid, kGrid));
  const FileTensor* const grid = find(grids, kGrid);
  if (grid == nullptr)
    return fail(ErrorCode::kInvalid, "the safetensors file has no tensor '{}'", kGrid);
  TRY(given.grid, grid_of(*grid));
  return given;
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
