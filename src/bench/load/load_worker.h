// One client thread of a run: its share of the arrivals, its flights, its part of the log. Internal
// to the load runner.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/load/admission.h"
#include "bench/load/flight.h"
#include "bench/load/load_runner.h"
#include "bench/metrics/latency_histogram.h"

namespace saccade::bench {

// What the workers of one run share.
struct LoadRun {
  const LoadSettings& settings;
  const ArrivalPlan& arrivals;
  const std::vector<LoadRequest>& requests;
  Nanos origin = 0;  // SteadyClock
  Admission admission;

  std::atomic<bool> stopping{false};            // no request begins any more
  std::atomic<std::uint64_t> arrivals_left{0};  // planned, not yet arrived
  std::atomic<std::uint64_t> open{0};           // arrived, not ended: queued or in flight
  std::atomic<std::uint32_t> next_index{0};     // of follow-ups
  std::atomic<std::uint64_t> follow_ups{0};

  bool finished() const {
    return open.load() == 0 && (arrivals_left.load() == 0 || stopping.load());
  }
};

// What is known of a request before it begins.
RequestRecord record_of(std::uint32_t index, const LoadRequest& request);

// start() and what is marked so from any thread; all else happens on the worker's own.
class LoadWorker {
 public:
  // Takes arrivals first, first + stride, ...
  static Result<std::unique_ptr<LoadWorker>> create(LoadRun& run, std::uint32_t first,
                                                    std::uint32_t stride);
  ~LoadWorker();

  void start();  // run.origin is set by now
  // Ends the client, and with it every flight; then the log's part is complete. Once.
  Recorder finish();
  net::ClientCounters counters() const { return http_.counters(); }  // before finish()

  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> output_events{0};
  std::atomic<std::uint64_t> output_tokens{0};
  LatencyHistogram ttft;
  LatencyHistogram loop_lag;

 private:
  LoadWorker(LoadRun& run, std::unique_ptr<net::HttpClient> client, std::uint32_t first,
             std::uint32_t stride);

  void arrivals_due();
  void arrive(std::uint32_t index);
  void begin(std::uint32_t index, const LoadRequest& request, Nanos scheduled, Nanos admitted);
  void ended_flight(Flight* flight, const net::ClientResponse& response);
  // Whether the conversation goes on.
  bool follow_up(const RequestRecord& record, const std::string& answer);
  void measure_lag();

  LoadRun& run_;
  std::unique_ptr<net::HttpClient> client_;
  net::HttpClient& http_;  // the same: client_ is already null while the client ends its thread
  Recorder recorder_;
  std::uint32_t next_;
  std::uint32_t stride_;
  FlightLimits limits_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> free_flights_;
  Nanos lag_due_ = 0;
};

}  // namespace saccade::bench
