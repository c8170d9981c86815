#include "cluster/grpc/encode_call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cluster/access.h"

namespace saccade::cluster {
namespace {

constexpr std::size_t kMaxText = 1024;  // of names and layouts
constexpr std::size_t kMaxRecipe = 64u << 10;
constexpr int kMaxFiles = 1024;
constexpr std::size_t kMaxCallReason = 256;

bool well_formed(const v1::Ask& ask) {
  return ask.key().size() == Digest{}.size() && ask.node().size() <= kMaxText &&
         ask.fingerprint().size() <= kMaxText && ask.numerics().size() <= kMaxText &&
         ask.layout_key().size() <= kMaxText && ask.recipe().size() <= kMaxRecipe &&
         ask.file_bytes_size() <= kMaxFiles;
}

OrderHead head_of(const v1::Ask& ask) {
  OrderHead head;
  head.requester = ask.node();
  head.epoch = ask.epoch();
  head.stream = ask.stream();
  head.fingerprint = ask.fingerprint();
  head.numerics = ask.numerics();
  head.any_numerics = ask.any_numerics();
  std::memcpy(head.key.data(), ask.key().data(), head.key.size());
  head.recipe = ask.recipe();
  head.layout_key = ask.layout_key();
  head.rows = ask.rows();
  head.file_bytes.assign(ask.file_bytes().begin(), ask.file_bytes().end());
  head.left = static_cast<Nanos>(ask.left_ms()) * kMillisecond;
  return head;
}

}  // namespace

EncodeCall::EncodeCall(CallHost& host, CallId id) : host_(host), id_(id) { StartRead(&request_); }

void EncodeCall::OnReadDone(bool ok) {
  if (!ok) return;  // the requester has said all, or is gone: then OnCancel says so
  bool good = false;
  switch (request_.message_case()) {
    case v1::EncodeRequest::kAsk:
      good = take_ask(request_.ask());
      break;
    case v1::EncodeRequest::kMedia:
      good = take_media(request_.media().bytes());
      break;
    case v1::EncodeRequest::kMediaEnd:
      good = true;
      host_.post([id = id_](EncoderDesk& desk) { desk.media_end(id); });
      break;
    case v1::EncodeRequest::kCredit: {
      const std::lock_guard lock(mutex_);
      credit_ += std::min<std::uint64_t>(request_.credit(), std::uint64_t{1} << 40);
      pump();
      good = true;
      break;
    }
    case v1::EncodeRequest::MESSAGE_NOT_SET:
      break;
  }
  if (good) return StartRead(&request_);
  const std::lock_guard lock(mutex_);
  finish({grpc::StatusCode::INVALID_ARGUMENT, "this message was not expected"});
}

bool EncodeCall::take_ask(const v1::Ask& ask) {
  {
    const std::lock_guard lock(mutex_);
    if (asked_ || !well_formed(ask)) return false;
    if (!host_.proven(ask)) {
      finish({grpc::StatusCode::UNAUTHENTICATED, "the requester does not know the key"});
      return true;
    }
    asked_ = true;
    stream_ = ask.stream();
    std::memcpy(key_.data(), ask.key().data(), key_.size());
  }
  OrderHead head = head_of(ask);
  for (const std::uint64_t bytes : head.file_bytes)
    announced_ += std::min<std::uint64_t>(bytes, std::uint64_t{1} << 40);
  host_.post([id = id_, head = std::move(head)](EncoderDesk& desk) { desk.ask(id, head); });
  return true;
}

bool EncodeCall::take_media(const std::string& bytes) {
  came_ += bytes.size();
  if (bytes.size() > kChunkBytes || came_ > announced_) return false;
  host_.post([id = id_, bytes](EncoderDesk& desk) { desk.media(id, bytes); });
  return true;
}

// --- the desk's thread ---

v1::EncodeReply EncodeCall::reply() const {
  v1::EncodeReply message;
  message.set_epoch(host_.epoch());
  message.set_stream(stream_);
  return message;
}

void EncodeCall::accepted(const Accepted& said) {
  const std::lock_guard lock(mutex_);
  v1::EncodeReply message = reply();
  message.mutable_accepted()->set_backlog_ms(said.backlog_ms);
  message.mutable_accepted()->set_predicted_ms(said.predicted_ms);
  message.mutable_accepted()->set_cached(said.cached);
  enqueue(std::move(message));
}

void EncodeCall::refused(Refusal refusal, Nanos retry_after, const std::string& text) {
  const std::lock_guard lock(mutex_);
  v1::EncodeReply message = reply();
  message.mutable_refused()->set_code(static_cast<std::uint32_t>(refusal));
  message.mutable_refused()->set_retry_after_ms(
      static_cast<std::uint32_t>(std::clamp<Nanos>(retry_after / kMillisecond, 0, 60'000)));
  message.mutable_refused()->set_text(text.substr(0, kMaxCallReason));
  rows_.reset();
  last_ = true;
  enqueue(std::move(message));
}

void EncodeCall::send(std::shared_ptr<const MadeRows> rows, const RowsEnd& end) {
  const std::lock_guard lock(mutex_);
  rows_ = std::move(rows);
  end_ = end;
  v1::EncodeReply message = reply();
  message.set_offered(rows_->bytes.size());
  enqueue(std::move(message));
}

void EncodeCall::end_if_silent() {
  const std::lock_guard lock(mutex_);
  if (!asked_) finish({grpc::StatusCode::DEADLINE_EXCEEDED, "nothing was asked"});
}

// --- writing ---

void EncodeCall::enqueue(v1::EncodeReply message) {
  queue_.push_back(std::move(message));
  pump();
}

void EncodeCall::pump() {
  if (writing_ || finished_) return;
  if (!queue_.empty()) {
    outgoing_ = std::move(queue_.front());
    queue_.pop_front();
  } else if (last_) {
    return finish(grpc::Status::OK);
  } else if (rows_ && sent_ < rows_->bytes.size()) {
    const std::uint64_t open = std::min<std::uint64_t>(credit_, rows_->bytes.size());
    if (open <= sent_) return;  // until the requester has pages for more
    const std::size_t part = std::min<std::size_t>(kChunkBytes, open - sent_);
    outgoing_ = reply();
    outgoing_.mutable_rows()->set_bytes(rows_->bytes.data() + sent_, part);
    sent_ += part;
  } else if (rows_) {
    outgoing_ = reply();
    const std::string_view digest = text_of(end_.digest);
    v1::End* const end = outgoing_.mutable_end();
    end->set_digest(digest.data(), digest.size());
    end->set_queued_us(end_.queued / kMicrosecond);
    end->set_encoded_us(end_.encoded / kMicrosecond);
    end->set_proof(host_.rows_proof(key_, stream_, digest));
    rows_.reset();
    last_ = true;
    host_.post([id = id_](EncoderDesk& desk) { desk.done(id); });
  } else {
    return;
  }
  writing_ = true;
  StartWrite(&outgoing_);
}

void EncodeCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (ok) return pump();
  finish({grpc::StatusCode::CANCELLED, "the requester is gone"});
}

void EncodeCall::finish(const grpc::Status& status) {
  if (std::exchange(finished_, true)) return;
  rows_.reset();
  queue_.clear();
  Finish(status);
}

void EncodeCall::OnCancel() {
  host_.post([id = id_](EncoderDesk& desk) { desk.gone(id); });
  const std::lock_guard lock(mutex_);
  finish({grpc::StatusCode::CANCELLED, "cancelled"});
}

void EncodeCall::OnDone() {
  host_.post([id = id_](EncoderDesk& desk) { desk.gone(id); });
  host_.ended(id_);
  delete this;
}

}  // namespace saccade::cluster
