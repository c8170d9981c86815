#include "ops/cuda/libraries/nccl_collective.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"

namespace saccade::cuda {
namespace {

using nccl::Comm;
using nccl::Status;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFarewell{5000};  // that the end of a communicator may take

// The communicators of all ranks. None of their calls blocks, so that who gives up can end each of
// them between two calls of its own thread; what is not done yet is asked after until it is.
class Communicators {
 public:
  Communicators(std::shared_ptr<const NcclLibrary> library, std::span<CudaDevice* const> devices)
      : library_(std::move(library)), devices_(devices.begin(), devices.end()) {
    for (std::size_t rank = 0; rank < devices.size(); ++rank)
      members_.push_back(std::make_unique<Member>());
  }
  // All of them at once: each end waits for the others'.
  ~Communicators() {
    for (int rank = 0; rank < ranks(); ++rank) {
      Member& of = member(rank);
      if (of.comm == nullptr) continue;
      devices_[static_cast<std::size_t>(rank)]->select();
      const Status status = calls().ncclCommFinalize(of.comm);
      if (status != nccl::kSuccess && status != nccl::kInProgress) end(rank);
    }
    const Clock::time_point until = Clock::now() + kFarewell;
    for (int rank = 0; rank < ranks(); ++rank) {
      Member& of = member(rank);
      if (of.comm == nullptr) continue;
      if (wait(rank, until) == nccl::kSuccess) {
        devices_[static_cast<std::size_t>(rank)]->select();
        calls().ncclCommDestroy(std::exchange(of.comm, nullptr));
      } else {
        end(rank);
      }
    }
  }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // On one thread, as one group: each member waits for all others.
  Result<void> begin(std::chrono::milliseconds patience) {
    nccl::UniqueId id = {};
    if (const Status status = calls().ncclGetUniqueId(&id); status != nccl::kSuccess)
      return fail(ErrorCode::kUnavailable, "{}: {}", library_->description(),
                  library_->meaning(status, nullptr));
    Status status = calls().ncclGroupStart();
    nccl::Config config;
    for (int rank = 0; rank < ranks() && good(status); ++rank) {
      devices_[static_cast<std::size_t>(rank)]->select();
      status = calls().ncclCommInitRankConfig(&member(rank).comm, ranks(), id, rank, &config);
    }
    if (const Status ended = calls().ncclGroupEnd(); good(status)) status = ended;
    const Clock::time_point until = Clock::now() + patience;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (good(status)) status = wait(rank, until);
      if (status == nccl::kSuccess) continue;
      const std::string why =
          status == nccl::kInProgress
              ? fmt::format("not within {} s", static_cast<double>(patience.count()) / 1e3)
              : library_->meaning(status, member(rank).comm);
      for (int each = 0; each < ranks(); ++each) end(each);
      return fail(ErrorCode::kUnavailable, "{}: {} GPUs do not come together: {}",
                  library_->description(), ranks(), why);
    }
    return {};
  }

  int ranks() const { return static_cast<int>(members_.size()); }

  void all_reduce(int rank, View x, CudaStream& stream) {
    CHECK(x.dtype() == DType::kF32 || x.dtype() == DType::kBf16, "all_reduce of {}",
          name_of(x.dtype()));
    if (x.empty() || given_up_.load()) return;
    const cudaStream_t into = stream.submitting();
    const int type = x.dtype() == DType::kF32 ? nccl::kFloat32 : nccl::kBfloat16;
    const bool dense = x.rows() == 1 || x.stride() == x.cols();
    const auto add_up = [&](Comm comm, std::byte* data, std::int64_t count) {
      return calls().ncclAllReduce(data, data, static_cast<std::size_t>(count), type, nccl::kSum,
                                   comm, into);
    };
    Status status = nccl::kSuccess;
    {
      Member& of = member(rank);
      const std::lock_guard lock(of.mutex);
      if (of.comm == nullptr) return;
      if (dense) {
        status = add_up(of.comm, x.data(), x.rows() * x.cols());
      } else {
        // One launch of all rows.
        status = calls().ncclGroupStart();
        for (std::int64_t row = 0; row < x.rows() && good(status); ++row)
          status =
              add_up(of.comm, x.data() + static_cast<std::size_t>(row) * x.row_bytes(), x.cols());
        if (const Status ended = calls().ncclGroupEnd(); good(status)) status = ended;
      }
    }
    // Also of a call that was over at once: what went wrong meanwhile is said here.
    if (good(status)) status = wait(rank, Clock::time_point::max());
    if (status == nccl::kSuccess) return;
    std::string why;
    {
      Member& of = member(rank);
      const std::lock_guard lock(of.mutex);
      if (of.comm == nullptr) return;  // somebody has given up, and said why
      why = library_->meaning(status, of.comm);
    }
    give_up({ErrorCode::kUnavailable,
             fmt::format("the sum over {} GPUs failed on rank {}: {}", ranks(), rank, why),
             {}});
  }

  void give_up(Error why) {
    {
      const std::lock_guard lock(why_mutex_);
      if (why_) return;
      log::error("ranks give up: {}", why.message);
      why_ = std::move(why);
    }
    given_up_.store(true);
    for (int rank = 0; rank < ranks(); ++rank) end(rank);
  }
  Result<void> status() const {
    const std::lock_guard lock(why_mutex_);
    if (!why_) return {};
    return fail(*why_);
  }

 private:
  struct Member {
    std::mutex mutex;  // one call at a time; the end may be any thread's
    Comm comm = nullptr;
  };
  static bool good(Status status) {
    return status == nccl::kSuccess || status == nccl::kInProgress;
  }
  const nccl::Functions& calls() const { return library_->calls(); }
  Member& member(int rank) { return *members_[static_cast<std::size_t>(rank)]; }

  // Until the last call is done: kSuccess, or what it failed with. kInProgress: not by then, or the
  // communicator has ended.
  Status wait(int rank, Clock::time_point until) {
    Member& of = member(rank);
    while (true) {
      Status is = nccl::kSuccess;
      {
        const std::lock_guard lock(of.mutex);
        if (of.comm == nullptr) return nccl::kInProgress;
        if (const Status asked = calls().ncclCommGetAsyncError(of.comm, &is);
            asked != nccl::kSuccess)
          return asked;
      }
      if (is != nccl::kInProgress || Clock::now() > until) return is;
      std::this_thread::yield();
    }
  }

  // What waits in its stream is let go.
  void end(int rank) {
    Member& of = member(rank);
    const std::lock_guard lock(of.mutex);
    if (of.comm == nullptr) return;
    devices_[static_cast<std::size_t>(rank)]->select();
    calls().ncclCommAbort(std::exchange(of.comm, nullptr));
  }

  std::shared_ptr<const NcclLibrary> library_;
  std::vector<CudaDevice*> devices_;
  std::vector<std::unique_ptr<Member>> members_;
  std::atomic<bool> given_up_ = false;
  mutable std::mutex why_mutex_;
  std::optional<Error> why_;
};

class NcclCollective final : public Collective {
 public:
  NcclCollective(std::shared_ptr<Communicators> all, int rank, CudaDevice& device)
      : all_(std::move(all)), rank_(rank), device_(device) {}

  int rank() const override { return rank_; }
  int ranks() const override { return all_->ranks(); }
  void all_reduce(View x, Stream& stream) override {
    CHECK(&stream.device() == &device_, "rank {} adds up in a stream of another device", rank_);
    all_->all_reduce(rank_, x, static_cast<CudaStream&>(stream));
  }
  void abort(Error why) override { all_->give_up(std::move(why)); }
  Result<void> status() const override { return all_->status(); }

 private:
  std::shared_ptr<Communicators> all_;
  int rank_;
  CudaDevice& device_;
};

}  // namespace

Result<std::vector<std::unique_ptr<Collective>>> make_nccl_collectives(
    std::shared_ptr<const NcclLibrary> library, std::span<CudaDevice* const> devices,
    std::chrono::milliseconds patience) {
  CHECK(!devices.empty(), "no ranks");
  for (CudaDevice* const device : devices) device->hold_uploads();
  auto all = std::make_shared<Communicators>(std::move(library), devices);
  TRY_DO(all->begin(patience));
  std::vector<std::unique_ptr<Collective>> collectives;
  for (int rank = 0; rank < all->ranks(); ++rank)
    collectives.push_back(
        std::make_unique<NcclCollective>(all, rank, *devices[static_cast<std::size_t>(rank)]));
  return collectives;
}

}  // namespace saccade::cuda
