#include "model/weight_table.h"

#include <cstring>
#include <numeric>
#include <utility>

namespace saccade {
namespace {

// The views one after another as one f32 row on the device.
Result<std::size_t> store_vector(VectorWeight& into, std::span<const View> views,
                                 Backend& backend) {
  std::int64_t count = 0;
  for (const View& view : views) count += view.cols();
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  TRY(into.storage, backend.allocate(bytes));
  into.view = into.storage.view(DType::kF32, 1, count);
  std::int64_t begin = 0;
  for (const View& view : views) {
    backend.copy(view, into.view.col_range(begin, begin + view.cols()));
    begin += view.cols();
  }
  return bytes;
}

std::size_t store_matrix(Linear& into, std::span<const View> views, Backend& backend,
                         DType compute) {
  into.weight = backend.pack(views, compute);
  return into.weight->bytes();
}

}  // namespace

void WeightTable::linear(Linear& into, const std::string& name, std::int64_t out, std::int64_t in,
                         Bias bias) {
  stacked(into, {{name, out}}, in, bias);
}

void WeightTable::stacked(Linear& into, std::vector<Part> parts, std::int64_t in, Bias bias) {
  Row row;
  for (const Part& part : parts)
    row.tensors.push_back({part.name + ".weight", {part.out, in}, TensorKind::kMatrix});
  if (bias == Bias::kYes) {
    for (const Part& part : parts)
      row.tensors.push_back({part.name + ".bias", {part.out}, TensorKind::kBias});
  }
  row.store = [&into, parts = std::move(parts)](std::span<const View> views, Backend& backend,
                                                DType compute) -> Result<std::size_t> {
    std::vector<View> matrices;
    std::vector<View> biases;
    for (std::size_t i = 0; i < views.size(); ++i) {
      const std::vector<RowRange>& order = parts[i % parts.size()].order;
      const bool is_bias = i >= parts.size();
      auto& pieces = is_bias ? biases : matrices;
      if (order.empty()) pieces.push_back(views[i]);
      for (const RowRange range : order)
        pieces.push_back(is_bias ? views[i].col_range(range.begin, range.end)
                                 : views[i].row_range(range.begin, range.end));
    }
    std::size_t bytes = store_matrix(into, matrices, backend, compute);
    if (!biases.empty()) {
      TRY(const std::size_t more, store_vector(into.bias, biases, backend));
      bytes += more;
    }
    return bytes;
  };
  rows_.push_back(std::move(row));
}

void WeightTable::transposed(Linear& into, const std::string& name, std::int64_t out,
                             std::int64_t in) {
  rows_.push_back({{{name, {in, out}, TensorKind::kMatrix}},
                   [&into](std::span<const View> views, Backend& backend,
                           DType compute) -> Result<std::size_t> {
                     const View from = views.front();
                     const std::size_t width = size_of(from.dtype());
                     const std::size_t row_bytes = static_cast<std::size_t>(from.rows()) * width;
                     TRY(const Buffer turned,
                         allocate_host(row_bytes * static_cast<std::size_t>(from.cols())));
                     for (std::int64_t i = 0; i < from.rows(); ++i) {
                       for (std::int64_t o = 0; o < from.cols(); ++o)
                         std::memcpy(turned.data() + static_cast<std::size_t>(o) * row_bytes +
                                         static_cast<std::size_t>(i) * width,
                                     from.row_range(i, i + 1).col_range(o, o + 1).data(), width);
                     }
                     const View view = turned.view(from.dtype(), from.cols(), from.rows());
                     return store_matrix(into, {&view, 1}, backend, compute);
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
  rows_.push_back(
      {{{name, {n}, kind}}, [&into](std::span<const View> views, Backend& backend, DType) {
         return store_vector(into, views, backend);
       }});
}

void WeightTable::embedding(EmbeddingTable& into, const std::string& name, std::int64_t rows,
                            std::int64_t cols) {
  rows_.push_back({{{name, {rows, cols}, TensorKind::kEmbedding}},
                   [&into](std::span<const View> views, Backend& backend,
                           DType compute) -> Result<std::size_t> {
                     const View from = views.front();
                     const DType dtype = compute == DType::kBf16 ? DType::kBf16 : from.dtype();
                     const std::size_t bytes =
                         static_cast<std::size_t>(from.rows() * from.cols()) * size_of(dtype);
                     TRY(into.storage, backend.allocate(bytes));
                     into.view = into.storage.view(dtype, from.rows(), from.cols());
                     backend.copy(from, into.view);
                     return bytes;
                   }});
}

std::vector<TensorSpec> WeightTable::specs() const {
  std::vector<TensorSpec> specs;
  for (const Row& row : rows_) specs.insert(specs.end(), row.tensors.begin(), row.tensors.end());
  return specs;
}

Result<std::size_t> WeightTable::load(Weights& weights, Backend& backend, DType compute) const {
  TRY_DO(weights.require(specs(), ignored_));
  std::size_t bytes = 0;
  for (const Row& row : rows_) {
    if (row.store == nullptr) continue;
    std::vector<View> views;
    for (const TensorSpec& tensor : row.tensors)
      views.push_back(weights.take(tensor.name, compute, backend.pool()));
    TRY(const std::size_t stored, row.store(views, backend, compute));
    bytes += stored;
    backend.synchronize();
    for (const TensorSpec& tensor : row.tensors) weights.release(tensor.name);
  }
  return bytes;
}

}  // namespace saccade
