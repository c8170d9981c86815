// The door of an engine: what any thread may ask of it. A request is judged here, and waits here
// until the engine's thread takes it in between two steps; so do cancellations and resets.
//
// One mutex guards what waits and the counts by which room is judged. It is held for a few appends;
// nobody is called while it is held, and whoever has left something notifies the engine afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/active_request.h"
#include "engine/event_count.h"

namespace saccade {

class RequestGate {
 public:
  // All of these outlive it. takes_images: somebody encodes them.
  RequestGate(const EngineParts& parts, const Network& network, Device& device, const Clock& clock,
              EventCount& events, bool takes_images);

  // --- any thread ---
  // What Engine promises of each.
  Result<RequestId> submit(Request request, Sink sink);
  void cancel(RequestId id);
  bool reset_prefix_cache();
  void reset_image_cache();
  void stop();
  bool stopping() const { return stopping_; }

  // --- the engine's thread ---
  struct Inbox {
    std::vector<std::unique_ptr<ActiveRequest>> requests;
    std::vector<RequestId> cancellations;
    bool reset_prefix_cache = false;
    bool reset_image_cache = false;
    std::uint64_t rejections = 0;  // since the beginning

    bool empty() const {
      return requests.empty() && cancellations.empty() && !reset_prefix_cache && !reset_image_cache;
    }
  };
  Inbox take();
  // There are requests or cancellations to take.
  bool asked() const;
  // Who waits in the engine, of those that have been taken.
  void set_waiting(std::unordered_map<ClientId, std::int64_t> by_client, std::int64_t all);
  // One of them waits no longer; set_waiting() says it of all, once a step.
  void left_queue(ClientId client);
  // A request is about to have its last delta.
  void ended() { --unfinished_; }

  // While one lives, its thread is inside a sink. Requests submitted from there continue an
  // admitted request (beam search), so max_waiting does not apply to them.
  class InSink {
   public:
    explicit InSink(RequestGate& gate) : gate_(gate) {
      gate_.in_sink_ = std::this_thread::get_id();
    }
    ~InSink() { gate_.in_sink_ = std::thread::id(); }
    InSink(const InSink&) = delete;
    InSink& operator=(const InSink&) = delete;

   private:
    RequestGate& gate_;
  };

 private:
  Result<void> check_room(ClientId client) const;  // with mutex_ held

  const EngineParts& parts_;
  const Network& network_;
  Device& device_;
  const Clock& clock_;
  EventCount& events_;
  const bool takes_images_;

  std::atomic<RequestId> next_id_{1};
  std::atomic<std::int64_t> unfinished_{0};  // submitted, last delta not delivered
  std::atomic<bool> stopping_{false};        // written with mutex_ held
  std::atomic<std::thread::id> in_sink_{};   // none: no thread is
  mutable std::mutex mutex_;
  Inbox inbox_;  // guarded by mutex_
  std::unordered_map<ClientId, std::int64_t>
      waiting_of_;            // guarded by mutex_: those in the inbox too
  std::int64_t waiting_ = 0;  // guarded by mutex_: taken, not running
};

}  // namespace saccade
