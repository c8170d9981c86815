// Arrival, admission, flight, end.
#include "bench/load/load_worker.h"

#include <algorithm>

namespace saccade::bench {
namespace {

constexpr int kArrivalsPerTurn = 64;  // then the sockets have their turn
constexpr Nanos kLagPeriod = 10 * kMillisecond;

void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount = 1) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

RequestRecord record_of(std::uint32_t index, const LoadRequest& request) {
  RequestRecord record;
  record.index = index;
  record.prompt = request.prompt;
  record.conversation = request.conversation;
  record.turn = request.turn;
  record.warmup = request.warmup;
  record.max_tokens = request.max_tokens;
  return record;
}

Result<std::unique_ptr<LoadWorker>> LoadWorker::create(LoadRun& run, std::uint32_t first,
                                                       std::uint32_t stride) {
  TRY(auto client, net::HttpClient::create(run.settings.client));
  return std::unique_ptr<LoadWorker>(new LoadWorker(run, std::move(client), first, stride));
}

LoadWorker::LoadWorker(LoadRun& run, std::unique_ptr<net::HttpClient> client, std::uint32_t first,
                       std::uint32_t stride)
    : run_(run),
      client_(std::move(client)),
      http_(*client_),
      recorder_(run.origin),
      next_(first),
      stride_(stride),
      limits_{run.settings.max_response_bytes, run.settings.keep_answers,
              run.settings.keep_first_event} {}

LoadWorker::~LoadWorker() { client_.reset(); }

void LoadWorker::start() {
  recorder_ = Recorder(run_.origin);
  http_.post([this] {
    lag_due_ = steady_now() + kLagPeriod;
    measure_lag();
    arrivals_due();
  });
}

Recorder LoadWorker::finish() {
  client_.reset();
  return std::move(recorder_);
}

// Everything that is due by now, then sleeps until the next instant of the schedule: absolute, so
// that lateness never adds up.
void LoadWorker::arrivals_due() {
  const std::vector<Nanos>& due = run_.arrivals.due;
  for (int taken = 0; next_ < due.size() && !run_.stopping; ++taken) {
    const Nanos when = run_.origin + due[next_];
    if (taken >= kArrivalsPerTurn || when > steady_now()) {
      return http_.at(when, [this] { arrivals_due(); });
    }
    arrive(next_);
    next_ += stride_;
  }
}

void LoadWorker::arrive(std::uint32_t index) {
  run_.open.fetch_add(1);
  run_.arrivals_left.fetch_sub(1);
  if (run_.settings.max_concurrency > 0 && !run_.admission.admit(index)) return;
  const Nanos scheduled = run_.arrivals.due[index];
  const Nanos at = steady_now() - run_.origin;
  // In a closed loop a request is due when its slot is free.
  begin(index, run_.requests[index], run_.arrivals.closed_loop ? at : scheduled,
        run_.arrivals.closed_loop ? at : scheduled);
}

void LoadWorker::begin(std::uint32_t index, const LoadRequest& request, Nanos scheduled,
                       Nanos admitted) {
  RequestRecord record = record_of(index, request);
  record.streamed = run_.settings.streamed;
  record.scheduled = scheduled;
  record.admitted = admitted;
  record.body_bytes = size_of(request.body);

  if (free_flights_.empty()) {
    flights_.push_back(std::make_unique<Flight>());
    free_flights_.push_back(flights_.back().get());
  }
  Flight* const flight = free_flights_.back();
  free_flights_.pop_back();
  flight->reset(record, limits_);

  net::ClientRequest sent;
  sent.url = run_.settings.url;
  sent.headers = run_.settings.headers;
  sent.headers.insert(sent.headers.end(), request.headers.begin(), request.headers.end());
  sent.body = request.body;
  sent.deadline = steady_now() + run_.settings.request_timeout;
  net::ClientHandlers handlers;
  handlers.on_headers = [flight](const net::ClientResponse& so_far) { flight->on_headers(so_far); };
  handlers.on_body = [this, flight](std::string_view bytes, Nanos at) {
    return flight->on_body(bytes, at, recorder_);
  };
  handlers.on_done = [this, flight](const net::ClientResponse& response) {
    ended_flight(flight, response);
  };
  add(started);
  http_.start(std::move(sent), std::move(handlers));
}

void LoadWorker::ended_flight(Flight* flight, const net::ClientResponse& response) {
  const bool stopping = run_.stopping;
  flight->on_done(response, stopping, recorder_);
  const RequestRecord record = flight->record();
  const bool well = record.failure == TransportFailure::kNone && record.status == 200;
  if (flight->first_output() != 0) ttft.add(flight->first_output() - response.times.start);
  add(output_events, flight->output_events());
  if (record.completion_tokens > 0) {
    add(output_tokens, static_cast<std::uint64_t>(record.completion_tokens));
  }
  if (!well) add(failed);
  add(ended);
  const bool goes_on = well && record.conversation >= 0 && run_.settings.follow_up && !stopping &&
                       follow_up(record, flight->answer());
  free_flights_.push_back(flight);
  // A conversation that goes on keeps its slot: the cap counts conversations.
  if (run_.settings.max_concurrency > 0 && !goes_on) {
    // The slot goes to whoever waits longest, on this thread: it is awake.
    if (const std::optional<std::uint32_t> next = run_.admission.release()) {
      const Nanos at = steady_now() - run_.origin;
      begin(*next, run_.requests[*next], run_.arrivals.closed_loop ? at : run_.arrivals.due[*next],
            at);
    }
  }
  run_.open.fetch_sub(1);
}

// The next turn is no arrival of the plan: it is due when its user has thought.
bool LoadWorker::follow_up(const RequestRecord& record, const std::string& answer) {
  std::optional<FollowUp> next = run_.settings.follow_up(record, answer);
  if (!next) return false;
  run_.open.fetch_add(1);
  add(run_.follow_ups);
  const std::uint32_t index = run_.next_index.fetch_add(1);
  const Nanos due = record.end + next->delay;
  http_.at(run_.origin + due, [this, index, due, request = std::move(next->request)] {
    if (run_.stopping) {
      run_.open.fetch_sub(1);
      return;
    }
    begin(index, request, due, due);
  });
  return true;
}

void LoadWorker::measure_lag() {
  const Nanos at = steady_now();
  if (at >= lag_due_) {
    loop_lag.add(at - lag_due_);
    lag_due_ = std::max(lag_due_ + kLagPeriod, at);
  }
  http_.at(lag_due_, [this] { measure_lag(); });
}

}  // namespace saccade::bench
