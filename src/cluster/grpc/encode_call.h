// One call at the encoder: an order comes in, rows go out as the requester has pages for them.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "cluster/encoder_desk.h"
#include "embedding_exchange.grpc.pb.h"

namespace saccade::cluster {

// What a call needs of its server.
class CallHost {
 public:
  virtual ~CallHost() = default;
  virtual bool proven(const v1::Ask& ask) const = 0;
  virtual std::string rows_proof(const Digest& key, std::uint64_t stream,
                                 std::string_view digest) const = 0;
  virtual std::uint64_t epoch() const = 0;
  // To the desk, in order.
  virtual void post(std::function<void(EncoderDesk&)> job) = 0;
  virtual void ended(CallId id) = 0;  // the call is no more: nobody may use it from here on
};

// Made by gRPC's threads, told by the desk's; ends itself.
class EncodeCall final : public grpc::ServerBidiReactor<v1::EncodeRequest, v1::EncodeReply> {
 public:
  EncodeCall(CallHost& host, CallId id);

  // The desk's thread.
  void accepted(const Accepted& accepted);
  void refused(Refusal refusal, Nanos retry_after, const std::string& text);
  void send(std::shared_ptr<const MadeRows> rows, const RowsEnd& end);
  // A peer that has said nothing yet is let go.
  void end_if_silent();

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  bool take_ask(const v1::Ask& ask);
  bool take_media(const std::string& bytes);
  v1::EncodeReply reply() const;
  void enqueue(v1::EncodeReply message);
  void pump();                              // under mutex_
  void finish(const grpc::Status& status);  // under mutex_

  CallHost& host_;
  const CallId id_;
  v1::EncodeRequest request_;    // being read
  v1::EncodeReply outgoing_;     // being written
  std::uint64_t announced_ = 0;  // bytes of media; reading thread
  std::uint64_t came_ = 0;

  std::mutex mutex_;  // guards the rest
  std::deque<v1::EncodeReply> queue_;
  std::shared_ptr<const MadeRows> rows_;
  RowsEnd end_;
  std::size_t sent_ = 0;      // bytes of rows
  std::uint64_t credit_ = 0;  // of rows that may be sent, all together
  std::uint64_t stream_ = 0;
  Digest key_{};
  bool asked_ = false;
  bool writing_ = false;
  bool last_ = false;  // nothing comes after what is in the queue
  bool finished_ = false;
};

}  // namespace saccade::cluster
