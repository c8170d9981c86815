// A vision tower that encodes for other processes, alone or beside its own server's requests: its
// desk, and the door that they come through.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/grpc/encoder_server.h"
#include "cluster/store/shared_store.h"
#include "engine/images/image_recipe.h"
#include "engine/images/lent_images.h"
#include "model/model.h"
#include "serve/assembly/drainable.h"
#include "serve/handlers/metrics_text.h"
#include "serve/settings.h"

namespace saccade::serve {

// Who this process is among others.
// `shape`: the network's.
cluster::Greeting greeting_of(const ModelShape& shape, const Device& device);
// The key and the certificates that the settings name. kInvalid for half of a pair.
Result<cluster::Access> read_access(const ClusterSettings& settings);

class LentEncoder final : public Drainable, private cluster::ImageMaker {
 public:
  // Begins to listen. What is given outlives it. `store`: where rows that are made go too; may be
  // null.
  static Result<std::unique_ptr<LentEncoder>> create(const ServeSettings& settings,
                                                     const Model& model, const Device& device,
                                                     LentImages& images, const Clock& clock,
                                                     cluster::SharedStore* store);
  ~LentEncoder() override;

  const cluster::Greeting& self() const { return self_; }
  std::vector<std::string> addresses() const { return server_->addresses(); }
  std::size_t unfinished() override;  // images that are open
  void start_draining() override;     // refuses from now on
  bool waits_beyond_http() const override { return true; }
  void stop(std::chrono::seconds limit);
  void write_metrics(MetricsText& page);

 private:
  LentEncoder(const ServeSettings& settings, const Processor& processor, LentImages& images,
              const Clock& clock, const cluster::Greeting& self);
  void make(Job job) override;
  void let_go(const Digest& key) override;
  EncodeCost cost() const override;
  Result<RebuiltImage> rebuild(Job& job) const;

  const ServeSettings& settings_;
  const Processor& processor_;
  LentImages& images_;
  const cluster::Greeting self_;
  std::unique_ptr<cluster::EventThread> thread_;
  std::unique_ptr<cluster::EncoderServer> server_;
  std::unique_ptr<cluster::EncoderDesk> desk_;  // the thread's
  bool stopped_ = false;
};

}  // namespace saccade::serve
