// What a model reads from its checkpoint, one row a matrix or vector, and where each goes. The same
// rows load a checkpoint, check it for missing and unexpected tensors, and say what make-dummy
// writes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/checkpoint/weights.h"
#include "ops/device.h"

namespace saccade {

class PackedCache;

// A bias or the weight of a norm: [1, n] f32 on the device. Empty when the model has none.
struct VectorWeight {
  Buffer storage;
  View view;
};

// y = x W^T + bias
struct Linear {
  std::unique_ptr<PackedWeight> weight;
  VectorWeight bias;
};

// Rows by token id.
struct EmbeddingTable {
  Buffer storage;
  View view;
};

enum class Bias { kNo, kYes };

// Where a matrix stands: those of the text's and the tower's layers and the head may be stored and
// multiplied as another type than all others. kTextGate: of the text's layers too, and takes
// adapters, but stays numbers.
enum class MatrixRole : std::uint8_t { kOther, kTextLayer, kTextGate, kHead, kTowerLayer };

// Which rows of activations are rounded to int8 (ops/formats/int8_rows.h) besides those that a
// checkpoint says so of: none, those before weights of four bits, or those before what a GGUF has
// in blocks (ops/formats/block_codes.h), where blocks of more than four bits in text layers and the
// head become int8.
enum class Int8Rows : std::uint8_t { kStated, kBeforeFourBits, kBeforeBlocks };

// What matrices are stored and multiplied as: kF32 or kBf16; by their role kI8 too.
struct WeightTypes {
  DType compute = DType::kF32;
  DType text_layers = DType::kF32;
  DType tower_layers = DType::kF32;
  DType head = DType::kF32;
  // Matrices of these roles are rounded to codes of four bits first
  // (model/quantization/code_rounding.h), unless their checkpoint has them so.
  bool four_bit_text = false;
  bool dequantize = false;  // quantised matrices (StoredMatrix::dequantize)
  Int8Rows int8_rows = Int8Rows::kStated;
  // Activations are not rounded, whatever a checkpoint says (StoredMatrix::rounds_activations).
  bool weight_only = false;

  WeightTypes(DType all)  // NOLINT(google-explicit-constructor)
      : compute(all), text_layers(all), tower_layers(all), head(all) {}
  DType of(MatrixRole role) const {
    if (role == MatrixRole::kTextLayer) return text_layers;
    if (role == MatrixRole::kTowerLayer) return tower_layers;
    return role == MatrixRole::kHead ? head : compute;
  }
};

// Destinations must outlive the table.
class WeightTable {
 public:
  // Rows or columns [begin, end) of a stored matrix.
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  // One stored tensor NAME.weight of a matrix that is stacked from several along its outputs.
  struct Part {
    std::string name;
    std::int64_t out = 0;
    std::vector<Range> order = {};  // how its rows follow each other when packed; empty: as stored
    Range inputs = {};              // a rank's share of them; empty: all
  };

  // NAME.weight [out, in], and NAME.bias [out] with Bias::kYes.
  void linear(Linear& into, const std::string& name, std::int64_t out, std::int64_t in, Bias bias,
              MatrixRole role = MatrixRole::kOther);
  // One matrix on the device from several in the checkpoint, stacked in this order.
  void stacked(Linear& into, std::vector<Part> parts, std::int64_t in, Bias bias,
               MatrixRole role = MatrixRole::kOther);
  // A matrix stored as [in, out], without a bias; `name` is the tensor's whole name.
  void transposed(Linear& into, const std::string& name, std::int64_t out, std::int64_t in);
  // A convolution whose kernel does not overlap: NAME.weight `shape` as [shape[0], product of the
  // rest].
  void patches(Linear& into, const std::string& name, std::vector<std::int64_t> shape, Bias bias);
  // `name` is the tensor's whole name: [n].
  void norm(VectorWeight& into, const std::string& name, std::int64_t n);
  // One vector from several of [n], each written `times` times: a norm of every head, and of
  // queries and keys together. Whole names.
  struct Repeated {
    std::string name;
    std::int64_t times = 1;
  };
  void repeated_norm(VectorWeight& into, std::vector<Repeated> parts, std::int64_t n);
  void bias(VectorWeight& into, const std::string& name, std::int64_t n);
  // A vector stored with extents of 1 before its length: [1, 1, n].
  void bias(VectorWeight& into, const std::string& name, std::vector<std::int64_t> shape);
  void embedding(EmbeddingTable& into, const std::string& name, std::int64_t rows,
                 std::int64_t cols);
  // One matrix that is the embedding and the head: stored as `embedding`, as `head`, or as both if
  // they are equal. Two that differ are each its own, and only then `table` gets rows. Once a
  // table. Its role is kHead.
  void tied(Linear& into, EmbeddingTable& table, const std::string& embedding,
            const std::string& head, std::int64_t rows, std::int64_t cols);
  // The tensors of a row in their order, by their kind: matrices as they are stored, those of
  // experts one after another, the others as numbers.
  struct Tensors {
    std::vector<StoredMatrix> matrices;
    std::vector<View> others;
  };
  // Makes of them what the model keeps and returns its bytes.
  using Store = std::function<Result<std::size_t>(const Tensors&, Device&, DType compute)>;
  // Tensors that become something else than themselves (interpolated positions).
  void row(std::vector<TensorSpec> tensors, Store store, MatrixRole role = MatrixRole::kOther) {
    rows_.push_back({std::move(tensors), std::move(store), role});
  }
  // Must be in the checkpoint and are not read (layers after the one whose features count).
  void unread(std::vector<TensorSpec> tensors) { rows_.push_back({std::move(tensors), nullptr}); }
  // May be in the checkpoint and is not read; with a dot at its end, all whose names begin so.
  void ignore(const std::string& name) { ignored_.push_back(name); }
  // The same of all that another table reads or ignores.
  void ignore(const WeightTable& other);

  // A matrix of the text's layers, and the tensors that it is stacked from.
  struct TextMatrix {
    const Linear* into = nullptr;
    std::vector<Part> parts;
    std::int64_t in = 0;
  };
  const std::vector<TextMatrix>& text_matrices() const { return text_matrices_; }

  std::vector<TensorSpec> specs() const;
  bool has(MatrixRole role) const;
  const std::vector<std::string>& ignored() const { return ignored_; }

  // Checks the checkpoint against the rows, then fills every destination. Returns the bytes now on
  // the device. `cache`: of that device, where there is one; what it says at its finish() is the
  // caller's to ask.
  Result<std::size_t> load(Weights& weights, Device& device, const WeightTypes& types,
                           PackedCache* cache = nullptr) const;

  // Numbers in the tensors of rows of this role that are read, and that `counts` is true of; null:
  // all.
  std::int64_t parameters(MatrixRole role, bool (*counts)(const TensorSpec&) = nullptr) const;

 private:
  struct Row {
    std::vector<TensorSpec> tensors;
    Store store;  // null: nothing is read
    MatrixRole role = MatrixRole::kOther;
    bool makes_rows = false;  // rows that are made up are the store's to make, as a matrix
  };
  struct Tie {
    std::size_t row = 0;  // among rows_
    Linear* into = nullptr;
    EmbeddingTable* table = nullptr;
    std::string embedding;
    std::string head;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
  };
  static Tensors take(const Row& row, Weights& weights, const WeightTypes& types,
                      Weights::Use matrices);
  // This table with the tied matrix as the checkpoint has it.
  WeightTable as_stored(const Weights& weights) const;
  void vector(VectorWeight& into, const std::string& name, std::int64_t n, TensorKind kind);

  std::vector<Row> rows_;
  std::vector<std::string> ignored_;
  std::optional<Tie> tie_;
  std::vector<TextMatrix> text_matrices_;
};

}  // namespace saccade
