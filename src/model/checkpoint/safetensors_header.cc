#include "model/checkpoint/safetensors_header.h"

#include "base/json.h"

namespace saccade {

std::string write_safetensors_header(std::span<const SafetensorsEntry> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  std::string text;
  json::JsonWriter writer(text);
  writer.begin_object();
  if (!metadata.empty()) {
    writer.key("__metadata__");
    writer.begin_object();
    for (const auto& [name, value] : metadata) writer.member(name, std::string_view(value));
    writer.end_object();
  }
  for (const SafetensorsEntry& tensor : tensors) {
    writer.key(tensor.name);
    writer.begin_object();
    writer.member("dtype", std::string_view(tensor.dtype));
    writer.key("shape");
    writer.begin_array();
    for (const std::int64_t extent : tensor.shape) writer.value(extent);
    writer.end_array();
    writer.key("data_offsets");
    writer.begin_array();
    writer.value(static_cast<std::uint64_t>(tensor.begin));
    writer.value(static_cast<std::uint64_t>(tensor.end));
    writer.end_array();
    writer.end_object();
  }
  writer.end_object();
  // The data begin at a multiple of 64 bytes.
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  std::string prefix(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return prefix + text;
}

}  // namespace saccade
