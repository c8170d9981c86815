#include "model/gguf/gguf_weights.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "model/gguf/gguf_family.h"
#include "model/gguf/gguf_model.h"
#include "ops/formats/block_codes.h"

namespace saccade {
namespace {

constexpr std::int64_t kMaxWeightLayers = 1024;

// Bytes that lie together in a file.
struct FilePart {
  std::size_t file = 0;
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

// One tensor of transformers: pieces in their order, or one that is used as it is mapped.
struct Assembled {
  std::vector<FilePart> pieces;
  std::vector<FilePart> wholes;         // the tensors that they are of
  bool less_one = false;                // of float32
  std::optional<BlockType> numbers_of;  // float32 of one piece of such blocks
  bool logarithm = false;               // of float32 with the other sign
  std::vector<std::int64_t> columns;    // parts of a row, by where each is stored
  std::int64_t rows = 0;                // that have them
};

// Name in `form` with each {} replaced in turn.
std::string filled(std::string_view form, std::int64_t first, std::int64_t second = 0) {
  std::string name(form);
  for (const std::int64_t number : {first, second}) {
    const std::size_t at = name.find("{}");
    if (at == std::string::npos) break;
    name.replace(at, 2, std::to_string(number));
  }
  return name;
}

// Whether a name is a text layer's of number `layers` or more.
bool is_behind(std::string_view name, std::int64_t layers) {
  constexpr std::string_view kLayer = "blk.";
  std::int64_t layer = 0;
  if (!name.starts_with(kLayer)) return false;
  name.remove_prefix(kLayer.size());
  const auto read = std::from_chars(name.data(), name.data() + name.size(), layer);
  return read.ec == std::errc() && layer >= layers;
}

class GgufWeights final : public WeightFile {
 public:
  explicit GgufWeights(GgufModel model) : model_(std::move(model)) {
    for (std::size_t i = 0; i < model_.files().size(); ++i) {
      for (const GgufTensor& tensor : model_.files()[i].header.tensors)
        by_name_.try_emplace(tensor.name, GgufPlace{i, &tensor});
    }
  }

  Result<void> assemble();

  const std::string& path() const override { return model_.files().front().path; }
  std::vector<std::string> paths() const override {
    std::vector<std::string> all;
    for (const GgufFile& file : model_.files()) all.push_back(file.path);
    return all;
  }
  const std::vector<SafetensorsEntry>& tensors() const override { return entries_; }
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const override;
  void prefetch(const SafetensorsEntry& entry) const override {
    for (const FilePart& whole : of(entry).wholes) file(whole).prefetch(mapped(whole));
  }
  void release(const SafetensorsEntry& entry) const override {
    made_.erase(&entry);
    for (const FilePart& whole : of(entry).wholes) file(whole).release(mapped(whole));
  }
  void digest(const SafetensorsEntry& entry, Sha256& into) const override {
    for (const FilePart& piece : of(entry).pieces) into.update(mapped(piece));
    for (const FilePart& whole : of(entry).wholes) file(whole).release(mapped(whole));
  }

 private:
  using Sources = std::vector<GgufPlace>;

  const MappedFile& file(const FilePart& piece) const { return model_.files()[piece.file].file; }
  std::span<const std::byte> mapped(const FilePart& piece) const {
    return file(piece).bytes().subspan(piece.begin, piece.bytes);
  }
  const Assembled& of(const SafetensorsEntry& entry) const {
    return assembled_[static_cast<std::size_t>(&entry - entries_.data())];
  }
  FilePart whole(const GgufPlace& place) const {
    return {place.file, model_.files()[place.file].header.data + place.tensor->begin,
            place.tensor->end - place.tensor->begin};
  }

  void fill(const Assembled& tensor, std::span<std::byte> into) const;
  Result<void> add_row(const GgufRow& row, std::string_view prefix, std::int64_t layers);
  Result<std::int64_t> text_layers() const;
  // False: there is no such tensor.
  Result<bool> add_named(const GgufRow& row, const std::string& to, std::int64_t layer,
                         std::string_view suffix);
  Result<void> add(const GgufRow& row, const std::string& to, const Sources& sources);
  void add_pieces(std::string name, std::vector<std::int64_t> shape, const Sources& sources,
                  std::vector<FilePart> pieces, bool less_one = false);
  Result<void> add_heads(const std::string& to, const GgufPlace& source, std::int64_t heads);
  Result<void> add_frames(const std::string& to, const Sources& sources);
  Result<void> add_experts(std::string_view to, const GgufPlace& source);
  Result<void> add_gate_up(const std::string& to, const Sources& sources);
  Result<void> add_value_heads(GgufChange change, const std::string& to, const GgufPlace& source);
  Result<void> add_value_columns(const std::string& to, const GgufPlace& source);
  void decode_last(BlockType type);
  Result<std::vector<std::int64_t>> value_heads() const;
  void swap_fully_connected();
  Result<std::int64_t> heads_of(GgufChange change) const;

  GgufModel model_;
  const GgufFamily* family_ = nullptr;
  std::map<std::string, GgufPlace, std::less<>> by_name_;
  std::set<const GgufTensor*> used_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<Assembled> assembled_;  // [entries]
  mutable std::map<const SafetensorsEntry*, Buffer> made_;
};

tl::unexpected<Error> misshapen(const GgufPlace& place, std::string_view wanted) {
  return fail(ErrorCode::kInvalid, "tensor \"{}\" is {} of {}, {} is needed", place.tensor->name,
              shape_text(place.tensor->shape), place.tensor->type, wanted);
}

// Part i of each of `rows` rows becomes what is at columns[i].
void reorder_columns(std::span<std::byte> matrix, std::int64_t rows,
                     std::span<const std::int64_t> columns) {
  const std::size_t row = matrix.size() / static_cast<std::size_t>(rows);
  const std::size_t part = row / columns.size();
  std::vector<std::byte> stored(row);
  for (std::size_t at = 0; at < matrix.size(); at += row) {
    std::memcpy(stored.data(), matrix.data() + at, row);
    for (std::size_t i = 0; i < columns.size(); ++i)
      std::memcpy(matrix.data() + at + i * part,
                  stored.data() + static_cast<std::size_t>(columns[i]) * part, part);
  }
}

void GgufWeights::fill(const Assembled& tensor, std::span<std::byte> into) const {
  auto* const values = reinterpret_cast<float*>(into.data());
  const std::size_t count = into.size() / sizeof(float);
  if (tensor.numbers_of) {
    dequantize_blocks(*tensor.numbers_of, mapped(tensor.pieces.front()), values);
  } else {
    std::byte* to = into.data();
    for (const FilePart& piece : tensor.pieces) {
      std::memcpy(to, mapped(piece).data(), piece.bytes);
      to += piece.bytes;
    }
  }
  for (std::size_t i = 0; tensor.less_one && i < count; ++i) values[i] -= 1;
  for (std::size_t i = 0; tensor.logarithm && i < count; ++i) values[i] = std::log(-values[i]);
  if (!tensor.columns.empty()) reorder_columns(into, tensor.rows, tensor.columns);
}

std::span<const std::byte> GgufWeights::bytes(const SafetensorsEntry& entry) const {
  const Assembled& tensor = of(entry);
  const bool as_it_is = !tensor.less_one && !tensor.logarithm && tensor.columns.empty();
  if (tensor.pieces.size() == 1 && as_it_is && !tensor.numbers_of)
    return mapped(tensor.pieces.front());
  Buffer& made = made_[&entry];
  if (made.bytes() == 0) {
    auto room = allocate_host(entry.end);
    CHECK(room.has_value(), "{} bytes of {}: {}", entry.end, entry.name, room.error().message);
    made = *std::move(room);
    fill(tensor, {made.data(), entry.end});
  }
  return {made.data(), entry.end};
}

// Blocks go along a row: one that has a single element lies in none of its own.
bool has_whole_rows(const GgufPlace& place) {
  const GgufTensor& tensor = *place.tensor;
  return (tensor.end - tensor.begin) % static_cast<std::size_t>(tensor.shape.front()) == 0;
}

void GgufWeights::add_pieces(std::string name, std::vector<std::int64_t> shape,
                             const Sources& sources, std::vector<FilePart> pieces, bool less_one) {
  SafetensorsEntry entry;
  entry.name = std::move(name);
  entry.dtype = sources.front().tensor->type;
  entry.shape = std::move(shape);
  Assembled tensor;
  tensor.less_one = less_one;
  for (const FilePart& piece : pieces) {
    entry.end += piece.bytes;
    const bool follows = !tensor.pieces.empty() && tensor.pieces.back().file == piece.file &&
                         tensor.pieces.back().begin + tensor.pieces.back().bytes == piece.begin;
    if (follows)
      tensor.pieces.back().bytes += piece.bytes;
    else
      tensor.pieces.push_back(piece);
  }
  for (const GgufPlace& source : sources) {
    used_.insert(source.tensor);
    tensor.wholes.push_back(whole(source));
  }
  // A share of a tensor is looked at by itself.
  if (tensor.pieces.size() == 1) tensor.wholes = tensor.pieces;
  entries_.push_back(std::move(entry));
  assembled_.push_back(std::move(tensor));
}

// llama.cpp's rope turns neighbouring rows of a head together, so its converter puts rows i and
// i + half of each beside each other.
Result<void> GgufWeights::add_heads(const std::string& to, const GgufPlace& source,
                                    std::int64_t heads) {
  const std::vector<std::int64_t>& shape = source.tensor->shape;
  if (heads < 1 || heads > shape.front() || shape.front() % (2 * heads) != 0 ||
      !has_whole_rows(source))
    return misshapen(source, fmt::format("{} heads of an even length", heads));
  const FilePart all = whole(source);
  const std::size_t row = all.bytes / static_cast<std::size_t>(shape.front());
  const std::int64_t half = shape.front() / heads / 2;
  std::vector<FilePart> pieces;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t part = 0; part < 2; ++part) {
      for (std::int64_t i = 0; i < half; ++i) {
        const auto at = static_cast<std::size_t>(head * 2 * half + i * 2 + part);
        pieces.push_back({all.file, all.begin + at * row, row});
      }
    }
  }
  add_pieces(to, shape, {source}, std::move(pieces));
  return {};
}

Result<void> GgufWeights::add_frames(const std::string& to, const Sources& sources) {
  const std::vector<std::int64_t>& shape = sources.front().tensor->shape;
  if (shape.size() != 4) return misshapen(sources.front(), "a kernel of four extents");
  const std::int64_t kernels = shape[0] * shape[1];
  std::vector<FilePart> pieces;
  for (std::int64_t kernel = 0; kernel < kernels; ++kernel) {
    for (const GgufPlace& source : sources) {
      const FilePart all = whole(source);
      const std::size_t bytes = all.bytes / static_cast<std::size_t>(kernels);
      pieces.push_back({all.file, all.begin + static_cast<std::size_t>(kernel) * bytes, bytes});
    }
  }
  add_pieces(to,
             {shape[0], shape[1], static_cast<std::int64_t>(sources.size()), shape[2], shape[3]},
             sources, std::move(pieces));
  return {};
}

Result<void> GgufWeights::add_experts(std::string_view to, const GgufPlace& source) {
  const std::vector<std::int64_t>& shape = source.tensor->shape;
  if (shape.size() != 3) return misshapen(source, "a matrix an expert");
  const FilePart all = whole(source);
  const std::size_t bytes = all.bytes / static_cast<std::size_t>(shape[0]);
  for (std::int64_t expert = 0; expert < shape[0]; ++expert)
    add_pieces(filled(to, expert), {shape[1], shape[2]}, {source},
               {{all.file, all.begin + static_cast<std::size_t>(expert) * bytes, bytes}});
  return {};
}

Result<void> GgufWeights::add_gate_up(const std::string& to, const Sources& sources) {
  const std::vector<std::int64_t>& shape = sources.front().tensor->shape;
  if (shape.size() != 3) return misshapen(sources.front(), "a matrix an expert");
  std::vector<FilePart> pieces;
  for (std::int64_t expert = 0; expert < shape[0]; ++expert) {
    for (const GgufPlace& source : sources) {
      const FilePart all = whole(source);
      const std::size_t bytes = all.bytes / static_cast<std::size_t>(shape[0]);
      pieces.push_back({all.file, all.begin + static_cast<std::size_t>(expert) * bytes, bytes});
    }
  }
  add_pieces(to, {shape[0], 2 * shape[1], shape[2]}, sources, std::move(pieces));
  return {};
}

// Where each value head is stored. Those of a key head stand beside each other in transformers;
// llama.cpp repeats key heads as a whole, so its converter puts the first of each before the second
// of any.
Result<std::vector<std::int64_t>> GgufWeights::value_heads() const {
  const GgufMetadata& metadata = model_.metadata();
  TRY(const std::int64_t keys, metadata.get_int(model_.key("ssm.group_count")));
  TRY(const std::int64_t heads, metadata.get_int(model_.key("ssm.time_step_rank")));
  constexpr std::int64_t kMaxHeads = 1 << 16;
  if (keys < 1 || heads < 1 || heads > kMaxHeads || heads % keys != 0)
    return fail(ErrorCode::kInvalid, "{} is {}, {} {}: no multiple of it, up to {}",
                model_.key("ssm.group_count"), keys, model_.key("ssm.time_step_rank"), heads,
                kMaxHeads);
  std::vector<std::int64_t> stored;
  for (std::int64_t head = 0; head < heads; ++head)
    stored.push_back(head % (heads / keys) * keys + head / (heads / keys));
  return stored;
}

Result<void> GgufWeights::add_value_heads(GgufChange change, const std::string& to,
                                          const GgufPlace& source) {
  TRY(const std::vector<std::int64_t> heads, value_heads());
  std::vector<std::int64_t> shape = source.tensor->shape;
  std::int64_t first = 0;
  const bool tail = change == GgufChange::kValueTail || change == GgufChange::kValueTaps;
  if (tail) {
    TRY(const std::int64_t values, model_.metadata().get_int(model_.key("ssm.inner_size")));
    if (values < 1 || values > shape.front())
      return misshapen(source, fmt::format("{} rows of values", values));
    first = shape.front() - values;
  }
  const auto count = static_cast<std::int64_t>(heads.size());
  const bool rows = shape.front() > 0 && has_whole_rows(source);
  if (!rows || (shape.front() - first) % count != 0)
    return misshapen(source, fmt::format("rows of {} heads", count));
  if (change == GgufChange::kValueDecay && source.tensor->type != "F32")
    return misshapen(source, "F32");
  const FilePart all = whole(source);
  const std::size_t row = all.bytes / static_cast<std::size_t>(shape.front());
  const std::size_t head = row * static_cast<std::size_t>((shape.front() - first) / count);
  const std::size_t begin = all.begin + static_cast<std::size_t>(first) * row;
  std::vector<FilePart> pieces;
  if (first > 0) pieces.push_back({all.file, all.begin, begin - all.begin});
  for (const std::int64_t stored : heads)
    pieces.push_back({all.file, begin + static_cast<std::size_t>(stored) * head, head});
  if (change == GgufChange::kValueTaps && shape.size() == 2) shape.insert(shape.begin() + 1, 1);
  add_pieces(to, std::move(shape), {source}, std::move(pieces));
  assembled_.back().logarithm = change == GgufChange::kValueDecay;
  return {};
}

// Blocks stay what they are where a head's columns are whole ones, else they become numbers.
Result<void> GgufWeights::add_value_columns(const std::string& to, const GgufPlace& source) {
  TRY(std::vector<std::int64_t> heads, value_heads());
  const std::vector<std::int64_t>& shape = source.tensor->shape;
  const auto count = static_cast<std::int64_t>(heads.size());
  if (shape.size() != 2 || shape[0] < 1 || shape[1] % count != 0)
    return misshapen(source, fmt::format("a matrix whose rows are of {} heads", count));
  add_pieces(to, shape, {source}, {whole(source)});
  if (std::ranges::is_sorted(heads)) return {};
  if (const std::optional<BlockType> type = block_type(source.tensor->type);
      type && shape[1] / count % block_format(*type).elements != 0)
    decode_last(*type);
  assembled_.back().columns = std::move(heads);
  assembled_.back().rows = shape[0];
  return {};
}

// The last tensor becomes float32.
void GgufWeights::decode_last(BlockType type) {
  assembled_.back().numbers_of = type;
  const BlockFormat& format = block_format(type);
  entries_.back().dtype = "F32";
  entries_.back().end = entries_.back().end / static_cast<std::size_t>(format.bytes) *
                        static_cast<std::size_t>(format.elements) * sizeof(float);
}

Result<std::int64_t> GgufWeights::heads_of(GgufChange change) const {
  if (change == GgufChange::kTowerHeads)
    return model_.projector().get_int("clip.vision.attention.head_count");
  TRY(const std::int64_t heads, model_.metadata().get_int(model_.key("attention.head_count")));
  if (change == GgufChange::kQuery) return heads;
  return model_.metadata().get_int_or(model_.key("attention.head_count_kv"), heads);
}

// Those that tensors which become one must have in common: of stacked ones all but their rows.
std::vector<std::int64_t> extents(const GgufPlace& place, GgufChange change) {
  std::vector<std::int64_t> shape = place.tensor->shape;
  if (change == GgufChange::kStacked) shape.erase(shape.begin());
  return shape;
}

Result<void> GgufWeights::add(const GgufRow& row, const std::string& to, const Sources& sources) {
  const GgufPlace& first = sources.front();
  for (const GgufPlace& source : sources) {
    const bool alike = source.tensor->type == first.tensor->type &&
                       extents(source, row.change) == extents(first, row.change);
    if (!alike)
      return misshapen(source,
                       fmt::format("{} of {}, as \"{}\" is,", shape_text(first.tensor->shape),
                                   first.tensor->type, first.tensor->name));
  }
  std::vector<std::int64_t> shape = first.tensor->shape;
  switch (row.change) {
    case GgufChange::kQuery:
    case GgufChange::kKey:
      if (!family_->heads_interleaved) break;
      [[fallthrough]];
    case GgufChange::kTowerHeads: {
      TRY(const std::int64_t heads, heads_of(row.change));
      return add_heads(to, first, heads);
    }
    case GgufChange::kFrames:
      return add_frames(to, sources);
    case GgufChange::kEachExpert:
      return add_experts(to, first);
    case GgufChange::kGateUp:
      return add_gate_up(to, sources);
    case GgufChange::kNorm:
    case GgufChange::kLessOne: {
      const bool less_one = row.change == GgufChange::kLessOne || family_->norms_plus_one;
      if (less_one && first.tensor->type != "F32") return misshapen(first, "F32");
      add_pieces(to, shape, sources, {whole(first)}, less_one);
      return {};
    }
    case GgufChange::kValueRows:
    case GgufChange::kValueTail:
    case GgufChange::kValueTaps:
    case GgufChange::kValueDecay:
      return add_value_heads(row.change, to, first);
    case GgufChange::kValueColumns:
      return add_value_columns(to, first);
    case GgufChange::kTokens:
      while (shape.size() < 3) shape.insert(shape.begin(), 1);
      break;
    case GgufChange::kStacked:
      for (std::size_t i = 1; i < sources.size(); ++i)
        shape.front() += sources[i].tensor->shape.front();
      break;
    case GgufChange::kNumbers:
      if (const std::optional<BlockType> type = block_type(first.tensor->type)) {
        add_pieces(to, shape, sources, {whole(first)});
        decode_last(*type);
        return {};
      }
      break;
    case GgufChange::kNone:
      break;
  }
  std::vector<FilePart> pieces;
  for (const GgufPlace& source : sources) pieces.push_back(whole(source));
  add_pieces(to, std::move(shape), sources, std::move(pieces));
  return {};
}

Result<bool> GgufWeights::add_named(const GgufRow& row, const std::string& to, std::int64_t layer,
                                    std::string_view suffix) {
  Sources sources;
  std::string missing;
  for (const std::string_view form : row.from) {
    if (form.empty()) break;
    const std::string name = filled(form, layer) + std::string(suffix);
    const auto found = by_name_.find(name);
    if (found == by_name_.end())
      missing = name;
    else
      sources.push_back(found->second);
  }
  if (sources.empty()) return false;
  if (!missing.empty())
    return fail(ErrorCode::kInvalid, "tensor \"{}\" is there, \"{}\" is not",
                sources.front().tensor->name, missing);
  TRY_DO(add(row, to + std::string(suffix), sources));
  return true;
}

Result<void> GgufWeights::add_row(const GgufRow& row, std::string_view prefix,
                                  std::int64_t layers) {
  const bool layered = row.from.front().find("{}") != std::string_view::npos;
  const bool by_order = row.from.front().starts_with("v.deepstack.");
  static constexpr std::array<std::string_view, 2> kSuffixes = {".weight", ".bias"};
  static constexpr std::array<std::string_view, 1> kWhole = {""};
  const std::span<const std::string_view> suffixes =
      row.bare ? std::span<const std::string_view>(kWhole) : kSuffixes;
  std::int64_t order = 0;
  for (std::int64_t layer = 0; layer < (layered ? layers : 1); ++layer) {
    bool any = false;
    for (const std::string_view suffix : suffixes) {
      std::string to = std::string(prefix) + std::string(row.to);
      if (layered) {
        const std::size_t at = to.find("{}");
        to.replace(at, 2, std::to_string(by_order ? order : layer));
      }
      TRY(const bool found, add_named(row, to, layer, suffix));
      any = any || found;
    }
    if (any) ++order;
  }
  return {};
}

// Behind them stand those that guess several tokens ahead, which are not read.
Result<std::int64_t> GgufWeights::text_layers() const {
  const GgufMetadata& metadata = model_.metadata();
  TRY(const std::int64_t guessing, metadata.get_int_or(model_.key("nextn_predict_layers"), 0));
  if (guessing <= 0) return kMaxWeightLayers;
  TRY(const std::int64_t all, metadata.get_int(model_.key("block_count")));
  return std::clamp<std::int64_t>(all, 0, kMaxWeightLayers) - std::min(guessing, kMaxWeightLayers);
}

// Projectors of before 2025 name the two matrices of a plain MLP the other way round.
void GgufWeights::swap_fully_connected() {
  const auto gate = by_name_.find("v.blk.0.ffn_gate.weight");
  const auto down = by_name_.find("v.blk.0.ffn_down.weight");
  const auto norm = by_name_.find("v.blk.0.ln1.weight");
  if (gate != by_name_.end() || down == by_name_.end() || norm == by_name_.end()) return;
  const std::vector<std::int64_t>& shape = down->second.tensor->shape;
  const std::vector<std::int64_t>& width = norm->second.tensor->shape;
  if (shape.size() != 2 || width.size() != 1 || shape[0] == width[0] || shape[1] != width[0])
    return;
  for (std::int64_t layer = 0; layer < kMaxWeightLayers; ++layer) {
    for (const char* const suffix : {".weight", ".bias"}) {
      const auto up = by_name_.find(fmt::format("v.blk.{}.ffn_up{}", layer, suffix));
      const auto other = by_name_.find(fmt::format("v.blk.{}.ffn_down{}", layer, suffix));
      if (up != by_name_.end() && other != by_name_.end()) std::swap(up->second, other->second);
    }
  }
}

Result<void> GgufWeights::assemble() {
  TRY(family_, gguf_family_of(model_));
  swap_fully_connected();
  TRY(const std::int64_t layers, text_layers());
  for (const std::span<const GgufRow> rows : {gguf_text_rows(), family_->layers})
    for (const GgufRow& row : rows) TRY_DO(add_row(row, family_->text_prefix, layers));
  TRY_DO(add_row({{"output"}, family_->head}, "", 1));
  if (!family_->siglip_prefix.empty())
    for (const GgufRow& row : gguf_siglip_rows())
      TRY_DO(add_row(row, family_->siglip_prefix, kMaxWeightLayers));
  for (const GgufRow& row : family_->tower) TRY_DO(add_row(row, "", kMaxWeightLayers));
  // Factors of wavelengths are in the configuration; what separates Pixtral's rows is an embedding
  // of the text; SigLIP's head makes one vector of an image, which no text is given.
  constexpr std::string_view kElsewhere[] = {"rope_freqs.weight", "v.token_embd.img_break"};
  for (const auto& [name, place] : by_name_) {
    if (!used_.contains(place.tensor) && !name.starts_with("v.head.") &&
        std::ranges::find(kElsewhere, name) == std::end(kElsewhere) && !is_behind(name, layers))
      add_pieces(name, place.tensor->shape, {place}, {whole(place)});
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<const WeightFile>> open_gguf_weights(const GgufPaths& paths) {
  TRY(GgufModel model, GgufModel::open(paths));
  auto weights = std::make_unique<GgufWeights>(std::move(model));
  if (auto assembled = weights->assemble(); !assembled)
    return fail_within(weights->path(), std::move(assembled).error());
  return std::unique_ptr<const WeightFile>(std::move(weights));
}

}  // namespace saccade
