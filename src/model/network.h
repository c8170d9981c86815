// What of a model runs on a device: weights, one forward of the text, and the encoder of images.
// Const after load; forward() and EncodeRun::advance() are called by the engine thread, everything
// else by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "model/adapters/lora_rows.h"
#include "model/images/prepared_image.h"
#include "model/model_shape.h"
#include "ops/device.h"

namespace saccade {

// What of a checkpoint is loaded: a process that encodes for others needs no text, one that has its
// images encoded elsewhere no tower.
enum class Parts { kAll, kText, kVision };

// Cache location of one text layer in this step. Of one that is LayerKind::kRecurrent a block is a
// state: blocks are f32 [pool's blocks, LayerShape::state], and block_size is the tokens between
// states that are kept, none of which a step goes past; 0: the first block holds it for good.
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
  View embeddings;               // [.., embedding_width] of embedding_dtype, or empty
  DeviceInts embedding_sources;  // [n] rows of `embeddings`, or empty: its rows in order
  DeviceInts embedding_rows;     // [n] rows of this batch that they replace
  // Of layers that attend to images (LayerKind::kCrossAttention), in whose groups `spans` is of
  // seeing_rows alone: each of a span's rows sees its whole prefix of the images' keys.
  DeviceInts seeing_rows = {};  // [s] rows of this batch that see an image, ascending
  DeviceInts image_rows = {};   // [k] rows of `embeddings` whose keys and values are new, and where
  std::span<const std::span<const SequenceSpan>> image_spans = {};  // [groups] they go
  DeviceInts logit_rows;  // [m] rows whose logits are wanted
  View logits;            // [m, vocab] f32
  // Rows that adapters are added for, each at most once; and the list that they refer to. Good
  // until the step has been submitted.
  std::span<const LoraRows> loras = {};
  DeviceInts lora_rows = {};
  // The same of seeing_rows, counted in that list; and of image_rows, all of which follow each
  // other.
  std::span<const LoraRows> seeing_loras = {};
  std::span<const LoraRows> image_loras = {};
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
  std::int64_t lora_rank = 0;      // highest of adapters; 0: there are none
};

class Network {
 public:
  virtual ~Network() = default;

  const ModelShape& shape() const { return shape_; }

  // Makes the scratch of forward() and of encoding, before the first call of either: they allocate
  // nothing. kExhausted when it does not fit. Another call replaces the first.
  virtual Result<void> reserve(Device& device, const Capacity& capacity) = 0;
  // Bytes of that scratch.
  virtual std::size_t scratch_bytes() const { return 0; }

  // Submits one step. The caller retires the stream's lists afterwards.
  virtual void forward(Stream& stream, const Batch& batch, const Tap& tap = {}) = 0;

  // Logits of more rows of the last forward(), as many at once as Capacity::logit_rows, before
  // anything else is asked for on the stream. rows: [m]; logits: [m, vocab] f32.
  virtual void more_logits(Stream& stream, DeviceInts rows, View logits);

  // Only of a model that sees. out[i]: [images[i].layout.tokens, embedding_width] of
  // embedding_dtype. Images and views must outlive the run. One run at a time.
  virtual std::unique_ptr<EncodeRun> begin_encode(Stream& stream,
                                                  std::span<const PreparedImage* const> images,
                                                  std::span<const View> out, const Tap& tap = {});

  // What adapters may be added to; empty: the model takes none. Addresses stay.
  virtual std::span<const LoraTarget> lora_targets() const { return {}; }
  // As the decoder's own matrices are multiplied, but never in bytes.
  virtual DType lora_compute() const { return DType::kF32; }

 protected:
  ModelShape shape_;
};

}  // namespace saccade
