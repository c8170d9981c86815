// What an engine counts and measures: at a plan, at a step's end, at a request's. Written by the
// engine thread as things happen; others read what was published last.
#pragma once

#include <mutex>
#include <span>

#include "engine/active_request.h"
#include "engine/admission/request_gate.h"
#include "engine/engine_stats.h"
#include "engine/images/image_desk.h"
#include "engine/step/step_runner.h"

namespace saccade {

class EngineMeter {
 public:
  // All of these outlive it.
  EngineMeter(const EngineParts& parts, const Scheduler& scheduler, const ImagePlanner& images);

  // --- any thread ---
  EngineStats stats() const;  // as of the last publish()

  // --- the engine's thread ---
  void took(const RequestGate::Inbox& inbox);
  // The plan was begun and has been made; what it asks for has been handed on.
  void planned(const StepPlan& plan, Nanos begun, Nanos now);
  void launched(std::int64_t embedding_rows);
  void settled(const StepRunner::Settled& step);  // the scheduler has its tokens
  void drafted(const PlannedRows& rows, std::span<const Sampled> sampled);
  void encoded(const EncoderQueue::Event& event, const ActiveRequests& requests);
  // A token is about to go out, the last delta is.
  void token(ActiveRequest& of, Nanos now);
  void finished(ActiveRequest& of, FinishReason how, Nanos now);
  void stepped();
  // With what stands now in the scheduler, the caches and these.
  void publish(Nanos now, const ImageDesk& desk, const LoraSlots& loras,
               const ActiveRequests& requests);

 private:
  void note_progress(const Sequence& sequence) const;
  void list_loras(const ActiveRequests& requests);
  void measure_memory(Nanos now);

  const EngineParts& parts_;
  const Scheduler& scheduler_;
  const ImagePlanner& images_;
  EngineStats current_;
  Nanos measured_at_ = 0;
  Nanos gauges_at_ = 0;
  mutable std::mutex mutex_;
  EngineStats published_;  // guarded by mutex_
};

}  // namespace saccade
