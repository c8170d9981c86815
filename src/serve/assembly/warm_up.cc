#include "serve/assembly/warm_up.h"

#include <algorithm>
#include <memory>

#include "serve/assembly/made_requests.h"

namespace saccade::serve {
namespace {

constexpr std::int64_t kImageTokens = 512;
constexpr int kWarmUpSide = 896;  // pixels, before it is made to fit

}  // namespace

WarmUp warm_up_of(const Model& model, const Tokenizer& tokenizer, bool tower) {
  const auto requests = std::make_shared<MadeRequests>(*model.processor, tokenizer, 31);
  WarmUp warm_up;
  warm_up.text = [requests](std::int64_t tokens) { return requests->text(tokens); };
  if (!tower || !model.shape().has_vision) return warm_up;
  warm_up.image = [requests, &model]() -> Result<Request> {
    ImageControls controls;
    controls.max_tokens = std::min(kImageTokens, model.shape().max_image_tokens);
    TRY(const ImageLayout layout,
        model.processor->image_layout(kWarmUpSide, kWarmUpSide, controls));
    return requests->image(layout);
  };
  return warm_up;
}

}  // namespace saccade::serve
