// The encoders that a server asks: the exchange over gRPC, as its settings say.
#pragma once

#include <memory>

#include "cluster/embedding_exchange.h"
#include "model/model_shape.h"
#include "ops/device.h"
#include "serve/handlers/metrics_text.h"
#include "serve/settings.h"

namespace saccade::serve {

// `finder`: asked for rows before anybody else, and outlives it; may be null.
Result<std::unique_ptr<cluster::EmbeddingExchange>> make_exchange(const ServeSettings& settings,
                                                                  const ModelShape& shape,
                                                                  const Device& device,
                                                                  const Clock& clock,
                                                                  cluster::RowFinder* finder);

void write_metrics(cluster::EmbeddingExchange& exchange, MetricsText& page);

}  // namespace saccade::serve
