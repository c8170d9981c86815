// Any bytes as a GGUF: tensors of a header that is accepted are there, and what is made of its
// metadata is made, or refused, without reading outside of it.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "model/gguf/gguf_header.h"
#include "model/gguf/gguf_tokenizer.h"
#include "ops/formats/block_codes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto header = parse_gguf(file);
  if (!header) return 0;
  std::size_t position = 0;
  for (const GgufTensor& tensor : header->tensors) {
    if (tensor.begin < position || tensor.end < tensor.begin || tensor.end > size - header->data)
      std::abort();
    position = tensor.end;
    if (const auto type = block_type(tensor.type)) {
      const BlockFormat& format = block_format(*type);
      const std::size_t bytes = tensor.end - tensor.begin;
      std::vector<float> numbers(bytes / static_cast<std::size_t>(format.bytes) *
                                 static_cast<std::size_t>(format.elements));
      dequantize_blocks(*type, file.subspan(header->data + tensor.begin, bytes), numbers.data());
    }
  }
  for (const auto& [key, value] : header->metadata.values()) {
    (void)header->metadata.get_ints(key);
    (void)header->metadata.get_doubles(key);
    (void)header->metadata.get_strings(key);
  }
  (void)read_gguf_tokenizer(header->metadata);
  return 0;
}
