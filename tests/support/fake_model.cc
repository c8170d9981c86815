#include "tests/support/fake_model.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <list>

#include "base/hash.h"
#include "model/piecewise_run.h"
#include "tests/support/deferred_device.h"

namespace saccade {
namespace {

// A number that f32 keeps exactly.
float print_of(std::uint64_t hash) { return static_cast<float>(hash >> 40); }

std::uint64_t absorb(std::uint64_t state, float value) {
  return hash_combine(state, std::bit_cast<std::uint32_t>(value));
}

float* slot_of(const SequenceSpan& span, const KvLayer& layer, std::int64_t token,
               std::int64_t head) {
  const std::int32_t block = span.blocks[static_cast<std::size_t>(token / layer.block_size)];
  CHECK(block >= 0, "token {} has no block", token);
  float* page = layer.blocks.row<float>(block);
  return page + (head * layer.block_size + token % layer.block_size) * layer.head_dim;
}

// Of a group of states, which no attention is planned for.
struct CopiedSpans {
  explicit CopiedSpans(std::span<const SequenceSpan> given) : spans(given.begin(), given.end()) {
    for (SequenceSpan& span : spans)
      span.blocks = blocks.emplace_back(span.blocks.begin(), span.blocks.end());
  }
  operator std::span<const SequenceSpan>() const { return spans; }  // NOLINT
  std::vector<SequenceSpan> spans;
  std::list<std::vector<std::int32_t>> blocks;
};

// A batch as a kernel of a late device sees it, with what it refers to on the host.
struct KeptBatch {
  KeptBatch(DeferredStream& stream, const Batch& of) : batch(of) {
    for (const KvBinding& binding : of.kv) {
      KvBinding& kept = kv.emplace_back(binding);
      kept.layer.blocks = stream.use(binding.layer.blocks);
    }
    for (std::size_t group = 0; group < of.spans.size(); ++group) {
      spans.push_back(keep(of, group, of.spans[group]));
      if (!of.image_spans.empty()) image_spans.push_back(keep(of, group, of.image_spans[group]));
    }
    batch.ids = stream.use(of.ids);
    batch.last_tokens = stream.use(of.last_tokens);
    batch.positions = stream.use(of.positions);
    batch.long_rows = stream.use(of.long_rows);
    batch.spans = spans;
    batch.image_spans = image_spans;
    batch.seeing_rows = stream.use(of.seeing_rows);
    batch.image_rows = stream.use(of.image_rows);
    batch.kv = kv;
    batch.embeddings = stream.use(of.embeddings);
    batch.embedding_sources = stream.use(of.embedding_sources);
    batch.embedding_rows = stream.use(of.embedding_rows);
    batch.logit_rows = stream.use(of.logit_rows);
    batch.logits = stream.use(of.logits);
  }

  // As AttentionPlan copies them; none of a group that no layer reads.
  std::span<const SequenceSpan> keep(const Batch& of, std::size_t group,
                                     std::span<const SequenceSpan> given) {
    const auto layer = std::ranges::find(of.kv, static_cast<int>(group), &KvBinding::group);
    if (layer == of.kv.end()) return {};
    const KvLayer& shape = layer->layer;
    if (shape.head_dim == 0)  // states
      return copies.emplace_back(given);
    return plans
        .emplace_back(
            std::make_unique<AttentionPlan>(given, AttentionGeometry{.block_size = shape.block_size,
                                                                     .heads = shape.kv_heads,
                                                                     .kv_heads = shape.kv_heads,
                                                                     .head_dim = shape.head_dim,
                                                                     .window = 1}))
        ->spans();
  }

  Batch batch;
  std::vector<KvBinding> kv;
  std::vector<std::unique_ptr<AttentionPlan>> plans;
  std::list<CopiedSpans> copies;
  std::vector<std::span<const SequenceSpan>> spans;
  std::vector<std::span<const SequenceSpan>> image_spans;
};

}  // namespace

class FakeEncodeRun final : public EncodeRun {
 public:
  FakeEncodeRun(FakeModel& model, Stream& stream, std::span<const PreparedImage* const> images,
                std::span<const View> out, int stages)
      : model_(model), stream_(stream), images_(images), out_(out), left_(stages) {
    CHECK(!model.encoding_, "two encodings at once");
    model.encoding_ = true;
  }
  ~FakeEncodeRun() override { model_.encoding_ = false; }

  std::int64_t patches() const {
    std::int64_t patches = 0;
    for (const PreparedImage* image : images_) patches += image->patch_rows();
    return patches;
  }
  Result<bool> advance() override {
    if (model_.options_.on_stage) model_.options_.on_stage(patches());
    return end_stage();
  }
  Result<bool> end_stage() {
    if (--left_ > 0) return false;
    for (const PreparedImage* image : images_) {
      if (model_.failing_tokens_ > 0 && image->layout.tokens == model_.failing_tokens_)
        return fail(ErrorCode::kUnavailable, "the encoder is gone");
    }
    for (std::size_t i = 0; i < images_.size(); ++i) {
      std::uint64_t print = 3;
      for (const std::uint8_t value : images_[i]->frames.front().rgb)
        print = absorb(print, static_cast<float>(value));
      if (auto* late = dynamic_cast<DeferredStream*>(&stream_)) {
        late->launch([print, out = late->use(out_[i])] { write(print, out); });
      } else {
        write(print, out_[i]);
      }
      if (out_[i].rows() == model_.spoilt_tokens_)
        out_[i].row<float>(out_[i].rows() - 1)[0] = std::numeric_limits<float>::quiet_NaN();
      ++model_.images_encoded_;
    }
    return true;
  }

 private:
  static void write(std::uint64_t print, View out) {
    for (std::int64_t row = 0; row < out.rows(); ++row) {
      for (std::int64_t column = 0; column < out.cols(); ++column) {
        out.row<float>(row)[column] =
            print_of(hash_combine(print, static_cast<std::uint64_t>(row * out.cols() + column)));
      }
    }
  }

  FakeModel& model_;
  Stream& stream_;
  std::span<const PreparedImage* const> images_;
  std::span<const View> out_;
  int left_;
};

FakeModel::FakeModel(const FakeModelOptions& options) : options_(options) {
  shape_.family = "fake";
  shape_.hidden = options.hidden;
  shape_.vocab = options.vocab;
  shape_.max_position = options.max_position;
  shape_.position_axes = options.position_axes;
  shape_.layers = options.layers;
  shape_.cache_dtype = options.cache;
  shape_.eos = {0};
  shape_.has_vision = options.has_vision;
  shape_.max_image_patches = 4 * options.max_image_tokens;
  shape_.max_image_tokens = options.max_image_tokens;
}

Result<void> FakeModel::reserve(Device&, const Capacity& capacity) {
  capacity_ = capacity;
  return {};
}

std::uint64_t FakeModel::attend(const SequenceSpan& span, std::int64_t position,
                                const LayerShape& shape, const KvLayer& layer) const {
  std::int64_t begin = 0;
  std::int64_t end = position + 1;
  if (shape.kind == LayerKind::kSlidingWindow) {
    begin = std::max<std::int64_t>(0, position - shape.window + 1);
  }
  if (position < span.prefix) {
    begin = 0;
    end = span.prefix;
  }
  for (const TokenInterval interval : span.both_ways) {
    if (interval.begin <= position && position < interval.end) end = interval.end;
  }
  std::uint64_t sum = 0;
  for (std::int64_t token = begin; token < end; ++token) {
    std::uint64_t print = static_cast<std::uint64_t>(token);
    for (std::int64_t head = 0; head < 2 * layer.kv_heads; ++head) {
      const float* slot = slot_of(span, layer, token, head);
      for (std::int64_t d = 0; d < layer.head_dim; ++d) print = absorb(print, slot[d]);
    }
    sum += print;
  }
  return sum;
}

void FakeModel::forward(Stream& stream, const Batch& batch, const Tap&) {
  const std::int64_t rows = batch.ids.size();
  ++forwards_;
  if (options_.on_forward) options_.on_forward(batch);
  largest_batch_ = std::max(largest_batch_, rows);
  CHECK(rows <= capacity_.rows, "{} rows, reserved {}", rows, capacity_.rows);
  if (auto* late = dynamic_cast<DeferredStream*>(&stream)) {
    late->launch(
        [this, kept = std::make_shared<KeptBatch>(*late, batch)] { compute(kept->batch); });
  } else {
    compute(batch);
  }
}

void FakeModel::compute(const Batch& batch) {
  const std::int64_t rows = batch.ids.size();
  std::vector<std::uint64_t>& state = state_;
  state.assign(static_cast<std::size_t>(rows), 0);
  const auto ids = batch.ids.host();
  ids_.clear();
  for (std::size_t row = 0; row < state.size(); ++row) {
    const TokenId id = ids[row] >= 0 ? ids[row] : *batch.last_tokens.row<TokenId>(-1 - ids[row]);
    state[row] = hash_combine(11, static_cast<std::uint64_t>(id));
    ids_.push_back(id);
  }
  for (std::int64_t i = 0; i < batch.embedding_rows.size(); ++i) {
    std::uint64_t print = 13;
    const float* embedding = batch.embeddings.row<float>(
        batch.embedding_sources.empty() ? i : batch.embedding_sources[i]);
    for (std::int64_t column = 0; column < shape_.hidden; ++column) {
      print = absorb(print, embedding[column]);
    }
    state[static_cast<std::size_t>(batch.embedding_rows[i])] = print;
  }
  for (std::size_t row = 0; row < state.size(); ++row) {
    const auto positions = batch.positions.host();
    for (std::size_t at = row; at < positions.size(); at += state.size()) {
      state[row] = hash_combine(state[row], static_cast<std::uint64_t>(positions[at]));
    }
  }
  for (std::size_t l = 0; l < shape_.layers.size(); ++l) {
    if (shape_.layers[l].kind == LayerKind::kCrossAttention) {
      attend_across(batch, l);
      continue;
    }
    if (shape_.layers[l].kind == LayerKind::kRecurrent) {
      take_in(batch, l);
      continue;
    }
    const KvLayer& layer = batch.kv[l].layer;
    const auto spans = batch.spans[static_cast<std::size_t>(batch.kv[l].group)];
    for (const SequenceSpan& span : spans) {
      for (std::int64_t i = 0; i < span.row_count; ++i) {
        const std::uint64_t print = state[static_cast<std::size_t>(span.row_begin + i)];
        for (std::int64_t head = 0; head < 2 * layer.kv_heads; ++head) {
          float* slot = slot_of(span, layer, span.context + i, head);
          for (std::int64_t d = 0; d < layer.head_dim; ++d) {
            slot[d] = print_of(
                hash_combine(print, l * 1000 + static_cast<std::uint64_t>(head * 100 + d)));
          }
        }
      }
    }
    for (const SequenceSpan& span : spans) {
      for (std::int64_t i = 0; i < span.row_count; ++i) {
        std::uint64_t& print = state[static_cast<std::size_t>(span.row_begin + i)];
        print = hash_combine(print, attend(span, span.context + i, shape_.layers[l], layer));
      }
    }
  }
  write_logits(batch.logit_rows, batch.logits);
}

// A state is a fingerprint of all that it has taken in, in its order.
void FakeModel::take_in(const Batch& batch, std::size_t l) {
  const KvLayer& layer = batch.kv[l].layer;
  for (const SequenceSpan& span : batch.spans[static_cast<std::size_t>(batch.kv[l].group)]) {
    if (span.row_count == 0) continue;
    const std::int64_t block = layer.block_size == 0 ? 0 : span.context / layer.block_size;
    CHECK(layer.block_size == 0 || span.context + span.row_count <= (block + 1) * layer.block_size,
          "tokens [{}, {}) go past a state that is kept every {}", span.context,
          span.context + span.row_count, layer.block_size);
    const std::int32_t page = span.blocks[static_cast<std::size_t>(block)];
    CHECK(page >= 0, "state {} is not there", block);
    float* const kept = layer.blocks.row<float>(page);
    for (std::int64_t i = 0; i < span.row_count; ++i) {
      std::uint64_t& print = state_[static_cast<std::size_t>(span.row_begin + i)];
      std::uint64_t sum = l;
      for (std::int64_t e = 0; e < layer.blocks.cols(); ++e)
        sum = absorb(sum, span.context + i == 0 ? 0 : kept[e]);
      sum = hash_combine(sum, print);
      for (std::int64_t e = 0; e < layer.blocks.cols(); ++e)
        kept[e] = print_of(hash_combine(sum, static_cast<std::uint64_t>(e)));
      print = hash_combine(print, sum);
    }
  }
}

// Keys and values follow from an image's row alone, and rows that see no image keep their state.
void FakeModel::attend_across(const Batch& batch, std::size_t l) {
  const KvLayer& layer = batch.kv[l].layer;
  const auto group = static_cast<std::size_t>(batch.kv[l].group);
  for (const SequenceSpan& span : batch.image_spans[group]) {
    for (std::int64_t i = 0; i < span.row_count; ++i) {
      std::uint64_t print = 17;
      const float* embedding = batch.embeddings.row<float>(batch.image_rows[span.row_begin + i]);
      for (std::int64_t column = 0; column < shape_.hidden; ++column)
        print = absorb(print, embedding[column]);
      for (std::int64_t head = 0; head < 2 * layer.kv_heads; ++head) {
        float* slot = slot_of(span, layer, span.context + i, head);
        for (std::int64_t d = 0; d < layer.head_dim; ++d)
          slot[d] =
              print_of(hash_combine(print, l * 1000 + static_cast<std::uint64_t>(head * 100 + d)));
      }
    }
  }
  for (const SequenceSpan& span : batch.spans[group]) {
    for (std::int64_t i = 0; i < span.row_count; ++i) {
      const auto row = static_cast<std::size_t>(batch.seeing_rows[span.row_begin + i]);
      state_[row] =
          hash_combine(state_[row], attend(span, span.context + i, shape_.layers[l], layer));
    }
  }
}

void FakeModel::write_logits(DeviceInts rows, View out) const {
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    float* logits = out.row<float>(i);
    const std::uint64_t print = state_[static_cast<std::size_t>(rows[i])];
    for (std::int64_t token = 0; token < shape_.vocab; ++token) {
      const std::uint64_t hash = hash_combine(print, static_cast<std::uint64_t>(token));
      logits[token] = static_cast<float>(hash >> 40) * 0x1.0p-21f;  // 0 to 8
    }
    if (static_cast<int>(print % 16) < options_.echoes) {
      const TokenId next = 40 + (ids_[static_cast<std::size_t>(rows[i])] * 3 + 1) % 7;
      logits[next] += 16;
    }
  }
}

void FakeModel::more_logits(Stream& stream, DeviceInts rows, View logits) {
  CHECK(rows.size() <= capacity_.logit_rows, "{} logit rows, reserved {}", rows.size(),
        capacity_.logit_rows);
  if (auto* late = dynamic_cast<DeferredStream*>(&stream)) {
    late->launch(
        [this, rows = late->use(rows), logits = late->use(logits)] { write_logits(rows, logits); });
  } else {
    write_logits(rows, logits);
  }
}

// The same in pieces of patches, each of which costs kPatchCost.
class CutEncodeRun final : public PiecewiseRun {
 public:
  CutEncodeRun(FakeModel& model, Stream& stream, std::span<const PreparedImage* const> images,
               std::span<const View> out, int stages)
      : model_(model), whole_(model, stream, images, out, stages), left_(whole_.patches()) {}
  Result<bool> advance() override { return whole_.advance(); }
  Result<Piece> advance_piece(const WorkCost& rates, double seconds) override {
    constexpr double kPatchCost = 1e6;
    const double fit = seconds * rates[0] / kPatchCost;
    const auto count = static_cast<std::int64_t>(std::clamp(fit, 1.0, static_cast<double>(left_)));
    if (model_.options_.on_stage) model_.options_.on_stage(count);
    Piece piece;
    piece.cost[0] = kPatchCost * static_cast<double>(count);
    left_ -= count;
    piece.stage_ends = left_ == 0;
    if (!piece.stage_ends) return piece;
    left_ = whole_.patches();
    TRY(piece.complete, whole_.end_stage());
    return piece;
  }

 private:
  FakeModel& model_;
  FakeEncodeRun whole_;
  std::int64_t left_;  // patches of the stage
};

std::unique_ptr<EncodeRun> FakeModel::begin_encode(Stream& stream,
                                                   std::span<const PreparedImage* const> images,
                                                   std::span<const View> out, const Tap&) {
  if (options_.cut_stages)
    return std::make_unique<CutEncodeRun>(*this, stream, images, out, options_.encoder_stages);
  return std::make_unique<FakeEncodeRun>(*this, stream, images, out, options_.encoder_stages);
}

RequestImage fake_image(std::uint64_t seed, std::int64_t tokens) {
  PreparedImage prepared;
  prepared.layout.tokens = tokens;
  prepared.layout.grid_h = 4;
  prepared.layout.grid_w = tokens;
  prepared.layout.key = std::to_string(tokens) + " rows";
  Pixels& pixels = prepared.frames.emplace_back();
  for (std::int64_t i = 0; i < 4 * tokens * 2; ++i) {
    pixels.rgb.push_back(
        static_cast<std::uint8_t>(hash_combine(seed, static_cast<std::uint64_t>(i)) >> 32));
  }
  RequestImage image;
  image.content = sha256(std::to_string(seed));
  image.layout = prepared.layout;
  image.source = std::make_shared<ReadyImage>(std::move(prepared));
  return image;
}

Request fake_request(std::vector<TokenId> ids, const std::vector<FakeImageAt>& images,
                     std::int64_t max_tokens, int position_axes, bool across) {
  Prompt prompt;
  prompt.cross_attends = across && !images.empty();
  std::vector<RequestImage> media;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const FakeImageAt& at = images[i];
    RequestImage image = fake_image(at.seed, at.tokens);
    image.span = {at.begin, across ? 1 : at.tokens, static_cast<int>(i), 0};
    prompt.images.push_back(image.span);
    std::fill_n(ids.begin() + at.begin, image.span.tokens, 5);
    media.push_back(std::move(image));
  }
  // As M-RoPE has it: an image takes less room than its tokens, and what follows goes on from
  // there.
  prompt.positions.resize(static_cast<std::size_t>(position_axes));
  std::int64_t next = 0;
  for (std::int64_t token = 0; token < static_cast<std::int64_t>(ids.size());) {
    const auto image = std::find_if(images.begin(), images.end(),
                                    [&](const FakeImageAt& at) { return at.begin == token; });
    const std::int64_t count = image == images.end() || across ? 1 : image->tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t axis = 0; axis < position_axes; ++axis) {
        prompt.positions[static_cast<std::size_t>(axis)].push_back(
            static_cast<std::int32_t>(next + i / (axis + 2)));
      }
    }
    next += (count + 1) / 2;
    token += count;
  }
  prompt.position_delta = next - static_cast<std::int64_t>(ids.size());
  prompt.ids = std::move(ids);
  Request request;
  request.prompt = std::move(prompt);
  request.images = std::move(media);
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

}  // namespace saccade
