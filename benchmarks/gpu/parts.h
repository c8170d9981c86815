// The parts of gpu_bench, each of which a time limit may end between two rows.
#pragma once

#include <string>

#include "benchmarks/gpu/device_bench.h"

namespace saccade {

// What the device can do at best: copies within it and over the bus, and mma.sync.
Result<void> measure_roofs(Figures& figures, bool rehearsal);

// Every op at the shapes of real models: 7B first, its vision tower, 2B. `own`: with the own
// kernels' attention, which is measured beside a library's.
Result<void> measure_ops(DeviceBench& bench, DeviceBench& own);

// Products with weights of codes, layers of experts, and layers that keep a state: rows of the same
// table.
void measure_codes(DeviceBench& bench);
void measure_experts(DeviceBench& bench);
void measure_recurrence(DeviceBench& bench);

// Whether a row's bits depend on how many rows share the call: products and attention.
// Row "products" and "attention": how many cases were compared, and in how many a bit differed.
Result<void> probe_batch_invariance(DeviceBench& bench);

// Numbers of products and attention at real shapes: the own kernels' against double precision, the
// libraries' against the own kernels'. Rows: how many cases, how many beyond the bound, the worst.
Result<void> measure_agreement(DeviceBench& library, DeviceBench& own);

struct ModelFigures {
  std::string checkpoint;  // folder
  std::string name;        // of the rows
  bool random_weights = false;
  std::string step;  // decode-N, prefill or image: of measure_step
};
// Prefill, decode at 1, 8 and 64 streams, images through the tower.
Result<void> measure_model(std::unique_ptr<Device> device, Figures& figures,
                           const ModelFigures& model, bool rehearsal);
// One step, as a server has it and launch by launch; then once more between the profiler's marks,
// for those who watch its kernels: decode of N streams, a prefill, or an image through the tower.
Result<void> measure_step(std::unique_ptr<Device> device, Figures& figures,
                          const ModelFigures& model, bool rehearsal);

}  // namespace saccade
