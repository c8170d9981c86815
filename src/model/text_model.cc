#include "model/text_model.h"

#include <utility>

#include "model/placeholders.h"

namespace saccade {
namespace {

class TextModel final : public LoadableModel {
 public:
  TextModel(ModelShape shape, DecoderSettings settings, DecoderNames names)
      : names_(std::move(names)), text_(std::move(settings)) {
    shape_ = std::move(shape);
  }

  Result<void> split(Collective& ranks) override {
    TRY_DO(text_.split(ranks));
    shape_.layers = text_.settings().layers;
    return {};
  }

  WeightTable weight_table(Parts parts) override {
    WeightTable table;
    WeightTable absent;
    text_.add_weights(parts == Parts::kVision ? absent : table, names_);
    table.ignore(absent);
    return table;
  }

  void set_dtypes(DType compute, DType kv) override {
    text_.set_compute(compute);
    shape_.kv_dtype = kv;
  }

  Result<void> reserve(Device& device, const Capacity& capacity) override {
    return text_.reserve(device, capacity);
  }
  std::size_t scratch_bytes() const override { return text_.scratch_bytes(); }

  void forward(Stream& stream, const Batch& batch, const Tap& tap) override {
    text_.forward(stream, batch, tap);
  }

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    if (!images.empty()) return fail(ErrorCode::kUnsupported, "{} takes no images", shape_.family);
    return wrap_tokens(encode_guarded(tokenizer, rendered, add_special_tokens));
  }

 private:
  DecoderNames names_;
  TextDecoder text_;
};

}  // namespace

Result<std::unique_ptr<LoadableModel>> make_text_model(std::string_view family,
                                                       const Checkpoint& checkpoint,
                                                       DecoderConfig decoder, DecoderNames names) {
  ModelShape shape;
  shape.family = family;
  describe_decoder(decoder, shape);
  TRY(shape.eos, eos_tokens(checkpoint));
  return std::make_unique<TextModel>(std::move(shape), std::move(decoder.settings),
                                     std::move(names));
}

}  // namespace saccade
