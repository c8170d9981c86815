#include "simulate/run_recorder.h"

#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "bench/load/arrivals.h"

namespace saccade::simulate {
namespace {

constexpr std::size_t kMaxStaged = 200'000;  // requests whose stages are kept

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

}  // namespace

RunRecorder::RunRecorder(const Workload& workload, LoggedTokens tokens, Nanos delivery)
    : workload_(workload),
      tokens_(tokens),
      delivery_(delivery),
      has_ended_(workload.requests.size(), false) {}

bench::RequestRecord RunRecorder::end_of(std::uint32_t index) {
  CHECK(!has_ended_[index], "request {} has ended twice", index);
  has_ended_[index] = true;
  ++ended_;
  const SimRequest& request = workload_.requests[index];
  bench::RequestRecord record;
  record.index = record.prompt = index;
  record.scheduled = record.admitted = record.start = record.connected = record.sent = request.at;
  record.max_tokens = static_cast<std::int32_t>(request.output_tokens);
  record.reused_connection = true;
  for (const SimImage& image : workload_.images_of(request))
    record.body_bytes += static_cast<std::uint64_t>(image.bytes);
  return record;
}

void RunRecorder::finished(std::uint32_t index, const Answered& answer) {
  bench::RequestRecord record = end_of(index);
  record.status = 200;
  record.finish_reason = bench::FinishReason::kLength;
  record.headers = answer.times.first_token + delivery_;
  record.end = answer.times.finished + delivery_;
  record.prompt_tokens = static_cast<std::int32_t>(answer.prompt_tokens);
  record.image_tokens = static_cast<std::int32_t>(answer.image_tokens);
  record.cached_tokens = static_cast<std::int32_t>(answer.cached_tokens);
  record.completion_tokens = static_cast<std::int32_t>(answer.output_tokens);
  if (tokens_ == LoggedTokens::kEnds) {
    events_.event(index, record.headers, 0, 1, kTokenKinds);
    if (answer.output_tokens > 1)
      events_.event(index, record.end, 0, static_cast<std::int32_t>(answer.output_tokens - 1),
                    kTokenKinds);
  }
  events_.event(index, record.end, 0, bench::kUnknownTokens,
                bench::kFinishEvent | bench::kChoicesEvent);
  events_.event(index, record.end, 0, bench::kUnknownTokens, bench::kUsageEvent);
  events_.event(index, record.end, 0, bench::kUnknownTokens, bench::kDoneEvent);
  if (workload_.requests.size() <= kMaxStaged) {
    std::vector<bench::StageTime> stages;
    const auto stage = [&](const char* name, Nanos at) {
      if (at != 0) stages.push_back({name, seconds(at - answer.times.arrival)});
    };
    stages.push_back({"arrival", 0});
    stage("preprocessed", answer.times.queued);
    stage("queued", answer.times.queued);
    stage("encode_start", answer.times.encode_start);
    stage("encode_end", answer.times.encode_end);
    stage("first_scheduled", answer.times.first_scheduled);
    stage("first_token", answer.times.first_token);
    stage("finished", answer.times.finished);
    events_.keep_stages(record, std::move(stages));
  }
  events_.finish(record);
}

void RunRecorder::refused(std::uint32_t index, Nanos at, int status, const std::string& why) {
  bench::RequestRecord record = end_of(index);
  record.status = status;
  record.streamed = status == 200;
  if (record.streamed)
    events_.event(index, at + delivery_, 0, bench::kUnknownTokens, bench::kErrorEvent);
  record.headers = record.end = at + delivery_;
  record.error = events_.keep(why);
  events_.finish(record);
}

bench::RunLog RunRecorder::take(bench::RunHeader header) {
  std::vector<bench::PromptRecord> prompts(workload_.requests.size());
  std::vector<Nanos> due;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const SimRequest& request = workload_.requests[i];
    due.push_back(request.at);
    bench::PromptRecord& prompt = prompts[i];
    prompt.content_hash = hex(request.content != 0 ? request.content : hash_combine(1, i));
    prompt.text_tokens = static_cast<std::int32_t>(request.text_tokens);
    prompt.label = request.num_images > 0 ? "image" : "text";
    for (const SimImage& image : workload_.images_of(request))
      prompt.images.push_back(
          {image.width, image.height, static_cast<std::uint64_t>(image.bytes), hex(image.content)});
  }
  header.arrival_hash = bench::arrival_hash(due);
  std::vector<bench::Recorder> recorders;
  recorders.push_back(std::exchange(events_, bench::Recorder(0)));
  bench::RunLog log = merge(std::move(header), std::move(prompts), std::move(recorders));
  log.stop_reason = "complete";
  return log;
}

}  // namespace saccade::simulate
