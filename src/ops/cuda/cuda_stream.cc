// A lane's memory, copies and events.
#include <cstring>

#include "ops/cuda/cuda_device.h"
#include "ops/shapes.h"

namespace saccade::cuda {
namespace {

constexpr std::size_t kMaxLists = std::size_t{64} << 20;
constexpr std::size_t kMaxMatrices = std::size_t{64} << 20;

class CudaEvent final : public Event::State {
 public:
  CudaEvent(std::shared_ptr<Runtime> runtime, cudaStream_t stream)
      : runtime_(std::move(runtime)), event_(runtime_->make_event()) {
    runtime_->record(event_, stream);
  }
  ~CudaEvent() override { runtime_->destroy(event_); }
  bool passed() override { return runtime_->passed(event_); }
  void synchronize() override { runtime_->synchronize(event_); }
  const Runtime* runtime() const { return runtime_.get(); }
  cudaEvent_t event() const { return event_; }

 private:
  std::shared_ptr<Runtime> runtime_;
  cudaEvent_t event_;
};

std::size_t packed_row_bytes(View view) {
  return static_cast<std::size_t>(view.cols()) * size_of(view.dtype());
}

// The same rows without gaps, from `data` on.
View packed_at(std::byte* data, View like) {
  return View(data, like.dtype(), like.rows(), like.cols(), like.cols(), like.space());
}

Copy2d copy_of(View from, View to) {
  return {.to = to.data(),
          .to_stride = to.row_bytes(),
          .from = from.data(),
          .from_stride = from.row_bytes(),
          .row_bytes = packed_row_bytes(to),
          .rows = static_cast<std::size_t>(to.rows())};
}

void convert(View from, View to, cudaStream_t stream) {
  CopyRowsKernelArgs args;
  args.from = rows_of(from);
  args.to = rows_of(to);
  args.count = to.rows();
  launch_copy_rows(args, stream);
}

}  // namespace

CudaStream::CudaStream(CudaDevice& device, int priority)
    : device_(device),
      runtime_(*device.runtime_),
      owned_(runtime_, priority),
      stream_(owned_.get()),
      lists_(runtime_, stream_, kMaxLists),
      matrices_(runtime_, stream_, kMaxMatrices),
      converted_(runtime_),
      logits_(runtime_),
      rounded_(runtime_),
      ordered_(runtime_),
      expert_scratch_(runtime_),
      weight_tables_(runtime_),
      workspace_(runtime_),
      sums_(runtime_),
      dequantized_(runtime_),
      partials_(runtime_),
      ended_(runtime_),
      repeated_(runtime_, stream_, matrices_) {}

CudaStream::~CudaStream() {
  as_far_as_it_goes([&] { runtime_.synchronize(stream_); });
}

Device& CudaStream::device() { return device_; }

Space CudaStream::space() const { return runtime_.space(); }

// Where the host can read the device's memory, ops check what lists hold as they are called: they
// cannot lie elsewhere until then.
void CudaStream::begin_repeated(std::int64_t kind) {
  if (device_.makes_graphs()) repeated_.begin(kind);
}

void CudaStream::end_repeated() { repeated_.end(); }

const std::byte* CudaStream::upload_bytes(std::span<const std::byte> bytes) {
  if (repeated_.keeps()) {
    if (const std::byte* const place = repeated_.place(bytes); place != nullptr) return place;
  }
  const UploadRing::Piece piece = lists_.take(bytes.size());
  std::memcpy(piece.host, bytes.data(), bytes.size());
  return piece.device;
}

void CudaStream::retire() {
  repeated_.interrupt();
  flush();
  lists_.release();
  attention_plans_.clear();
  segment_plans_.clear();
}

// In bands: into pinned memory now, to the device when the stream comes to it, and from there,
// where it is converted, to its place.
void CudaStream::upload(View from, View to) {
  check_copy_shapes(from, to);
  if (to.empty()) return;
  repeated_.interrupt();
  forget_biases(to);
  const std::size_t row_bytes = packed_row_bytes(from);
  const std::int64_t band =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kBandBytes / row_bytes));
  for (std::int64_t begin = 0; begin < from.rows(); begin += band) {
    const View rows = from.row_range(begin, std::min(from.rows(), begin + band));
    const View into = to.row_range(begin, begin + rows.rows());
    const UploadRing::Piece piece =
        matrices_.take(static_cast<std::size_t>(rows.rows()) * row_bytes);
    for (std::int64_t row = 0; row < rows.rows(); ++row)
      std::memcpy(piece.host + static_cast<std::size_t>(row) * row_bytes,
                  rows.data() + static_cast<std::size_t>(row) * rows.row_bytes(), row_bytes);
    if (from.dtype() == to.dtype()) {
      runtime_.copy(copy_of(packed_at(piece.host, rows), into), Direction::kToDevice, stream_);
    } else {
      const View sent = packed_at(piece.device, rows);
      runtime_.copy(copy_of(packed_at(piece.host, rows), sent), Direction::kToDevice, stream_);
      convert(sent, into, launching());
    }
    matrices_.release();
  }
}

void CudaStream::forget_biases(View changed) {
  device_.biases_->forget(changed.data(),
                          static_cast<std::size_t>(changed.rows()) * changed.row_bytes());
}

void CudaStream::copy(View from, View to) {
  check_copy_shapes(from, to);
  if (to.empty()) return;
  repeated_.interrupt();
  forget_biases(to);
  if (from.dtype() == to.dtype())
    runtime_.copy(copy_of(from, to), Direction::kWithinDevice, stream_);
  else
    convert(from, to, launching());
}

void CudaStream::download(View from, View to) {
  check_copy_shapes(from, to);
  if (to.empty()) return;
  repeated_.interrupt();
  if (from.dtype() != to.dtype()) {
    const std::size_t bytes = static_cast<std::size_t>(to.rows()) * packed_row_bytes(to);
    const View converted = packed_at(converted_.reserve(bytes), to);
    convert(from, converted, launching());
    from = converted;
  }
  runtime_.copy(copy_of(from, to), Direction::kToHost, stream_);
}

Event CudaStream::record() {
  repeated_.interrupt();
  flush();
  return Event(std::make_shared<CudaEvent>(device_.runtime_, stream_));
}

void CudaStream::wait(const Event& of) {
  repeated_.interrupt();
  const auto* const event = dynamic_cast<const CudaEvent*>(of.state().get());
  if (event != nullptr && event->runtime() == &runtime_)
    runtime_.wait(stream_, event->event());
  else
    of.synchronize();
}

void CudaStream::synchronize() {
  repeated_.interrupt();
  runtime_.synchronize(stream_);
}

}  // namespace saccade::cuda
