// Which models requests may name: the one that is served, by all its names, and its adapters.
#include <utility>

#include "serve/service.h"

namespace saccade::serve {

std::vector<api::ModelCard> Service::cards() const {
  std::vector<api::ModelCard> cards;
  for (const auto& name : settings_.served_model_name) {
    cards.push_back({name, started_at_, settings_.model, engine_.settings().max_model_len,
                     processor_.shape().has_vision, processor_.shape().max_image_tokens, false,
                     processor_.shape().frames_per_grid > 0,
                     builder_.tool_reading().calls_tools()});
  }
  if (adapters_ == nullptr) return cards;
  for (api::ModelCard& card : adapters_->cards(cards.front())) cards.push_back(std::move(card));
  return cards;
}

Result<std::shared_ptr<const LoraAdapter>> Service::adapter_of(const std::string& model) const {
  if (adapters_ == nullptr) return nullptr;
  TRY(std::shared_ptr<const LoraAdapter> adapter, adapters_->find(model));
  if (adapter == nullptr) TRY_DO(router_.check_model(model));
  return adapter;
}

}  // namespace saccade::serve
