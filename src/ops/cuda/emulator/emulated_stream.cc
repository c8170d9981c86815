#include "ops/cuda/emulator/emulated_stream.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/host_memory.h"
#include "base/rng.h"
#include "ops/cuda/device_failed.h"

#if SACCADE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace saccade::emulator {
namespace {

class EmulatedRuntime;

struct Item {
  std::function<void()> work;  // or, of a wait: empty
  cudaEvent_t after = nullptr;
  std::uint64_t record = 0;  // which record() of it
  bool meets = false;        // waits for other threads as it runs
};

struct EmulatedStream {
  EmulatedRuntime* runtime = nullptr;
  std::deque<Item> queue;
  std::uint64_t submitted = 0;
  std::uint64_t done = 0;
};

struct EmulatedEvent {
  struct Point {
    EmulatedStream* stream = nullptr;
    std::uint64_t count = 0;  // passed once the stream has done as many
  };
  std::vector<Point> records;
};

struct EmulatedGraph {
  std::vector<std::function<void()>> work;
  EmulatedStream* stream = nullptr;  // that it was launched into last
  std::uint64_t done = 0;            // it has run once that has done as many
};

EmulatedStream& of(cudaStream_t stream) { return *reinterpret_cast<EmulatedStream*>(stream); }
EmulatedEvent& of(cudaEvent_t event) { return *reinterpret_cast<EmulatedEvent*>(event); }

class EmulatedRuntime final : public cuda::Runtime {
 public:
  explicit EmulatedRuntime(const EmulatedSettings& settings)
      : settings_(settings), rng_(settings.seed) {}
  ~EmulatedRuntime() override {
    CHECK(allocations_.empty(), "{} allocations of the device are left", allocations_.size());
    CHECK(pinned_.empty(), "{} pinned allocations are left", pinned_.size());
    CHECK(graphs_.empty(), "{} graphs are left", graphs_.size());
    CHECK(streams_.empty() && events_ == 0, "{} streams and {} events are left", streams_.size(),
          events_);
  }

  std::string description() const override { return "emulated"; }
  Space space() const override { return settings_.space; }
  std::int64_t free_bytes() const override {
    return settings_.total_bytes > 0 ? settings_.total_bytes - taken_ : available_host_bytes();
  }
  std::int64_t total_bytes() const override { return settings_.total_bytes; }

  std::byte* allocate(std::size_t bytes) override {
    check_no_capture("allocates");
    if (goes_wrong(Kind::kNoMemory)) return nullptr;
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (settings_.total_bytes > 0 && wanted > settings_.total_bytes - taken_) return nullptr;
    std::byte* const data = take(bytes);
    if (data == nullptr) return nullptr;
    taken_ += wanted;
    // As unlike zero as memory of a device is.
    std::memset(data, 0xff, bytes);
    allocations_[data] = bytes;
    if (settings_.space == Space::kDevice) close(data, bytes);
    return data;
  }
  void free(std::byte* data) override {
    check_no_capture("frees");
    // The device's own free waits for all of its work.
    synchronize_all();
    const auto found = allocations_.find(data);
    CHECK(found != allocations_.end(), "freed what is no allocation of the device");
    open(data, found->second);
    taken_ -= static_cast<std::int64_t>(found->second);
    allocations_.erase(found);
    std::free(data);
  }
  std::byte* allocate_pinned(std::size_t bytes) override {
    std::byte* const data = take(bytes);
    if (data == nullptr) return nullptr;
    std::memset(data, 0, bytes);
    pinned_[data] = bytes;
    return data;
  }
  void free_pinned(std::byte* data) override {
    synchronize_all();
    CHECK(pinned_.erase(data) == 1, "freed what is no pinned allocation");
    std::free(data);
  }

  cudaStream_t make_stream(int) override {
    EmulatedStream* const stream =
        all_streams_.emplace_back(std::make_unique<EmulatedStream>()).get();
    stream->runtime = this;
    streams_.push_back(stream);
    return reinterpret_cast<cudaStream_t>(stream);
  }
  void destroy(cudaStream_t stream) override {
    run_until(of(stream), of(stream).submitted);
    std::erase(streams_, &of(stream));
  }
  void synchronize(cudaStream_t stream) override {
    check_no_capture("waits");
    run_until(of(stream), of(stream).submitted);
    check_alive();
  }

  void copy(const cuda::Copy2d& copy, cuda::Direction direction, cudaStream_t stream) override {
    check_no_capture("copies");
    if (direction == cuda::Direction::kToHost) check_pinned(copy.to, extent(copy, copy.to_stride));
    if (direction == cuda::Direction::kToDevice)
      check_pinned(copy.from, extent(copy, copy.from_stride));
    submit(stream, [copy] {
      for (std::size_t row = 0; row < copy.rows; ++row)
        std::memmove(copy.to + row * copy.to_stride, copy.from + row * copy.from_stride,
                     copy.row_bytes);
    });
    // What the host is going to be given is nothing yet.
    if (direction == cuda::Direction::kToHost && settings_.late && !of(stream).queue.empty()) {
      for (std::size_t row = 0; row < copy.rows; ++row)
        std::memset(copy.to + row * copy.to_stride, 0xff, copy.row_bytes);
    }
  }
  void zero(std::byte* data, std::size_t bytes, cudaStream_t stream) override {
    submit(stream, [data, bytes] { std::memset(data, 0, bytes); });
  }

  cudaEvent_t make_event() override {
    ++events_;
    return reinterpret_cast<cudaEvent_t>(new EmulatedEvent);
  }
  void destroy(cudaEvent_t event) override {
    // A wait for it may stand in a queue.
    synchronize_all();
    --events_;
    delete &of(event);
  }
  void record(cudaEvent_t event, cudaStream_t stream) override {
    check_no_capture("records an event");
    of(event).records.push_back({&of(stream), of(stream).submitted});
  }
  void wait(cudaStream_t stream, cudaEvent_t event) override {
    if (of(event).records.empty()) return;
    EmulatedStream& waiting = of(stream);
    ++waiting.submitted;
    waiting.queue.push_back({{}, event, of(event).records.size(), false});
    if (!settings_.late) run_until(waiting, waiting.submitted);
  }
  bool passed(cudaEvent_t event) override {
    if (of(event).records.empty()) return true;
    if (!has_passed(event, of(event).records.size())) run_one(Meetings::kNone);
    check_alive();
    return has_passed(event, of(event).records.size());
  }
  void synchronize(cudaEvent_t event) override {
    check_no_capture("waits");
    if (of(event).records.empty()) return;
    const EmulatedEvent::Point point = of(event).records.back();
    run_until(*point.stream, point.count);
    check_alive();
  }

  // Closures with their arguments: those of the capture, whatever became of them since.
  void begin_capture(cudaStream_t stream) override {
    CHECK(capturing_ == nullptr, "a capture in a capture");
    capturing_ = &of(stream);
    captured_ = std::make_unique<EmulatedGraph>();
  }
  cudaGraphExec_t end_capture(cudaStream_t stream) override {
    CHECK(capturing_ == &of(stream), "the capture is of another stream");
    capturing_ = nullptr;
    graphs_.insert(captured_.get());
    return reinterpret_cast<cudaGraphExec_t>(captured_.release());
  }
  void launch(cudaGraphExec_t graph, cudaStream_t stream) override {
    auto& of_graph = *reinterpret_cast<EmulatedGraph*>(graph);
    CHECK(graphs_.contains(&of_graph), "launch of a graph that is gone");
    for (const auto& work : of_graph.work) submit(stream, work);
    of_graph.stream = &of(stream);
    of_graph.done = of(stream).submitted;
  }
  void destroy(cudaGraphExec_t graph) override {
    auto* const of_graph = reinterpret_cast<EmulatedGraph*>(graph);
    CHECK(graphs_.erase(of_graph) == 1, "a graph is destroyed twice");
    CHECK(of_graph->stream == nullptr || of_graph->stream->done >= of_graph->done,
          "a graph is destroyed that has not run");
    delete of_graph;
  }

  // `meets`: the work waits for other threads as it runs. It does not during the call, and later
  // only where somebody waits for what comes after it: the others do too then.
  void submit(cudaStream_t stream, std::function<void()> work, bool meets = false) {
    EmulatedStream& into = of(stream);
    check_alive();
    if (goes_wrong(Kind::kRefusedLaunch)) throw cuda::DeviceFailed("launch: refused (emulated)");
    if (capturing_ == &into) {
      captured_->work.push_back(std::move(work));
      return;
    }
    ++into.submitted;
    into.queue.push_back({std::move(work), nullptr, 0, meets});
    if (!settings_.late) run_until(into, into.submitted);
    // A device gets on while it is being fed.
    while (settings_.late && !meets && rng_.below(4) == 0 && run_one(Meetings::kNone)) {
    }
  }

 private:
  using Kind = EmulatedFault::Kind;
  bool goes_wrong(Kind kind) {
    EmulatedFault* const fault = settings_.fault.get();
    return fault != nullptr && fault->kind == kind && fault->after-- <= 0;
  }
  void check_alive() const {
    if (dead_) throw cuda::DeviceFailed("an illegal address was met (emulated)");
  }
  void check_no_capture(const char* what) const {
    CHECK(capturing_ == nullptr, "{} in a capture: a GPU's runtime would refuse it", what);
  }
  static std::byte* take(std::size_t bytes) {
    // Exactly as long as asked for: AddressSanitizer sees the end.
    void* data = nullptr;
    return posix_memalign(&data, 256, bytes) == 0 ? static_cast<std::byte*>(data) : nullptr;
  }
  static std::size_t extent(const cuda::Copy2d& copy, std::size_t stride) {
    return copy.rows == 0 ? 0 : (copy.rows - 1) * stride + copy.row_bytes;
  }
  void check_pinned(const std::byte* data, std::size_t bytes) const {
    auto piece = pinned_.upper_bound(const_cast<std::byte*>(data));
    CHECK(piece != pinned_.begin(), "a copy of the device's to or from pageable memory");
    --piece;
    CHECK(data + bytes <= piece->first + piece->second,
          "a copy of the device's to or from pageable memory");
  }

  bool has_passed(cudaEvent_t event, std::uint64_t record) const {
    const EmulatedEvent::Point& point = of(event).records[record - 1];
    return point.stream->done >= point.count;
  }
  bool runnable(const EmulatedStream& stream) const {
    if (stream.queue.empty()) return false;
    const Item& next = stream.queue.front();
    return next.after == nullptr || has_passed(next.after, next.record);
  }
  // Whether what waits for other threads may be run: not, or where nothing else can.
  enum class Meetings { kNone, kLast };
  // One item of a random stream; false: there is none that may run.
  bool run_one(Meetings meetings) {
    std::vector<EmulatedStream*> ready;
    std::vector<EmulatedStream*> meeting;
    for (EmulatedStream* const stream : streams_)
      if (runnable(*stream)) (stream->queue.front().meets ? meeting : ready).push_back(stream);
    if (ready.empty() && meetings == Meetings::kLast) ready = std::move(meeting);
    if (ready.empty() || running_) return false;
    EmulatedStream& stream = *ready[rng_.below(ready.size())];
    const Item item = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (item.work) {
      running_ = true;
      if (settings_.space == Space::kDevice) {
        for (const auto& [data, bytes] : allocations_) open(data, bytes);
      }
      // What follows a failure does not run.
      dead_ = dead_ || goes_wrong(Kind::kBadAddress);
      if (!dead_) item.work();
      if (settings_.space == Space::kDevice) {
        for (const auto& [data, bytes] : allocations_) close(data, bytes);
      }
      running_ = false;
    }
    ++stream.done;
    return true;
  }
  void run_until(const EmulatedStream& stream, std::uint64_t count) {
    while (stream.done < count) CHECK(run_one(Meetings::kLast), "streams wait for each other");
  }
  void synchronize_all() {
    for (const EmulatedStream* const stream : streams_) run_until(*stream, stream->submitted);
  }

  // The functions, not the macros of the same name: those are empty in a file that is not
  // instrumented itself.
  static void open([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) {
#if SACCADE_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(data, bytes);
#endif
  }
  static void close([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) {
#if SACCADE_ADDRESS_SANITIZER
    __asan_poison_memory_region(data, bytes);
#endif
  }

  EmulatedSettings settings_;
  Rng rng_;
  bool running_ = false;
  bool dead_ = false;
  EmulatedStream* capturing_ = nullptr;
  std::unique_ptr<EmulatedGraph> captured_;
  std::set<EmulatedGraph*> graphs_;
  std::map<std::byte*, std::size_t> allocations_;
  std::int64_t taken_ = 0;  // by them
  std::map<std::byte*, std::size_t> pinned_;
  std::vector<EmulatedStream*> streams_;
  std::vector<std::unique_ptr<EmulatedStream>> all_streams_;  // events outlive their streams
  std::int64_t events_ = 0;
};

}  // namespace

void enqueue(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr)
    work();
  else
    of(stream).runtime->submit(stream, std::move(work));
}

void enqueue_later(cudaStream_t stream, std::function<void()> work) {
  of(stream).runtime->submit(stream, std::move(work), true);
}

std::unique_ptr<cuda::Runtime> make_emulated_runtime(const EmulatedSettings& settings) {
  return std::make_unique<EmulatedRuntime>(settings);
}

}  // namespace saccade::emulator
