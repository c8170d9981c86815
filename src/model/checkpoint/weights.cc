#include "model/checkpoint/weights.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "base/check.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/tensor_names.h"
#include "model/dummies/random_weights.h"
#include "model/gguf/gguf_paths.h"
#include "model/gguf/gguf_weights.h"

namespace saccade {
namespace {

// Buffers that exporters once saved beside the weights. They are computed, never read.
constexpr std::array<std::string_view, 4> kHarmlessSuffixes = {
    "rotary_emb.inv_freq", "rotary_pos_emb.inv_freq", "embeddings.position_ids",
    "attn.masked_bias"};

bool is_harmless(std::string_view name) {
  return std::ranges::any_of(kHarmlessSuffixes,
                             [&](std::string_view suffix) { return name.ends_with(suffix); });
}

// "a, b, c and 12 more"
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  const std::size_t shown = std::min<std::size_t>(names.size(), 3);
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

bool is_float(const SafetensorsEntry& entry) {
  return entry.dtype == "F32" || entry.dtype == "BF16" || entry.dtype == "F16";
}

// Host pages, zeroed. As with the weights themselves, a model that does not fit ends the program.
Buffer host_copy(std::size_t bytes) {
  Result<Buffer> buffer = allocate_host(bytes);
  CHECK(buffer.has_value(), "{} bytes of weights: {}", bytes, buffer.error().message);
  return *std::move(buffer);
}

bool fits(const std::vector<std::int64_t>& shape, const TensorSpec& spec) {
  if (shape == spec.shape) return true;
  return spec.kind == TensorKind::kExperts && shape.size() == 3 && shape[0] == spec.shape[0] &&
         shape[1] == spec.shape[2] && shape[2] == spec.shape[1];
}

}  // namespace

std::string canonical_name(std::string_view name, std::span<const NameAlias> aliases) {
  for (const NameAlias& alias : aliases) {
    if (name.starts_with(alias.from))
      return std::string(alias.to) + std::string(name.substr(alias.from.size()));
  }
  return std::string(name);
}

std::vector<std::int64_t> Weights::Tensor::shape() const {
  if (!experts.empty()) return {std::ssize(experts), quantized->out(), quantized->in()};
  const bool joined = quantized && quantized->format != StoredMatrix::Format::kBlocks;
  return joined ? std::vector<std::int64_t>{quantized->out(), quantized->in()} : entry().shape;
}

std::size_t Weights::Tensor::bytes() const {
  std::size_t total = 0;
  for (const Stored& part : stored) total += part.entry->end - part.entry->begin;
  return total;
}

Result<Weights> Weights::open(const std::string& directory, std::span<const NameAlias> aliases,
                              const std::optional<Quantization>& quantization) {
  Weights weights;
  TRY(const std::optional<GgufPaths> gguf, find_gguf(directory));
  if (gguf) {
    TRY(auto file, open_gguf_weights(*gguf));
    weights.files_.push_back(std::move(file));
    weights.outputs_first_ = true;
    TRY_DO(weights.add_file(0, aliases));
  } else {
    TRY_DO(weights.open_safetensors(directory, aliases));
  }
  if (quantization) TRY_DO(weights.join_quantized(*quantization));
  return weights;
}

Result<void> Weights::open_safetensors(const std::string& directory,
                                       std::span<const NameAlias> aliases) {
  TRY(const WeightFiles found, find_weight_files(directory));
  for (const std::string& path : found.paths) {
    TRY(SafetensorsFile file, SafetensorsFile::open(path));
    files_.push_back(std::make_unique<const SafetensorsFile>(std::move(file)));
  }
  for (std::size_t i = 0; i < files_.size(); ++i) TRY_DO(add_file(i, aliases));
  for (const auto& member : found.index) {
    const std::string_view name = member.key();
    const auto tensor = tensors_.find(canonical_name(name, aliases));
    const std::string file(member.value().get_string());
    if (tensor == tensors_.end() ||
        std::filesystem::path(files_[tensor->second.stored.front().file]->path()).filename() !=
            file)
      return fail(ErrorCode::kCorrupt, "{}: the index places tensor \"{}\" in {}, which lacks it",
                  directory, name, file);
  }
  return {};
}

Weights::Made::Made() : pool(static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))) {}

Result<Weights> Weights::random(std::span<const TensorSpec> specs, std::uint64_t seed) {
  Weights weights;
  weights.made_ = std::make_unique<Made>();
  Made& made = *weights.made_;
  made.seed = seed;
  made.specs.assign(specs.begin(), specs.end());
  made.entries.reserve(specs.size());
  for (const TensorSpec& spec : made.specs) {
    made.entries.push_back(
        {spec.name, "BF16", spec.shape, 0, element_count(spec) * sizeof(std::uint16_t)});
    Tensor& tensor = weights.tensors_[spec.name];
    tensor.stored = {{0, &made.entries.back()}};
    tensor.made = &spec;
  }
  return weights;
}

void Weights::make(Tensor& tensor) const {
  const std::size_t count = element_count(*tensor.made);
  tensor.copy = host_copy(count * sizeof(std::uint16_t));
  const std::span values(reinterpret_cast<std::uint16_t*>(tensor.copy.data()), count);
  const std::size_t blocks = (count + kRandomBlock - 1) / kRandomBlock;
  made_->pool.parallel_each(static_cast<std::int64_t>(blocks), [&](std::int64_t index, int) {
    const std::size_t begin = static_cast<std::size_t>(index) * kRandomBlock;
    fill_random(*tensor.made, made_->seed, begin / kRandomBlock,
                values.subspan(begin, std::min(kRandomBlock, count - begin)));
  });
}

std::span<const std::byte> Weights::bytes_of(const Tensor& tensor) const {
  if (tensor.made != nullptr) return {tensor.copy.data(), tensor.bytes()};
  return files_[tensor.stored.front().file]->bytes(tensor.entry());
}

// Each quantised module's tensors leave the map and its matrix enters.
Result<void> Weights::join_quantized(const Quantization& quantization) {
  std::map<std::string, StoredTensor, std::less<>> stored;
  for (const auto& [name, tensor] : tensors_) {
    const SafetensorsEntry& entry = tensor.entry();
    stored.emplace(name, StoredTensor{entry.dtype, entry.shape,
                                      files_[tensor.stored.front().file]->bytes(entry)});
  }
  TRY(QuantizedModules found, find_quantized(quantization, stored));
  for (auto& [name, module] : found.modules) {
    Tensor joined;
    for (const std::string& part : module.tensors) {
      joined.stored.push_back(tensors_.find(part)->second.stored.front());
      tensors_.erase(part);
    }
    joined.quantized = module.matrix;
    joined.experts = std::move(module.experts);
    const auto [at, is_new] = tensors_.try_emplace(name, std::move(joined));
    if (!is_new)
      return fail(ErrorCode::kCorrupt, "\"{}\" is there both quantised and as it was",
                  at->second.entry().name);
  }
  for (const std::string& name : found.unused) unused_scales_ += tensors_.erase(name);
  return {};
}

bool Weights::is_zero_bias(std::string_view name, const Tensor& tensor) const {
  if (made_ != nullptr || !name.ends_with(".bias")) return false;
  const auto matrix = tensors_.find(std::string(name.substr(0, name.size() - 4)) + "weight");
  return matrix != tensors_.end() && matrix->second.quantized &&
         std::ranges::all_of(files_[tensor.stored.front().file]->bytes(tensor.entry()),
                             [](std::byte byte) { return byte == std::byte{0}; });
}

Result<void> Weights::add_file(std::size_t index, std::span<const NameAlias> aliases) {
  for (const SafetensorsEntry& entry : files_[index]->tensors()) {
    const auto [tensor, is_new] = tensors_.try_emplace(canonical_name(entry.name, aliases));
    if (!is_new)
      return fail(ErrorCode::kCorrupt, "tensor \"{}\" is both in {} and in {}", entry.name,
                  files_[tensor->second.stored.front().file]->path(), files_[index]->path());
    tensor->second.stored = {{index, &entry}};
    if (const std::optional<BlockType> type = block_type(entry.dtype)) {
      StoredMatrix& blocks = tensor->second.quantized.emplace();
      blocks.format = StoredMatrix::Format::kBlocks;
      blocks.block = *type;
      blocks.scales.dtype = DType::kF16;
      blocks.stored_in = blocks.in_end = entry.shape.back();
      blocks.stored_out = blocks.out_end = element_count(entry.shape) / entry.shape.back();
    }
  }
  return {};
}

Result<void> Weights::require(std::span<const TensorSpec> specs,
                              std::span<const std::string> ignored) const {
  std::vector<std::string> missing;
  std::set<std::string_view> wanted(ignored.begin(), ignored.end());
  for (const TensorSpec& spec : specs) {
    wanted.insert(spec.name);
    const auto found = tensors_.find(spec.name);
    if (found == tensors_.end()) {
      missing.push_back(spec.name);
      continue;
    }
    const SafetensorsEntry& entry = found->second.entry();
    if (const std::vector<std::int64_t> shape = found->second.shape(); !fits(shape, spec))
      return fail(ErrorCode::kInvalid, "tensor \"{}\" is {}, the configuration makes it {}",
                  entry.name, shape_text(shape), shape_text(spec.shape));
    if (entry.shape.size() != 2 && spec.kind == TensorKind::kMatrix && block_type(entry.dtype))
      return fail(ErrorCode::kUnsupported, "tensor \"{}\" is {} of {}; a matrix in blocks is read",
                  entry.name, shape_text(entry.shape), entry.dtype);
    // Codes do not turn, and no GGUF has another order: such experts are [outputs, inputs].
    if (entry.shape.size() == 3 && spec.kind == TensorKind::kExperts &&
        (found->second.quantized || outputs_first_ || block_type(entry.dtype)) &&
        entry.shape[2] != spec.shape[1])
      return fail(ErrorCode::kInvalid, "tensor \"{}\" is {} of {} for experts of {} inputs",
                  entry.name, shape_text(entry.shape), entry.dtype, spec.shape[1]);
    if (!found->second.quantized && !is_float(entry))
      return fail(ErrorCode::kUnsupported, "tensor \"{}\" is {}; BF16, F16 and F32 are read",
                  entry.name, entry.dtype);
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : tensors_) {
    const bool below =
        std::ranges::any_of(ignored, [&, of = std::string_view(name)](const std::string& prefix) {
          return prefix.ends_with('.') && of.starts_with(prefix);
        });
    if (!below && !wanted.contains(name) && !is_harmless(name) && !is_zero_bias(name, tensor))
      unexpected.push_back(tensor.entry().name);
  }
  if (!missing.empty())
    return fail(
        ErrorCode::kInvalid, "the checkpoint lacks {} of {} tensors: {}{}", missing.size(),
        specs.size(), some_of(missing),
        unexpected.empty() ? "" : fmt::format("; and has unexpected {}", some_of(unexpected)));
  if (!unexpected.empty())
    return fail(ErrorCode::kInvalid,
                "the checkpoint has {} tensors that the model does not use: {}", unexpected.size(),
                some_of(unexpected));
  return {};
}

bool Weights::equal(std::string_view one, std::string_view other) const {
  const Tensor& a = tensors_.find(one)->second;
  const Tensor& b = tensors_.find(other)->second;
  if (a.quantized || b.quantized || a.entry().dtype != b.entry().dtype ||
      a.entry().shape != b.entry().shape)
    return false;
  return a.made == nullptr && std::ranges::equal(bytes_of(a), bytes_of(b));
}

Weights::Tensor& Weights::taken(std::string_view name, Use use) {
  const auto found = tensors_.find(name);
  CHECK(found != tensors_.end(), "no tensor {}", name);
  Tensor& tensor = found->second;
  CHECK(!tensor.taken, "{} is taken twice", name);
  tensor.taken = true;
  if (tensor.made != nullptr || use == Use::kUnread) return tensor;
  for (const Stored& part : tensor.stored) files_[part.file]->prefetch(*part.entry);
  return tensor;
}

StoredMatrix Weights::coded(const Tensor& tensor) const {
  StoredMatrix matrix = *tensor.quantized;
  if (matrix.format == StoredMatrix::Format::kBlocks) matrix.codes = {DType::kU8, bytes_of(tensor)};
  return matrix;
}

StoredMatrix Weights::take_matrix(std::string_view name, Use use) {
  const Tensor& tensor = taken(name, use);
  if (tensor.quantized) return coded(tensor);
  const SafetensorsEntry& entry = tensor.entry();
  StoredMatrix matrix;
  if (tensor.made != nullptr) {
    matrix.format = StoredMatrix::Format::kMade;
    matrix.made = dummy_values(*tensor.made, made_->seed);
  } else {
    matrix.codes = {safetensors_dtype(entry.dtype).value_or(DType::kU8), bytes_of(tensor)};
  }
  matrix.stored_out = matrix.out_end = entry.shape.size() > 1 ? entry.shape.front() : 1;
  matrix.stored_in = matrix.in_end =
      matrix.stored_out == 0 ? 0 : element_count(entry.shape) / matrix.stored_out;
  matrix.stride = matrix.stored_in;
  return matrix;
}

std::vector<StoredMatrix> Weights::take_experts(std::string_view name, std::int64_t inputs,
                                                std::int64_t outputs, Use use) {
  StoredMatrix one = take_matrix(name, use);
  if (const Tensor& tensor = tensors_.find(name)->second; !tensor.experts.empty())
    return tensor.experts;
  if (one.format == StoredMatrix::Format::kBlocks) {
    CHECK(one.in() == inputs && one.out() % outputs == 0,
          "{}: experts of {} inputs, {} outputs in all, want {} x {}", name, one.in(), one.out(),
          inputs, outputs);
    std::vector<StoredMatrix> experts;
    for (std::int64_t first = 0; first < one.out(); first += outputs)
      experts.push_back(one.outputs(first, first + outputs));
    return experts;
  }
  const bool made = one.format == StoredMatrix::Format::kMade;
  CHECK((made || one.format == StoredMatrix::Format::kDense) && one.in() == inputs * outputs,
        "{}: experts of {} elements, want {} x {}", name, one.in(), inputs, outputs);
  const std::span<const std::byte> all = one.codes.bytes;
  const auto count = static_cast<std::size_t>(one.out());
  // Square ones tell nothing: published Qwen3-VL has inputs first, transformers' text outputs.
  const bool inputs_first = inputs == outputs
                                ? name.find("language_model.") != std::string_view::npos
                                : tensors_.find(name)->second.shape()[1] == inputs;
  one.turned = inputs_first && !outputs_first_;
  one.stride = one.turned ? outputs : inputs;
  one.stored_out = one.out_end = outputs;
  one.stored_in = one.in_end = inputs;
  std::vector<StoredMatrix> experts;
  for (std::size_t i = 0; i < count; ++i) {
    if (made)
      one.made_first = static_cast<std::int64_t>(i) * inputs * outputs;
    else
      one.codes.bytes = all.subspan(i * (all.size() / count), all.size() / count);
    experts.push_back(one);
  }
  return experts;
}

View Weights::take(std::string_view name) {
  Tensor& tensor = taken(name);
  if (tensor.quantized) {
    const StoredMatrix matrix = coded(tensor);
    tensor.copy = host_copy(static_cast<std::size_t>(matrix.out() * matrix.in()) * sizeof(float));
    const View view = tensor.copy.view(DType::kF32, matrix.out(), matrix.in());
    StoredMatrixReader(matrix).read(0, matrix.out(), 0, matrix.in(), view.row<float>(0),
                                    matrix.in());
    return view;
  }
  if (tensor.made != nullptr) make(tensor);
  const SafetensorsEntry& entry = tensor.entry();
  const std::span<const std::byte> bytes = bytes_of(tensor);
  const DType dtype = safetensors_dtype(entry.dtype).value_or(DType::kU8);
  // Nobody writes through the view of a weight.
  auto* data = const_cast<std::byte*>(bytes.data());
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) != 0) {
    tensor.copy = host_copy(bytes.size());
    std::memcpy(tensor.copy.data(), bytes.data(), bytes.size());
    data = tensor.copy.data();
  }
  const std::int64_t rows = entry.shape.size() > 1 ? entry.shape.front() : 1;
  const std::int64_t count = element_count(entry.shape);
  return View(data, dtype, rows, rows == 0 ? 0 : count / rows);
}

void Weights::release(std::string_view name) {
  const auto found = tensors_.find(name);
  CHECK(found != tensors_.end(), "no tensor {}", name);
  found->second.copy.reset();
  if (found->second.made != nullptr) return;
  for (const Stored& part : found->second.stored) files_[part.file]->release(*part.entry);
}

Digest Weights::fingerprint(std::span<const TensorSpec> specs) const {
  Sha256 digest;
  for (const TensorSpec& spec : specs) {
    const auto found = tensors_.find(spec.name);
    if (found == tensors_.end()) {
      digest.update(fmt::format("{} is absent\n", spec.name));
      continue;
    }
    if (found->second.made != nullptr) {
      digest.update(fmt::format("{} of seed {}\n", spec.name, made_->seed));
      continue;
    }
    for (const Stored& part : found->second.stored) {
      const SafetensorsEntry& entry = *part.entry;
      // By the family's name for it: a file of other names holds the same tower.
      digest.update(fmt::format("{} {} {} {}\n", spec.name, entry.dtype, shape_text(entry.shape),
                                entry.end - entry.begin));
      files_[part.file]->digest(entry, digest);
    }
  }
  return digest.finish();
}

std::string Weights::identity() const {
  Sha256 tensors;
  std::string text;
  for (const auto& file : files_) {
    for (const std::string& path : file->paths()) {
      struct stat status{};
      static_cast<void>(::stat(path.c_str(), &status));  // zeros: no file has them
      text += fmt::format("{} {} {}.{}\n", std::filesystem::path(path).filename().string(),
                          status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    }
    for (const SafetensorsEntry& entry : file->tensors())
      tensors.update(fmt::format("{} {} {} {} {}\n", entry.name, entry.dtype,
                                 shape_text(entry.shape), entry.begin, entry.end));
  }
  return text + to_hex(tensors.finish()) + "\n";
}

DType Weights::dtype() const {
  const Tensor* largest = nullptr;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.quantized || !is_float(tensor.entry())) continue;
    if (largest == nullptr ||
        element_count(tensor.entry().shape) > element_count(largest->entry().shape))
      largest = &tensor;
  }
  return largest == nullptr ? DType::kF32
                            : safetensors_dtype(largest->entry().dtype).value_or(DType::kF32);
}

std::size_t Weights::bytes() const {
  std::size_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor.bytes();
  return total;
}

Weights::Quantized Weights::quantized() const {
  Quantized all;
  for (const auto& [name, tensor] : tensors_) {
    if (!tensor.quantized) continue;
    const std::size_t count = std::max<std::size_t>(tensor.experts.size(), 1);
    const std::int64_t weights =
        tensor.quantized->out() * tensor.quantized->in() * static_cast<std::int64_t>(count);
    all.matrices += count;
    all.weights += weights;
    all.bytes += tensor.bytes();
    if (codes_of_bits(*tensor.quantized) > 4) continue;
    ++all.four_bits;
    all.four_bit_weights += weights;
    all.four_bit_bytes += tensor.bytes();
  }
  return all;
}

std::map<std::string, std::size_t> Weights::block_counts() const {
  std::map<std::string, std::size_t> counts;
  for (const auto& [name, tensor] : tensors_) {
    const bool blocks =
        tensor.quantized && tensor.quantized->format == StoredMatrix::Format::kBlocks;
    if (blocks) ++counts[tensor.entry().dtype];
  }
  return counts;
}

std::int64_t parameter_count(std::span<const TensorSpec> specs) {
  std::int64_t total = 0;
  for (const TensorSpec& spec : specs) {
    std::int64_t count = 1;
    for (const std::int64_t extent : spec.shape) count *= extent;
    total += count;
  }
  return total;
}

}  // namespace saccade
