// What a process that only encodes says over HTTP: that it lives, and what it has counted.
#pragma once

#include <string>

#include "engine/encoding_engine.h"
#include "serve/assembly/cluster_store.h"
#include "serve/assembly/lent_encoder.h"
#include "serve/router.h"

namespace saccade::serve {

class EncoderService {
 public:
  // `store`: of the cluster; null: there is none.
  EncoderService(const ServeSettings& settings, EncodingEngine& engine, LentEncoder& lent,
                 ClusterStore* store, const Clock& clock);

  Router& router() { return router_; }

 private:
  std::string metrics() const;

  const ServeSettings& settings_;
  EncodingEngine& engine_;
  LentEncoder& lent_;
  ClusterStore* const store_;
  Router router_;  // last: its jobs use everything above
};

}  // namespace saccade::serve
