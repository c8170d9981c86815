#include "cluster/grpc/encode_attempt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace saccade::cluster {
namespace {

constexpr std::size_t kMaxReason = 256;

double plain(double number) { return std::isfinite(number) && number > 0 ? number : 0; }

std::string printable_reason(const std::string& text) {
  std::string shown = text.substr(0, kMaxReason);
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return shown;
}

}  // namespace

EncodeAttempt::EncodeAttempt(AttemptHost& host, const AttemptId& id, v1::Ask ask, Media media,
                             std::size_t bytes, const Digest& key)
    : host_(host), id_(id), media_(std::move(media)), bytes_(bytes), key_(key) {
  v1::EncodeRequest first;
  *first.mutable_ask() = std::move(ask);
  queue_.push_back(std::move(first));
}

void EncodeAttempt::begin(v1::Encoder::Stub& stub) {
  stub.async()->Encode(&context_, this);
  {
    const std::lock_guard lock(mutex_);
    pump();
  }
  StartRead(&reply_);
  AddHold();  // for receive(), which writes from another thread than gRPC's
  StartCall();
}

void EncodeAttempt::post(std::function<void(ItemTable&)> news) { host_.post(std::move(news)); }

void EncodeAttempt::receive(std::shared_ptr<RowPages> pages) {
  const std::lock_guard lock(mutex_);
  if (ended_ || over_) return;
  pages_ = std::move(pages);
  v1::EncodeRequest credit;
  credit.set_credit(pages_->bytes.size());
  queue_.push_back(std::move(credit));
  pump();
}

void EncodeAttempt::cancel() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    pages_.reset();
    queue_.clear();
  }
  context_.TryCancel();
}

// --- writing ---

void EncodeAttempt::pump() {
  if (writing_) return;
  if (!queue_.empty()) {
    outgoing_ = std::move(queue_.front());
    queue_.pop_front();
  } else if (media_wanted_ && !media_done_ && !ended_) {
    outgoing_.Clear();
    while (file_ < media_.files.size() && offset_ == media_.files[file_].size()) {
      ++file_;
      offset_ = 0;
    }
    if (file_ == media_.files.size()) {
      outgoing_.set_media_end(true);
      media_done_ = true;
    } else {
      const std::string_view part = media_.files[file_].substr(offset_, kChunkBytes);
      outgoing_.mutable_media()->set_bytes(part.data(), part.size());
      offset_ += part.size();
    }
  } else {
    return;
  }
  writing_ = true;
  StartWrite(&outgoing_);
}

void EncodeAttempt::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (ok) pump();  // else OnDone says why
}

// --- reading ---

void EncodeAttempt::OnReadDone(bool ok) {
  if (!ok) {  // OnDone follows
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    return RemoveHold();
  }
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      wrong_ = hear(reply_);
      if (!wrong_.empty()) context_.TryCancel();
    }
  }
  StartRead(&reply_);
}

std::string EncodeAttempt::hear(const v1::EncodeReply& reply) {
  // A call of another boot, or of another attempt, cannot reach this one; if it does, it is not
  // heard.
  if (reply.epoch() != id_.epoch || reply.stream() != id_.stream)
    return "its answer is of another attempt";
  switch (reply.message_case()) {
    case v1::EncodeReply::kAccepted: {
      const v1::Accept& said = reply.accepted();
      const Accepted accepted{plain(said.backlog_ms()), plain(said.predicted_ms()), said.cached()};
      post([id = id_, accepted](ItemTable& table) { table.accepted(id, accepted); });
      media_wanted_ = !said.cached();
      pump();
      return {};
    }
    case v1::EncodeReply::kRefused: {
      const v1::Refuse& said = reply.refused();
      const auto refusal = said.code() <= static_cast<std::uint32_t>(Refusal::kInternal)
                               ? static_cast<Refusal>(said.code())
                               : Refusal::kInternal;
      const Nanos after =
          static_cast<Nanos>(std::min(said.retry_after_ms(), 60'000u)) * kMillisecond;
      ended_ = true;
      post([id = id_, refusal, after, text = printable_reason(said.text())](ItemTable& table) {
        table.refused(id, refusal, after, text);
      });
      return {};
    }
    case v1::EncodeReply::kOffered:
      media_wanted_ = false;  // another's came first
      post([id = id_, bytes = reply.offered()](ItemTable& table) { table.offered(id, bytes); });
      return {};
    case v1::EncodeReply::kRows:
      return take_rows(reply.rows().bytes());
    case v1::EncodeReply::kEnd:
      return take_end(reply.end());
    case v1::EncodeReply::MESSAGE_NOT_SET:
      break;
  }
  return "it sent a message that is none";
}

std::string EncodeAttempt::take_rows(const std::string& bytes) {
  if (!pages_ || bytes.size() > bytes_ - came_) return "it sent more rows than there are pages for";
  std::memcpy(pages_->bytes.data() + came_, bytes.data(), bytes.size());
  hash_.update(bytes);
  came_ += bytes.size();
  post([id = id_](ItemTable& table) { table.progressed(id); });
  return {};
}

std::string EncodeAttempt::take_end(const v1::End& said) {
  if (!pages_ || came_ != bytes_) return "it ended before all rows were there";
  RowsEnd end;
  if (said.digest().size() != end.digest.size()) return "its digest is none";
  if (!equal_proofs(said.proof(), host_.rows_proof(key_, id_.stream, said.digest())))
    return "it does not know the key";
  std::memcpy(end.digest.data(), said.digest().data(), end.digest.size());
  end.queued = std::clamp<Nanos>(said.queued_us(), 0, 3'600'000'000) * kMicrosecond;
  end.encoded = std::clamp<Nanos>(said.encoded_us(), 0, 3'600'000'000) * kMicrosecond;
  const Digest computed = hash_.finish();
  const bool finite = all_finite(pages_->bytes, host_.format());
  ended_ = true;
  pages_.reset();  // the table has them
  post([id = id_, end, computed, finite](ItemTable& table) {
    table.received(id, end, computed, finite);
  });
  return {};
}

void EncodeAttempt::OnDone(const grpc::Status& status) {
  bool told = false;
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    told = std::exchange(ended_, true);
    why = !wrong_.empty() ? wrong_
          : status.ok()   ? "it ended without an answer"
                          : printable_reason(status.error_message());
    pages_.reset();
  }
  if (!told) post([id = id_, why](ItemTable& table) { table.lost(id, why); });
  AttemptHost& host = host_;
  host.ended(id_);
  delete this;
  host.leave();
}

}  // namespace saccade::cluster
