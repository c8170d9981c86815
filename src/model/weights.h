// The tensors of a checkpoint by the names that families use, each handed out once.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/safetensors.h"
#include "tensor/tensor.h"

namespace saccade {

// Tensor names that begin with `from` are read as if they began with `to`. The first match counts.
struct NameAlias {
  std::string_view from;
  std::string_view to;
};

enum class TensorKind { kMatrix, kEmbedding, kNorm, kBias };

// A tensor that a family reads.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  TensorKind kind = TensorKind::kMatrix;  // how make-dummy fills it
};

std::int64_t parameter_count(std::span<const TensorSpec> specs);

// One thread.
class Weights {
 public:
  // Maps the files and reads their headers. Errors name the file and the tensor.
  static Result<Weights> open(const std::string& directory, std::span<const NameAlias> aliases);

  // The checkpoint holds exactly `specs`, in these shapes and in bf16, f16 or f32. Otherwise an
  // error that names the tensors that are missing, unexpected or of another shape. `ignored` may be
  // there; so may buffers that older exporters saved along (inverse frequencies, position ids).
  Result<void> require(std::span<const TensorSpec> specs,
                       std::span<const std::string> ignored) const;

  // Its first extent as rows, the product of the others as columns; one extent alone is one row.
  // Aligned. Valid until release(). CHECKs that require() saw the name and nobody took it before.
  View take(std::string_view name);
  // The pages leave the process.
  void release(std::string_view name);

  DType dtype() const;  // of the largest tensor: what the checkpoint was saved in
  std::size_t bytes() const;
  // SHA-256 over every file's header, for keys of caches that outlive the process.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  struct Tensor {
    std::size_t file = 0;
    const SafetensorsEntry* entry = nullptr;
    bool taken = false;
    std::vector<std::byte> aligned;  // a copy, for a tensor that the file does not align
  };

  Result<void> add_file(std::size_t index, std::span<const NameAlias> aliases);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::string fingerprint_;
};

}  // namespace saccade
