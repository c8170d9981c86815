#include "cluster/encoder_desk.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace saccade::cluster {
namespace {

constexpr std::size_t kMaxRequesters = 4096;  // that are remembered
constexpr Nanos kLeastRetry = 50 * kMillisecond;
constexpr Nanos kMaxRetry = 5 * kSecond;

}  // namespace

EncoderDesk::EncoderDesk(const Clock& clock, Timers& timers, ImageMaker& maker, RequesterLink& link,
                         DeskSettings settings)
    : clock_(clock),
      timers_(timers),
      maker_(maker),
      link_(link),
      settings_(std::move(settings)),
      cache_(settings_.row_bytes),
      media_(settings_.media_bytes) {}

EncoderDesk::~EncoderDesk() {
  for (auto& [id, call] : calls_) timers_.cancel(call.timer);
}

bool EncoderDesk::admissible(CallId id, const OrderHead& head) {
  const Greeting& self = settings_.self;
  if (draining_) {
    refuse(id, Refusal::kDraining, "this encoder is shutting down");
  } else if (head.epoch != self.epoch) {
    refuse(id, Refusal::kIncompatible, "the encoder that was meant has been restarted");
  } else if (head.fingerprint != self.fingerprint) {
    refuse(id, Refusal::kIncompatible,
           fmt::format("the tower here is {:.12}, asked for is {:.12}", self.fingerprint,
                       head.fingerprint));
  } else if (!head.any_numerics && head.numerics != self.numerics) {
    refuse(id, Refusal::kIncompatible,
           fmt::format("numerics here are \"{}\", asked for are \"{:.64}\"", self.numerics,
                       head.numerics));
  } else if (head.rows < 1 || head.rows > settings_.max_rows) {
    refuse(id, Refusal::kTooLarge,
           fmt::format("{} rows, this encoder is set up for {}", head.rows, settings_.max_rows));
  } else if (head.file_bytes.empty() || head.file_bytes.size() > settings_.max_files) {
    refuse(id, Refusal::kTooLarge,
           fmt::format("{} files, 1 to {} are taken", head.file_bytes.size(), settings_.max_files));
  } else if (calls_.size() >= settings_.max_calls) {
    refuse(id, Refusal::kOverloaded, fmt::format("{} images are open here", calls_.size()),
           kLeastRetry);
  } else {
    return true;
  }
  return false;
}

void EncoderDesk::ask(CallId id, const OrderHead& head) {
  ++stats_.orders;
  // Any other may be forgotten: its next order is remembered again.
  if (last_seen_.size() == kMaxRequesters && !last_seen_.contains(head.requester))
    last_seen_.erase(last_seen_.begin());
  std::uint64_t& last = last_seen_[head.requester];
  last = std::max(last, head.stream);
  if (!admissible(id, head)) return;
  const EncodeCost cost = maker_.cost();
  if (const auto rows = cache_.find(head.key)) {
    ++stats_.cached;
    calls_[id].head = head;
    link_.accepted(id, {0, 0, true});
    return send(id, rows, 0, 0);
  }
  std::uint64_t bytes = 0;
  for (const std::uint64_t file : head.file_bytes) {
    if (file > settings_.max_media_bytes - bytes)
      return refuse(id, Refusal::kTooLarge,
                    fmt::format("over {} bytes of media", settings_.max_media_bytes));
    bytes += file;
  }
  const Nanos retry =
      std::clamp(static_cast<Nanos>(backlog_ms() * kMillisecond) / 2, kLeastRetry, kMaxRetry);
  auto room = media_.reserve(static_cast<std::size_t>(bytes));
  if (!room)
    return refuse(
        id, Refusal::kOverloaded,
        fmt::format("{} bytes of media are here, the limit is {}", media_.used(), media_.limit()),
        retry);
  const auto making = images_.find(head.key);
  if (making == images_.end()) {
    const auto wanted = static_cast<std::size_t>(head.rows) * settings_.self.row_bytes;
    auto rows_room = cache_.reserve(wanted);
    if (!rows_room)
      return refuse(id, Refusal::kOverloaded,
                    fmt::format("{} bytes of rows are here, the limit is {}", cache_.used_bytes(),
                                cache_.limit()),
                    retry);
    Image& image = images_[head.key];
    image.rows = head.rows;
    image.room = *std::move(rows_room);
    image.calls.insert(id);
  } else {
    making->second.calls.insert(id);
  }
  Call& call = calls_[id];
  call.head = head;
  call.room = std::make_shared<ByteReservation>(*std::move(room));
  expire(id, clock_.now() + settings_.media_time, Refusal::kDeadline, "the media did not come");
  link_.accepted(id, {backlog_ms(), cost.milliseconds(head.rows), false});
}

void EncoderDesk::media(CallId id, std::string_view bytes) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = found->second;
  // Another requester's media came first, and its rows are on their way to this one too.
  if (call.stage == Stage::kSending) return;
  if (call.stage != Stage::kMedia) return refuse(id, Refusal::kCorrupt, "media that nobody wanted");
  while (!bytes.empty()) {
    if (call.files.empty() ||
        call.files.back().size() == call.head.file_bytes[call.files.size() - 1]) {
      if (call.files.size() == call.head.file_bytes.size())
        return refuse(id, Refusal::kCorrupt, "more media than was announced");
      call.files.emplace_back();
      continue;
    }
    std::string& file = call.files.back();
    const std::size_t part = std::min<std::size_t>(
        bytes.size(), call.head.file_bytes[call.files.size() - 1] - file.size());
    file.append(bytes.substr(0, part));
    bytes.remove_prefix(part);
  }
}

void EncoderDesk::media_end(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second.stage != Stage::kMedia) return;
  Call& call = found->second;
  std::vector<std::uint64_t> sizes;
  for (const std::string& file : call.files) sizes.push_back(file.size());
  // An empty file leaves no trace in the bytes.
  while (sizes.size() < call.head.file_bytes.size() && call.head.file_bytes[sizes.size()] == 0) {
    sizes.push_back(0);
    call.files.emplace_back();
  }
  if (sizes != call.head.file_bytes)
    return refuse(id, Refusal::kCorrupt, "less media than was announced");
  call.stage = Stage::kWaiting;
  timers_.cancel(std::exchange(call.timer, 0));
  if (call.head.left > 0)
    expire(id, clock_.now() + call.head.left, Refusal::kDeadline, "the deadline has passed");
  Image& image = images_.at(call.head.key);
  std::vector<std::string> files = std::move(call.files);
  const std::shared_ptr<ByteReservation> room = std::move(call.room);
  if (image.begun != 0) {
    ++stats_.joined;
    return;
  }
  image.begun = std::max<Nanos>(1, clock_.now());
  maker_.make({call.head.key, call.head.recipe, call.head.layout_key, call.head.rows,
               std::move(files), room});
}

void EncoderDesk::done(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  ++stats_.sent;
  timers_.cancel(found->second.timer);
  calls_.erase(found);
}

void EncoderDesk::gone(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  timers_.cancel(found->second.timer);
  const bool waits = found->second.stage != Stage::kSending;
  const Digest key = found->second.head.key;
  calls_.erase(found);
  if (waits) leave(key, id);
}

// A call waits for the image no more; what nobody waits for is not made.
void EncoderDesk::leave(const Digest& key, CallId call) {
  const auto found = images_.find(key);
  if (found == images_.end() || found->second.calls.erase(call) == 0) return;
  if (!found->second.calls.empty()) return;
  if (found->second.begun == 0) {
    images_.erase(found);
    return;
  }
  ++stats_.let_go;
  maker_.let_go(key);
}

void EncoderDesk::made(const Digest& key, ImageMaker::Made of) {
  const auto found = images_.find(key);
  if (found == images_.end()) return;
  Image image = std::move(found->second);
  images_.erase(found);
  ++stats_.made;
  auto rows = std::make_shared<MadeRows>();
  rows->bytes = std::move(of.bytes);
  rows->reserved = std::move(image.room);
  rows->digest = sha256({reinterpret_cast<const char*>(rows->bytes.data()), rows->bytes.size()});
  cache_.insert(key, rows);
  if (settings_.made) settings_.made(key, image.rows, rows);
  for (const CallId id : image.calls) send(id, rows, of.queued, of.encoded);
}

void EncoderDesk::failed(const Digest& key, const Error& error) {
  const auto found = images_.find(key);
  if (found == images_.end()) return;
  const std::set<CallId> calls = std::move(found->second.calls);
  images_.erase(found);
  // Let go, and wanted again meanwhile: the requester goes elsewhere, or asks once more.
  const Refusal refusal = error.code == ErrorCode::kUndecodable ? Refusal::kBadMedia
                          : error.code == ErrorCode::kInvalid   ? Refusal::kIncompatible
                          : error.code == ErrorCode::kTooLarge  ? Refusal::kTooLarge
                          : error.code == ErrorCode::kCancelled ? Refusal::kOverloaded
                                                                : Refusal::kInternal;
  for (const CallId id : calls) refuse(id, refusal, error.message);
}

void EncoderDesk::send(CallId id, const std::shared_ptr<const MadeRows>& rows, Nanos queued,
                       Nanos encoded) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = found->second;
  call.stage = Stage::kSending;
  call.files.clear();
  call.room.reset();
  expire(id, clock_.now() + settings_.lease, Refusal::kDeadline, "the rows were not taken");
  link_.send(id, rows, {rows->digest, queued, encoded});
}

void EncoderDesk::refuse(CallId id, Refusal refusal, const std::string& text, Nanos retry_after) {
  ++stats_.refused[std::string(name_of(refusal))];
  const auto found = calls_.find(id);
  if (found != calls_.end()) {
    timers_.cancel(found->second.timer);
    const Digest key = found->second.head.key;
    const bool waits = found->second.stage != Stage::kSending;
    calls_.erase(found);
    if (waits) leave(key, id);
  }
  link_.refused(id, refusal, retry_after, text);
}

void EncoderDesk::expire(CallId id, Nanos at, Refusal refusal, const char* text) {
  TimerId& timer = calls_.at(id).timer;
  timers_.cancel(timer);
  timer = timers_.start(at, [this, id, refusal, text] {
    calls_.at(id).timer = 0;
    refuse(id, refusal, text);
  });
}

void EncoderDesk::drain() { draining_ = true; }

double EncoderDesk::backlog_ms() const {
  const EncodeCost cost = maker_.cost();
  double sum = 0;
  Nanos oldest = 0;
  for (const auto& [key, image] : images_) {
    if (image.begun == 0) continue;
    sum += cost.milliseconds(image.rows);
    if (oldest == 0 || image.begun < oldest) oldest = image.begun;
  }
  // What runs has been running for a while.
  if (oldest != 0) sum = std::max(0.0, sum - milliseconds(clock_.now() - oldest));
  return sum;
}

Report EncoderDesk::report(const std::string& requester) const {
  const auto seen = last_seen_.find(requester);
  return {backlog_ms(), maker_.cost(), seen == last_seen_.end() ? 0 : seen->second,
          static_cast<std::int64_t>(images_.size()), draining_};
}

}  // namespace saccade::cluster
