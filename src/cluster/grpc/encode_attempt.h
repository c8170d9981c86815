// One call at the requester: an order goes out, rows come into the pages that are there for them.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/access.h"
#include "cluster/item_table.h"
#include "cluster/row_format.h"
#include "embedding_exchange.grpc.pb.h"

namespace saccade::cluster {

// What an attempt needs of its link.
class AttemptHost {
 public:
  virtual ~AttemptHost() = default;
  // To the table, in order.
  virtual void post(std::function<void(ItemTable&)> news) = 0;
  virtual std::string rows_proof(const Digest& key, std::uint64_t stream,
                                 std::string_view digest) const = 0;
  virtual RowFormat format() const = 0;
  virtual void ended(const AttemptId& id) = 0;  // nobody may use the call from here on
  // The call is no more. Its context holds the channel, and gRPC's own threads must not be the last
  // to let go of that (they would wait for themselves): so a link that stops waits for this.
  virtual void leave() = 0;
};

// Told by the exchange's thread, heard by gRPC's; ends itself.
class EncodeAttempt final : public grpc::ClientBidiReactor<v1::EncodeRequest, v1::EncodeReply> {
 public:
  // `media`: of the order, kept until the call has ended.
  EncodeAttempt(AttemptHost& host, const AttemptId& id, v1::Ask ask, Media media, std::size_t bytes,
                const Digest& key);

  // Once, with the context set up.
  void begin(v1::Encoder::Stub& stub);
  void receive(std::shared_ptr<RowPages> pages);
  void cancel();  // nothing is told of it from here on
  grpc::ClientContext& context() { return context_; }

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  bool InternalTrailersOnly(const grpc_call*) const override { return false; }  // as WatchReader's

  // Empty, or what is wrong with the message. Under mutex_.
  std::string hear(const v1::EncodeReply& reply);
  std::string take_rows(const std::string& bytes);
  std::string take_end(const v1::End& end);
  void post(std::function<void(ItemTable&)> news);
  void pump();  // under mutex_

  AttemptHost& host_;
  const AttemptId id_;
  const Media media_;
  const std::size_t bytes_;  // of the rows
  const Digest key_;
  grpc::ClientContext context_;
  v1::EncodeReply reply_;       // being read
  v1::EncodeRequest outgoing_;  // being written

  std::mutex mutex_;  // guards the rest
  std::deque<v1::EncodeRequest> queue_;
  bool media_wanted_ = false;
  bool media_done_ = false;
  std::size_t file_ = 0;  // what is sent next
  std::size_t offset_ = 0;
  std::shared_ptr<RowPages> pages_;
  std::size_t came_ = 0;
  Sha256 hash_;
  std::string wrong_;  // why the call was broken off
  bool writing_ = false;
  bool ended_ = false;  // rows or a refusal are here, or it was cancelled
  bool over_ = false;   // the encoder has said its last: only gRPC's own callbacks may still write
};

}  // namespace saccade::cluster
