// A quantization_config, a zero byte and a safetensors file: whatever is accepted as a quantised
// matrix can be read as numbers.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/checkpoint/safetensors.h"
#include "model/quantization/quantized_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  const std::span<const std::uint8_t> input(data, size);
  const auto end = std::ranges::find(input, 0);
  if (end == input.end()) return 0;
  const auto split = static_cast<std::size_t>(end - input.begin());
  const auto config = json::parse(std::string_view(reinterpret_cast<const char*>(data), split), 16);
  if (!config || !config->is_object()) return 0;
  const auto quantization = parse_quantization(config->get_object());
  if (!quantization || !*quantization) return 0;

  std::span<const std::byte> content;
  const auto header = parse_safetensors(std::as_bytes(input.subspan(split + 1)), &content);
  if (!header) return 0;
  std::map<std::string, StoredTensor, std::less<>> tensors;
  for (const auto& tensor : header->tensors)
    tensors.emplace(tensor.name,
                    StoredTensor{tensor.dtype, tensor.shape,
                                 content.subspan(tensor.begin, tensor.end - tensor.begin)});
  const auto found = find_quantized(**quantization, tensors);
  if (!found) return 0;
  for (const auto& [name, module] : found->modules) {
    std::vector<StoredMatrix> matrices = module.experts;
    if (matrices.empty()) matrices.push_back(module.matrix);
    for (const StoredMatrix& matrix : matrices) {
      std::vector<float> values(static_cast<std::size_t>(matrix.out() * matrix.in()));
      StoredMatrixReader(matrix).read(0, matrix.out(), 0, matrix.in(), values.data(), matrix.in());
    }
  }
  return 0;
}
