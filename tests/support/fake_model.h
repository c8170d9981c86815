// A model without weights whose answers depend on everything that an engine can get wrong: keys and
// values are fingerprints of what a token depends on, read back from the pool through the block
// tables, so that a wrong block, a missing write, a wrong position or a missing image row changes
// every token that follows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/request.h"
#include "model/network.h"

namespace saccade {

struct FakeModelOptions {
  std::vector<LayerShape> layers = {{LayerKind::kFull, 0, 1, 8}, {LayerKind::kFull, 0, 1, 8}};
  std::int64_t vocab = 64;
  std::int64_t hidden = 12;
  std::int64_t max_position = 4096;
  std::int64_t max_image_tokens = 64;
  int encoder_stages = 3;
  bool cut_stages = false;  // an encoding is a PiecewiseRun, with a patch a unit
  int position_axes = 1;
  std::size_t scratch_bytes = 0;  // said, not taken
  DType cache = DType::kF32;      // of its pages; said, and nothing is kept so
  bool has_vision = true;
  // Of 16 rows, those whose likeliest next token follows from their own token alone, so that text
  // repeats itself; which rows they are depends on everything.
  int echoes = 0;
  // Called in each forward and in each stage of the encoder, or piece of one, with the patches that
  // it does: to let a virtual clock go on.
  std::function<void(const Batch&)> on_forward;
  std::function<void(std::int64_t patches)> on_stage;
};

class FakeModel final : public Network {
 public:
  explicit FakeModel(const FakeModelOptions& options);
  Result<void> reserve(Device& device, const Capacity& capacity) override;
  void forward(Stream& stream, const Batch& batch, const Tap& tap = {}) override;
  void more_logits(Stream& stream, DeviceInts rows, View logits) override;
  std::size_t scratch_bytes() const override { return options_.scratch_bytes; }
  std::unique_ptr<EncodeRun> begin_encode(Stream& stream,
                                          std::span<const PreparedImage* const> images,
                                          std::span<const View> out, const Tap& tap = {}) override;

  // From now on the encoder's last stage fails for images of `failing` tokens, and makes NaN of
  // those of `spoilt` tokens; 0: of none.
  void break_images(std::int64_t failing, std::int64_t spoilt) {
    failing_tokens_ = failing;
    spoilt_tokens_ = spoilt;
  }

  std::int64_t forwards() const { return forwards_; }
  std::int64_t largest_batch() const { return largest_batch_; }  // rows
  std::int64_t images_encoded() const { return images_encoded_; }

 private:
  void take_in(const Batch& batch, std::size_t l);  // a layer that keeps a state
  void compute(const Batch& batch);                 // with everything on the host
  void attend_across(const Batch& batch, std::size_t l);
  void write_logits(DeviceInts rows, View logits) const;
  std::uint64_t attend(const SequenceSpan& span, std::int64_t position, const LayerShape& shape,
                       const KvLayer& layer) const;

  FakeModelOptions options_;
  std::vector<std::uint64_t> state_;  // of the last forward's rows
  std::vector<TokenId> ids_;          // of them
  Capacity capacity_;
  std::int64_t forwards_ = 0;
  std::int64_t largest_batch_ = 0;
  std::int64_t images_encoded_ = 0;
  std::int64_t failing_tokens_ = 0;
  std::int64_t spoilt_tokens_ = 0;
  bool encoding_ = false;
  friend class FakeEncodeRun;
  friend class CutEncodeRun;
};

// An image of `tokens` rows whose pixels follow from `seed`.
RequestImage fake_image(std::uint64_t seed, std::int64_t tokens);

// A prompt of `ids` in which image i, of `tokens` rows, stands at images[i].first. Placeholders are
// token 5. Across: each is one token, whose rows layers attend to.
struct FakeImageAt {
  std::int64_t begin = 0;
  std::uint64_t seed = 0;
  std::int64_t tokens = 0;
};
Request fake_request(std::vector<TokenId> ids, const std::vector<FakeImageAt>& images,
                     std::int64_t max_tokens, int position_axes = 1, bool across = false);

}  // namespace saccade
