// Any bytes as a safetensors file: a header that is accepted describes bytes that are there.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "model/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> content;
  const auto header =
      saccade::parse_safetensors({reinterpret_cast<const std::byte*>(data), size}, &content);
  if (!header) return 0;
  std::size_t position = 0;
  for (const auto& tensor : header->tensors) {
    if (tensor.begin != position || tensor.end < tensor.begin || tensor.end > content.size())
      std::abort();
    position = tensor.end;
  }
  if (position != content.size()) std::abort();
  return 0;
}
