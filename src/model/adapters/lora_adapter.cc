#include "model/adapters/lora_adapter.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "base/json.h"
#include "base/regular_file.h"
#include "model/adapters/lora_config.h"
#include "model/checkpoint/safetensors.h"

namespace saccade {
namespace {

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::int64_t kMaxConfigBytes = std::int64_t{16} << 20;

// Of both tensors of a module.
struct Pair {
  const SafetensorsEntry* down = nullptr;
  const SafetensorsEntry* up = nullptr;
};

// By the modules' full names.
using Pairs = std::map<std::string, Pair, std::less<>>;

std::string unsupported_tensor(std::string_view name) {
  if (name.find("lora_magnitude_vector") != std::string_view::npos)
    return "DoRA (lora_magnitude_vector) is not supported";
  if (name.find("lora_embedding_") != std::string_view::npos ||
      name.find("embed_tokens.") != std::string_view::npos)
    return "adapters of embeddings are not supported";
  if (name.ends_with(".bias")) return "biases of adapters are not supported";
  return "neither a lora_A.weight nor a lora_B.weight";
}

std::string_view without(std::string_view text, std::string_view suffix) {
  return text.substr(0, text.size() - suffix.size());
}

Result<Pairs> pairs_of(const SafetensorsHeader& header) {
  constexpr std::string_view kDown = ".lora_A.weight";
  constexpr std::string_view kUp = ".lora_B.weight";
  Pairs pairs;
  for (const SafetensorsEntry& tensor : header.tensors) {
    std::string_view name = tensor.name;
    const bool down = name.ends_with(kDown);
    if (!down && !name.ends_with(kUp))
      return fail(ErrorCode::kUnsupported, "tensor '{}': {}", tensor.name.substr(0, 256),
                  unsupported_tensor(name));
    name = without(name, down ? kDown : kUp);
    if (name.starts_with(kPeftPrefix)) name.remove_prefix(kPeftPrefix.size());
    Pair& pair = pairs[std::string(name)];
    const SafetensorsEntry*& place = down ? pair.down : pair.up;
    if (place != nullptr)
      return fail(ErrorCode::kCorrupt, "tensors '{}' and '{}' are of one module",
                  place->name.substr(0, 256), tensor.name.substr(0, 256));
    place = &tensor;
  }
  return pairs;
}

Result<void> check_tensor(const SafetensorsEntry& tensor, std::int64_t rows, std::int64_t cols) {
  const auto type = safetensors_dtype(tensor.dtype);
  if (!type || (*type != DType::kF32 && *type != DType::kBf16 && *type != DType::kF16))
    return fail(ErrorCode::kUnsupported,
                "tensor '{}': type {} is not supported; F32, BF16, F16 are", tensor.name,
                tensor.dtype);
  const std::array shape = {rows, cols};
  if (!std::ranges::equal(tensor.shape, shape))
    return fail(ErrorCode::kInvalid, "tensor '{}': shape {}, the model's module takes {}",
                tensor.name, shape_text(tensor.shape), shape_text(shape));
  return {};
}

bool all_finite(View matrix) {
  // Of each type: the bits of the exponent all set.
  const auto count = static_cast<std::size_t>(matrix.rows() * matrix.cols());
  const auto none = [&](auto word, auto mask) {
    using Word = decltype(word);
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&word, matrix.data() + i * sizeof(Word), sizeof(Word));
      if ((word & mask) == mask) return false;
    }
    return true;
  };
  if (matrix.dtype() == DType::kF32) return none(std::uint32_t{0}, std::uint32_t{0x7f800000});
  const std::uint16_t mask = matrix.dtype() == DType::kBf16 ? 0x7f80 : 0x7c00;
  return none(std::uint16_t{0}, mask);
}

// The tensors of a file that is not read whole; nothing where they cannot be made out.
std::optional<SafetensorsHeader> header_of(const OpenedFile& file) {
  std::uint64_t length = 0;
  if (::pread(file.descriptor, &length, sizeof length, 0) != sizeof length) return std::nullopt;
  if (length > kMaxSafetensorsHeader || length > file.bytes - sizeof length) return std::nullopt;
  std::string text(static_cast<std::size_t>(length), '\0');
  if (::pread(file.descriptor, text.data(), text.size(), sizeof length) != std::ssize(text))
    return std::nullopt;
  auto header = parse_safetensors_header(text, file.bytes - sizeof length - text.size());
  return header ? std::optional(*std::move(header)) : std::nullopt;
}

// Read, not mapped: whoever writes into the file of a running server must not end it.
Result<Buffer> read_file(const std::string& path, std::int64_t most) {
  TRY(const OpenedFile file, open_regular_file(path));
  const std::shared_ptr<void> closed(nullptr, [&](void*) { ::close(file.descriptor); });
  if (file.bytes > static_cast<std::size_t>(most)) {
    // An adapter that brings the model's own embeddings along is large for what it holds.
    const auto header = path.ends_with(".safetensors") ? header_of(file) : std::nullopt;
    if (header) {
      if (auto pairs = pairs_of(*header); !pairs)
        return fail_within(path, std::move(pairs).error());
    }
    return fail(ErrorCode::kInvalid, "{} has {} bytes, the limit is {}", path, file.bytes, most);
  }
  TRY(Buffer bytes, allocate_host(file.bytes));
  for (std::size_t read = 0; read < file.bytes;) {
    const ssize_t some = ::read(file.descriptor, bytes.data() + read, file.bytes - read);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return fail(ErrorCode::kInvalid, "{} cannot be read", path);
    read += static_cast<std::size_t>(some);
  }
  return bytes;
}

std::span<const std::byte> bytes_of(const Buffer& buffer) {
  return {buffer.data(), buffer.bytes()};
}

// Of a file with all targets at the highest rank in float32, and a header.
std::int64_t max_bytes(std::span<const LoraTarget> targets, std::int64_t rank) {
  auto bytes = static_cast<std::int64_t>(kMaxSafetensorsHeader);
  for (const LoraTarget& target : targets)
    bytes += rank * (target.in + target.out) * std::int64_t{sizeof(float)};
  return bytes;
}

Result<LoraConfig> read_config(const std::string& path, const Buffer& file) {
  const std::span<const std::byte> text = bytes_of(file);
  auto tree = json::parse({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!tree) return fail_within(path, std::move(tree).error());
  if (!tree->is_object()) return fail(ErrorCode::kInvalid, "{}: no JSON object", path);
  auto config = LoraConfig::parse(tree->get_object());
  if (!config) return fail_within(path, std::move(config).error());
  return config;
}

// The tensors of each target, by the configuration: all that it chooses, and no others.
using Chosen = std::map<const LoraTarget*, const Pairs::value_type*>;

Result<Chosen> choose(const Pairs& pairs, std::span<const LoraTarget> targets,
                      const LoraConfig& config, std::int64_t max_rank) {
  std::map<std::string_view, const LoraTarget*> by_name;
  for (const LoraTarget& target : targets) by_name.emplace(target.module, &target);
  Chosen chosen;
  for (const auto& pair : pairs) {
    const auto& [module, tensors] = pair;
    const auto name = lora_module_name(module);
    const auto found = name ? by_name.find(*name) : by_name.end();
    if (found == by_name.end())
      return fail(ErrorCode::kUnsupported,
                  "module '{}' is not supported: adapters go to the matrices of attention and MLP "
                  "in the layers of the text's decoder",
                  module.substr(0, 256));
    if (tensors.down == nullptr || tensors.up == nullptr)
      return fail(ErrorCode::kCorrupt, "module '{}' has no lora_{}.weight", module,
                  tensors.down == nullptr ? 'A' : 'B');
    TRY(const bool meant, config.chooses(module));
    if (!meant)
      return fail(ErrorCode::kInvalid, "module '{}' is not one that target_modules chooses",
                  module);
    const LoraTarget& target = *found->second;
    TRY(const std::int64_t rank, config.rank(module));
    if (rank > max_rank)
      return fail(ErrorCode::kInvalid, "module '{}' has rank {}, the limit is {} (--max-lora-rank)",
                  module, rank, max_rank);
    TRY_DO(check_tensor(*tensors.down, rank, target.in));
    TRY_DO(check_tensor(*tensors.up, target.out, rank));
    if (!chosen.emplace(&target, &pair).second)
      return fail(ErrorCode::kCorrupt, "module '{}' is there under several names", target.module);
  }
  // What the configuration chooses has to be there: half an adapter would go unnoticed.
  const std::string& first = pairs.begin()->first;
  const std::string prefix = first.substr(0, first.size() - lora_module_name(first)->size());
  for (const LoraTarget& target : targets) {
    if (chosen.contains(&target)) continue;
    TRY(const bool meant, config.chooses(prefix + target.module));
    if (meant)
      return fail(ErrorCode::kCorrupt,
                  "module '{}' has no lora_A.weight, and target_modules chooses it",
                  prefix + target.module);
  }
  return chosen;
}

bool is_power_of_two(float number) {
  int exponent = 0;
  return number > 0 && std::frexp(number, &exponent) == 0.5f;
}

}  // namespace

std::optional<std::string_view> lora_module_name(std::string_view full) {
  constexpr std::array<std::string_view, 3> kParts = {"model.", "language_model.", "text_model."};
  while (!full.starts_with("layers.")) {
    const auto part =
        std::ranges::find_if(kParts, [&](std::string_view each) { return full.starts_with(each); });
    if (part == kParts.end()) return std::nullopt;
    full.remove_prefix(part->size());
  }
  return full;
}

std::vector<LoraTarget> lora_targets_of(const WeightTable& table,
                                        const std::function<bool(const Linear*)>& takes) {
  std::vector<LoraTarget> targets;
  for (const WeightTable::TextMatrix& matrix : table.text_matrices()) {
    if (!takes(matrix.into)) continue;
    std::int64_t out_begin = 0;
    for (const WeightTable::Part& part : matrix.parts) {
      const auto name = lora_module_name(part.name);
      CHECK(name.has_value(), "{} is not in the text's layers", part.name);
      targets.push_back(
          {std::string(*name), matrix.into, matrix.in, part.out, out_begin, part.order});
      out_begin += part.out;
    }
  }
  return targets;
}

Result<std::shared_ptr<const LoraAdapter>> LoraAdapter::load(Source source,
                                                             std::span<const LoraTarget> targets) {
  std::shared_ptr<LoraAdapter> adapter(new LoraAdapter(std::move(source)));
  TRY_DO(adapter->read(targets));
  return std::shared_ptr<const LoraAdapter>(std::move(adapter));
}

std::int64_t LoraAdapter::max_rank() const {
  std::int64_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, entry.rank());
  return most;
}

Result<void> LoraAdapter::read(std::span<const LoraTarget> targets) {
  const std::string config_path = source_.directory + "/adapter_config.json";
  const std::string path = source_.directory + "/adapter_model.safetensors";
  for (const std::string& needed : {config_path, path}) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(needed, error))
      return fail(ErrorCode::kNotFound, "No adapter found for {}: there is no file {}",
                  source_.directory, std::filesystem::path(needed).filename().string());
  }
  TRY(const Buffer config_file, read_file(config_path, kMaxConfigBytes));
  TRY(const LoraConfig config, read_config(config_path, config_file));
  TRY(file_, read_file(path, max_bytes(targets, source_.max_rank)));
  std::span<const std::byte> data;
  auto header = parse_safetensors(bytes_of(file_), &data);
  const auto within = [&](auto failed) { return fail_within(path, std::move(failed).error()); };
  if (!header) return within(std::move(header));
  auto pairs = pairs_of(*header);
  if (!pairs) return within(std::move(pairs));
  if (pairs->empty())
    return fail(ErrorCode::kInvalid, "{}: no lora_A and lora_B matrices of any module", path);

  auto chosen = choose(*pairs, targets, config, source_.max_rank);
  if (!chosen) return within(std::move(chosen));
  const auto view_of = [&](const SafetensorsEntry& tensor) {
    return View(const_cast<std::byte*>(data.data() + tensor.begin),
                safetensors_dtype(tensor.dtype).value(), tensor.shape[0], tensor.shape[1]);
  };
  for (const LoraTarget& target : targets) {
    const auto found = chosen->find(&target);
    if (found == chosen->end()) continue;
    const auto& [module, tensors] = *found->second;
    Entry entry;
    entry.target = &target;
    entry.down = view_of(*tensors.down);
    entry.up = view_of(*tensors.up);
    TRY(const double scale, config.scale(module));
    entry.scale = static_cast<float>(scale);
    for (const auto& [view, tensor] :
         {std::pair{entry.down, tensors.down}, std::pair{entry.up, tensors.up}})
      if (!all_finite(view))
        return fail(ErrorCode::kInvalid, "{}: tensor '{}' has a number that is not finite", path,
                    tensor->name);
    if (!std::isfinite(entry.scale))
      return fail(ErrorCode::kInvalid, "{}: the scale of module '{}' is not finite", config_path,
                  module);
    entries_.push_back(entry);
  }
  Sha256 hash;
  const std::size_t length = config_file.bytes();
  hash.update(std::as_bytes(std::span(&length, 1)));
  hash.update(bytes_of(config_file));
  hash.update(bytes_of(file_));
  identity_ = to_hex(hash.finish());
  return {};
}

PackedLora::PackedLora(const LoraAdapter& adapter, Device& device, DType compute) {
  std::map<const Linear*, std::vector<const LoraAdapter::Entry*>, std::less<>> by_linear;
  for (const LoraAdapter::Entry& entry : adapter.entries())
    by_linear[entry.target->linear].push_back(&entry);
  for (const auto& [linear, entries] : by_linear) {
    Part& part = parts_.emplace_back();
    part.linear = linear;
    std::vector<StoredMatrix> down;
    std::int64_t rank_begin = 0;
    for (const LoraAdapter::Entry* entry : entries) {
      down.emplace_back(entry->down);
      const LoraTarget& target = *entry->target;
      StoredMatrix up(entry->up);
      // The scale goes into B: exactly, or B stays float32.
      std::vector<float> scale(static_cast<std::size_t>(target.out), entry->scale);
      up.output_scale = View(scale.data(), DType::kF32, 1, target.out);
      const DType type = is_power_of_two(entry->scale) ? compute : DType::kF32;
      std::vector<StoredMatrix> rows;
      for (const WeightTable::Range range : target.order)
        rows.push_back(up.outputs(range.begin, range.end));
      if (rows.empty()) rows.push_back(up);
      part.blocks.push_back({device.pack(rows, type), rank_begin, target.out_begin});
      bytes_ += part.blocks.back().up->bytes();
      rank_begin += entry->rank();
    }
    part.down = device.pack(down, compute);
    bytes_ += part.down->bytes();
  }
}

const PackedLora::Part* PackedLora::find(const Linear& linear) const {
  const auto part = std::ranges::lower_bound(parts_, &linear, std::less<>(), &Part::linear);
  return part != parts_.end() && part->linear == &linear ? &*part : nullptr;
}

std::int64_t packed_lora_bytes(std::span<const LoraTarget> targets, std::int64_t rank,
                               DType compute) {
  // Panels of 16 or 32 outputs are filled up: of A all the more as ranks are small.
  constexpr std::int64_t kPanel = 32;
  const std::int64_t filled = (rank + kPanel - 1) / kPanel * kPanel;
  std::int64_t elements = 0;
  for (const LoraTarget& target : targets) elements += filled * target.in + rank * target.out;
  return elements * static_cast<std::int64_t>(size_of(compute));
}

}  // namespace saccade
