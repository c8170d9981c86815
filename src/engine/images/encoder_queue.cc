#include "engine/images/encoder_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace saccade {
namespace {

constexpr std::size_t kStrata = 20;  // of batches, by powers of two of their patches
constexpr double kPatchUnit = 1024;
constexpr double kEncodedRowUnit = 256;
constexpr std::int64_t kReach = 2;  // times the patches measured: how far predictions are trusted
// Of the time that a piece may take: machines are slower now and then.
constexpr double kAim = 0.6;

// What decides how long one layer takes: linear layers go with the patches, attention with the
// square of each image's.
struct Size {
  std::int64_t patches = 0;
  double squares = 0;

  void add(const PreparedImage& image) {
    const std::int64_t rows = patch_rows(image.layout);
    patches += rows;
    squares += static_cast<double>(rows) * static_cast<double>(rows);
  }
  CostFit::Terms terms() const {
    return {1, static_cast<double>(patches) / kPatchUnit, squares / (kPatchUnit * kPatchUnit)};
  }
  std::size_t stratum() const {
    const auto log2 = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(patches)));
    return std::min(log2, kStrata - 1);
  }
};

template <typename Jobs>
Size size_of_run(const Jobs& batch) {
  Size size;
  for (const auto& job : batch)
    if (job.image) size.add(*job.image);
  return size;
}

}  // namespace

std::int64_t patch_rows(const ImageLayout& layout) {
  return layout.grid_t * layout.grid_h * layout.grid_w;
}

Result<std::unique_ptr<EncoderQueue>> EncoderQueue::create(Network& network, Device& device,
                                                           const EncoderLimits& limits,
                                                           const Clock& clock, Hooks hooks) {
  const ModelShape& shape = network.shape();
  const auto row_bytes =
      static_cast<std::size_t>(shape.embedding_width()) * size_of(shape.embedding_dtype);
  TRY(Buffer scratch,
      device.allocate(static_cast<std::size_t>(std::max<std::int64_t>(1, limits.max_rows)) *
                      row_bytes));
  TRY(EmbeddingCheck check, EmbeddingCheck::create(device, shape.embedding_width()));
  return std::unique_ptr<EncoderQueue>(new EncoderQueue(
      network, device, limits, clock, std::move(hooks), std::move(scratch), std::move(check)));
}

EncoderQueue::EncoderQueue(Network& network, Device& device, const EncoderLimits& limits,
                           const Clock& clock, Hooks hooks, Buffer scratch, EmbeddingCheck check)
    : network_(network),
      stream_(device.lane(Lane::kEncode)),
      limits_(limits),
      clock_(clock),
      hooks_(std::move(hooks)),
      scratch_(std::move(scratch)),
      scratch_rows_(limits.max_rows),
      check_(std::move(check)),
      computes_in_call_(device.space() == Space::kHost),
      whole_(!computes_in_call_ && limits.stage_seconds == 0),
      stage_time_(kStrata),
      run_time_(kStrata) {}

EncoderQueue::~EncoderQueue() {
  try {
    if (submitted_) done_.synchronize();
  } catch (const std::exception&) {
    // Of a device that has failed: said when it happened.
  }
}

void EncoderQueue::push(const Digest& key, std::shared_ptr<const PreparedImage> image,
                        EncodeOrigin origin) {
  if (!keys_.insert(key).second) return;
  std::erase_if(next_, [&](const auto& one) { return one.second <= begun_; });
  double& next = next_[origin];
  const double start = std::max(begun_, next);
  next = start + static_cast<double>(patch_rows(image->layout));
  const auto later = std::ranges::upper_bound(queue_, start, {}, &Job::start);
  queue_.insert(later, {key, std::move(image), clock_.now(), start, false});
}

bool EncoderQueue::prune() {
  const std::uint64_t before = stats_.let_go;
  std::erase_if(queue_, [&](const Job& job) {
    if (hooks_.wanted(job.key)) return false;
    keys_.erase(job.key);
    ++stats_.let_go;
    return true;
  });
  const bool was_unwanted = std::exchange(
      unwanted_,
      run_ && std::ranges::none_of(batch_, [&](const Job& job) { return hooks_.wanted(job.key); }));
  if (unwanted_ && was_unwanted) {
    stats_.let_go += batch_.size();
    end_run();
  }
  return unwanted_ || stats_.let_go > before;
}

std::size_t EncoderQueue::next_batch() const {
  Size size;
  std::int64_t rows = 0;
  std::size_t count = 0;
  for (; count < queue_.size(); ++count) {
    const PreparedImage& image = *queue_[count].image;
    if (count > 0 && (queue_[count].alone || queue_.front().alone)) break;
    if (count == static_cast<std::size_t>(EmbeddingCheck::kMaxImages)) break;
    size.add(image);
    rows += image.layout.tokens;
    if (count == 0) continue;  // one image is a batch, however large
    const double layer = stage_time_.predict(size.terms());
    const bool long_stage =
        limits_.stage_seconds > 0 && !cut_ &&
        (size.patches > kReach * max_measured_ || layer > limits_.stage_seconds);
    if (long_stage || size.patches > limits_.batch_patches || size.patches > limits_.max_patches ||
        rows > scratch_rows_) {
      break;
    }
  }
  return count;
}

double EncoderQueue::stage_seconds() const {
  Size size;
  if (run_) {
    size = size_of_run(batch_);
  } else {
    const std::size_t count = next_batch();
    for (std::size_t i = 0; i < count; ++i) size.add(*queue_[i].image);
  }
  if (size.patches == 0) return 0;
  const double stage = stage_time_.predict(size.terms());
  if (!cut_) return stage;
  return stage > 0 ? std::min(stage, limits_.piece_seconds) : limits_.piece_seconds;
}

void EncoderQueue::begin_batch() {
  const std::size_t count = next_batch();
  const ModelShape& shape = network_.shape();
  const View scratch = scratch_.view(shape.embedding_dtype, scratch_rows_, shape.embedding_width());
  event_ = {{}, queue_.front().queued, clock_.now(), 0};
  std::int64_t first = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Job& job = batch_.emplace_back(std::move(queue_.front()));
    queue_.pop_front();
    begun_ = std::max(begun_, job.start);
    const std::int64_t patches = patch_rows(job.image->layout);
    const std::int64_t rows = job.image->layout.tokens;
    CHECK(patches <= limits_.max_patches && rows <= scratch_rows_,
          "an image of {} patches and {} rows was accepted, limits {} and {}", patches, rows,
          limits_.max_patches, scratch_rows_);
    batch_images_.push_back(job.image.get());
    batch_rows_.push_back(scratch.row_range(first, first + rows));
    event_.keys.push_back(job.key);
    first += rows;
  }
  if (observer_) observer_(event_);
  run_ = network_.begin_encode(stream_, batch_images_, batch_rows_);
  cut_ = computes_in_call_ && dynamic_cast<PiecewiseRun*>(run_.get()) != nullptr;
}

bool EncoderQueue::advance(double seconds) {
  CHECK(!idle(), "nothing to encode");
  if (!run_) begin_batch();
  return whole_ ? advance_whole() : advance_stage(seconds);
}

// Waiting for each stage would leave the device without work between any two.
bool EncoderQueue::advance_whole() {
  if (submitted_) {
    if (!done_.passed()) return false;
    const Nanos now = clock_.now();
    stats_.busy_seconds += seconds(now - std::max(event_.begin, free_since_));
    free_since_ = now;
    finish_batch();
    return true;
  }
  Result<bool> advanced = false;
  while (advanced && !*advanced) advanced = run_->advance();
  if (!advanced) {
    stream_.synchronize();
    fail_batch(advanced.error());
    return true;
  }
  check_.submit(stream_, batch_rows_);
  done_ = stream_.record();
  submitted_ = true;
  return false;
}

Result<Piece> EncoderQueue::advance_run(double seconds) {
  if (cut_) {
    auto& run = static_cast<PiecewiseRun&>(*run_);
    return run.advance_piece(rates_.rates(), kAim * std::min(seconds, limits_.piece_seconds));
  }
  TRY(const bool complete, run_->advance());
  return Piece{.cost = {}, .stage_ends = true, .complete = complete};
}

bool EncoderQueue::advance_stage(double max_seconds) {
  const Nanos begin = clock_.now();
  const Result<Piece> advanced = advance_run(max_seconds);
  stream_.synchronize();
  if (!advanced) {
    fail_batch(advanced.error());
    return true;
  }
  const bool complete = advanced->complete;
  const double took = seconds(clock_.now() - begin);
  rates_.observe(advanced->cost, took, kAim * std::min(max_seconds, limits_.piece_seconds));
  stats_.busy_seconds += took;
  stats_.longest_piece = std::max(stats_.longest_piece, took);
  ++stats_.pieces;
  ++pieces_of_run_;
  seconds_of_run_ += took;
  stage_took_ += took;
  if (advanced->stage_ends && stages_done_++ > 0 && !complete) {
    const Size size = size_of_run(batch_);
    stage_time_.observe(size.terms(), size.stratum(), stage_took_);
    max_measured_ = std::max(max_measured_, size.patches);
  }
  if (advanced->stage_ends) stage_took_ = 0;
  if (complete) {
    check_.submit(stream_, batch_rows_);
    stream_.synchronize();
    finish_batch();
  }
  return complete;
}

EncodeCost EncoderQueue::cost() const {
  return {run_time_.predict({1}), run_time_.predict({0, 1}) / kEncodedRowUnit,
          run_time_.predict({0, 0, 1}) / (kEncodedRowUnit * kEncodedRowUnit)};
}

void EncoderQueue::finish_batch() {
  event_.end = clock_.now();
  ++stats_.runs;
  double rows_of_run = 0;
  double squares = 0;
  for (const View& view : batch_rows_) {
    const double rows_of_one = static_cast<double>(view.rows()) / kEncodedRowUnit;
    rows_of_run += rows_of_one;
    squares += rows_of_one * rows_of_one;
  }
  run_time_.observe(
      {1, rows_of_run, squares},
      std::min<std::size_t>(
          kStrata - 1, std::bit_width(static_cast<std::uint64_t>(rows_of_run * kEncodedRowUnit))),
      milliseconds(event_.end - event_.begin));
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    if (!check_.finite(i)) {
      give_up(batch_[i].key,
              {ErrorCode::kInternal, "the image's embedding has values that are not finite", {}});
      continue;
    }
    ++stats_.images;
    stats_.rows += static_cast<std::uint64_t>(batch_rows_[i].rows());
    hooks_.publish(batch_[i].key, batch_rows_[i]);
  }
  if (observer_) observer_(event_);
  end_run();
}

// An image that was alone is given up; several are tried again one by one, before all others.
void EncoderQueue::fail_batch(const Error& error) {
  if (batch_.size() == 1) {
    give_up(batch_.front().key, error);
  } else {
    for (auto job = batch_.rbegin(); job != batch_.rend(); ++job) {
      job->alone = true;
      queue_.push_front(std::move(*job));
    }
    batch_.clear();  // their keys stay queued
  }
  end_run();
}

void EncoderQueue::give_up(const Digest& key, const Error& error) {
  ++stats_.failed;
  hooks_.failed(key, error);
}

void EncoderQueue::end_run() {
  if (cut_)
    log::debug("{} patches in {} pieces, {:.3f} s together, the longest so far {:.3f} s",
               size_of_run(batch_).patches, pieces_of_run_, seconds_of_run_, stats_.longest_piece);
  pieces_of_run_ = 0;
  seconds_of_run_ = 0;
  for (const Job& job : batch_) keys_.erase(job.key);
  run_.reset();
  stream_.retire();
  stages_done_ = 0;
  stage_took_ = 0;
  submitted_ = false;
  unwanted_ = false;
  batch_.clear();
  batch_images_.clear();
  batch_rows_.clear();
}

}  // namespace saccade
