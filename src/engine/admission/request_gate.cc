#include "engine/admission/request_gate.h"

#include <utility>

#include "engine/admission/request_check.h"

namespace saccade {

RequestGate::RequestGate(const EngineParts& parts, const Network& network, Device& device,
                         const Clock& clock, EventCount& events, bool takes_images)
    : parts_(parts),
      network_(network),
      device_(device),
      clock_(clock),
      events_(events),
      takes_images_(takes_images) {}

// --- any thread ---

Result<RequestId> RequestGate::submit(Request request, Sink sink) {
  const ModelShape& shape = network_.shape();
  auto valid = check_request(request, {parts_, shape, *parts_.kv, takes_images_});
  const RequestId id = next_id_++;
  request.id = id;
  const ClientId client = parts_.settings.fair() ? request.client : 0;
  if (request.times.queued == 0) request.times.queued = clock_.now();
  std::unique_ptr<ActiveRequest> made;
  if (valid)
    made = std::make_unique<ActiveRequest>(std::move(request), std::move(sink), parts_, shape,
                                           device_);
  {
    const std::lock_guard lock(mutex_);
    if (valid && in_sink_ != std::this_thread::get_id()) valid = check_room(client);
    if (valid && stopping_) valid = fail(ErrorCode::kUnavailable, "the engine has stopped");
    if (!valid) {
      ++inbox_.rejections;
      return fail(std::move(valid).error());
    }
    inbox_.requests.push_back(std::move(made));
    ++waiting_of_[client];
    ++unfinished_;
  }
  events_.notify();
  return id;
}

Result<void> RequestGate::check_room(ClientId client) const {
  const std::int64_t most = parts_.settings.max_waiting;
  const auto found = waiting_of_.find(client);
  const std::int64_t own = found == waiting_of_.end() ? 0 : found->second;
  if (own >= most)
    return fail(ErrorCode::kExhausted, "{} requests are waiting, the limit is {}", own, most);
  const std::int64_t all = waiting_ + static_cast<std::int64_t>(inbox_.requests.size());
  const std::int64_t most_of_all = most * EngineSettings::kClientsWaiting;
  if (all >= most_of_all)
    return fail(ErrorCode::kExhausted, "{} requests of all clients are waiting, the limit is {}",
                all, most_of_all);
  return {};
}

void RequestGate::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.cancellations.push_back(id);
  }
  events_.notify();
}

bool RequestGate::reset_prefix_cache() {
  if (unfinished_ > 0) return false;
  {
    const std::lock_guard lock(mutex_);
    inbox_.reset_prefix_cache = true;
  }
  events_.notify();
  return true;
}

void RequestGate::reset_image_cache() {
  {
    const std::lock_guard lock(mutex_);
    inbox_.reset_image_cache = true;
  }
  events_.notify();
}

void RequestGate::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  events_.notify();
}

// --- the engine's thread ---

RequestGate::Inbox RequestGate::take() {
  const std::lock_guard lock(mutex_);
  waiting_ += static_cast<std::int64_t>(inbox_.requests.size());
  Inbox empty;
  empty.rejections = inbox_.rejections;
  return std::exchange(inbox_, std::move(empty));
}

bool RequestGate::asked() const {
  const std::lock_guard lock(mutex_);
  return !inbox_.requests.empty() || !inbox_.cancellations.empty();
}

void RequestGate::set_waiting(std::unordered_map<ClientId, std::int64_t> by_client,
                              std::int64_t all) {
  const std::lock_guard lock(mutex_);
  for (const auto& request : inbox_.requests)
    ++by_client[parts_.settings.fair() ? request->sequence.request.client : 0];
  waiting_of_ = std::move(by_client);
  waiting_ = all;
}

void RequestGate::left_queue(ClientId client) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_of_.find(parts_.settings.fair() ? client : 0);
  if (found != waiting_of_.end() && found->second > 0) --found->second;
  if (waiting_ > 0) --waiting_;
}

}  // namespace saccade
