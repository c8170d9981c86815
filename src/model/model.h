// What the engine sees of a model: its shape, its prompt arithmetic, its image encoder and one
// forward. A family (model/family.h) makes one from a checkpoint. Const after load; forward() and
// EncodeRun::advance() are called by the engine thread, everything else by any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "image/pixels.h"
#include "ops/device.h"
#include "text/tokenizer.h"

namespace saccade {

// What of a checkpoint is loaded: a process that encodes for others needs no text, one that has its
// images encoded elsewhere no tower.
enum class Parts { kAll, kText, kVision };

enum class LayerKind { kFull, kSlidingWindow };

// What one text layer keeps for each token.
struct LayerShape {
  LayerKind kind = LayerKind::kFull;
  std::int64_t window = 0;  // tokens; 0 unless kSlidingWindow
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
};

struct ModelShape {
  std::string family;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;         // rows of the logits
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
  // DeepStack (arXiv:2406.04334): slices of [hidden] that an image's embedding row has besides the
  // first, one for each of the first text layers.
  std::int64_t deepstack = 0;
  // Frames that one encoder input of a video joins; 0: the model takes no videos.
  int frames_per_grid = 0;
  std::int64_t parameters = 0;
  std::size_t weight_bytes = 0;  // as packed on the device
  DType kv_dtype = DType::kF32;  // what keys, values and embeddings are stored as
  // SHA-256 over all that an image's embedding follows from besides its pixels and its layout: the
  // tower's tensors, the configuration files, and the types they are computed in. Equal in every
  // process that makes the same embeddings; part of the name of each. Empty before the weights are
  // there, and without a tower.
  std::string tower_fingerprint;

  // Elements of an image's embedding row.
  std::int64_t embedding_width() const { return hidden * (1 + deepstack); }
};

// Of `length` tokens, prompt and generated.
inline bool is_long_sequence(const ModelShape& shape, std::int64_t length) {
  return shape.short_length > 0 && length > shape.short_length;
}

// What a request may say about image size. Absent: the checkpoint's preprocessor_config. A family
// whose images come in tiles takes as many as the bounds leave, one at the least.
struct ImageControls {
  std::optional<std::int64_t> min_pixels;
  std::optional<std::int64_t> max_pixels;
  std::optional<std::int64_t> max_tokens;  // detail "low", or a controller's budget
  // mm_processor_kwargs but min_pixels and max_pixels; members that the family has not are
  // kInvalid.
  json::object processor_kwargs;
};

// What a request may say about a video, which is a list of frames of one size.
struct VideoControls {
  ImageControls frame;  // of each frame; without max_tokens
  std::int64_t frames = 0;
  double fps = 2;                            // of the frames that are given; qwen-vl-utils' default
  std::optional<std::int64_t> total_pixels;  // of all frames after resizing, divided evenly
};

// Where an image of given size ends up: arithmetic only, made before any pixel is decoded. `key`
// names everything that decides the embedding besides the image's bytes and the model, and where a
// video's tokens stand in time; it is part of every cache key.
struct ImageLayout {
  int width = 0;  // of the original
  int height = 0;
  int resized_width = 0;
  int resized_height = 0;
  int first_width = 0;  // between two resizings; 0: there is one
  int first_height = 0;
  std::int64_t grid_t = 1;  // groups of frames; 1 for an image, and for what the encoder takes
  std::int64_t frames = 0;  // of a video, as given; 0: an image
  double fps = 0;           // of a video: frames a second, of those given
  std::int64_t grid_h = 0;  // patches (Qwen), or tiles (others) before any merging
  std::int64_t grid_w = 0;
  std::int64_t tokens = 0;  // rows of the embedding = placeholders in the prompt
  std::string key;
};

// Of one group of a video's frames, `frames` of them: what the encoder takes.
ImageLayout group_layout(const ImageLayout& video, std::int64_t frames);

// From 8-bit pixels to the encoder's input rows: normalised, and cut as the family cuts them.
// Immutable; any thread. A row follows from its number and the pixels alone, so that rows may be
// cut in any pieces.
class PatchCutter {
 public:
  virtual ~PatchCutter() = default;
  virtual std::int64_t row_length() const = 0;  // floats
  // Rows [begin, end) to [end - begin, row_length].
  virtual void cut(std::span<const Pixels> frames, std::int64_t begin, std::int64_t end,
                   std::span<float> to) const = 0;
};

// What the encoder takes of one image or one group of a video's frames: resized pixels of 8 bits.
// They become floats when the encoder begins with them, a slice at a time.
struct PreparedImage {
  ImageLayout layout;
  std::vector<Pixels> frames;  // one of an image, however often it is repeated in its rows
  std::shared_ptr<const PatchCutter> cutter;

  std::int64_t patch_rows() const { return layout.grid_t * layout.grid_h * layout.grid_w; }
};

// Rows [begin, end) of an image, cut on all threads. `to` has as many floats.
void cut_rows(ThreadPool& pool, const PreparedImage& image, std::int64_t begin, std::int64_t end,
              std::span<float> to);

// Placeholders in the prompt: token begin + i takes embedding row first_row + i of image `index`.
// A family that writes text between an image's rows has several spans for it. The encoder's inputs
// are numbered: an image is one, a video is one for each group of frames.
struct ImageSpan {
  std::int64_t begin = 0;
  std::int64_t tokens = 0;
  int index = 0;
  std::int64_t first_row = 0;
};

struct Prompt {
  std::vector<TokenId> ids;
  std::vector<std::vector<std::int32_t>> positions;  // [position_axes][ids]
  std::int64_t position_delta = 0;  // position of generated token at index i is i + position_delta
  std::vector<ImageSpan> images;    // ascending
  std::int64_t bidirectional_prefix = 0;  // tokens; 0: causal
  // Tokens that see each other both ways in a prompt that is causal otherwise: SequenceSpan's.
  std::vector<TokenInterval> both_ways;
};

// What sees each other both ways is computed in one step. One past the last token that a step which
// begins at token `begin` has to reach; `begin` if it may end anywhere.
std::int64_t least_step_end(const Prompt& prompt, std::int64_t begin);
// The last place up to `end` where it may end; `begin` if there is none after it.
std::int64_t last_step_end(const Prompt& prompt, std::int64_t begin, std::int64_t end);
// Most tokens that ever have to be computed in one step.
std::int64_t least_step_tokens(const Prompt& prompt);

// Cache location of one text layer in this step.
struct KvBinding {
  KvLayer layer;
  int group = 0;  // index into Batch::spans
};

// One step flattened: its lists are on the device already, uploaded once for all layers. Rows of a
// sequence are consecutive; prefill chunks and decode rows stand side by side.
struct Batch {
  // [rows]; any valid id where an embedding row stands. One below 0 is still being sampled: see
  // EmbedArgs.
  DeviceInts ids;
  View last_tokens = {};  // [slots, 1] i32, or empty
  DeviceInts positions;   // [axes, rows]
  // [rows] 1 for a row of a sequence of more than ModelShape::short_length tokens; empty: none is.
  DeviceInts long_rows = {};
  std::span<const std::span<const SequenceSpan>> spans;  // [groups][sequences], of the host
  std::span<const KvBinding> kv;                         // [layers]
  View embeddings;               // [.., embedding_width] of kv_dtype, or empty
  DeviceInts embedding_sources;  // [n] rows of `embeddings`, or empty: its rows in order
  DeviceInts embedding_rows;     // [n] rows of this batch that they replace
  DeviceInts logit_rows;         // [m] rows whose logits are wanted
  View logits;                   // [m, vocab] f32
};

// Named intermediate values, for `saccade model compare` and the golden tests:
// "vision.patch_embed", "vision.layer.0", "vision.merged", "text.embed", "text.layer.0",
// "text.norm", "logits"; with DeepStack "vision.deepstack.0" and "text.deepstack.0". One that is
// made in slices comes in several calls, its rows in order. The value is on the host.
using Tap = std::function<void(std::string_view name, View value)>;

// Waits for `value` and shows it to the tap; nothing without one.
void show(const Tap& tap, Stream& stream, std::string_view name, View value);

// One encoding in progress: a batch of images, one layer at a time, so that decode steps can run in
// between. Its lists on the device live until the stream's retire(), which is its caller's when the
// run has ended.
class EncodeRun {
 public:
  virtual ~EncodeRun() = default;
  // Does one stage (patch embedding, one layer, the merger). True when the embeddings are complete.
  // After an error there are none, and the run is over.
  virtual Result<bool> advance() = 0;
};

// The largest step and the largest encoding that a model must be ready for.
struct Capacity {
  std::int64_t rows = 0;           // of Batch::ids
  std::int64_t sequences = 0;      // of one group of Batch::spans
  std::int64_t logit_rows = 0;     // of Batch::logit_rows
  std::int64_t image_patches = 0;  // patch rows of all images of one EncodeRun
  std::int64_t length = 0;         // longest sequence, tokens (rope scaling goes by it)
};

class Model {
 public:
  virtual ~Model() = default;

  const ModelShape& shape() const { return shape_; }

  // Makes the scratch of forward() and of encoding, before the first call of either: they allocate
  // nothing. kExhausted when it does not fit. Another call replaces the first.
  virtual Result<void> reserve(Device& device, const Capacity& capacity) = 0;
  // Bytes of that scratch.
  virtual std::size_t scratch_bytes() const { return 0; }

  // Submits one step. The caller retires the stream's lists afterwards.
  virtual void forward(Stream& stream, const Batch& batch, const Tap& tap = {}) = 0;

  // --- images; kUnsupported for text-only models ---
  virtual Result<ImageLayout> image_layout(int width, int height,
                                           const ImageControls& controls) const;
  // The 8-bit pixels that are normalised and cut; tiles stand below each other.
  virtual Result<Pixels> resized_image(const Pixels& pixels, const ImageLayout& layout) const;
  virtual Result<PreparedImage> prepare_image(const Pixels& pixels,
                                              const ImageLayout& layout) const;
  // The largest image's rows under the checkpoint's own limits: what reserve() must be able to
  // take.
  virtual std::int64_t max_image_patches() const { return 0; }
  virtual std::int64_t max_image_tokens() const { return 0; }
  // out[i]: [images[i].layout.tokens, embedding_width] of kv_dtype. Images and views must outlive
  // the run. One run at a time.
  virtual std::unique_ptr<EncodeRun> begin_encode(Stream& stream,
                                                  std::span<const PreparedImage* const> images,
                                                  std::span<const View> out, const Tap& tap = {});

  // --- videos; kUnsupported for models that take none (ModelShape::frames_per_grid) ---
  // Of a whole video. Frames are resized by resized_image(), with this layout.
  virtual Result<ImageLayout> video_layout(int width, int height,
                                           const VideoControls& controls) const;
  // One group of a video's decoded frames: at most frames_per_grid; the last fills up a short one.
  virtual Result<PreparedImage> prepare_frames(std::span<const Pixels> frames,
                                               const ImageLayout& video) const;

  // --- prompts ---
  // From a rendered template whose images and videos appear as the family's placeholders, each
  // kind in order. Text guarded by guard_literals() is tokenised as plain text.
  virtual Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                                      std::span<const ImageLayout> images,
                                      bool add_special_tokens) const = 0;
  // From token ids that are already there (completions with token prompts). No images.
  virtual Result<Prompt> wrap_tokens(std::vector<TokenId> ids) const;
  // User text made safe: placeholders written out by a user are marked so that build_prompt keeps
  // them text.
  virtual std::string guard_literals(std::string_view user_text) const;
  // What stands for image `index` (from 0) where a template takes messages as plain strings.
  virtual std::string image_placeholder(int index) const;
  virtual std::string video_placeholder() const;
  // Jinja source for checkpoints that ship no template though the family has a known format.
  virtual std::string_view default_chat_template() const { return {}; }

 protected:
  ModelShape shape_;
};

}  // namespace saccade
