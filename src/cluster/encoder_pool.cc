#include "cluster/encoder_pool.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/result.h"

namespace saccade::cluster {
namespace {

constexpr int kFailuresToProbation = 2;
constexpr int kAnswersToTrust = 3;
constexpr double kHitRateStep = 1.0 / 16;
constexpr double kTransferStep = 1.0 / 8;
constexpr double kTransferKept = 0.98;  // from one report to the next of an idle encoder
// What a busy machine adds to a way by chance. To be sooner by less is no reason to go elsewhere:
// two servers whose ways were late once each would keep to one encoder each, and make every image
// twice.
constexpr Nanos kChance = 5 * kMillisecond;

// Which encoder an image's content belongs to, while all are there: the highest of these.
std::uint64_t rendezvous(const Digest& content, std::string_view name) {
  return hash_combine(hash64(name), DigestHash{}(content));
}

}  // namespace

std::string_view name_of(EncoderPool::State state) {
  constexpr std::array<std::string_view, 5> kNames = {"absent", "incompatible", "up", "probation",
                                                      "quarantined"};
  return kNames.at(static_cast<std::size_t>(state));
}

EncoderPool::EncoderPool(const Clock& clock, PoolSettings settings)
    : clock_(clock), settings_(std::move(settings)) {}

int EncoderPool::add(std::string name) {
  auto place = std::ranges::find(encoders_, true, &Encoder::retired);
  if (place == encoders_.end()) place = encoders_.emplace(encoders_.end());
  *place = {};
  place->name = std::move(name);
  return static_cast<int>(place - encoders_.begin());
}

void EncoderPool::retire(int index) {
  Encoder& encoder = at(index);
  CHECK(encoder.state == State::kAbsent, "encoder {} is {}", encoder.name, name_of(encoder.state));
  encoder = {};
  encoder.retired = true;
}

std::optional<int> EncoderPool::find(std::string_view name) const {
  for (int i = 0; i < size(); ++i) {
    if (!retired(i) && at(i).name == name) return i;
  }
  return std::nullopt;
}

std::size_t EncoderPool::in_use() const {
  return static_cast<std::size_t>(std::ranges::count(encoders_, false, &Encoder::retired));
}

std::string EncoderPool::connected(int index, const Greeting& greeting) {
  Encoder& encoder = at(index);
  if (encoder.greeting.epoch != greeting.epoch) {
    Encoder fresh;
    fresh.name = std::move(encoder.name);
    fresh.quarantined = encoder.quarantined;
    encoder = std::move(fresh);
  }
  encoder.greeting = greeting;
  encoder.reported_at = clock_.now();
  const Greeting& self = settings_.self;
  encoder.why.clear();
  if (greeting.protocol != self.protocol) {
    encoder.why =
        fmt::format("it speaks protocol {}, this process {}", greeting.protocol, self.protocol);
  } else if (greeting.fingerprint != self.fingerprint) {
    encoder.why = fmt::format("its tower is {:.12}, this process has {:.12}", greeting.fingerprint,
                              self.fingerprint);
  } else if (greeting.row_bytes != self.row_bytes) {
    encoder.why = fmt::format("its rows have {} bytes, those of this process {}",
                              greeting.row_bytes, self.row_bytes);
  } else if (settings_.strict_numerics && greeting.numerics != self.numerics) {
    encoder.why =
        fmt::format("its numerics are \"{}\", this process has \"{}\" (--numerics any mixes them)",
                    greeting.numerics, self.numerics);
  }
  if (!encoder.why.empty()) {
    encoder.state = State::kIncompatible;
  } else if (encoder.quarantined == greeting.epoch) {
    encoder.state = State::kQuarantined;
    encoder.why = "its rows were wrong";
  } else if (encoder.failures > 0) {
    encoder.state = State::kProbation;  // the same process, back again
  } else {
    encoder.state = State::kUp;
  }
  return encoder.why;
}

void EncoderPool::disconnected(int index, bool open) {
  Encoder& encoder = at(index);
  encoder.state = State::kAbsent;
  encoder.dispatches.clear();
  encoder.answers = 0;
  if (open) encoder.failures = std::max(encoder.failures + 1, kFailuresToProbation);
}

void EncoderPool::reported(int index, const Report& report) {
  Encoder& encoder = at(index);
  encoder.report = report;
  encoder.reported_at = clock_.now();
  for (Dispatch& dispatch : encoder.dispatches) {
    if (dispatch.stream <= report.last_seen) dispatch.seen = true;
  }
  if (encoder.state == State::kProbation) answered(encoder);
  // A way that was slow is tried again some time: what is known of it grows old.
  if (encoder.dispatches.empty()) encoder.transfer *= kTransferKept;
}

bool EncoderPool::may_be_asked(int index) const {
  const Encoder& encoder = at(index);
  if (encoder.report.draining) return false;
  return encoder.state == State::kUp ||
         (encoder.state == State::kProbation && encoder.dispatches.empty());
}

bool EncoderPool::any_may_be_asked() const {
  for (int i = 0; i < size(); ++i) {
    if (may_be_asked(i)) return true;
  }
  return false;
}

Nanos EncoderPool::backlog(int index) const {
  const Encoder& encoder = at(index);
  const auto reported =
      static_cast<Nanos>(encoder.report.backlog_ms * static_cast<double>(kMillisecond));
  Nanos sum = std::max<Nanos>(0, reported - (clock_.now() - encoder.reported_at));
  for (const Dispatch& dispatch : encoder.dispatches) {
    if (!dispatch.seen) sum += dispatch.predicted;
  }
  return sum;
}

Nanos EncoderPool::predicted_finish(int index, const Order& order) const {
  const Encoder& encoder = at(index);
  const auto moved = static_cast<double>(order.bytes() + order.media.bytes());
  return static_cast<Nanos>(encoder.transfer * moved) + backlog(index) +
         encoder.report.cost.duration(order.rows);
}

std::optional<EncoderPool::Choice> EncoderPool::best(const Order& order,
                                                     const std::vector<int>& except) const {
  // Where the image belongs its rows may still be: that is worth the share of an encode that has
  // been saved so of late, and no more, or one hot image would wait for one busy encoder.
  int home = -1;
  std::uint64_t highest = 0;
  for (int i = 0; i < size(); ++i) {
    if (!may_be_asked(i)) continue;
    const std::uint64_t score = rendezvous(order.content, at(i).name);
    if (home < 0 || score > highest) {
      home = i;
      highest = score;
    }
  }
  std::optional<Choice> first;
  double first_score = 0;
  for (int i = 0; i < size(); ++i) {
    if (!may_be_asked(i) || std::find(except.begin(), except.end(), i) != except.end()) continue;
    const Nanos finish = predicted_finish(i, order);
    double score = static_cast<double>(finish);
    if (i == home) {
      score -= hit_rate_ * static_cast<double>(at(i).report.cost.duration(order.rows)) +
               static_cast<double>(kChance);
    }
    if (!first || score < first_score) {
      first = Choice{i, finish, i != home};
      first_score = score;
    }
  }
  return first;
}

std::uint64_t EncoderPool::dispatched(int index, const Order& order) {
  Encoder& encoder = at(index);
  encoder.dispatches.push_back({++last_stream_, encoder.report.cost.duration(order.rows), false});
  return last_stream_;
}

void EncoderPool::accepted(bool cached) {
  hit_rate_ += kHitRateStep * ((cached ? 1.0 : 0.0) - hit_rate_);
}

void EncoderPool::delivered(int index, const Order& order, Nanos took, Nanos within) {
  Encoder& encoder = at(index);
  const auto moved = static_cast<double>(std::max<std::size_t>(1, order.bytes()));
  const double each = static_cast<double>(std::max<Nanos>(0, took - within)) / moved;
  encoder.transfer += (encoder.transfer == 0 ? 1.0 : kTransferStep) * (each - encoder.transfer);
}

void EncoderPool::ended(int index, std::uint64_t stream, Outcome outcome) {
  Encoder& encoder = at(index);
  std::erase_if(encoder.dispatches, [&](const Dispatch& d) { return d.stream == stream; });
  if (outcome == Outcome::kRows) answered(encoder);
  if (outcome == Outcome::kFailure) failed(encoder);
}

void EncoderPool::failed(Encoder& encoder) {
  ++encoder.failures;
  encoder.answers = 0;
  if (encoder.state == State::kUp && encoder.failures >= kFailuresToProbation)
    encoder.state = State::kProbation;
}

void EncoderPool::silent(int index) {
  Encoder& encoder = at(index);
  encoder.failures = std::max(encoder.failures, kFailuresToProbation - 1);
  failed(encoder);
}

void EncoderPool::answered(Encoder& encoder) {
  if (encoder.state == State::kProbation) {
    if (++encoder.answers < kAnswersToTrust) return;
    encoder.state = State::kUp;
  }
  encoder.failures = 0;
}

void EncoderPool::quarantine(int index) {
  Encoder& encoder = at(index);
  encoder.quarantined = encoder.greeting.epoch;
  if (encoder.state == State::kUp || encoder.state == State::kProbation) {
    encoder.state = State::kQuarantined;
    encoder.why = "its rows were wrong";
  }
}

}  // namespace saccade::cluster
