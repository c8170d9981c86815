// The tensors of a checkpoint by the names that families use, each handed out once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/threads/thread_pool.h"
#include "model/checkpoint/safetensors.h"
#include "model/quantization/quantized_matrix.h"
#include "tensor/tensor.h"

namespace saccade {

// Tensor names that begin with `from` are read as if they began with `to`. The first match counts.
struct NameAlias {
  std::string_view from;
  std::string_view to;
};

// kExperts: as many matrices as the first extent says, each [inputs, outputs]; a checkpoint may
// have them as [outputs, inputs].
enum class TensorKind { kMatrix, kExperts, kEmbedding, kNorm, kBias };

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
  // Maps the files and reads their headers; of a GGUF, as gguf/gguf_weights.h reads one. The
  // tensors of a quantised matrix become one, NAME.weight of its true shape. Errors name the file
  // and the tensor.
  static Result<Weights> open(const std::string& directory, std::span<const NameAlias> aliases,
                              const std::optional<Quantization>& quantization = std::nullopt);

  // No files: the tensors of `specs` in bf16, with the values that make-dummy writes for `seed`.
  // Those that take() gives are made then; of matrices only what they are made of is given.
  static Result<Weights> random(std::span<const TensorSpec> specs, std::uint64_t seed);

  // The checkpoint holds exactly `specs`, in these shapes and in bf16, f16 or f32. Otherwise an
  // error that names the tensors that are missing, unexpected or of another shape. `ignored` may be
  // there, and one that ends with a dot is whatever begins with it; so may buffers that older
  // exporters saved along (inverse frequencies, position ids), and biases of zeros that AutoGPTQ
  // gives to every matrix.
  Result<void> require(std::span<const TensorSpec> specs,
                       std::span<const std::string> ignored) const;

  bool are_made() const { return made_ != nullptr; }  // random()
  bool has(std::string_view name) const { return tensors_.contains(name); }
  // The same values of the same type and shape; false for quantised ones. Both exist.
  bool equal(std::string_view one, std::string_view other) const;

  // Its first extent as rows, the product of the others as columns; one extent alone is one row.
  // Aligned. Valid until release(). CHECKs that require() saw the name and nobody took it before.
  // One that is quantised becomes float32.
  View take(std::string_view name);
  // The same of a matrix as it is stored: nothing is read yet, and nothing is copied. kUnread: the
  // caller needs its shape and no number, so that the system is not asked to read ahead.
  enum class Use { kRead, kUnread };
  StoredMatrix take_matrix(std::string_view name, Use use = Use::kRead);
  // The same of each matrix of one that is kExperts.
  std::vector<StoredMatrix> take_experts(std::string_view name, std::int64_t inputs,
                                         std::int64_t outputs, Use use = Use::kRead);
  // The pages leave the process.
  void release(std::string_view name);

  // Of the largest tensor that is not quantised: what the checkpoint was saved in.
  DType dtype() const;
  std::size_t bytes() const;  // as stored
  struct Quantized {
    std::size_t matrices = 0;
    std::size_t four_bits = 0;  // of them, in four bits or less
    std::int64_t weights = 0;
    std::size_t bytes = 0;  // as stored: codes, scales, zeros
    std::int64_t four_bit_weights = 0;
    std::size_t four_bit_bytes = 0;
  };
  Quantized quantized() const;
  // How many tensors are in blocks of each type (ops/formats/block_codes.h), by its name.
  std::map<std::string, std::size_t> block_counts() const;
  // Scales of activations and of KV caches: tensors that are there and not read.
  std::size_t unused_scales() const { return unused_scales_; }
  // SHA-256 over the names, types, shapes and bytes of these tensors as they are stored, in this
  // order; those that are not there count as absent. Reads them all, and lets their pages go. Any
  // thread, also while others are taken.
  Digest fingerprint(std::span<const TensorSpec> specs) const;
  // What tells these files from others without reading them: each one's name (not its folder),
  // size and time of change, and the names, types, shapes and places of its tensors.
  std::string identity() const;

 private:
  struct Stored {
    std::size_t file = 0;
    const SafetensorsEntry* entry = nullptr;
  };
  struct Tensor {
    std::vector<Stored> stored;  // one, or the parts of a quantised matrix, its codes first
    std::optional<StoredMatrix> quantized;
    std::vector<StoredMatrix> experts;  // of kExperts that are quantised, one by one
    bool taken = false;
    Buffer copy;  // of a tensor that the file does not align; or of what was quantised, or made
    const TensorSpec* made = nullptr;  // of random()

    const SafetensorsEntry& entry() const { return *stored.front().entry; }
    std::vector<std::int64_t> shape() const;
    std::size_t bytes() const;
  };

  Result<void> open_safetensors(const std::string& directory, std::span<const NameAlias> aliases);
  Result<void> add_file(std::size_t index, std::span<const NameAlias> aliases);
  void make(Tensor& tensor) const;
  std::span<const std::byte> bytes_of(const Tensor& tensor) const;
  Result<void> join_quantized(const Quantization& quantization);
  Tensor& taken(std::string_view name, Use use = Use::kRead);
  StoredMatrix coded(const Tensor& tensor) const;  // of one that is quantised
  bool is_zero_bias(std::string_view name, const Tensor& tensor) const;

  // Of random(): what its tensors point at.
  struct Made {
    std::vector<TensorSpec> specs;
    std::vector<SafetensorsEntry> entries;
    std::uint64_t seed = 0;
    ThreadPool pool;
    Made();
  };

  std::vector<std::unique_ptr<const WeightFile>> files_;
  bool outputs_first_ = false;  // of experts: a GGUF's
  std::unique_ptr<Made> made_;  // null: all tensors are in files_
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::size_t unused_scales_ = 0;
};

}  // namespace saccade
