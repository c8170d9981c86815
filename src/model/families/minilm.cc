// MiniLM and other BERT encoders as sentence-transformers publishes them (all-MiniLM-L6-v2,
// all-MiniLM-L12-v2, bge-*-en). Reference: transformers' models/bert, sentence-transformers; papers
// arXiv:1810.04805, arXiv:1908.10084, arXiv:2002.10957.
//
// Three odd things:
//  - It is post-norm: a layer adds first and normalises after, so there is no final norm.
//  - A token's vector is its word's, its place's and its segment's; of segments only the first
//    occurs.
//  - How token vectors become one is not in config.json: modules.json and 1_Pooling/config.json
//    say so (model/sentence_modules.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model/blocks/blocks.h"
#include "model/blocks/scratch.h"
#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
#include "model/sentence_modules.h"

namespace saccade {
namespace minilm {
namespace {

// --- configuration ---

struct BertSettings {
  std::int64_t hidden = 768;
  std::int64_t intermediate = 3072;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t vocab = 30522;
  std::int64_t places = 512;  // learnt positions
  std::int64_t segments = 2;
  Activation activation = Activation::kGeluErf;
  NormStyle norm = {.epsilon = 1e-12f, .weight_offset = 0, .subtract_mean = true};
  Pooling pooling = Pooling::kMean;
  bool normalise = false;
};

Result<BertSettings> parse_bert(const json::object& config) {
  BertSettings bert;
  const std::array fields = {
      ExtentField{"hidden_size", &bert.hidden, 1 << 16},
      ExtentField{"intermediate_size", &bert.intermediate, 1 << 18},
      ExtentField{"num_hidden_layers", &bert.layers, 1024},
      ExtentField{"num_attention_heads", &bert.heads, 1024},
      ExtentField{"vocab_size", &bert.vocab, 1 << 22},
      ExtentField{"max_position_embeddings", &bert.places, 1 << 20},
      ExtentField{"type_vocab_size", &bert.segments, 1 << 10},
  };
  TRY_DO(read_extents(config, "config.json", fields));
  if (bert.hidden % bert.heads != 0)
    return fail(ErrorCode::kUnsupported, "hidden_size {} is not a multiple of {} heads",
                bert.hidden, bert.heads);
  TRY(const std::string places, json::get_string_or(config, "position_embedding_type", "absolute"));
  if (places != "absolute")
    return fail(ErrorCode::kUnsupported,
                "position_embedding_type is \"{}\"; learnt absolute positions are done", places);
  for (const std::string_view field : {"is_decoder", "add_cross_attention"}) {
    TRY(const bool on, json::get_bool_or(config, field, false));
    if (on) return fail(ErrorCode::kUnsupported, "{} is true; encoders are done", field);
  }
  TRY(const std::string activation, json::get_string_or(config, "hidden_act", "gelu"));
  TRY(bert.activation, parse_activation(activation));
  TRY(const double epsilon, json::get_double_or(config, "layer_norm_eps", 1e-12));
  bert.norm.epsilon = static_cast<float>(epsilon);
  return bert;
}

// --- the encoder ---

class BertEncoder final : public LoadableEncoder {
 public:
  BertEncoder(EncoderShape shape, const BertSettings& settings)
      : settings_(settings), layers_(static_cast<std::size_t>(settings.layers)) {
    shape_ = std::move(shape);
  }

  Result<void> split(Collective&) override {
    return fail(ErrorCode::kUnsupported, "a sentence encoder is not split over ranks");
  }
  WeightTable weight_table(Parts parts) override;
  void set_dtypes(const ModelTypes& types) override { compute_ = types.compute; }
  Result<void> reserve(Device& device, std::int64_t rows, std::int64_t sequences) override;
  std::size_t scratch_bytes() const override { return scratch_.bytes(); }
  void forward(Stream& stream, std::span<const TokenId> ids, std::span<const std::int32_t> begins,
               View out, const Tap& tap) override;

 private:
  struct Layer {
    Linear qkv;
    Linear attention_out;
    Norm attention_norm;
    Linear mlp_in;
    Linear mlp_out;
    Norm mlp_norm;
  };

  void embed(Stream& stream, std::span<const TokenId> ids, std::span<const std::int32_t> begins,
             View x);
  void attention(Stream& stream, const Layer& layer, const SegmentPlan& plan, View x);
  void mlp(Stream& stream, const Layer& layer, View x);
  void pool(Stream& stream, std::span<const std::int32_t> begins, View x, View pooled);

  const BertSettings settings_;
  DType compute_ = DType::kF32;
  EmbeddingTable words_;
  EmbeddingTable places_;
  EmbeddingTable segments_;
  Norm embedding_norm_;
  std::vector<Layer> layers_;

  Scratch scratch_;
  View hidden_;     // [rows, hidden]
  View sum_;        // [rows, hidden] before a norm
  View qkv_;        // [rows, 3 * hidden]
  View attention_;  // [rows, hidden]
  View inner_;      // [rows, intermediate]
  View pooled_;     // [sequences, hidden]
  View unit_;       // [1, hidden] of 1 / sqrt(hidden): RMSNorm to length 1
};

WeightTable BertEncoder::weight_table(Parts parts) {
  const BertSettings& s = settings_;
  WeightTable table;
  table.embedding(words_, "embeddings.word_embeddings.weight", s.vocab, s.hidden);
  table.embedding(places_, "embeddings.position_embeddings.weight", s.places, s.hidden);
  table.embedding(segments_, "embeddings.token_type_embeddings.weight", s.segments, s.hidden);
  add_norm(table, embedding_norm_, "embeddings.LayerNorm", s.hidden, s.norm);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    const std::string at = fmt::format("encoder.layer.{}.", i);
    table.stacked(layer.qkv,
                  {{at + "attention.self.query", s.hidden},
                   {at + "attention.self.key", s.hidden},
                   {at + "attention.self.value", s.hidden}},
                  s.hidden, Bias::kYes);
    table.linear(layer.attention_out, at + "attention.output.dense", s.hidden, s.hidden,
                 Bias::kYes);
    add_norm(table, layer.attention_norm, at + "attention.output.LayerNorm", s.hidden, s.norm);
    table.linear(layer.mlp_in, at + "intermediate.dense", s.intermediate, s.hidden, Bias::kYes);
    table.linear(layer.mlp_out, at + "output.dense", s.hidden, s.intermediate, Bias::kYes);
    add_norm(table, layer.mlp_norm, at + "output.LayerNorm", s.hidden, s.norm);
  }
  // BERT's own head over the first token: sentence encoders pool in another way.
  table.ignore("pooler.dense.weight");
  table.ignore("pooler.dense.bias");
  if (parts != Parts::kVision) return table;
  WeightTable none;
  none.ignore(table);
  return none;
}

Result<void> BertEncoder::reserve(Device& device, std::int64_t rows, std::int64_t sequences) {
  const BertSettings& s = settings_;
  scratch_.add(hidden_, DType::kF32, rows, s.hidden);
  scratch_.add(sum_, DType::kF32, rows, s.hidden);
  scratch_.add(qkv_, DType::kF32, rows, 3 * s.hidden);
  scratch_.add(attention_, DType::kF32, rows, s.hidden);
  scratch_.add(inner_, DType::kF32, rows, s.intermediate);
  scratch_.add(pooled_, DType::kF32, sequences, s.hidden);
  scratch_.add(unit_, DType::kF32, 1, s.hidden);
  TRY_DO(scratch_.allocate(device));
  std::vector<float> unit(static_cast<std::size_t>(s.hidden),
                          static_cast<float>(1 / std::sqrt(static_cast<double>(s.hidden))));
  Stream& copy = device.lane(Lane::kCopy);
  copy.upload(View(unit.data(), DType::kF32, 1, s.hidden), unit_);
  copy.synchronize();
  return {};
}

void BertEncoder::forward(Stream& stream, std::span<const TokenId> ids,
                          std::span<const std::int32_t> begins, View out, const Tap& tap) {
  const View x = hidden_.row_range(0, static_cast<std::int64_t>(ids.size()));
  const View pooled = pooled_.row_range(0, out.rows());
  CHECK(static_cast<std::int64_t>(begins.size()) == out.rows() + 1, "{} begins of {} sequences",
        begins.size(), out.rows());
  const std::int64_t head_dim = settings_.hidden / settings_.heads;
  const SegmentPlan& plan = stream.plan_segments(
      begins, {.heads = settings_.heads, .kv_heads = settings_.heads, .head_dim = head_dim});
  embed(stream, ids, begins, x);
  show(tap, stream, "text.embed", x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    attention(stream, layers_[i], plan, x);
    mlp(stream, layers_[i], x);
    if (tap) show(tap, stream, fmt::format("text.layer.{}", i), x);
  }
  pool(stream, begins, x, pooled);
  show(tap, stream, "text.pooled", pooled);
  if (settings_.normalise) {
    // x / |x|, where torch's lower bound of 1e-12 on |x| keeps zero at zero.
    stream.norm({.x = pooled,
                 .add = {},
                 .weight = unit_,
                 .bias = {},
                 .epsilon = 1e-24f / static_cast<float>(settings_.hidden),
                 .weight_offset = 0,
                 .subtract_mean = false,
                 .out = pooled});
  }
  stream.copy(pooled, out);
  show(tap, stream, "text.embedding", pooled);
}

void BertEncoder::embed(Stream& stream, std::span<const TokenId> ids,
                        std::span<const std::int32_t> begins, View x) {
  const View sum = sum_.row_range(0, x.rows());
  const auto embed_rows = [&](const EmbeddingTable& table, std::span<const std::int32_t> which,
                              View into) {
    stream.embed({.table = table.view,
                  .packed = nullptr,
                  .ids = stream.upload(which),
                  .scale = 1,
                  .out = into});
  };
  std::vector<std::int32_t> places(ids.size());
  for (std::size_t i = 0; i + 1 < begins.size(); ++i)
    std::iota(places.begin() + begins[i], places.begin() + begins[i + 1], 0);
  constexpr std::array<std::int32_t, 1> kFirstSegment = {0};
  const View segment = attention_.row_range(0, 1);
  embed_rows(words_, ids, x);
  embed_rows(segments_, kFirstSegment, segment);
  stream.add(segment, x, 1);
  embed_rows(places_, places, sum);
  stream.add(sum, x, 1);
  apply_norm(stream, embedding_norm_, settings_.norm, x, x);
}

void BertEncoder::attention(Stream& stream, const Layer& layer, const SegmentPlan& plan, View x) {
  const std::int64_t width = settings_.hidden;
  const std::int64_t head_dim = width / settings_.heads;
  const View qkv = qkv_.row_range(0, x.rows());
  const View attended = attention_.row_range(0, x.rows());
  const View sum = sum_.row_range(0, x.rows());
  apply_linear(stream, layer.qkv, x, qkv);
  stream.segment_attention(
      {.plan = &plan,
       .q = qkv.col_range(0, width),
       .k = qkv.col_range(width, 2 * width),
       .v = qkv.col_range(2 * width, 3 * width),
       .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim))),
       .compute = compute_,
       .out = attended});
  apply_linear(stream, layer.attention_out, attended, sum, x);
  apply_norm(stream, layer.attention_norm, settings_.norm, sum, x);
}

void BertEncoder::mlp(Stream& stream, const Layer& layer, View x) {
  const View inner = inner_.row_range(0, x.rows());
  const View sum = sum_.row_range(0, x.rows());
  apply_linear(stream, layer.mlp_in, x, inner, {}, settings_.activation);
  apply_linear(stream, layer.mlp_out, inner, sum, x);
  apply_norm(stream, layer.mlp_norm, settings_.norm, sum, x);
}

void BertEncoder::pool(Stream& stream, std::span<const std::int32_t> begins, View x, View pooled) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(x.rows()));
  std::vector<float> shares(rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  for (std::size_t i = 0; i + 1 < begins.size(); ++i)
    std::fill(shares.begin() + begins[i], shares.begin() + begins[i + 1],
              1.0f / static_cast<float>(begins[i + 1] - begins[i]));
  if (settings_.pooling == Pooling::kCls) {
    stream.mix_rows({.x = x,
                     .rows = stream.upload(begins.first(begins.size() - 1)),
                     .weights = {},
                     .out = pooled});
    return;
  }
  const DeviceInts from = stream.upload(rows);
  const DeviceFloats by = stream.upload(shares);
  for (std::int64_t i = 0; i < pooled.rows(); ++i) {
    const std::int64_t begin = begins[static_cast<std::size_t>(i)];
    const std::int64_t taps = begins[static_cast<std::size_t>(i) + 1] - begin;
    stream.mix_rows({.x = x,
                     .rows = from.slice(begin, taps),
                     .weights = by.slice(begin, taps),
                     .taps = taps,
                     .out = pooled.row_range(i, i + 1)});
  }
}

Result<std::unique_ptr<LoadableEncoder>> create(const Checkpoint& checkpoint) {
  TRY(BertSettings bert, parse_bert(checkpoint.config));
  TRY(const SentenceModules modules, read_sentence_modules(checkpoint.directory));
  if (modules.dimensions && *modules.dimensions != bert.hidden)
    return fail(ErrorCode::kInvalid, "the pooling module is for {} dimensions, hidden_size is {}",
                *modules.dimensions, bert.hidden);
  bert.pooling = modules.pooling;
  bert.normalise = modules.normalise;
  EncoderShape shape;
  shape.family = "minilm";
  shape.dimensions = bert.hidden;
  shape.vocab = bert.vocab;
  shape.max_tokens = std::min(modules.max_tokens.value_or(bert.places), bert.places);
  shape.pooling = name_of(bert.pooling);
  shape.normalised = bert.normalise;
  return std::make_unique<BertEncoder>(std::move(shape), bert);
}

// What a model with another head on top calls its encoder.
constexpr std::array kAliases = {NameAlias{"bert.", ""}};

}  // namespace
}  // namespace minilm

extern const Family kMiniLm;
const Family kMiniLm = {.name = "minilm",
                        .architectures = {"BertModel"},
                        .model_types = {"bert"},
                        .aliases = minilm::kAliases,
                        .create_encoder = minilm::create};

}  // namespace saccade
