#include "bench/datasets/pickles/pickle_array.h"

#include <utility>

namespace saccade::bench {

using Kind = PickleValue::Kind;

std::int64_t PickleArray::integer(std::size_t i) const {
  std::uint64_t value = 0;
  for (std::size_t k = width; k-- > 0;)
    value = value << 8 | static_cast<unsigned char>(raw[i * width + k]);
  const int unused = static_cast<int>(64 - 8 * width);
  return is_signed ? static_cast<std::int64_t>(value << unused) >> unused
                   : static_cast<std::int64_t>(value);
}

bool PickleObjects::is_made_by(const PickleValue* object, std::string_view name) const {
  return object != nullptr && object->kind == Kind::kObject &&
         value(object->items[0]).text.ends_with(name);
}

const PickleValue* PickleObjects::arguments(const PickleValue* object) const {
  return object != nullptr && object->kind == Kind::kObject ? &value(object->items[1]) : nullptr;
}

const PickleValue* PickleObjects::state(const PickleValue& object) const {
  return object.kind == Kind::kObject && object.items.size() > 2 ? &value(object.items[2])
                                                                 : nullptr;
}

std::optional<PickleArray> PickleObjects::array(std::uint32_t index) const {
  const PickleValue& object = value(index);
  const PickleValue* parts = nullptr;
  std::size_t shape_at = 1;  // (version, shape, dtype, is_fortran, data)
  std::size_t dtype_at = 2;
  std::size_t data_at = 4;
  PickleArray made;
  if (is_made_by(&object, "._reconstruct")) {
    parts = state(object);
    if (parts == nullptr || parts->items.size() != 5) return std::nullopt;
    made.fortran = value(parts->items[3]).number != 0;
  } else if (is_made_by(&object, "._frombuffer")) {  // (data, dtype, shape, order)
    parts = arguments(&object);
    if (parts == nullptr || parts->items.size() != 4) return std::nullopt;
    shape_at = 2;
    dtype_at = 1;
    data_at = 0;
    made.fortran = value(parts->items[3]).text == "F";
  } else {
    return std::nullopt;
  }
  for (const std::uint32_t side : value(parts->items[shape_at]).items)
    made.shape.push_back(value(side).number);
  const PickleValue& data = value(parts->items[data_at]);
  if (data.kind == Kind::kList) {
    made.objects = &data.items;
    return made;
  }
  return with_bytes(std::move(made), value(parts->items[dtype_at]), data);
}

std::optional<PickleArray> PickleObjects::with_bytes(PickleArray made, const PickleValue& dtype,
                                                     const PickleValue& data) const {
  const PickleValue* const described = arguments(&dtype);
  const PickleValue* const details = state(dtype);
  if (described == nullptr || described->items.empty() || details == nullptr ||
      details->items.size() < 2)
    return std::nullopt;
  const std::string& code = value(described->items[0]).text;  // "i8"
  const std::string& order = value(details->items[1]).text;
  const bool integers = code.size() == 2 && (code[0] == 'i' || code[0] == 'u') &&
                        std::string_view("1248").find(code[1]) != std::string_view::npos;
  if (!integers || order == ">") return std::nullopt;
  made.width = static_cast<std::size_t>(code[1] - '0');
  made.is_signed = code[0] == 'i';
  if (data.kind == Kind::kBytes)
    made.raw = data.text;
  else if (auto raw = latin1_bytes(data))
    made.raw = *std::move(raw);
  else
    return std::nullopt;
  if (made.raw.size() % made.width != 0) return std::nullopt;
  return made;
}

// Protocols below 3 write bytes as _codecs.encode(text, "latin1"): a character a byte.
std::optional<std::string> PickleObjects::latin1_bytes(const PickleValue& object) const {
  const PickleValue* const parts = arguments(&object);
  if (!is_made_by(&object, "_codecs.encode") || parts == nullptr || parts->items.empty())
    return std::nullopt;
  std::string bytes;
  const std::string& text = value(parts->items[0]).text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {  // U+0080 to U+00FF: 110000yy 10xxxxxx
      if ((c & 0xFCu) != 0xC0u || ++i == text.size()) return std::nullopt;
      c = static_cast<unsigned char>((c & 3u) << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu));
    }
    bytes += static_cast<char>(c);
  }
  return bytes;
}

std::optional<std::string> PickleObjects::bytes_of(const PickleValue& value) const {
  const PickleValue* made = &value;
  // A bytearray is made from bytes. Arguments come before their object, so that this ends.
  while (is_made_by(made, ".bytearray") && !arguments(made)->items.empty())
    made = &this->value(arguments(made)->items[0]);
  return made->kind == Kind::kBytes ? std::optional(made->text) : latin1_bytes(*made);
}

// (type, length, nulls, offset, buffers (which are null, where each ends, their bytes), children,
// dictionary).
std::optional<std::vector<std::string>> PickleObjects::arrow_strings(std::uint32_t index) const {
  constexpr std::int64_t kMaxStrings = 1 << 20;
  const PickleValue& object = value(index);
  const PickleValue* const made = arguments(&object);
  if (!is_made_by(&object, "pyarrow.lib._restore_array") || made == nullptr ||
      made->items.size() != 1)
    return std::nullopt;
  const std::vector<std::uint32_t>& parts = value(made->items[0]).items;
  if (parts.size() < 5) return std::nullopt;
  const PickleValue* const type = arguments(&value(parts[0]));
  if (type == nullptr || type->items.empty()) return std::nullopt;
  const std::string& alias = value(type->items[0]).text;
  if (alias != "string" && alias != "large_string") return std::nullopt;
  const std::int64_t length = value(parts[1]).number;
  const std::int64_t offset = value(parts[3]).number;
  const std::vector<std::uint32_t>& buffers = value(parts[4]).items;
  if (buffers.size() != 3 || length < 0 || length > kMaxStrings || offset < 0 ||
      offset > kMaxStrings)
    return std::nullopt;
  std::string texts[2];  // where they end, and all of them
  for (std::size_t i = 0; i < 2; ++i) {
    const PickleValue* const buffer = arguments(&value(buffers[i + 1]));
    if (buffer == nullptr || buffer->items.empty()) return std::nullopt;
    auto bytes = bytes_of(value(buffer->items[0]));
    if (!bytes) return std::nullopt;
    texts[i] = *std::move(bytes);
  }
  PickleArray ends;
  ends.width = alias == "string" ? 4 : 8;
  ends.raw = std::move(texts[0]);
  if (ends.size() < static_cast<std::size_t>(offset + length + 1)) return std::nullopt;
  std::vector<std::string> names;
  for (std::int64_t i = offset; i < offset + length; ++i) {
    const auto begin = static_cast<std::uint64_t>(ends.integer(static_cast<std::size_t>(i)));
    const auto end = static_cast<std::uint64_t>(ends.integer(static_cast<std::size_t>(i) + 1));
    if (begin > end || end > texts[1].size()) return std::nullopt;
    names.push_back(texts[1].substr(begin, end - begin));
  }
  return names;
}

}  // namespace saccade::bench
