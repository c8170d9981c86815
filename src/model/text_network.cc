#include "model/text_network.h"

#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

class TextNetwork final : public LoadableNetwork {
 public:
  TextNetwork(ModelShape shape, DecoderSettings decoder, DecoderNames names,
              std::unique_ptr<VisionTower> tower)
      : names_(std::move(names)), text_(std::move(decoder)), tower_(std::move(tower)) {
    CHECK(shape.has_vision == (tower_ != nullptr), "{}: has_vision and its tower", shape.family);
    shape_ = std::move(shape);
  }

  Result<void> split(Collective& ranks) override {
    TRY_DO(text_.split(ranks));
    shape_.layers = text_.settings().layers;
    return {};
  }

  WeightTable weight_table(Parts parts) override {
    parts_ = parts;
    WeightTable table;
    WeightTable absent;
    if (tower_) tower_->add_weights(parts == Parts::kText ? absent : table);
    text_.add_weights(parts == Parts::kVision ? absent : table, names_);
    table.ignore(absent);
    return table;
  }

  void set_dtypes(const ModelTypes& types) override {
    if (tower_) tower_->set_compute(types.compute);
    text_.set_compute(types.compute);
    shape_.embedding_dtype = types.embeddings;
    shape_.cache_dtype = types.cache;
  }

  Result<void> reserve(Device& device, const Capacity& capacity) override {
    if (parts_ != Parts::kVision) TRY_DO(text_.reserve(device, capacity));
    if (tower_ && parts_ != Parts::kText && capacity.image_patches > 0)
      TRY_DO(tower_->reserve(device, capacity.image_patches));
    return {};
  }

  std::size_t scratch_bytes() const override {
    return text_.scratch_bytes() + (tower_ ? tower_->scratch_bytes() : 0);
  }

  void forward(Stream& stream, const Batch& batch, const Tap& tap) override {
    CHECK(parts_ != Parts::kVision, "{} was loaded without its text", shape_.family);
    text_.forward(stream, batch, tap);
  }

  std::span<const LoraTarget> lora_targets() const override {
    if (parts_ == Parts::kVision) return {};
    return text_.lora_targets();
  }
  DType lora_compute() const override { return text_.compute(); }

  void more_logits(Stream& stream, DeviceInts rows, View logits) override {
    text_.logits(stream, rows, logits);
  }

  std::unique_ptr<EncodeRun> begin_encode(Stream& stream,
                                          std::span<const PreparedImage* const> images,
                                          std::span<const View> out, const Tap& tap) override {
    CHECK(tower_ != nullptr, "{} takes no images", shape_.family);
    CHECK(parts_ != Parts::kText, "{} was loaded without its tower", shape_.family);
    return tower_->begin({stream, images, out, tap});
  }

 private:
  DecoderNames names_;
  TextDecoder text_;
  std::unique_ptr<VisionTower> tower_;
  Parts parts_ = Parts::kAll;  // that weights were asked for
};

}  // namespace

std::unique_ptr<LoadableNetwork> make_network(ModelShape shape, DecoderSettings decoder,
                                              DecoderNames names,
                                              std::unique_ptr<VisionTower> tower) {
  return std::make_unique<TextNetwork>(std::move(shape), std::move(decoder), std::move(names),
                                       std::move(tower));
}

}  // namespace saccade
