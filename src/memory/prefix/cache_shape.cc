#include "memory/prefix/cache_shape.h"

namespace saccade {
namespace {

constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxOfAny = std::int64_t{1} << 24;  // heads, window, hidden, state bytes

Result<CacheKind> parse_kind(std::string_view name) {
  if (name == "full") return CacheKind::kFull;
  if (name == "sliding_window") return CacheKind::kSlidingWindow;
  if (name == "cross_attention") return CacheKind::kCrossAttention;
  if (name == "state") return CacheKind::kState;
  if (name == "vision_embedding") return CacheKind::kVisionEmbedding;
  return fail(ErrorCode::kInvalid,
              "kind \"{}\" is none of full, sliding_window, cross_attention, state, "
              "vision_embedding",
              name);
}

Result<std::int64_t> get_bounded(const json::object& from, std::string_view name,
                                 std::int64_t most) {
  TRY(const std::int64_t value, json::get_int(from, name));
  if (value < 1 || value > most) {
    return fail(ErrorCode::kInvalid, "{} is {}, allowed 1 to {}", name, value, most);
  }
  return value;
}

Result<LayerSpec> parse_layer(const json::object& from, std::int64_t dtype_bytes) {
  LayerSpec layer;
  layer.dtype_bytes = dtype_bytes;
  TRY(const std::string kind, json::get_string(from, "kind"));
  TRY(layer.kind, parse_kind(kind));
  if (layer.kind == CacheKind::kState) {
    TRY(layer.state_bytes, get_bounded(from, "state_bytes", kMaxOfAny));
    return layer;
  }
  if (layer.kind == CacheKind::kVisionEmbedding) {
    TRY(layer.hidden, get_bounded(from, "hidden", kMaxOfAny));
    return layer;
  }
  TRY(layer.kv_heads, get_bounded(from, "kv_heads", 4096));
  TRY(layer.head_dim, get_bounded(from, "head_dim", 4096));
  if (layer.kind == CacheKind::kSlidingWindow) {
    TRY(layer.window, get_bounded(from, "window", kMaxOfAny));
  }
  return layer;
}

Result<void> add_layers(const json::value& from, std::int64_t dtype_bytes, CacheShape& shape) {
  if (!from.is_object()) {
    return fail(ErrorCode::kInvalid, "layers holds {}", json::kind_name(from));
  }
  const json::object& object = from.get_object();
  TRY(const LayerSpec layer, parse_layer(object, dtype_bytes));
  TRY(const std::int64_t count, json::get_int_or(object, "count", 1));
  const std::int64_t room = kMaxLayers - static_cast<std::int64_t>(shape.layers.size());
  if (count < 1 || count > room) {
    return fail(ErrorCode::kInvalid, "count is {}, and a model has 1 to {} layers", count,
                kMaxLayers);
  }
  shape.layers.insert(shape.layers.end(), static_cast<std::size_t>(count), layer);
  return {};
}

}  // namespace

Result<CacheShape> parse_cache_shape(const json::value& parsed) {
  if (!parsed.is_object()) {
    return fail(ErrorCode::kInvalid, "a shape is an object, not {}", json::kind_name(parsed));
  }
  const json::object& from = parsed.get_object();
  CacheShape shape;
  TRY(shape.name, json::get_string(from, "name"));
  TRY(shape.source, json::get_string_or(from, "source", ""));
  TRY(shape.image_tokens, json::get_int_or(from, "image_tokens", 0));
  if (shape.image_tokens < 0 || shape.image_tokens > kMaxOfAny) {
    return fail(ErrorCode::kInvalid, "image_tokens is {}, allowed 0 to {}", shape.image_tokens,
                kMaxOfAny);
  }
  TRY(const std::int64_t dtype_bytes, json::get_int_or(from, "dtype_bytes", 2));
  if (dtype_bytes < 1 || dtype_bytes > 8) {
    return fail(ErrorCode::kInvalid, "dtype_bytes is {}, allowed 1 to 8", dtype_bytes);
  }
  const json::value* layers = json::find(from, "layers");
  if (layers == nullptr || !layers->is_array() || layers->get_array().empty()) {
    return fail(ErrorCode::kInvalid, "layers is no array of layers");
  }
  for (const json::value& layer : layers->get_array()) {
    TRY_DO(add_layers(layer, dtype_bytes, shape));
  }
  return shape;
}

Result<CacheShape> read_cache_shape(const std::string& path) {
  TRY(const json::value parsed, json::parse_file(path));
  auto shape = parse_cache_shape(parsed);
  if (!shape) return fail_within(path, std::move(shape).error());
  return shape;
}

}  // namespace saccade
