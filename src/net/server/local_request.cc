#include "net/server/local_request.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "net/exchange.h"

namespace saccade::net {

// What both ends share.
class LocalRequest::State {
 public:
  explicit State(Answered answered) : answered_(std::move(answered)) {}

  void begin(HttpResponse head) {
    const std::lock_guard lock(mutex_);
    collected_ = std::move(head);
  }
  void append(const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    collected_.body += bytes;
  }
  void end() { complete(nullptr); }
  void respond(HttpResponse response) { complete(&response); }

  void cancel() {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = cancelled_ = true;
      gone = std::exchange(on_disconnect_, {});
    }
    if (gone) gone();
  }
  void on_disconnect(std::function<void()> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) {
        on_disconnect_ = std::move(callback);
        return;
      }
      if (!cancelled_) return;
    }
    callback();
  }
  bool cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

 private:
  // With what is given, or with what has been collected.
  void complete(HttpResponse* response) {
    HttpResponse answer;
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(ended_, true)) return;
      on_disconnect_ = {};
      answer = std::move(response != nullptr ? *response : collected_);
    }
    answered_(std::move(answer));
  }

  const Answered answered_;
  mutable std::mutex mutex_;
  bool ended_ = false;  // all below: guarded by mutex_
  bool cancelled_ = false;
  HttpResponse collected_;
  std::function<void()> on_disconnect_;
};

class LocalRequest::End final : public Responder::Exchange {
 public:
  explicit End(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~End() override {  // nothing where it has been answered
    state_->respond(
        {500, "application/json", R"({"error":{"message":"no answer was given","code":500}})", {}});
  }

  void respond(HttpResponse response) override { state_->respond(std::move(response)); }
  void start_stream(std::vector<std::pair<std::string, std::string>> headers) override {
    state_->begin({200, "text/event-stream", "", std::move(headers)});
  }
  void start_answer(AnswerHead head) override {
    state_->begin({head.status, "", "", std::move(head.headers)});
  }
  void write(std::string events) override { state_->append(events); }
  void end_stream() override { state_->end(); }
  void cut() override {}  // no whole answer comes: the 500 of the last handle
  void on_disconnect(std::function<void()> callback) override {
    state_->on_disconnect(std::move(callback));
  }
  bool disconnected() const override { return state_->cancelled(); }
  IoThread* thread() const override { return nullptr; }
  void write_here(const std::string& events, bool end) override {
    state_->append(events);
    if (end) state_->end();
  }

 private:
  std::shared_ptr<State> state_;
};

LocalRequest::LocalRequest(Answered answered)
    : state_(std::make_shared<State>(std::move(answered))) {}

Responder LocalRequest::responder() const { return Responder(std::make_shared<End>(state_)); }

void LocalRequest::cancel() { state_->cancel(); }

}  // namespace saccade::net
