#include "model/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <utility>

#include "base/json.h"
#include "model/checkpoint/safetensors_header.h"

namespace saccade {
namespace {

constexpr std::size_t kMaxTensorRank = 8;

struct TypeName {
  std::string_view name;
  std::size_t bits;
  std::optional<DType> dtype;
};
constexpr std::array kTypes = {
    TypeName{"F32", 32, DType::kF32},     TypeName{"BF16", 16, DType::kBf16},
    TypeName{"F16", 16, DType::kF16},     TypeName{"I32", 32, DType::kI32},
    TypeName{"I8", 8, DType::kI8},        TypeName{"U8", 8, DType::kU8},
    TypeName{"F64", 64, std::nullopt},    TypeName{"I64", 64, std::nullopt},
    TypeName{"U64", 64, std::nullopt},    TypeName{"U32", 32, std::nullopt},
    TypeName{"I16", 16, std::nullopt},    TypeName{"U16", 16, std::nullopt},
    TypeName{"BOOL", 8, std::nullopt},    TypeName{"F8_E4M3", 8, std::nullopt},
    TypeName{"F8_E5M2", 8, std::nullopt}, TypeName{"F8_E8M0", 8, std::nullopt},
    TypeName{"F4", 4, std::nullopt},
};

const TypeName* find_type(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name, &TypeName::name);
  return found == kTypes.end() ? nullptr : found;
}

// Keys of the outermost object as written. The text is valid JSON already: only strings and depth
// need following. A parsed tree cannot tell: it keeps one of two equal keys.
std::vector<std::string_view> outer_keys(std::string_view text) {
  std::vector<std::string_view> keys;
  int depth = 0;
  bool key_next = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t begin = ++i;
      while (text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      if (depth == 1 && key_next) keys.push_back(text.substr(begin, i - begin));
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (depth == 1 && (c == ':' || c == ',')) {
      key_next = c == ',';
    }
  }
  return keys;
}

Result<void> check_no_duplicates(std::string_view text, std::size_t members) {
  std::vector<std::string_view> keys = outer_keys(text);
  if (keys.size() == members) return {};
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  return fail(ErrorCode::kCorrupt, "tensor \"{}\" is in the header twice",
              twice == keys.end() ? std::string_view("?") : *twice);
}

Result<std::vector<std::int64_t>> parse_shape(const json::object& tensor) {
  const json::value* shape = json::find(tensor, "shape");
  if (shape == nullptr || !shape->is_array()) return fail(ErrorCode::kCorrupt, "no shape");
  if (shape->get_array().size() > kMaxTensorRank)
    return fail(ErrorCode::kCorrupt, "shape has {} extents, limit {}", shape->get_array().size(),
                kMaxTensorRank);
  std::vector<std::int64_t> extents;
  for (const json::value& extent : shape->get_array()) {
    if (!extent.is_int64() || extent.get_int64() < 0)
      return fail(ErrorCode::kCorrupt, "shape holds something other than lengths");
    extents.push_back(extent.get_int64());
  }
  return extents;
}

// Bytes of a tensor of this type and shape; nothing when no memory could hold it.
std::optional<std::size_t> byte_count(const TypeName& type, std::span<const std::int64_t> shape) {
  std::size_t bits = type.bits;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::size_t>(extent), &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

Result<SafetensorsEntry> parse_entry(std::string_view name, const json::value& value,
                                     std::size_t data_bytes) {
  if (!value.is_object())
    return fail(ErrorCode::kCorrupt, "is {}, not an object", json::kind_name(value));
  const json::object& tensor = value.get_object();
  SafetensorsEntry entry;
  entry.name = name;
  TRY(entry.dtype, json::get_string(tensor, "dtype"));
  const TypeName* type = find_type(entry.dtype);
  if (type == nullptr) return fail(ErrorCode::kCorrupt, "unknown dtype \"{}\"", entry.dtype);
  TRY(entry.shape, parse_shape(tensor));

  const json::value* offsets = json::find(tensor, "data_offsets");
  if (offsets == nullptr || !offsets->is_array() || offsets->get_array().size() != 2)
    return fail(ErrorCode::kCorrupt, "data_offsets is not a pair");
  std::array<std::size_t, 2> range{};
  for (std::size_t i = 0; i < 2; ++i) {
    const json::value& offset = offsets->get_array()[i];
    if (!offset.is_int64() || offset.get_int64() < 0)
      return fail(ErrorCode::kCorrupt, "data_offsets are not byte positions");
    range[i] = static_cast<std::size_t>(offset.get_int64());
  }
  if (range[0] > range[1] || range[1] > data_bytes)
    return fail(ErrorCode::kCorrupt, "data_offsets [{}, {}] leave the file's {} data bytes",
                range[0], range[1], data_bytes);
  const auto expected = byte_count(*type, entry.shape);
  if (!expected || *expected != range[1] - range[0])
    return fail(ErrorCode::kCorrupt, "{} {} does not fit its {} bytes", entry.dtype,
                shape_text(entry.shape), range[1] - range[0]);
  entry.begin = range[0];
  entry.end = range[1];
  return entry;
}

Result<void> check_layout(const std::vector<SafetensorsEntry>& tensors, std::size_t data_bytes) {
  std::size_t position = 0;
  for (const SafetensorsEntry& entry : tensors) {
    if (entry.begin != position)
      return fail(ErrorCode::kCorrupt, "tensor \"{}\" begins at byte {}, {} byte {}", entry.name,
                  entry.begin,
                  entry.begin < position ? "inside the one that ends at" : "leaving a gap from",
                  position);
    position = entry.end;
  }
  if (position != data_bytes)
    return fail(ErrorCode::kCorrupt, "the tensors end at byte {} of {} data bytes", position,
                data_bytes);
  return {};
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", extent);
  return text + "]";
}

std::optional<DType> safetensors_dtype(std::string_view name) {
  const TypeName* type = find_type(name);
  return type == nullptr ? std::nullopt : type->dtype;
}

std::string_view safetensors_name(DType type) {
  return std::ranges::find(kTypes, std::optional(type), &TypeName::dtype)->name;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::size_t data_bytes) {
  auto parsed = json::parse(text, 4);
  if (!parsed) return fail(ErrorCode::kCorrupt, "header: {}", parsed.error().message);
  if (!parsed->is_object())
    return fail(ErrorCode::kCorrupt, "header is {}, not an object", json::kind_name(*parsed));
  const json::object& members = parsed->get_object();
  TRY_DO(check_no_duplicates(text, members.size()));

  SafetensorsHeader header;
  header.tensors.reserve(members.size());
  for (const auto& member : members) {
    const std::string_view name = member.key();
    if (name == "__metadata__") {
      if (!member.value().is_object())
        return fail(ErrorCode::kCorrupt, "__metadata__ is not an object");
      for (const auto& pair : member.value().get_object()) {
        if (!pair.value().is_string())
          return fail(ErrorCode::kCorrupt, "__metadata__.{} is not a string",
                      std::string_view(pair.key()));
        header.metadata.emplace(pair.key(), pair.value().get_string());
      }
      continue;
    }
    auto entry = parse_entry(name, member.value(), data_bytes);
    if (!entry) return fail(ErrorCode::kCorrupt, "tensor \"{}\": {}", name, entry.error().message);
    header.tensors.push_back(*std::move(entry));
  }
  std::ranges::sort(header.tensors, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  TRY_DO(check_layout(header.tensors, data_bytes));
  return header;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file,
                                            std::span<const std::byte>* data) {
  if (file.size() < 8)
    return fail(ErrorCode::kCorrupt, "{} bytes are too few for a safetensors file", file.size());
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length > kMaxSafetensorsHeader)
    return fail(ErrorCode::kCorrupt, "header length {} is over the limit of {} bytes", length,
                kMaxSafetensorsHeader);
  if (length > file.size() - 8)
    return fail(ErrorCode::kCorrupt, "header length {} is over the file's {} bytes (truncated?)",
                length, file.size());
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  *data = file.subspan(8 + static_cast<std::size_t>(length));
  return parse_safetensors_header(text, data->size());
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  TRY(MappedFile mapped, MappedFile::open(path));
  SafetensorsFile file(path, std::move(mapped));
  auto header = parse_safetensors(file.file_.bytes(), &file.data_);
  if (!header) return fail_within(path, std::move(header).error());
  file.header_ = *std::move(header);
  return file;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(header_.tensors, name, &SafetensorsEntry::name);
  return found == header_.tensors.end() ? nullptr : &*found;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return data_.subspan(entry.begin, entry.end - entry.begin);
}

std::string make_safetensors_header(std::span<const SafetensorsPlan> tensors,
                                    const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  std::size_t offset = 0;
  for (const SafetensorsPlan& tensor : tensors) {
    std::size_t bytes = size_of(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::size_t>(extent);
    entries.push_back({tensor.name, std::string(safetensors_name(tensor.dtype)), tensor.shape,
                       offset, offset + bytes});
    offset += bytes;
  }
  return write_safetensors_header(entries, metadata);
}

}  // namespace saccade
