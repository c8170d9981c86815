#include "model/gguf/gguf_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/text/printable.h"
#include "ops/formats/block_codes.h"

namespace saccade {
namespace {

constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kMaxGgufRank = 4;
constexpr std::uint64_t kMaxKey = 65'535;
constexpr std::uint64_t kMaxTensorName = 1024;
constexpr std::uint64_t kMaxAlignment = 1 << 20;
constexpr std::uint64_t kMaxGgufEntries = 1 << 20;  // of metadata, and of tensors

// Types of metadata.
enum GgufKind : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kKinds
};
constexpr std::array<std::size_t, kKinds> kKindBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::array<std::string_view, kKinds> kKindNames = {
    "uint8", "int8", "uint16", "int16",  "uint32", "int32",  "float32",
    "bool",  "text", "array",  "uint64", "int64",  "float64"};

// Types of tensors by their number in ggml. The names of those that are read no further say what a
// file has.
struct TypeNumber {
  std::uint32_t number;
  std::string_view name;
};
constexpr std::array kGgufTypes = {
    TypeNumber{0, "F32"},     TypeNumber{1, "F16"},      TypeNumber{2, "Q4_0"},
    TypeNumber{3, "Q4_1"},    TypeNumber{6, "Q5_0"},     TypeNumber{7, "Q5_1"},
    TypeNumber{8, "Q8_0"},    TypeNumber{9, "Q8_1"},     TypeNumber{10, "Q2_K"},
    TypeNumber{11, "Q3_K"},   TypeNumber{12, "Q4_K"},    TypeNumber{13, "Q5_K"},
    TypeNumber{14, "Q6_K"},   TypeNumber{15, "Q8_K"},    TypeNumber{16, "IQ2_XXS"},
    TypeNumber{17, "IQ2_XS"}, TypeNumber{18, "IQ3_XXS"}, TypeNumber{19, "IQ1_S"},
    TypeNumber{20, "IQ4_NL"}, TypeNumber{21, "IQ3_S"},   TypeNumber{22, "IQ2_S"},
    TypeNumber{23, "IQ4_XS"}, TypeNumber{24, "I8"},      TypeNumber{25, "I16"},
    TypeNumber{26, "I32"},    TypeNumber{27, "I64"},     TypeNumber{28, "F64"},
    TypeNumber{29, "IQ1_M"},  TypeNumber{30, "BF16"},    TypeNumber{34, "TQ1_0"},
    TypeNumber{35, "TQ2_0"},  TypeNumber{39, "MXFP4"},   TypeNumber{40, "NVFP4"},
};

// Elements and bytes of what a type stores together; nothing for a type that is not read.
struct Unit {
  std::int64_t elements;
  std::int64_t bytes;
};
std::optional<Unit> unit_of(std::string_view type) {
  if (type == "F32") return Unit{1, 4};
  if (type == "F16" || type == "BF16") return Unit{1, 2};
  const std::optional<BlockType> block = block_type(type);
  if (!block) return std::nullopt;
  return Unit{block_format(*block).elements, block_format(*block).bytes};
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// Element `index` of numbers of one kind.
GgufValue number_at(std::span<const std::byte> bytes, std::uint32_t kind, std::size_t index) {
  switch (kind) {
    case kU8:
      return std::int64_t{load<std::uint8_t>(bytes, index)};
    case kI8:
      return std::int64_t{load<std::int8_t>(bytes, index)};
    case kU16:
      return std::int64_t{load<std::uint16_t>(bytes, index)};
    case kI16:
      return std::int64_t{load<std::int16_t>(bytes, index)};
    case kU32:
      return std::int64_t{load<std::uint32_t>(bytes, index)};
    case kI32:
      return std::int64_t{load<std::int32_t>(bytes, index)};
    case kF32:
      return static_cast<double>(load<float>(bytes, index));
    case kBool:
      return load<std::uint8_t>(bytes, index) != 0;
    case kF64:
      return load<double>(bytes, index);
    default:
      return load<std::int64_t>(bytes, index);  // kU64, kI64
  }
}

// The file front to back.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}

  std::size_t at() const { return at_; }
  std::size_t left() const { return file_.size() - at_; }

  template <typename T>
  Result<T> number(std::string_view what) {
    TRY(const std::span<const std::byte> bytes, take(sizeof(T), what));
    return load<T>(bytes, 0);
  }
  Result<std::span<const std::byte>> take(std::uint64_t count, std::string_view what) {
    if (count > left())
      return fail(ErrorCode::kCorrupt, "{} takes {} bytes at {}, where {} are left", what, count,
                  at_, left());
    const auto bytes = file_.subspan(at_, count);
    at_ += count;
    return bytes;
  }
  Result<std::string_view> text(std::uint64_t most, std::string_view what) {
    TRY(const auto count, number<std::uint64_t>(what));
    if (count > most)
      return fail(ErrorCode::kCorrupt, "{} has {} bytes, limit {}", what, count, most);
    TRY(const auto bytes, take(count, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  std::span<const std::byte> file_;
  std::size_t at_ = 0;
};

Result<GgufValue> read_number(Reader& reader, std::uint32_t kind, std::string_view key) {
  TRY(const auto bytes, reader.take(kKindBytes[kind], key));
  const GgufValue value = number_at(bytes, kind, 0);
  if (kind == kU64 && std::get<std::int64_t>(value) < 0)
    return fail(ErrorCode::kUnsupported, "{} is {}, limit {}", key, load<std::uint64_t>(bytes, 0),
                std::numeric_limits<std::int64_t>::max());
  return value;
}

Result<GgufValue> read_array(Reader& reader, std::string_view key) {
  GgufArray array;
  TRY(array.type, reader.number<std::uint32_t>(key));
  if (array.type >= kKinds || array.type == kArray)
    return fail(
        ErrorCode::kUnsupported, "{} is an array of type {}, which is not read", key,
        array.type < kKinds ? std::string(kKindNames[array.type]) : std::to_string(array.type));
  TRY(const auto count, reader.number<std::uint64_t>(key));
  // A text takes the eight bytes of its length at least.
  const std::uint64_t each = array.type == kString ? 8 : kKindBytes[array.type];
  if (count > reader.left() / each)
    return fail(ErrorCode::kCorrupt, "{} has {} elements of {} bytes at {}, where {} are left", key,
                count, each, reader.at(), reader.left());
  array.count = count;
  if (array.type != kString) {
    TRY(array.bytes, reader.take(count * each, key));
    return array;
  }
  array.strings.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    TRY(const std::string_view text, reader.text(reader.left(), key));
    array.strings.push_back(text);
  }
  return array;
}

Result<void> read_metadata(Reader& reader, GgufMetadata& into) {
  TRY(const std::string_view key, reader.text(kMaxKey, "the key of metadata"));
  const std::string name = printable(key);
  TRY(const auto kind, reader.number<std::uint32_t>(name));
  if (kind >= kKinds)
    return fail(ErrorCode::kCorrupt, "{} is of type {}, types are 0 to {}", name, kind, kKinds - 1);
  GgufValue value;
  if (kind == kString) {
    TRY(value, reader.text(reader.left(), name));
  } else if (kind == kArray) {
    TRY(value, read_array(reader, name));
  } else {
    TRY(value, read_number(reader, kind, name));
  }
  if (!into.add(key, std::move(value))) return fail(ErrorCode::kCorrupt, "{} is there twice", name);
  return {};
}

Result<std::vector<std::int64_t>> read_shape(Reader& reader, std::string_view name) {
  TRY(const auto rank, reader.number<std::uint32_t>(name));
  // ggml writes at least one, of a scalar too.
  if (rank < 1 || rank > kMaxGgufRank)
    return fail(ErrorCode::kCorrupt, "tensor \"{}\" has {} extents, 1 to {} are possible", name,
                rank, kMaxGgufRank);
  std::vector<std::int64_t> shape(rank);
  std::int64_t count = 1;
  for (std::int64_t& extent : shape) {
    TRY(extent, reader.number<std::int64_t>(name));
    if (extent < 1 || extent > std::numeric_limits<std::int64_t>::max() / 8 / count)
      return fail(ErrorCode::kCorrupt, "tensor \"{}\" has an extent of {} after {} elements", name,
                  extent, count);
    count *= extent;
  }
  std::ranges::reverse(shape);
  return shape;
}

Result<GgufTensor> read_tensor(Reader& reader, std::uint64_t alignment) {
  GgufTensor tensor;
  TRY(const std::string_view name, reader.text(kMaxTensorName, "the name of a tensor"));
  tensor.name = printable(name);
  TRY(tensor.shape, read_shape(reader, tensor.name));
  TRY(const auto number, reader.number<std::uint32_t>(tensor.name));
  const auto* const type = std::ranges::find(kGgufTypes, number, &TypeNumber::number);
  const std::optional<Unit> unit = type == kGgufTypes.end() ? std::nullopt : unit_of(type->name);
  if (!unit)
    return fail(
        ErrorCode::kUnsupported,
        "tensor \"{}\" is {}; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, "
        "IQ4_NL and IQ4_XS are read",
        tensor.name,
        type == kGgufTypes.end() ? fmt::format("of type {}", number) : std::string(type->name));
  tensor.type = type->name;
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= extent;
  const std::int64_t row = tensor.shape.back();
  if (row % unit->elements != 0)
    return fail(ErrorCode::kCorrupt, "tensor \"{}\" has rows of {}, {} has blocks of {}",
                tensor.name, row, tensor.type, unit->elements);
  TRY(tensor.begin, reader.number<std::uint64_t>(tensor.name));
  if (tensor.begin % alignment != 0)
    return fail(ErrorCode::kCorrupt, "tensor \"{}\" begins at {}, no multiple of {}", tensor.name,
                tensor.begin, alignment);
  const auto bytes = static_cast<std::uint64_t>(count / unit->elements * unit->bytes);
  if (tensor.begin > std::numeric_limits<std::uint64_t>::max() - bytes)
    return fail(ErrorCode::kCorrupt, "tensor \"{}\" begins at {}", tensor.name, tensor.begin);
  tensor.end = tensor.begin + bytes;
  return tensor;
}

// They must lie in the data without overlap. Sorts them by where they begin.
Result<void> check_places(std::vector<GgufTensor>& tensors, std::size_t data_bytes) {
  std::vector<std::string_view> names;
  for (const GgufTensor& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return fail(ErrorCode::kCorrupt, "tensor \"{}\" is there twice", *twice);
  std::ranges::sort(tensors, {}, &GgufTensor::begin);
  std::size_t position = 0;
  for (const GgufTensor& tensor : tensors) {
    if (tensor.begin < position)
      return fail(ErrorCode::kCorrupt, "tensor \"{}\" begins at {}, inside the one before it",
                  tensor.name, tensor.begin);
    if (tensor.end > data_bytes)
      return fail(ErrorCode::kCorrupt, "tensor \"{}\" ends at {}, the data have {} bytes",
                  tensor.name, tensor.end, data_bytes);
    position = tensor.end;
  }
  return {};
}

tl::unexpected<Error> wrong_type(std::string_view key, std::string_view wanted) {
  return fail(ErrorCode::kInvalid, "{} is not {}", key, wanted);
}

Result<void> require_finite(std::string_view key, double number) {
  if (std::isfinite(number)) return {};
  return fail(ErrorCode::kInvalid, "{} is {}, a finite number is required", key, number);
}

}  // namespace

Result<GgufHeader> parse_gguf(std::span<const std::byte> file) {
  Reader reader(file);
  GgufHeader header;
  TRY(const auto magic, reader.number<std::uint32_t>("GGUF's mark"));
  if (magic != kGgufMagic)
    return fail(ErrorCode::kCorrupt, "it begins with {:#010x}, not with GGUF's mark", magic);
  TRY(header.version, reader.number<std::uint32_t>("the version"));
  if (header.version != 2 && header.version != 3)
    return fail(
        ErrorCode::kUnsupported, "it is GGUF of version {}{}; 2 and 3 are read", header.version,
        (header.version & 0xffffU) == 0 ? " (of a machine whose bytes go the other way)" : "");
  TRY(const auto tensors, reader.number<std::uint64_t>("the number of tensors"));
  TRY(const auto values, reader.number<std::uint64_t>("the number of metadata"));
  for (const auto& [count, what] : {std::pair{tensors, "tensors"}, {values, "metadata"}}) {
    if (count > kMaxGgufEntries)
      return fail(ErrorCode::kCorrupt, "it has {} {}, limit {}", count, what, kMaxGgufEntries);
  }
  for (std::uint64_t i = 0; i < values; ++i) TRY_DO(read_metadata(reader, header.metadata));
  TRY(const std::int64_t alignment, header.metadata.get_int_or("general.alignment", 32));
  if (alignment < 8 || alignment > static_cast<std::int64_t>(kMaxAlignment) ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
    return fail(ErrorCode::kCorrupt, "general.alignment is {}, a power of two from 8 to {} is",
                alignment, kMaxAlignment);
  const auto aligned = static_cast<std::uint64_t>(alignment);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    TRY(GgufTensor tensor, read_tensor(reader, aligned));
    header.tensors.push_back(std::move(tensor));
  }
  // A file without tensors may end right here.
  header.data = std::min<std::size_t>((reader.at() + aligned - 1) / aligned * aligned, file.size());
  TRY_DO(check_places(header.tensors, file.size() - header.data));
  return header;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool GgufMetadata::add(std::string_view key, GgufValue value) {
  return values_.try_emplace(std::string(key), std::move(value)).second;
}

Result<std::int64_t> GgufMetadata::get_int(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return fail(ErrorCode::kInvalid, "{} is missing", key);
  const auto* const number = std::get_if<std::int64_t>(value);
  return number == nullptr ? Result<std::int64_t>(wrong_type(key, "an integer")) : *number;
}

Result<std::int64_t> GgufMetadata::get_int_or(std::string_view key, std::int64_t fallback) const {
  return has(key) ? get_int(key) : fallback;
}

Result<double> GgufMetadata::get_double(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return fail(ErrorCode::kInvalid, "{} is missing", key);
  if (const auto* const number = std::get_if<double>(value)) {
    TRY_DO(require_finite(key, *number));
    return *number;
  }
  if (const auto* const whole = std::get_if<std::int64_t>(value))
    return static_cast<double>(*whole);
  return wrong_type(key, "a number");
}

Result<double> GgufMetadata::get_double_or(std::string_view key, double fallback) const {
  return has(key) ? get_double(key) : fallback;
}

Result<bool> GgufMetadata::get_bool_or(std::string_view key, bool fallback) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return fallback;
  const auto* const flag = std::get_if<bool>(value);
  return flag == nullptr ? Result<bool>(wrong_type(key, "true or false")) : *flag;
}

Result<std::string_view> GgufMetadata::get_string(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return fail(ErrorCode::kInvalid, "{} is missing", key);
  const auto* const text = std::get_if<std::string_view>(value);
  return text == nullptr ? Result<std::string_view>(wrong_type(key, "a text")) : *text;
}

Result<std::string_view> GgufMetadata::get_string_or(std::string_view key,
                                                     std::string_view fallback) const {
  return has(key) ? get_string(key) : fallback;
}

Result<std::span<const std::string_view>> GgufMetadata::get_strings(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::span<const std::string_view>();
  const auto* const array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->type != kString) return wrong_type(key, "an array of texts");
  return std::span<const std::string_view>(array->strings);
}

Result<std::vector<std::int64_t>> GgufMetadata::get_ints(std::string_view key) const {
  std::vector<std::int64_t> numbers;
  const GgufValue* const value = find(key);
  if (value == nullptr) return numbers;
  const auto* const array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->type == kString) return wrong_type(key, "an array of integers");
  numbers.reserve(array->count);
  for (std::size_t i = 0; i < array->count; ++i) {
    const GgufValue number = number_at(array->bytes, array->type, i);
    if (std::holds_alternative<double>(number)) return wrong_type(key, "an array of integers");
    numbers.push_back(std::holds_alternative<bool>(number) ? std::int64_t{std::get<bool>(number)}
                                                           : std::get<std::int64_t>(number));
  }
  return numbers;
}

Result<std::vector<double>> GgufMetadata::get_doubles(std::string_view key) const {
  std::vector<double> numbers;
  const GgufValue* const value = find(key);
  if (value == nullptr) return numbers;
  const auto* const array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->type == kString || array->type == kBool)
    return wrong_type(key, "an array of numbers");
  numbers.reserve(array->count);
  for (std::size_t i = 0; i < array->count; ++i) {
    const GgufValue number = number_at(array->bytes, array->type, i);
    numbers.push_back(std::holds_alternative<double>(number)
                          ? std::get<double>(number)
                          : static_cast<double>(std::get<std::int64_t>(number)));
    TRY_DO(require_finite(key, numbers.back()));
  }
  return numbers;
}

}  // namespace saccade
