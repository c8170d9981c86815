#include "model/checkpoint/weight_table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/progress.h"
#include "model/checkpoint/packed_cache.h"
#include "model/quantization/code_rounding.h"
#include "ops/formats/int8_limits.h"

namespace saccade {
namespace {

// The views one after another as one f32 row on the device.
Result<std::size_t> store_vector(VectorWeight& into, std::span<const View> views, Device& device) {
  std::int64_t count = 0;
  for (const View& view : views) count += view.cols();
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  TRY(into.storage, device.allocate(bytes));
  into.view = into.storage.view(DType::kF32, 1, count);
  std::int64_t begin = 0;
  for (const View& view : views) {
    device.lane(Lane::kCopy).upload(view, into.view.col_range(begin, begin + view.cols()));
    begin += view.cols();
  }
  return bytes;
}

// Rows that are made up, by the device and on it.
Result<std::size_t> make_rows(EmbeddingTable& into, const StoredMatrix& made, Device& device) {
  const std::size_t bytes = static_cast<std::size_t>(made.out() * made.in()) * sizeof(Bf16);
  TRY(into.storage, device.allocate(bytes));
  into.view = into.storage.view(DType::kBf16, made.out(), made.in());
  device.lane(Lane::kCopy).fill(made, into.view);
  return bytes;
}

std::size_t store_matrix(Linear& into, std::span<const StoredMatrix> parts, Device& device,
                         DType compute) {
  into.weight = device.pack(parts, compute);
  return into.weight->bytes();
}

// Bytes whose checkpoint says that activations be rounded to bytes too.
bool multiplies_bytes(const WeightTable::Tensors& tensors, const Device& device) {
  return device.multiplies_int8() && !tensors.matrices.empty() &&
         std::ranges::all_of(tensors.matrices, [](const StoredMatrix& matrix) {
           return has_byte_rows(matrix) && matrix.rounds_activations && !matrix.dequantize;
         });
}

// E4M3 whose checkpoint says that activations become such values too.
bool multiplies_e4m3(const WeightTable::Tensors& tensors, const Device& device) {
  return device.multiplies_e4m3() && !tensors.matrices.empty() &&
         std::ranges::all_of(tensors.matrices, [](const StoredMatrix& matrix) {
           return matrix.format == StoredMatrix::Format::kE4m3 && matrix.rounds_activations &&
                  !matrix.dequantize;
         });
}

bool is_text(MatrixRole role) {
  return role == MatrixRole::kTextLayer || role == MatrixRole::kHead;
}

// Blocks of a GGUF that become bytes: not codes of four bits, which stay where all parts have them
// in one form.
bool become_bytes(const WeightTable::Tensors& tensors, MatrixRole role, const WeightTypes& types) {
  if (types.int8_rows != Int8Rows::kBeforeBlocks || types.dequantize || tensors.matrices.empty())
    return false;
  if (!is_text(role)) return false;
  bool codes = true;
  bool super_blocks = true;
  for (const StoredMatrix& matrix : tensors.matrices) {
    if (matrix.format != StoredMatrix::Format::kBlocks) return false;
    codes = codes && codes_of_bits(matrix) <= 4;
    super_blocks = super_blocks && has_super_blocks(matrix);
  }
  return !codes && !super_blocks;
}

std::uint64_t stored_bytes(const WeightTable::Tensors& tensors) {
  std::uint64_t bytes = 0;
  for (const StoredMatrix& matrix : tensors.matrices)
    bytes += matrix.format == StoredMatrix::Format::kMade
                 ? static_cast<std::uint64_t>(matrix.out() * matrix.in()) * sizeof(Bf16)
                 : matrix.codes.bytes.size();
  for (const View& view : tensors.others)
    bytes += static_cast<std::uint64_t>(view.rows() * view.cols()) * size_of(view.dtype());
  return bytes;
}

std::string_view loading(const WeightTypes& types) {
  if (types.four_bit_text) return "loading and rounding to int4";
  return types.text_layers == DType::kI8 ? "loading and rounding to int8" : "loading";
}

// Of the matrices that are not codes already; what is in `tensors` refers to the result. Without a
// pool they look as they would after it, and have no values.
std::vector<RoundedMatrix> round_to_four_bits(WeightTable::Tensors& tensors, ThreadPool* pool) {
  std::vector<RoundedMatrix> rounded;
  rounded.reserve(tensors.matrices.size());
  for (StoredMatrix& matrix : tensors.matrices) {
    const std::int64_t group = group_of_inputs(matrix.in());
    if (codes_of_bits(matrix) <= 4 || group == 0) continue;
    const StoredMatrix before = matrix;
    const CodeRounding rounding{.bits = 4, .group = group};
    if (pool != nullptr) {
      rounded.emplace_back(before, rounding, *pool);
      matrix = rounded.back().matrix();
    } else {
      matrix = RoundedMatrix::shape(before, rounding);
    }
    matrix.output_scale = before.output_scale;
  }
  return rounded;
}

// Before the products of those that are codes of four bits; how many these are. Of a GGUF's super-
// blocks, which have no other product, the text's alone.
std::size_t round_activations(WeightTable::Tensors& tensors, MatrixRole role,
                              const WeightTypes& types) {
  const bool super_blocks = types.int8_rows == Int8Rows::kBeforeBlocks && is_text(role);
  std::size_t count = 0;
  for (StoredMatrix& matrix : tensors.matrices) {
    if (codes_of_bits(matrix) > 4 && !(super_blocks && has_super_blocks(matrix))) continue;
    matrix.rounds_activations = true;
    ++count;
  }
  return count;
}

std::string names_of(std::span<const TensorSpec> tensors) {
  std::string names;
  for (const TensorSpec& tensor : tensors) names += (names.empty() ? "" : " ") + tensor.name;
  return names;
}

Result<void> check_int8_inputs(std::span<const TensorSpec> specs,
                               const WeightTable::Tensors& tensors, DType compute) {
  if (compute != DType::kI8) return {};
  for (const StoredMatrix& matrix : tensors.matrices) {
    if (matrix.in() > kMaxInt8Inputs)
      return fail(ErrorCode::kUnsupported,
                  "tensor \"{}\" has {} inputs, products of int8 have {} at most",
                  specs.front().name, matrix.in(), kMaxInt8Inputs);
  }
  return {};
}

// Of "l.mlp.experts.3.up_proj.weight" "l.mlp.experts.gate_up_proj": the tensor that has all of a
// layer's where they are stacked. Empty: a matrix of no expert.
std::string stacked_name(std::string_view single) {
  constexpr std::string_view kExperts = ".experts.";
  constexpr std::string_view kWeight = "_proj.weight";
  const std::size_t at = single.rfind(kExperts);
  if (at == std::string_view::npos || !single.ends_with(kWeight)) return "";
  const std::size_t number = at + kExperts.size();
  const std::size_t dot = single.find('.', number);
  if (dot == number || single.find_first_not_of("0123456789", number) != dot) return "";
  const std::string_view matrix = single.substr(dot + 1, single.size() - dot - 1 - kWeight.size());
  return fmt::format("{}{}_proj", single.substr(0, number), matrix == "down" ? "down" : "gate_up");
}

// Experts that the checkpoint has in one tensor a layer, as current transformers names them, and
// the table one by one: their rows, in the experts' order, become one. Outputs of a row's tensors
// follow each other in its part.
template <typename Row>
std::vector<Row> stack_experts(std::vector<Row> rows, const Weights& weights) {
  std::vector<Row> stored;
  std::map<std::string, std::vector<Row>, std::less<>> stacks;
  for (Row& row : rows) {
    const std::string name = row.tensors.empty() ? "" : stacked_name(row.tensors.front().name);
    if (name.empty() || !weights.has(name))
      stored.push_back(std::move(row));
    else
      stacks[name].push_back(std::move(row));
  }
  for (auto& [name, experts] : stacks) {
    std::int64_t outputs = 0;
    for (const TensorSpec& part : experts.front().tensors) outputs += part.shape[0];
    Row& row = stored.emplace_back();
    row.role = experts.front().role;
    row.tensors = {{name,
                    {std::ssize(experts), experts.front().tensors.front().shape[1], outputs},
                    TensorKind::kExperts}};
    row.store = [experts = std::move(experts)](const WeightTable::Tensors& all, Device& device,
                                               DType compute) -> Result<std::size_t> {
      std::size_t bytes = 0;
      for (std::size_t e = 0; e < experts.size(); ++e) {
        WeightTable::Tensors own;
        std::int64_t begin = 0;
        for (const TensorSpec& part : experts[e].tensors) {
          own.matrices.push_back(all.matrices[e].outputs(begin, begin + part.shape[0]));
          begin += part.shape[0];
        }
        TRY(const std::size_t stored_bytes, experts[e].store(own, device, compute));
        bytes += stored_bytes;
      }
      return bytes;
    };
  }
  return stored;
}

}  // namespace

void WeightTable::linear(Linear& into, const std::string& name, std::int64_t out, std::int64_t in,
                         Bias bias, MatrixRole role) {
  stacked(into, {{name, out}}, in, bias, role);
}

void WeightTable::stacked(Linear& into, std::vector<Part> parts, std::int64_t in, Bias bias,
                          MatrixRole role) {
  Row row;
  row.role = role;
  if (role == MatrixRole::kTextLayer || role == MatrixRole::kTextGate)
    text_matrices_.push_back({&into, parts, in});
  for (const Part& part : parts)
    row.tensors.push_back({part.name + ".weight", {part.out, in}, TensorKind::kMatrix});
  if (bias == Bias::kYes) {
    for (const Part& part : parts)
      row.tensors.push_back({part.name + ".bias", {part.out}, TensorKind::kBias});
  }
  row.store = [&into, parts = std::move(parts)](const Tensors& tensors, Device& device,
                                                DType compute) -> Result<std::size_t> {
    std::vector<StoredMatrix> matrices;
    std::vector<View> biases;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const StoredMatrix& all = tensors.matrices[i];
      const Range inputs = parts[i].inputs.end > 0 ? parts[i].inputs : Range{0, all.in()};
      const std::vector<Range> whole = {{0, parts[i].out}};
      for (const Range range : parts[i].order.empty() ? whole : parts[i].order) {
        matrices.push_back(all.outputs(range.begin, range.end).inputs(inputs.begin, inputs.end));
        // Sums over shares of the inputs have the bias once.
        if (!tensors.others.empty() && inputs.begin == 0)
          biases.push_back(tensors.others[i].col_range(range.begin, range.end));
      }
    }
    std::size_t bytes = store_matrix(into, matrices, device, compute);
    if (!biases.empty()) {
      TRY(const std::size_t more, store_vector(into.bias, biases, device));
      bytes += more;
    }
    return bytes;
  };
  rows_.push_back(std::move(row));
}

void WeightTable::transposed(Linear& into, const std::string& name, std::int64_t out,
                             std::int64_t in) {
  rows_.push_back({{{name, {in, out}, TensorKind::kMatrix}},
                   [&into](const Tensors& tensors, Device& device, DType compute) {
                     const StoredMatrix turned = tensors.matrices.front().transposed();
                     return store_matrix(into, {&turned, 1}, device, compute);
                   }});
}

void WeightTable::patches(Linear& into, const std::string& name, std::vector<std::int64_t> shape,
                          Bias bias) {
  const std::int64_t in =
      std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  stacked(into, {{name, shape.front()}}, in, bias);
  rows_.back().tensors.front().shape = std::move(shape);
}

void WeightTable::norm(VectorWeight& into, const std::string& name, std::int64_t n) {
  vector(into, name, n, TensorKind::kNorm);
}

void WeightTable::repeated_norm(VectorWeight& into, std::vector<Repeated> parts, std::int64_t n) {
  std::vector<TensorSpec> specs;
  for (const Repeated& part : parts) specs.push_back({part.name, {n}, TensorKind::kNorm});
  row(std::move(specs),
      [&into, parts = std::move(parts)](const Tensors& tensors, Device& device, DType) {
        std::vector<View> pieces;
        for (std::size_t i = 0; i < parts.size(); ++i)
          pieces.insert(pieces.end(), static_cast<std::size_t>(parts[i].times), tensors.others[i]);
        return store_vector(into, pieces, device);
      });
}

void WeightTable::bias(VectorWeight& into, const std::string& name, std::int64_t n) {
  vector(into, name, n, TensorKind::kBias);
}

void WeightTable::bias(VectorWeight& into, const std::string& name,
                       std::vector<std::int64_t> shape) {
  vector(into, name, shape.back(), TensorKind::kBias);
  rows_.back().tensors.front().shape = std::move(shape);
}

void WeightTable::vector(VectorWeight& into, const std::string& name, std::int64_t n,
                         TensorKind kind) {
  rows_.push_back({{{name, {n}, kind}}, [&into](const Tensors& tensors, Device& device, DType) {
                     return store_vector(into, tensors.others, device);
                   }});
}

void WeightTable::embedding(EmbeddingTable& into, const std::string& name, std::int64_t rows,
                            std::int64_t cols) {
  rows_.push_back(
      {{{name, {rows, cols}, TensorKind::kEmbedding}},
       [&into](const Tensors& tensors, Device& device, DType compute) -> Result<std::size_t> {
         if (!tensors.matrices.empty()) return make_rows(into, tensors.matrices.front(), device);
         const View from = tensors.others.front();
         const DType dtype = compute == DType::kBf16 ? DType::kBf16 : from.dtype();
         const std::size_t bytes =
             static_cast<std::size_t>(from.rows() * from.cols()) * size_of(dtype);
         TRY(into.storage, device.allocate(bytes));
         into.view = into.storage.view(dtype, from.rows(), from.cols());
         device.lane(Lane::kCopy).upload(from, into.view);
         return bytes;
       }});
  rows_.back().makes_rows = true;
}

void WeightTable::tied(Linear& into, EmbeddingTable& table, const std::string& embedding,
                       const std::string& head, std::int64_t rows, std::int64_t cols) {
  tie_ = Tie{rows_.size(), &into, &table, embedding, head, rows, cols};
  linear(into, embedding, rows, cols, Bias::kNo, MatrixRole::kHead);
  ignore(head + ".weight");
}

WeightTable WeightTable::as_stored(const Weights& weights) const {
  WeightTable stored = *this;
  const bool has_head = tie_ && weights.has(tie_->head + ".weight");
  const bool both = has_head && weights.has(tie_->embedding + ".weight");
  if (has_head && !(both && weights.equal(tie_->embedding + ".weight", tie_->head + ".weight"))) {
    stored.rows_.erase(stored.rows_.begin() + static_cast<std::ptrdiff_t>(tie_->row));
    if (both) stored.embedding(*tie_->table, tie_->embedding + ".weight", tie_->rows, tie_->cols);
    stored.linear(*tie_->into, tie_->head, tie_->rows, tie_->cols, Bias::kNo, MatrixRole::kHead);
  }
  // What is made up is made by the table's own names.
  if (!weights.are_made()) stored.rows_ = stack_experts(std::move(stored.rows_), weights);
  return stored;
}

void WeightTable::ignore(const WeightTable& other) {
  for (const TensorSpec& tensor : other.specs()) ignored_.push_back(tensor.name);
  ignored_.insert(ignored_.end(), other.ignored_.begin(), other.ignored_.end());
}

std::vector<TensorSpec> WeightTable::specs() const {
  std::vector<TensorSpec> specs;
  for (const Row& row : rows_) specs.insert(specs.end(), row.tensors.begin(), row.tensors.end());
  return specs;
}

bool WeightTable::has(MatrixRole role) const {
  return std::ranges::any_of(rows_, [&](const Row& row) { return row.role == role; });
}

std::int64_t WeightTable::parameters(MatrixRole role, bool (*counts)(const TensorSpec&)) const {
  std::int64_t parameters = 0;
  for (const Row& row : rows_) {
    if (row.role != role || row.store == nullptr) continue;
    for (const TensorSpec& tensor : row.tensors) {
      if (counts != nullptr && !counts(tensor)) continue;
      parameters += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1},
                                    std::multiplies<>());
    }
  }
  return parameters;
}

WeightTable::Tensors WeightTable::take(const Row& row, Weights& weights, const WeightTypes& types,
                                       Weights::Use matrices) {
  Tensors tensors;
  for (const TensorSpec& tensor : row.tensors) {
    if (tensor.kind == TensorKind::kExperts)
      tensors.matrices =
          weights.take_experts(tensor.name, tensor.shape[1], tensor.shape[2], matrices);
    else if (tensor.kind == TensorKind::kMatrix || (row.makes_rows && weights.are_made()))
      tensors.matrices.push_back(weights.take_matrix(tensor.name, matrices));
    else
      tensors.others.push_back(weights.take(tensor.name));
  }
  for (StoredMatrix& matrix : tensors.matrices) {
    matrix.dequantize = types.dequantize;
    matrix.rounds_activations = matrix.rounds_activations && !types.weight_only;
  }
  return tensors;
}

Result<std::size_t> WeightTable::load(Weights& weights, Device& device, const WeightTypes& types,
                                      PackedCache* cache) const {
  const WeightTable stored_table = as_stored(weights);
  TRY_DO(weights.require(stored_table.specs(), ignored_));
  std::size_t bytes = 0;
  std::size_t rounding = 0;  // matrices whose x becomes bytes
  std::int64_t parameters = 0;
  for (const Row& row : stored_table.rows_)
    if (row.store != nullptr) parameters += parameter_count(row.tensors);
  Progress progress{std::string(loading(types))};
  std::int64_t done = 0;
  std::uint64_t read = 0;
  for (const Row& row : stored_table.rows_) {
    if (row.store == nullptr) continue;
    progress.show(static_cast<double>(done) / static_cast<double>(parameters), read,
                  row.tensors.front().name);
    const bool held = cache != nullptr && cache->holds();
    Tensors tensors = take(row, weights, types, held ? Weights::Use::kUnread : Weights::Use::kRead);
    read += stored_bytes(tensors);
    const bool round = types.four_bit_text && row.role == MatrixRole::kTextLayer;
    const std::vector<RoundedMatrix> rounded =
        round ? round_to_four_bits(tensors, held ? nullptr : &device.pool())
              : std::vector<RoundedMatrix>();
    if (types.int8_rows != Int8Rows::kStated)
      rounding += round_activations(tensors, row.role, types);
    const DType compute = multiplies_bytes(tensors, device)        ? DType::kI8
                          : multiplies_e4m3(tensors, device)       ? DType::kE4m3
                          : become_bytes(tensors, row.role, types) ? DType::kI8
                                                                   : types.of(row.role);
    TRY_DO(check_int8_inputs(row.tensors, tensors, compute));
    if (cache != nullptr) cache->begin_row(names_of(row.tensors));
    TRY(const std::size_t stored,
        row.store(tensors, cache != nullptr ? cache->device() : device, compute));
    bytes += stored;
    done += parameter_count(row.tensors);
    for (const TensorSpec& tensor : row.tensors) weights.release(tensor.name);
  }
  device.synchronize();
  if (types.int8_rows == Int8Rows::kBeforeFourBits && rounding == 0 && !types.four_bit_text)
    return fail(ErrorCode::kInvalid,
                "activations are to become bytes before products with four bits "
                "(--quantize-activations), and no matrix has four bits");
  return bytes;
}

}  // namespace saccade
