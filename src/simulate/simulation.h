// A whole cluster under one load: arrivals, the proxy's choice, image sizes, machines, answers.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "bench/log/run_log.h"
#include "cluster/item_table.h"
#include "engine/engine.h"
#include "serve/image_sizes/image_size_settings.h"
#include "simulate/cluster_spec.h"
#include "simulate/cost_model.h"
#include "simulate/machines/encoder_net.h"
#include "simulate/machines/served_model.h"
#include "simulate/run_recorder.h"
#include "simulate/workload.h"

namespace saccade::simulate {

struct SimulationSettings {
  ClusterSpec cluster;
  EngineSettings engine;  // of each PD
  bool pd_tower = true;   // PDs encode too (--encoder-fallback local)
  serve::ImageSizeSettings image_size;
  CostModel costs;     // what is true
  CostModel believed;  // what image sizes are decided by: the profile
  NetworkCost network;
  std::size_t encoder_row_bytes = std::size_t{256} << 20;    // of an encoder: rows made and kept
  std::size_t encoder_media_bytes = std::size_t{256} << 20;  // of an encoder
  LoggedTokens tokens = LoggedTokens::kEvery;
  Nanos sample_every = 0;  // levels and waits of the first PD into the log; 0: none
  std::uint64_t seed = 0;
};

// What is left in the machines when all have been answered: nothing but what is kept for later.
struct Leftovers {
  std::int64_t sequences = 0;
  std::int64_t held_bytes = 0;    // of the KV pool, by sequences
  std::int64_t leased_bytes = 0;  // of embeddings
  std::int64_t open_items = 0;    // images asked for, and attempts to get them
  std::int64_t encoder_calls = 0;
  std::int64_t receiving_rows = 0;
  bool none() const {
    return sequences + held_bytes + leased_bytes + open_items + encoder_calls + receiving_rows == 0;
  }
};

struct SimulationResult {
  bench::RunLog log;
  Nanos ended = 0;  // virtual
  std::uint64_t steps = 0;
  std::uint64_t events = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t retries = 0;  // of the proxy
  std::int64_t native_image_tokens = 0;
  std::int64_t applied_image_tokens = 0;  // of requests that were not refused for their images
  std::vector<double> pd_busy;            // share of the time
  std::vector<double> encoder_busy;
  cluster::ItemStats items;              // of all PDs
  std::map<int, std::uint64_t> refused;  // by status
  Leftovers left;
};

// A pure function of its arguments. Errors name the setting; kInternal if a request never ends.
Result<SimulationResult> simulate(const SimulationSettings& settings, const ServedModel& model,
                                  const Workload& workload);

}  // namespace saccade::simulate
