#include "tests/support/deferred_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string_view>
#include <utility>

namespace saccade {
namespace {

constexpr std::size_t kReserved = std::size_t{64} << 30;  // of address space
constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// From the first byte that a view shows to one past its last.
std::size_t extent(View view) {
  return static_cast<std::size_t>(view.rows() - 1) * view.row_bytes() +
         static_cast<std::size_t>(view.cols()) * size_of(view.dtype());
}

std::byte* reserve(int protection) {
  void* const reserved =
      mmap(nullptr, kReserved, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(reserved != MAP_FAILED, "no {} bytes of address space", kReserved);
  return static_cast<std::byte*>(reserved);
}

// Where [data, data + bytes) lies in one of `pieces`.
template <typename Pieces>
bool within(const Pieces& pieces, const std::byte* data, std::size_t bytes) {
  auto piece = pieces.upper_bound(data);
  if (piece == pieces.begin()) return false;
  --piece;
  return data + bytes <= piece->first + piece->second;
}

}  // namespace

struct DeferredStream::Plan final : AttentionPlan {
  using AttentionPlan::AttentionPlan;
  bool alive = true;
  mutable const AttentionPlan* inner = nullptr;
};

struct DeferredStream::Segments final : SegmentPlan {
  using SegmentPlan::SegmentPlan;
  bool alive = true;
  mutable const SegmentPlan* inner = nullptr;
};

class DeferredEvent final : public Event::State {
 public:
  DeferredEvent(DeferredDevice& device, DeferredStream& of, std::uint64_t count)
      : device_(device), of_(of), count_(count) {}
  // A device gets on while it is asked.
  bool passed() override {
    if (!has_passed()) device_.run_one();
    return has_passed();
  }
  void synchronize() override { device_.run_until(of_, count_); }
  bool has_passed() const { return of_.done_ >= count_; }

 private:
  DeferredDevice& device_;
  DeferredStream& of_;
  std::uint64_t count_;
};

// --- the stream ---

DeferredStream::DeferredStream(DeferredDevice& device, Stream& inner)
    : device_(device), inner_(inner) {}

DeferredStream::~DeferredStream() = default;

Device& DeferredStream::device() { return device_; }

View DeferredStream::use(View view) {
  if (view.empty()) return view;
  CHECK(view.space() == Space::kDevice, "an operand of {}x{} is on the host", view.rows(),
        view.cols());
  device_.check_alive(view);
  return View(device_.memory_of(view.data()), view.dtype(), view.rows(), view.cols(),
              view.stride());
}

template <typename T>
DeviceArray<T> DeferredStream::use(DeviceArray<T> list) {
  if (list.empty()) return list;
  CHECK(list.space() == Space::kDevice, "a list of {} is on the host", list.size());
  auto found = lists_.upper_bound(reinterpret_cast<const std::byte*>(list.data()));
  CHECK(found != lists_.begin(), "a list of {} is not of this stream", list.size());
  const auto& [begin, of] = *--found;
  const auto end = reinterpret_cast<const std::byte*>(list.data() + list.size());
  CHECK(end <= begin + of.bytes, "a list of {} is not of this stream", list.size());
  CHECK(of.alive, "a list of {} is used after the stream's retire()", list.size());
  const auto data = reinterpret_cast<const std::byte*>(list.data());
  return DeviceArray<T>(reinterpret_cast<const T*>(device_.memory_of(data)), list.size(),
                        Space::kHost);
}
template DeviceInts DeferredStream::use(DeviceInts);
template DeviceFloats DeferredStream::use(DeviceFloats);

void DeferredStream::submit(std::vector<View> views, std::function<void()> work) {
  std::erase_if(views, [](const View& view) { return view.empty(); });
  launch([this, views = std::move(views), work = std::move(work)] {
    for (const View& view : views) device_.check_alive(view);
    work();
  });
}

const std::byte* DeferredStream::upload_bytes(std::span<const std::byte> bytes) {
  std::byte* const to = device_.take(bytes.size());
  lists_[to] = {bytes.size(), true};
  launch([at = device_.memory_of(to), sent = std::vector(bytes.begin(), bytes.end())] {
    std::memcpy(at, sent.data(), sent.size());
  });
  return to;
}

const AttentionPlan& DeferredStream::plan_attention(std::span<const SequenceSpan> spans,
                                                    const AttentionGeometry& geometry) {
  return *plans_.emplace_back(std::make_unique<Plan>(spans, geometry));
}

const SegmentPlan& DeferredStream::plan_segments(std::span<const std::int32_t> begins,
                                                 const SegmentGeometry& geometry) {
  return *segments_.emplace_back(std::make_unique<Segments>(begins, geometry));
}

const DeferredStream::Plan& DeferredStream::live(const AttentionPlan* plan) const {
  const auto found =
      std::ranges::find_if(plans_, [&](const auto& each) { return each.get() == plan; });
  CHECK(found != plans_.end(), "attention by a plan of another stream");
  CHECK((*found)->alive, "attention by a plan from before the stream's retire()");
  return **found;
}

const DeferredStream::Segments& DeferredStream::live(const SegmentPlan* plan) const {
  const auto found =
      std::ranges::find_if(segments_, [&](const auto& each) { return each.get() == plan; });
  CHECK(found != segments_.end(), "attention by a plan of another stream");
  CHECK((*found)->alive, "attention by a plan from before the stream's retire()");
  return **found;
}

void DeferredStream::retire() {
  for (auto& [begin, list] : lists_) {
    if (!list.alive) continue;
    list.alive = false;
    // What reads it all the same gets rows that are nowhere.
    launch([at = device_.memory_of(begin), bytes = list.bytes] { std::memset(at, 0x77, bytes); });
  }
  for (const auto& plan : plans_) plan->alive = false;
  for (const auto& plan : segments_) plan->alive = false;
  // Plans underneath go when the work that needs them is done.
  launch([this] { inner_.retire(); });
}

void DeferredStream::upload(View from, View to) {
  if (from.empty()) return;
  CHECK(from.space() == Space::kHost, "an upload from the device");
  auto sent = std::make_shared<std::vector<std::byte>>(extent(from));
  std::memcpy(sent->data(), from.data(), sent->size());
  submit({to}, [this, sent, from, to = use(to)] {
    inner_.upload(View(sent->data(), from.dtype(), from.rows(), from.cols(), from.stride()), to);
  });
}

void DeferredStream::copy(View from, View to) {
  submit({from, to}, [this, from = use(from), to = use(to)] { inner_.copy(from, to); });
}

void DeferredStream::download(View from, View to) {
  if (from.empty()) return;
  CHECK(to.space() == Space::kHost, "a download to the device");
  device_.check_pinned(to);
  for (std::int64_t row = 0; row < to.rows(); ++row)
    std::memset(to.row_range(row, row + 1).data(), 0xff,
                static_cast<std::size_t>(to.cols()) * size_of(to.dtype()));
  submit({from}, [this, from = use(from), to] {
    device_.check_pinned(to);
    inner_.download(from, to);
  });
}

Event DeferredStream::record() {
  return Event(std::make_shared<DeferredEvent>(device_, *this, done_ + queue_.size()));
}

void DeferredStream::wait(const Event& of) { queue_.push_back({of, {}}); }

void DeferredStream::synchronize() { device_.run_until(*this, done_ + queue_.size()); }

bool DeferredStream::runnable() const {
  if (queue_.empty()) return false;
  const auto* after = static_cast<const DeferredEvent*>(queue_.front().after.state().get());
  return after == nullptr || after->has_passed();
}

void DeferredStream::run_next() {
  const Item item = std::move(queue_.front());
  queue_.pop_front();
  if (item.work) item.work();
  ++done_;
}

// --- ops: checked and kept, then done underneath ---

void DeferredStream::gemm(const GemmArgs& args) {
  GemmArgs late = args;
  late.x = use(args.x);
  late.bias = use(args.bias);
  late.residual = use(args.residual);
  late.y = use(args.y);
  submit({args.x, args.bias, args.residual, args.y}, [this, late] { inner_.gemm(late); });
}

void DeferredStream::norm(const NormArgs& args) {
  NormArgs late = args;
  late.x = use(args.x);
  late.add = use(args.add);
  late.weight = use(args.weight);
  late.bias = use(args.bias);
  late.out = use(args.out);
  submit({args.x, args.add, args.weight, args.bias, args.out}, [this, late] { inner_.norm(late); });
}

void DeferredStream::rope_table(const RopeTableArgs& args) {
  RopeTableArgs late = args;
  late.positions = use(args.positions);
  late.inv_freq = use(args.inv_freq);
  late.axis = use(args.axis);
  late.tables = use(args.tables);
  late.cos = use(args.cos);
  late.sin = use(args.sin);
  submit({args.inv_freq, args.axis, args.cos, args.sin}, [this, late] { inner_.rope_table(late); });
}

void DeferredStream::rope(const RopeArgs& args) {
  RopeArgs late = args;
  late.x = use(args.x);
  late.cos = use(args.cos);
  late.sin = use(args.sin);
  submit({args.x, args.cos, args.sin}, [this, late] { inner_.rope(late); });
}

const AttentionPlan* DeferredStream::inner_plan(const Plan& plan) {
  if (plan.inner == nullptr) plan.inner = &inner_.plan_attention(plan.spans(), plan.geometry());
  return plan.inner;
}

void DeferredStream::kv_write(const KvWriteArgs& args) {
  const Plan& plan = live(args.plan);
  KvWriteArgs late = args;
  late.k = use(args.k);
  late.v = use(args.v);
  late.layer.blocks = use(args.layer.blocks);
  submit({args.k, args.v, args.layer.blocks}, [this, late, &plan]() mutable {
    late.plan = inner_plan(plan);
    inner_.kv_write(late);
  });
}

void DeferredStream::paged_attention(const PagedAttentionArgs& args) {
  const Plan& plan = live(args.plan);
  PagedAttentionArgs late = args;
  late.q = use(args.q);
  late.layer.blocks = use(args.layer.blocks);
  late.out = use(args.out);
  submit({args.q, args.layer.blocks, args.out}, [this, late, &plan]() mutable {
    late.plan = inner_plan(plan);
    inner_.paged_attention(late);
  });
}

void DeferredStream::segment_attention(const SegmentAttentionArgs& args) {
  const Segments& plan = live(args.plan);
  SegmentAttentionArgs late = args;
  late.q = use(args.q);
  late.k = use(args.k);
  late.v = use(args.v);
  late.out = use(args.out);
  submit({args.q, args.k, args.v, args.out}, [this, late, &plan]() mutable {
    if (plan.inner == nullptr) plan.inner = &inner_.plan_segments(plan.begins(), plan.geometry());
    late.plan = plan.inner;
    inner_.segment_attention(late);
  });
}

void DeferredStream::gated(const GatedArgs& args) {
  GatedArgs late = args;
  late.gate = use(args.gate);
  late.up = use(args.up);
  late.out = use(args.out);
  submit({args.gate, args.up, args.out}, [this, late] { inner_.gated(late); });
}

void DeferredStream::mlp(const MlpArgs& args) {
  MlpArgs late = args;
  late.x = use(args.x);
  late.in_bias = use(args.in_bias);
  late.out_bias = use(args.out_bias);
  late.residual = use(args.residual);
  late.inner = use(args.inner);
  late.y = use(args.y);
  submit({args.x, args.in_bias, args.out_bias, args.residual, args.inner, args.y},
         [this, late] { inner_.mlp(late); });
}

void DeferredStream::experts(const ExpertsArgs& args) {
  ExpertsArgs late = args;
  late.x = use(args.x);
  late.logits = use(args.logits);
  late.gathered = use(args.gathered);
  late.inner = use(args.inner);
  late.part = use(args.part);
  late.y = use(args.y);
  const std::vector<ExpertWeights> experts(args.experts.begin(), args.experts.end());
  submit({args.x, args.logits, args.gathered, args.inner, args.part, args.y},
         [this, late, experts]() mutable {
           late.experts = experts;
           inner_.experts(late);
         });
}

void DeferredStream::causal_conv(const CausalConvArgs& args) {
  CausalConvArgs late = args;
  late.x = use(args.x);
  late.weight = use(args.weight);
  late.spans = use(args.spans);
  late.states = use(args.states);
  late.out = use(args.out);
  submit({args.x, args.weight, args.states, args.out}, [this, late] { inner_.causal_conv(late); });
}

void DeferredStream::delta_rule(const DeltaRuleArgs& args) {
  DeltaRuleArgs late = args;
  late.q = use(args.q);
  late.k = use(args.k);
  late.v = use(args.v);
  late.a = use(args.a);
  late.b = use(args.b);
  late.a_log = use(args.a_log);
  late.dt_bias = use(args.dt_bias);
  late.spans = use(args.spans);
  late.states = use(args.states);
  late.out = use(args.out);
  submit({args.q, args.k, args.v, args.a, args.b, args.a_log, args.dt_bias, args.states, args.out},
         [this, late] { inner_.delta_rule(late); });
}

void DeferredStream::embed(const EmbedArgs& args) {
  EmbedArgs late = args;
  late.table = use(args.table);
  late.ids = use(args.ids);
  late.last_tokens = use(args.last_tokens);
  late.out = use(args.out);
  submit({args.table, args.last_tokens, args.out}, [this, late] { inner_.embed(late); });
}

void DeferredStream::cut_patches(const CutPatchesArgs& args) {
  // The host's part is read at once.
  struct Kept {
    std::vector<std::vector<std::uint8_t>> bytes;
    std::vector<std::span<const std::uint8_t>> frames;
    std::vector<PatchPlace> places;
    std::array<std::array<float, 256>, 3> values;
  };
  auto kept = std::make_shared<Kept>();
  for (const std::span<const std::uint8_t> frame : args.frames)
    kept->bytes.emplace_back(frame.begin(), frame.end());
  kept->frames.assign(kept->bytes.begin(), kept->bytes.end());
  kept->places.assign(args.places.begin(), args.places.end());
  std::ranges::copy(args.values, kept->values.begin());
  submit({args.out}, [this, kept, late = args, out = use(args.out)] {
    inner_.cut_patches({.frames = kept->frames,
                        .width = late.width,
                        .height = late.height,
                        .places = kept->places,
                        .side = late.side,
                        .depth = late.depth,
                        .values = kept->values,
                        .out = out});
  });
}

void DeferredStream::mix_rows(const MixRowsArgs& args) {
  MixRowsArgs late = args;
  late.x = use(args.x);
  late.rows = use(args.rows);
  late.weights = use(args.weights);
  late.out = use(args.out);
  submit({args.x, args.out}, [this, late] { inner_.mix_rows(late); });
}

void DeferredStream::copy_rows(const CopyRowsArgs& args) {
  CopyRowsArgs late = args;
  late.from = use(args.from);
  late.from_rows = use(args.from_rows);
  late.to = use(args.to);
  late.to_rows = use(args.to_rows);
  submit({args.from, args.to}, [this, late] { inner_.copy_rows(late); });
}

void DeferredStream::add(View x, View y, float scale) {
  submit({x, y}, [this, x = use(x), y = use(y), scale] { inner_.add(x, y, scale); });
}

void DeferredStream::softcap(View x, float cap) {
  submit({x}, [this, x = use(x), cap] { inner_.softcap(x, cap); });
}

void DeferredStream::row_stats(View logits, View stats) {
  submit({logits, stats},
         [this, logits = use(logits), stats = use(stats)] { inner_.row_stats(logits, stats); });
}

namespace {

// Rows with lists of their own: the caller's are read during the call only.
struct KeptRows {
  explicit KeptRows(std::span<const SamplingRow> from) : rows(from.begin(), from.end()) {
    for (SamplingRow& row : rows) {
      row.allowed = allowed.emplace_back(row.allowed.begin(), row.allowed.end());
      row.bias = bias.emplace_back(row.bias.begin(), row.bias.end());
      for (auto& list : row.masked) list = masked.emplace_back(list.begin(), list.end());
    }
  }
  std::vector<SamplingRow> rows;
  std::list<std::vector<std::uint32_t>> allowed;
  std::list<std::vector<std::pair<std::int32_t, float>>> bias;
  std::list<std::vector<std::int32_t>> masked;
};

}  // namespace

void DeferredStream::sample(const SampleArgs& args) {
  SampleArgs late = args;
  late.logits = use(args.logits);
  late.stats = use(args.stats);
  late.last_tokens = use(args.last_tokens);
  late.sampled = use(args.sampled);
  late.alternatives = use(args.alternatives);
  submit({args.logits, args.stats, args.last_tokens, args.sampled, args.alternatives},
         [this, late, kept = std::make_shared<KeptRows>(args.rows)]() mutable {
           late.rows = kept->rows;
           inner_.sample(late);
         });
}

// --- the device ---

DeferredDevice::DeferredDevice(std::unique_ptr<Device> inner, std::uint64_t seed)
    : ForwardingDevice(*inner), inner_(std::move(inner)), rng_(seed) {
  addresses_ = reserve(PROT_NONE);
  memory_ = reserve(PROT_READ | PROT_WRITE);
  for (std::size_t i = 0; i < kLanes; ++i)
    lanes_.push_back(std::make_unique<DeferredStream>(*this, inner_->lane(static_cast<Lane>(i))));
}

DeferredDevice::~DeferredDevice() {
  munmap(addresses_, kReserved);
  munmap(memory_, kReserved);
}

std::byte* DeferredDevice::take(std::size_t bytes) {
  // A page between any two pieces: who writes beyond one does not write into another.
  CHECK(used_ + whole_pages(bytes) + kPage <= kReserved, "{} bytes are used", used_);
  std::byte* const taken = addresses_ + used_;
  used_ += whole_pages(bytes) + kPage;
  return taken;
}

Result<Buffer> DeferredDevice::allocate(std::size_t bytes, Space space) {
  if (space == Space::kHost) {
    TRY(Buffer memory, inner_->allocate(bytes, space));
    std::byte* const data = memory.data();
    pinned_[data] = bytes;
    auto held = std::make_shared<Buffer>(std::move(memory));
    return Buffer(data, bytes, [this, held](std::byte* freed, std::size_t) {
      pinned_.erase(freed);
      held->reset();
    });
  }
  if (bytes == 0) return Buffer();
  std::byte* const data = take(bytes);
  allocations_[data] = bytes;
  // Its addresses are never used again, so that what still refers to them is found.
  const auto forget = [this](std::byte* freed, std::size_t size) {
    allocations_.erase(freed);
    madvise(memory_of(freed), whole_pages(size), MADV_DONTNEED);
  };
  return Buffer(data, bytes, forget, Space::kDevice);
}

void DeferredDevice::check_alive(View view) const {
  CHECK(within(allocations_, view.data(), extent(view)),
        "a matrix of {}x{} is in no memory of the device, or in memory that has been freed",
        view.rows(), view.cols());
}

void DeferredDevice::check_pinned(View view) const {
  CHECK(within(pinned_, view.data(), extent(view)),
        "a download of {}x{} goes to memory that is not of allocate(kHost)", view.rows(),
        view.cols());
}

void DeferredDevice::run_one() {
  std::vector<DeferredStream*> runnable;
  for (const auto& lane : lanes_)
    if (lane->runnable()) runnable.push_back(lane.get());
  if (runnable.empty()) return;
  runnable[rng_.below(runnable.size())]->run_next();
}

void DeferredDevice::run_until(const DeferredStream& lane, std::uint64_t count) {
  while (lane.done_ < count) {
    std::vector<DeferredStream*> runnable;
    for (const auto& each : lanes_)
      if (each->runnable()) runnable.push_back(each.get());
    CHECK(!runnable.empty(), "lanes wait for each other");
    runnable[rng_.below(runnable.size())]->run_next();
  }
}

std::unique_ptr<Device> make_deferred_device(const std::string& inner, std::uint64_t seed) {
  if (inner == "reference") return std::make_unique<DeferredDevice>(make_reference_device(), seed);
  auto made = make_cpu_device(kDeviceThreads, inner);
  if (!made) return nullptr;
  return std::make_unique<DeferredDevice>(*std::move(made), seed);
}

std::unique_ptr<Device> engine_device(const std::string& inner) {
  const char* const kind = std::getenv("SACCADE_TEST_DEVICE");
  if (kind != nullptr && std::string_view(kind) == "deferred") return make_deferred_device(inner);
  CHECK(kind == nullptr || *kind == 0, "SACCADE_TEST_DEVICE is {}", kind);
  if (inner == "reference") return make_reference_device();
  auto made = make_cpu_device(kDeviceThreads, inner);
  CHECK(made.has_value(), "{}", made.error().message);
  return *std::move(made);
}

}  // namespace saccade
