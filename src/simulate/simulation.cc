#include "simulate/simulation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "api/pages/error_table.h"
#include "base/log.h"
#include "cluster/proxy/pd_request.h"
#include "cluster/proxy/pd_table.h"
#include "engine/engine_plan.h"
#include "memory/accounting.h"
#include "serve/image_sizes/image_sizer.h"
#include "simulate/machines/encoder_machine.h"
#include "simulate/machines/pd_machine.h"
#include "simulate/prompt_maker.h"

namespace saccade::simulate {
namespace {

constexpr Nanos kMaxIdle = 24 * 3600 * kSecond;  // virtual: an answer that takes longer never comes
constexpr Nanos kProbeEvery = kSecond;           // ProxySettings::probe_period
constexpr Nanos kSettled = 60 * kSecond;         // after which nothing is on its way any more
constexpr int kMaxRetries = 2;                   // ProxySettings::max_retries
constexpr double kMegapixel = 1e6;

class Cluster {
 public:
  Cluster(const SimulationSettings& settings, const ServedModel& model, const Workload& workload)
      : s_(settings),
        model_(model),
        workload_(workload),
        net_(loop_, settings.network, embedding_row_bytes(model.shape)),
        recorder_(workload, settings.tokens, static_cast<Nanos>(settings.costs.delivery * 1e6)),
        prompts_(model, workload),
        table_(names(settings.cluster.pds)),
        assignments_(workload.requests.size()) {}

  Result<void> set_up();
  Result<void> run();
  SimulationResult take();

 private:
  // One PD with what the server has around its engine.
  struct Server {
    std::unique_ptr<PdImages> images;
    std::unique_ptr<serve::ImageSizer> sizer;
    std::unique_ptr<PdMachine> machine;
  };
  // Where a request is, as the proxy knows it.
  struct Assignment {
    cluster::PdRequest predicted;
    std::vector<bool> tried;
    std::int32_t pd = -1;
    int retries = 0;
  };

  static std::vector<std::string> names(int pds) {
    std::vector<std::string> all;
    for (int pd = 0; pd < pds; ++pd) all.push_back(fmt::format("pd{}", pd));
    return all;
  }
  void arrive(std::uint32_t index);
  void dispatch(std::uint32_t index);
  void prepare(std::uint32_t index, double rate, Nanos arrival);
  Result<void> submit(std::uint32_t index, double rate, Nanos arrival);
  void ended(std::uint32_t index, const Error& error, Nanos at, bool begun);
  void every(Nanos period, const std::function<void()>& work);
  void sample();

  const SimulationSettings& s_;
  const ServedModel& model_;
  const Workload& workload_;
  EventLoop loop_;
  std::unique_ptr<Device> device_;
  EncoderNet net_;
  RunRecorder recorder_;
  PromptMaker prompts_;
  cluster::PdTable table_;
  cluster::RetryBudget retries_;
  std::vector<std::unique_ptr<EncoderMachine>> encoders_;
  std::vector<Server> servers_;
  std::vector<Assignment> assignments_;
  std::vector<bench::Sample> samples_;
  Nanos last_end_ = 0;
  SimulationResult result_;
};

Result<void> Cluster::set_up() {
  TRY(device_, make_cpu_device(1));
  const auto rows = [&](std::size_t bytes) {
    return bytes / static_cast<std::size_t>(embedding_row_bytes(model_.shape));
  };
  const ModelShape& shape = model_.processor->shape();
  if (s_.cluster.encoders > 0 && !shape.has_vision)
    return fail(ErrorCode::kInvalid,
                "--cluster {}: {} takes no images, encoders have nothing to do", s_.cluster.text(),
                model_.name);
  for (int i = 0; i < s_.cluster.encoders; ++i) {
    EncoderMachineSettings settings;
    settings.costs = s_.costs;
    settings.limits.max_rows = shape.max_image_tokens;
    settings.limits.max_patches =
        std::max(shape.max_image_patches, std::int64_t{4} * shape.max_image_tokens);
    settings.limits.batch_patches = s_.engine.encoder_batch_patches;
    settings.row_budget = rows(s_.encoder_row_bytes);
    settings.media_budget = rows(s_.encoder_media_bytes);
    settings.seed = hash_combine(s_.seed, 1000 + static_cast<std::uint64_t>(i));
    TRY(auto machine, EncoderMachine::create(i, settings, loop_, net_, *device_));
    encoders_.push_back(std::move(machine));
  }
  for (int i = 0; i < s_.cluster.pds; ++i) {
    Server server;
    const std::uint64_t seed = hash_combine(s_.seed, static_cast<std::uint64_t>(i));
    if (s_.cluster.encoders > 0)
      server.images = std::make_unique<PdImages>(
          loop_, net_,
          PdImagesSettings{s_.cluster.encoders, s_.pd_tower, rows(s_.encoder_row_bytes), seed});
    TRY(server.machine, PdMachine::create({s_.engine, s_.costs, s_.pd_tower, seed},
                                          {model_, loop_, *device_, server.images.get(), recorder_},
                                          [this](std::uint32_t index, const Error& error, Nanos at,
                                                 bool begun) { ended(index, error, at, begun); }));
    if (s_.image_size.mode != serve::ImageSizeMode::kVanilla && shape.has_vision) {
      cluster::StageCosts costs;
      costs.encode = s_.believed.encode;
      costs.prefill = s_.believed.prefill();
      const std::int64_t stored =
          s_.engine.encoder_cache == EncoderCache::kStore
              ? static_cast<std::int64_t>(rows(s_.engine.encoder_cache_bytes))
              : 0;
      server.sizer = std::make_unique<serve::ImageSizer>(s_.image_size, *model_.processor, costs,
                                                         stored, loop_.clock());
    }
    servers_.push_back(std::move(server));
  }
  net_.start();
  return {};
}

void Cluster::every(Nanos period, const std::function<void()>& work) {
  loop_.after(period, [this, period, work] {
    work();
    every(period, work);
  });
}

Result<void> Cluster::run() {
  if (servers_.front().sizer) {
    every(servers_.front().sizer->period(), [this] {
      for (Server& server : servers_) {
        server.sizer->observe(server.machine->stats());
        server.sizer->tick();
      }
    });
  }
  if (servers_.size() > 1) {
    every(kProbeEvery, [this] {
      for (std::size_t pd = 0; pd < servers_.size(); ++pd) table_.probed(pd, true, false);
    });
  }
  if (s_.sample_every > 0) every(s_.sample_every, [this] { sample(); });
  const std::size_t count = workload_.requests.size();
  loop_.timers().start(workload_.requests.front().at, [this] { arrive(0); });
  const Nanos limit = workload_.requests.back().at + kMaxIdle;
  loop_.run([&] { return recorder_.ended() == count || loop_.now() > limit; });
  if (recorder_.ended() == count) return {};
  std::string where;
  for (const Server& server : servers_) where += server.machine->describe();
  return fail(ErrorCode::kInternal, "{} of {} requests never end; at virtual {:.0f} s:\n{:.2000}",
              count - recorder_.ended(), count, seconds(loop_.now()), where);
}

// --- the proxy ---

void Cluster::arrive(std::uint32_t index) {
  if (index + 1 < workload_.requests.size())
    loop_.timers().start(workload_.requests[index + 1].at, [this, index] { arrive(index + 1); });
  assignments_[index].predicted = cluster::predicted_request(prompts_.scanned(index), "");
  assignments_[index].tried.resize(servers_.size());
  retries_.requested();
  dispatch(index);
}

void Cluster::dispatch(std::uint32_t index) {
  Assignment& assignment = assignments_[index];
  const auto chosen = table_.choose(assignment.predicted, assignment.tried);
  if (!chosen) {
    ++result_.refused[503];
    recorder_.refused(index, loop_.now(), 503, "no server takes the request");
    return;
  }
  assignment.pd = static_cast<std::int32_t>(*chosen);
  assignment.tried[*chosen] = true;
  table_.given(*chosen, assignment.predicted);
  Server& server = servers_[*chosen];
  const double rate = server.sizer ? server.sizer->arrived() : 0;
  double pixels = 0;
  for (const SimImage& image : workload_.images_of(workload_.requests[index]))
    pixels += static_cast<double>(image.width) * image.height;
  const double ms = s_.costs.prepare.base + s_.costs.prepare.megapixel * pixels / kMegapixel;
  const Nanos arrival = loop_.now();
  if (ms <= 0) return prepare(index, rate, arrival);
  loop_.after(static_cast<Nanos>(ms * 1e6),
              [this, index, rate, arrival] { prepare(index, rate, arrival); });
}

// However it ended.
void Cluster::ended(std::uint32_t index, const Error& error, Nanos at, bool begun) {
  Assignment& assignment = assignments_[index];
  const auto pd = static_cast<std::size_t>(assignment.pd);
  last_end_ = std::max(last_end_, at);
  table_.done(pd, assignment.predicted);
  if (error.message.empty()) {
    table_.answered(pd);
    return;
  }
  // After the first byte nobody tries again: the stream ends with the error.
  const int status = begun ? 200 : api::kind_of(error.code).status;
  if (status == 503) {
    table_.refused(pd);
    if (assignment.retries < kMaxRetries && table_.choose(assignment.predicted, assignment.tried) &&
        retries_.take()) {
      ++assignment.retries;
      ++result_.retries;
      loop_.after(0, [this, index] { dispatch(index); });
      return;
    }
  }
  ++result_.refused[status];
  recorder_.refused(index, at, status, error.message);
}

// --- a server ---

void Cluster::prepare(std::uint32_t index, double rate, Nanos arrival) {
  auto done = submit(index, rate, arrival);
  if (!done) ended(index, done.error(), loop_.now(), false);
}

Result<void> Cluster::submit(std::uint32_t index, double rate, Nanos arrival) {
  const SimRequest& sim_request = workload_.requests[index];
  Server& server = servers_[static_cast<std::size_t>(assignments_[index].pd)];
  TRY(std::vector<serve::ImageToSize> images, prompts_.images(index));
  std::int64_t native = 0;
  for (const serve::ImageToSize& image : images) native += image.layout.tokens;
  serve::SizedRequest sized;
  if (server.sizer) {
    serve::SizingRequest sizing;
    sizing.arrival = arrival;
    sizing.rate = rate;
    sizing.text_tokens = sim_request.text_tokens;
    TRY_DO(server.sizer->size(images, sizing, sized));
  }
  Request request = prompts_.request(index, images);
  request.times.arrival = arrival;
  if (server.sizer) {
    server.sizer->submitted(*sized.work, static_cast<std::int64_t>(request.prompt->ids.size()));
    request.progress = {sized.work, &sized.work->progress};
  }
  TRY_DO(server.machine->submit(index, std::move(request)));
  result_.native_image_tokens += native;
  for (const serve::ImageToSize& image : images)
    result_.applied_image_tokens += image.layout.tokens;
  return {};
}

// --- what comes of it ---

void Cluster::sample() {
  const Server& first = servers_.front();
  bench::Sample sample;
  sample.at = loop_.now();
  sample.source = "simulated";
  sample.values = {{"running_and_waiting", static_cast<double>(first.machine->active())},
                   {"kv_cache_usage", first.machine->kv().usage()}};
  if (first.sizer) {
    const serve::ImageSizeStats stats = first.sizer->stats();
    sample.values.emplace_back("image_level", stats.level);
    sample.values.emplace_back("image_cap", static_cast<double>(stats.cap));
    sample.values.emplace_back("encoder_wait_seconds", seconds(stats.waits.encoder));
    sample.values.emplace_back("prefill_wait_seconds", seconds(stats.waits.prefill));
  }
  samples_.push_back(std::move(sample));
}

SimulationResult Cluster::take() {
  SimulationResult& r = result_;
  r.ended = last_end_;
  r.events = loop_.events();
  // What was let go is still on its way to being so.
  const Nanos until = loop_.now() + kSettled;
  loop_.run([&] { return loop_.now() > until; });
  const double wall = std::max(1e-9, seconds(r.ended));
  for (Server& server : servers_) {
    PdMachine& pd = *server.machine;
    r.steps += pd.counts().steps;
    r.preemptions += pd.counts().preemptions;
    r.pd_busy.push_back(pd.counts().busy_seconds / wall);
    r.left.sequences += static_cast<std::int64_t>(pd.active());
    const MemoryUse use = measure(pd.kv());
    r.left.held_bytes += use.useful + use.tail + use.overhold + use.reserve;
    r.left.leased_bytes += pd.images().store().leased_bytes();
    if (!server.images) continue;
    r.left.open_items += static_cast<std::int64_t>(server.images->open());
    r.left.receiving_rows += static_cast<std::int64_t>(server.images->receiving_rows());
    const cluster::ItemStats& items = server.images->stats();
    for (std::size_t i = 0; i < cluster::kSources; ++i) r.items.items[i] += items.items[i];
    for (std::size_t i = 0; i < cluster::kFailures; ++i) r.items.failures[i] += items.failures[i];
    r.items.wanted += items.wanted;
    r.items.unwanted += items.unwanted;
    r.items.failed += items.failed;
    r.items.hedges += items.hedges;
    r.items.hedge_wins += items.hedge_wins;
  }
  for (const auto& encoder : encoders_) {
    r.encoder_busy.push_back(encoder->busy_seconds() / wall);
    r.left.encoder_calls += static_cast<std::int64_t>(encoder->desk().calls());
  }
  bench::RunHeader header;
  header.seed = s_.seed;
  header.backend = "simulated";
  header.base_url = fmt::format("simulated://{}", s_.cluster.text());
  header.endpoint = "/v1/chat/completions";
  header.model = model_.name;
  header.server_version = "virtual clock";
  header.dataset = workload_.name;
  header.arrivals = workload_.arrivals;
  header.num_prompts = static_cast<std::int64_t>(workload_.requests.size());
  header.usage_requested = true;
  r.log = recorder_.take(std::move(header));
  r.log.samples = std::move(samples_);
  return std::move(r);
}

}  // namespace

Result<SimulationResult> simulate(const SimulationSettings& settings, const ServedModel& model,
                                  const Workload& workload) {
  if (workload.requests.empty()) return fail(ErrorCode::kInvalid, "the traffic has no requests");
  Cluster cluster(settings, model, workload);
  TRY_DO(cluster.set_up());
  TRY_DO(cluster.run());
  return cluster.take();
}

}  // namespace saccade::simulate
