// Where a stream's work has come to, as ops/device.h has it.
#pragma once

#include <memory>
#include <utility>

namespace saccade {

// A point in a stream's work. Copies share it; one made by nobody has been passed.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool passed() = 0;
    virtual void synchronize() = 0;
  };
  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool passed() const { return state_ == nullptr || state_->passed(); }
  void synchronize() const {  // blocks until it has been passed
    if (state_ != nullptr) state_->synchronize();
  }
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace saccade
