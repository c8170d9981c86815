#include "serve/handlers/encoder_service.h"

#include <vector>

namespace saccade::serve {

EncoderService::EncoderService(const ServeSettings& settings, EncodingEngine& engine,
                               LentEncoder& lent, ClusterStore* store, const Clock& clock)
    : settings_(settings), engine_(engine), lent_(lent), store_(store), router_(settings, clock) {
  router_.add_status_routes([] { return std::vector<api::ModelCard>(); });
  for (const std::string_view path :
       {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize"}) {
    router_.add_json("POST", path, false, [](const net::HttpRequest&) -> Result<std::string> {
      return fail(ErrorCode::kUnsupported,
                  "this process encodes images for others (--role encoder) and answers nothing");
    });
  }
  router_.add_metrics([this] { return metrics(); });
}

std::string EncoderService::metrics() const {
  const EncodingStats stats = engine_.stats();
  MetricsText page(settings_.served_model_name.front());
  const auto number = [](auto n) { return static_cast<double>(n); };
  page.counter("saccade:encoder_runs_total", "Encoder batches run.", number(stats.encoder.runs));
  page.counter("saccade:images_encoded_total", "Images encoded.", number(stats.encoder.images));
  page.counter("saccade:images_failed_total", "Images that could not be encoded.",
               number(stats.encoder.failed));
  page.counter("saccade:images_decoded_total", "Images decoded.", number(stats.images_decoded));
  page.counter("saccade:encoder_tokens_computed_total", "Image tokens encoded.",
               number(stats.encoder.rows));
  page.gauge("saccade:encoder_queue_images", "Images waiting for the encoder.",
             number(stats.images_waiting));
  page.gauge("saccade:images_loading", "Images requested and not decoded yet.",
             number(stats.images_loading));
  page.gauge("saccade:pixel_bytes", "Bytes of decoded images that are not encoded yet.",
             number(stats.pixel_bytes));
  lent_.write_metrics(page);
  if (store_ != nullptr) store_->write_metrics(page);
  return page.text();
}

}  // namespace saccade::serve
