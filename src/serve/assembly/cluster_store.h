// The store that a server shares with its cluster: made as its settings say, told of the server,
// and shown on its metrics page.
#pragma once

#include <memory>
#include <string>

#include "cluster/embedding_exchange.h"
#include "cluster/store/shared_store.h"
#include "cluster/store/store_address.h"
#include "model/model_shape.h"
#include "ops/device.h"
#include "serve/assembly/lent_encoder.h"
#include "serve/handlers/metrics_text.h"
#include "serve/settings.h"

namespace saccade::serve {

// Rows' numbers.
cluster::RowFormat format_of(DType type);

// Whether others could reach what is registered. kInvalid names the flag.
Result<void> check_registry(const ServeSettings& settings);

// A store, and this process's name in it.
class ClusterStore {
 public:
  // `shape`: the network's; null: there are no rows to share. Null: there is no --registry.
  static Result<std::unique_ptr<ClusterStore>> create(const ServeSettings& settings,
                                                      const ModelShape* shape, const Device& device,
                                                      const Clock& clock);

  cluster::SharedStore& shared() { return *store_; }
  // Encoders that are there are asked by `exchange`, until stop().
  void feed(cluster::EmbeddingExchange& exchange);
  // From now on others find this process. `lent`: where it encodes for them; may be null. `port`:
  // of the API; 0: it does not answer any.
  void announce(const LentEncoder* lent, std::uint16_t port);
  void withdraw() { store_->withdraw(); }
  void stop() { store_->stop(); }
  void write_metrics(MetricsText& page);

 private:
  ClusterStore(const ServeSettings& settings, const Clock& clock,
               const cluster::SharedStoreSettings& store, const cluster::StoreAddress& address,
               std::string id);
  const ServeSettings& settings_;
  const std::string id_;
  std::unique_ptr<cluster::SharedStore> store_;
};

}  // namespace saccade::serve
