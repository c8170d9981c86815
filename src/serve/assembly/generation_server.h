// A server that generates text: what it is assembled of, and in which order that ends.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cluster/zmq/event_publisher.h"
#include "serve/assembly/cluster_store.h"
#include "serve/assembly/engine_thread.h"
#include "serve/assembly/http_listener.h"
#include "serve/assembly/image_encoders.h"
#include "serve/assembly/lent_encoder.h"
#include "serve/assembly/server_parts.h"
#include "serve/handlers/metrics_page.h"
#include "serve/image_sizes/image_sizer.h"
#include "serve/periodic_thread.h"
#include "serve/server.h"
#include "serve/service.h"

namespace saccade::serve {

// One thread: assembled, run and stopped by whoever has it.
class GenerationServer {
 public:
  // Instead of HTTP; may be empty.
  using OfflineWork = std::function<Result<void>(const Offline&)>;

  // All of these outlive it.
  GenerationServer(const ServeSettings& settings, const ServerParts& parts,
                   const EndSignals& signals);
  ~GenerationServer() { stop(); }
  GenerationServer(const GenerationServer&) = delete;
  GenerationServer& operator=(const GenerationServer&) = delete;

  // From settings to the last drained answer, or the end of `offline`.
  Result<void> run(const OfflineWork& offline);

 private:
  // In this order.
  Result<void> load();
  Result<void> join_cluster();
  Result<void> make_engine(bool warms_up);
  Result<void> make_service();
  Result<void> serve();
  // What has been made of it; again: nothing.
  void stop();

  const ServeSettings& settings_;
  const ServerParts& parts_;
  const EndSignals& signals_;
  const SteadyClock clock_;
  const ProcessorSet processors_;  // that the engine's thread stays on; empty: anything
  const bool tower_;               // images are encoded here

  std::optional<Model> model_;
  std::optional<Model> draft_;
  std::optional<RequestBuilder> builder_;
  std::optional<cluster::StageCosts> costs_;  // what image sizes are decided by

  std::unique_ptr<ClusterStore> store_;                   // null: no --registry
  std::unique_ptr<cluster::EmbeddingExchange> exchange_;  // null: no encoders elsewhere
  std::unique_ptr<cluster::EventPublisher> events_;       // of the prefix cache; null: nobody asks
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<LentEncoder> lent_;  // null: no images of others

  std::optional<MetricsPage> metrics_;
  std::optional<ImageSizer> sizer_;
  std::optional<LoraAdapters> adapters_;
  std::optional<Service> service_;
  std::optional<EngineThread<Engine>> thread_;
  std::optional<PeriodicThread> ticker_;
  std::unique_ptr<HttpListener> listener_;
  std::optional<PeriodicThread> throughput_;
};

}  // namespace saccade::serve
