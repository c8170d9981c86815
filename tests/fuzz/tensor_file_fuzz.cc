// Tensors of strangers: whatever the bytes are, a tensor that is read lies in them and is as large
// as its shape says, and rows are finite.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "model/given/given_rows.h"
#include "model/given/tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  if (const auto tensors = read_tensor_file(file)) {
    for (const FileTensor& tensor : *tensors) {
      CHECK(tensor.bytes.empty() ||
            (tensor.bytes.data() >= file.data() &&
             tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size()));
    }
  }
  for (const std::int64_t width : {2, 96}) {
    const auto rows = read_given_rows({.grid = {}, .rows = file}, width);
    if (!rows) continue;
    CHECK(rows->rows > 0 && rows->width == width);
    const std::string floats = converted(*rows, DType::kF32);
    CHECK(floats.size() == static_cast<std::size_t>(rows->rows * width) * sizeof(float));
  }
  return 0;
}
