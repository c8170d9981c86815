#include "engine/replay.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "base/check.h"

namespace saccade {
namespace {

// A sequence with its made-up tokens.
struct Replayed {
  const ReplayRequest* request = nullptr;
  std::int64_t rank = 0;     // order of arrival
  std::int64_t length = 0;   // tokens known so far
  std::int64_t end = 0;      // tokens when it is done
  std::int64_t reached = 0;  // tokens that have been computed at some time
  std::vector<std::int32_t> tokens;
  std::vector<PrefixImage> images;
  std::vector<PrefixImage> encoder_images;
  KvSequence kv;

  PrefixContent content() const {
    return {std::span(tokens).first(static_cast<std::size_t>(length)), images, encoder_images, "",
            0};
  }
  KvShape shape() const {
    const std::int64_t encoder = encoder_images.empty() ? 0 : encoder_images.front().tokens;
    return {length, encoder, images, 0};
  }
  std::int64_t pending() const { return length - kv.computed(); }
};

std::int32_t token_of(std::uint64_t name, std::int64_t offset) {
  return static_cast<std::int32_t>(hash_combine(name, static_cast<std::uint64_t>(offset)) >> 33);
}

class Replay {
 public:
  Replay(KvAllocator& kv, std::span<const ReplayRequest> requests, const ReplaySettings& settings,
         bool encoder_stream)
      : kv_(kv), requests_(requests), settings_(settings), encoder_stream_(encoder_stream) {
    report_.plan = kv.plan().describe();
  }

  ReplayReport run() {
    while (next_ < requests_.size() || !returned_.empty() || !running_.empty()) step();
    report_.mean = loaded_.mean();
    report_.samples = loaded_.count;
    report_.mean_running = loaded_.mean_running();
    if (loaded_.count == 0) {  // nobody ever waited
      report_.mean = all_.mean();
      report_.samples = all_.count;
      report_.mean_running = all_.mean_running();
    }
    return std::move(report_);
  }

 private:
  struct Sums {
    MemoryUse use;
    std::int64_t running = 0;
    std::int64_t count = 0;
    void add(const MemoryUse& sample, std::size_t now_running) {
      use += sample;
      running += static_cast<std::int64_t>(now_running);
      ++count;
    }
    double mean_running() const {
      return static_cast<double>(running) / static_cast<double>(std::max<std::int64_t>(1, count));
    }
    MemoryUse mean() const {
      const std::int64_t n = std::max<std::int64_t>(1, count);
      return {use.useful / n,   use.tail / n,    use.slack / n,  use.pad / n,
              use.overhold / n, use.reserve / n, use.cached / n, use.free / n};
    }
  };
  struct Chunk {
    Replayed* sequence;
    std::int64_t end;
  };

  void step() {
    ++report_.steps;
    budget_ = settings_.max_batched_tokens;
    chunks_.clear();
    preempted_ = false;
    for (std::size_t i = 0; i < running_.size(); ++i) plan(*running_[i]);
    waited_ = preempted_;
    if (!preempted_) plan_waiting();
    CHECK(!chunks_.empty() || running_.empty(), "{} sequences run and none moves", running_.size());
    for (const Chunk& chunk : chunks_) commit(chunk);
    report_.peak_running =
        std::max(report_.peak_running, static_cast<std::int64_t>(running_.size()));
    if (report_.steps % settings_.sample_every == 0 && !running_.empty()) sample();
    std::erase_if(running_, [this](const std::unique_ptr<Replayed>& sequence) {
      if (sequence->kv.computed() < sequence->end) return false;
      kv_.release(sequence->kv);
      ++report_.finished;
      return true;
    });
  }

  void plan(Replayed& sequence) {
    if (budget_ == 0) return;
    kv_.free_skipped(sequence.kv);
    const std::int64_t begin = sequence.kv.computed();
    const std::int64_t end = kv_.chunk_end(begin, begin + std::min(sequence.pending(), budget_));
    while (!kv_.extend(sequence.kv, end)) {
      const bool itself = running_.back().get() == &sequence;
      preempt_last();
      if (itself) return;
    }
    add(sequence, end);
  }

  void add(Replayed& sequence, std::int64_t end) {
    copies_.clear();
    kv_.take_copies(sequence.kv, copies_);
    budget_ -= end - sequence.kv.computed();
    chunks_.push_back({&sequence, end});
  }

  void preempt_last() {
    std::unique_ptr<Replayed> last = std::move(running_.back());
    running_.pop_back();
    kv_.release(last->kv);
    ++report_.preemptions;
    preempted_ = true;
    returned_.push_front(std::move(last));
  }

  void plan_waiting() {
    while (budget_ > 0) {
      if (returned_.empty()) {
        if (next_ == requests_.size()) return;
        returned_.push_back(make(requests_[next_++]));
        if (!kv_.fits(returned_.back()->shape(), returned_.back()->end,
                      settings_.max_batched_tokens)) {
          ++report_.refused;
          returned_.pop_back();
          continue;
        }
      }
      const bool full =
          static_cast<std::int64_t>(running_.size()) >= kv_.settings().plan.max_sequences;
      if (full || !start(returned_.front())) {
        waited_ = true;
        return;
      }
      returned_.pop_front();
    }
    waited_ = waited_ || !returned_.empty() || next_ < requests_.size();
  }

  bool start(std::unique_ptr<Replayed>& waiting) {
    Replayed& sequence = *waiting;
    if (refused_ == waiting.get() && refused_at_ == kv_.releases()) return false;
    const PrefixContent content = sequence.content();
    const KvShape shape = sequence.shape();
    const PrefixHit hit = kv_.match(content, shape, sequence.length - 1);
    const Admission verdict =
        kv_.admit(sequence.kv, content, shape, hit, settings_.max_batched_tokens);
    CHECK(verdict != Admission::kNever, "a sequence of {} tokens fits and does not",
          sequence.length);
    if (verdict == Admission::kLater) {
      refused_ = waiting.get();
      refused_at_ = kv_.releases();
      return false;
    }
    const std::int64_t begin = sequence.kv.computed();
    if (sequence.reached == 0) {
      report_.prompt_tokens += sequence.length;
      report_.hit_tokens += begin;
    } else {
      report_.recomputed_tokens += std::max<std::int64_t>(0, sequence.reached - begin);
    }
    const std::int64_t end = kv_.chunk_end(begin, begin + std::min(sequence.pending(), budget_));
    CHECK(kv_.extend(sequence.kv, end), "admitted without room for {} tokens", end - begin);
    add(sequence, end);
    const auto place =
        std::upper_bound(running_.begin(), running_.end(), sequence.rank,
                         [](std::int64_t rank, const auto& other) { return rank < other->rank; });
    running_.insert(place, std::move(waiting));
    return true;
  }

  void commit(const Chunk& chunk) {
    Replayed& sequence = *chunk.sequence;
    if (!sequence.kv.admitted()) return;  // gave way after it was planned
    kv_.commit(sequence.kv, sequence.content(), chunk.end);
    sequence.reached = std::max(sequence.reached, chunk.end);
    if (chunk.end == sequence.length && sequence.length < sequence.end) ++sequence.length;
  }

  void sample() {
    const MemoryUse use = measure(kv_);
    all_.add(use, running_.size());
    if (waited_) loaded_.add(use, running_.size());
    if (all_.count % series_stride_ != 0) return;
    report_.samples_taken.push_back(use);
    if (report_.samples_taken.size() < kReplaySeries) return;
    // Full: every second one stays, and from now on half as many come.
    for (std::size_t i = 0; i < kReplaySeries / 2; ++i) {
      report_.samples_taken[i] = report_.samples_taken[2 * i + 1];
    }
    report_.samples_taken.resize(kReplaySeries / 2);
    series_stride_ *= 2;
  }

  std::unique_ptr<Replayed> make(const ReplayRequest& request) {
    auto made = std::make_unique<Replayed>();
    made->request = &request;
    made->rank = static_cast<std::int64_t>(next_);
    const auto own = std::uint64_t{1} << 62 | next_;
    Digest identity{};
    for (std::size_t i = 0; i < 8; ++i) identity[i] = static_cast<std::uint8_t>(own >> 8 * i);
    if (request.image_tokens > 0) {
      const PrefixImage image{0, request.image_tokens, 0, identity};
      if (encoder_stream_) {
        made->encoder_images.push_back(image);
      } else {
        made->images.push_back(image);
        made->tokens.assign(static_cast<std::size_t>(request.image_tokens), 0);
      }
    }
    for (std::int64_t t = 0; t < request.text_tokens + request.output_tokens - 1; ++t) {
      const auto block = static_cast<std::size_t>(t / kReplayBlock);
      const bool shared = t < request.text_tokens && block < request.prefix.size();
      const std::uint64_t name = shared ? static_cast<std::uint64_t>(request.prefix[block]) : own;
      made->tokens.push_back(token_of(name, t));
    }
    made->end = static_cast<std::int64_t>(made->tokens.size());
    made->length = made->end - request.output_tokens + 1;
    return made;
  }

  KvAllocator& kv_;
  std::span<const ReplayRequest> requests_;
  const ReplaySettings& settings_;
  const bool encoder_stream_;
  std::size_t next_ = 0;                            // of requests_
  std::deque<std::unique_ptr<Replayed>> returned_;  // preempted, and the next newcomer at the end
  std::vector<std::unique_ptr<Replayed>> running_;  // by rank
  std::vector<Chunk> chunks_;
  std::vector<KvCopy> copies_;
  std::int64_t budget_ = 0;
  bool preempted_ = false;
  bool waited_ = false;  // somebody waits for room in this step
  const Replayed* refused_ = nullptr;
  std::uint64_t refused_at_ = 0;
  Sums all_;
  Sums loaded_;
  std::int64_t series_stride_ = 1;
  ReplayReport report_;
};

}  // namespace

double ReplayReport::waste() const {
  const std::int64_t wasted = mean.tail + mean.slack + mean.pad + mean.overhold + mean.reserve;
  const std::int64_t held = wasted + mean.useful;
  return held == 0 ? 0 : static_cast<double>(wasted) / static_cast<double>(held);
}

Result<ReplayReport> replay(std::span<const LayerSpec> layers,
                            std::span<const ReplayRequest> requests,
                            const ReplaySettings& settings) {
  CHECK(settings.max_batched_tokens > 0 && settings.sample_every > 0, "{} tokens, every {} steps",
        settings.max_batched_tokens, settings.sample_every);
  for (const ReplayRequest& request : requests) {
    if (request.text_tokens < 1 || request.image_tokens < 0 || request.output_tokens < 1) {
      return fail(ErrorCode::kInvalid,
                  "a request of {} text tokens, {} image tokens and {} of answer",
                  request.text_tokens, request.image_tokens, request.output_tokens);
    }
  }
  TRY(const std::unique_ptr<KvAllocator> kv, KvAllocator::create(layers, settings.kv));
  const bool encoder = std::any_of(layers.begin(), layers.end(), [](const LayerSpec& layer) {
    return layer.kind == CacheKind::kCrossAttention;
  });
  return Replay(*kv, requests, settings, encoder).run();
}

}  // namespace saccade
