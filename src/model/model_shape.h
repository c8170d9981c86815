// What a model is, in numbers: what the engine plans by. Follows from a checkpoint's small files
// but for what only its weights tell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "text/tokenizer.h"

namespace saccade {

// kCrossAttention: the keys and values are those of images' rows, and text keeps none. kRecurrent:
// a state of one size, whatever the length.
enum class LayerKind { kFull, kSlidingWindow, kCrossAttention, kRecurrent };

// What one text layer keeps for each token, or for each sequence.
struct LayerShape {
  LayerKind kind = LayerKind::kFull;
  std::int64_t window = 0;  // tokens; 0 unless kSlidingWindow
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t state = 0;  // f32 elements of a sequence's; 0 unless kRecurrent
};

struct ModelShape {
  std::string family;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;  // rows of the logits
  // Token ids from `vocab` on that a prompt may hold, unlike answers.
  std::int64_t placeholders = 0;
  std::int64_t max_position = 0;  // longest sequence the checkpoint promises, tokens
  // Longest sequence without scaled positions, 0: max_position. What an engine takes unless it is
  // told more.
  std::int64_t usual_length = 0;
  int position_axes = 1;  // 3 for M-RoPE (temporal, height, width)
  // LongRoPE: keys of a sequence longer than this are others than those of a shorter one, for all
  // of its tokens. Who runs a sequence computes it anew when it grows longer, and fills
  // Batch::long_rows. 0: keys do not depend on the length.
  std::int64_t short_length = 0;
  std::vector<LayerShape> layers;
  std::vector<TokenId> eos;  // generation_config's list, else config's
  bool has_vision = false;
  // The largest image under the checkpoint's own limits: patch rows that the encoder takes, rows of
  // its embedding. A server may be set up for less.
  std::int64_t max_image_patches = 0;
  std::int64_t max_image_tokens = 0;
  // DeepStack (arXiv:2406.04334): slices of [hidden] that an image's embedding row has besides the
  // first, one for each of the first text layers.
  std::int64_t deepstack = 0;
  // Frames that one encoder input of a video joins; 0: the model takes no videos.
  int frames_per_grid = 0;

  // --- once the weights are there ---
  std::int64_t parameters = 0;
  std::size_t weight_bytes = 0;         // as packed on the device
  DType embedding_dtype = DType::kF32;  // what embeddings of images are stored as: floats
  // What keys and values are stored as: floats, or bytes with a scale a row
  // (ops/formats/kv_rows.h).
  DType cache_dtype = DType::kF32;
  // SHA-256 over all that an image's embedding follows from besides its pixels and its layout: the
  // tower's tensors, the configuration files, and the types they are computed in. Equal in every
  // process that makes the same embeddings; part of the name of each. Empty without a tower.
  std::string tower_fingerprint;

  // Whether there are layers that attend to images across, which then take one token each.
  bool cross_attends() const {
    return std::ranges::any_of(
        layers, [](const LayerShape& of) { return of.kind == LayerKind::kCrossAttention; });
  }
  // Whether there are layers that keep a state, which cannot be taken back once a token is in.
  bool keeps_state() const {
    return std::ranges::any_of(
        layers, [](const LayerShape& of) { return of.kind == LayerKind::kRecurrent; });
  }
  // Elements of an image's embedding row.
  std::int64_t embedding_width() const { return hidden * (1 + deepstack); }
};

// Of `length` tokens, prompt and generated.
inline bool is_long_sequence(const ModelShape& shape, std::int64_t length) {
  return shape.short_length > 0 && length > shape.short_length;
}

}  // namespace saccade
