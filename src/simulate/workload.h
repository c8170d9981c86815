// Who asks for what, and when: from a trace, drawn, or as a run log has it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/log/run_log.h"

namespace saccade::simulate {

struct SimImage {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::uint64_t content = 0;  // equal for equal images
  std::int64_t bytes = 0;     // as it comes, compressed
};

struct SimRequest {
  Nanos at = 0;
  std::int64_t text_tokens = 1;    // of the prompt
  std::int64_t output_tokens = 1;  // after which it ends
  // Equal for equal prompts; 0: equal to no other. Text of prefix blocks is by their ids instead.
  std::uint64_t content = 0;
  std::uint64_t first_hash = 0;  // Workload::hash_ids
  std::uint32_t num_hashes = 0;
  std::uint32_t first_image = 0;  // Workload::images
  std::uint32_t num_images = 0;
  std::uint32_t record = 0;  // of the log that it comes from
};

constexpr std::int64_t kHashedTokens = 512;  // of text, for each of its prefix blocks

struct Workload {
  std::string name;                  // of where it comes from
  std::string arrivals;              // as RunHeader has them
  std::vector<SimRequest> requests;  // by `at`
  std::vector<SimImage> images;
  std::vector<std::int64_t> hash_ids;

  std::span<const SimImage> images_of(const SimRequest& of) const {
    return std::span(images).subspan(of.first_image, of.num_images);
  }
  std::span<const std::int64_t> hashes_of(const SimRequest& of) const {
    return std::span(hash_ids).subspan(of.first_hash, of.num_hashes);
  }
};

struct WorkloadSettings {
  std::string trace;             // path; empty: Poisson arrivals
  double request_rate = 0;       // a second, without a trace
  Nanos duration = 0;            // arrivals later are left out; 0: the trace's own
  bool repeat = false;           // a trace begins anew until `duration` is full
  double speed = 1;              // of a trace
  std::int64_t num_prompts = 0;  // at most; 0: no limit
  // Where the trace does not say.
  std::int64_t input_tokens = 128;
  std::int64_t output_tokens = 128;
  int images = 1;
  // Sizes, log-normal: half are over the median. Shapes 1:1, 4:3, 3:4, 16:9 and 3:2.
  double image_tokens = 1'200;  // the median, at 28 x 28 pixels a token
  double image_sigma = 0.6;     // of the logarithm; 0: all alike
  double image_share = 1;       // of the requests that have any, where the trace does not say
  std::int64_t pool = 0;        // different images, asked for by Zipf's law; 0: each is new
  std::uint64_t seed = 0;
};

constexpr std::int64_t kMaxRequests = 20'000'000;

// A pure function of its settings. kInvalid names the setting, or the trace's line.
Result<Workload> make_workload(const WorkloadSettings& settings);

// The requests of a run that was measured, as it began them: lengths as the server counted, images
// by their sizes. Left out are warm-ups and failures. kInvalid when too little is known.
Result<Workload> workload_of(const bench::RunLog& log, const std::string& name);

}  // namespace saccade::simulate
