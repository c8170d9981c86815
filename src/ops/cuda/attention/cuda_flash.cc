// Attention by a library's kernels: whether, for what, and with which lists.
#include <utility>

#include "base/log.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/libraries/flash_plan.h"
#include "ops/cuda/libraries/flash_probe.h"

namespace saccade::cuda {
namespace {

struct FlashLaunch {
  FlashUse* use = nullptr;
  FlashArgs args;
};

void launch_flash_attention(const FlashLaunch& launch, cudaStream_t stream) {
  FlashUse& use = *launch.use;
  if (use.library->launch(launch.args, stream)) return;
  CHECK(use.probing, "{} refuses attention of {} rows by heads of {}", use.library->description(),
        launch.args.attention.q.rows, launch.args.form.head_dim);
  use.refused = true;
}

// In pieces of 16 bytes, as it copies them.
bool whole(const void* data, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % 16 == 0;
}
bool whole(const Rows& rows) {
  return rows.type == DType::kBf16 && whole(rows.data, rows.stride * 2);
}

bool fits(const AttentionKernelArgs& args) {
  if (!whole(args.q) || !whole(args.out) || args.softcap != 0 || args.scale <= 0) return false;
  if (args.pages.base == nullptr) return whole(args.k) && whole(args.v);
  return args.pages.type == DType::kBf16 && whole(args.pages.base, args.pages.block_stride);
}

}  // namespace

Result<void> CudaDevice::choose_attention(const CudaSettings& settings,
                                          Result<std::unique_ptr<FlashAttention>> offered) {
  use_flash({});
  if (settings.attention == AttentionBackend::kOwn) return {};
  const auto decline = [&](ErrorCode code, const std::string& why) -> Result<void> {
    if (settings.attention == AttentionBackend::kFlashInfer)
      return fail(code, "attention by FlashInfer was asked for: {}", why);
    log::info("attention by the own kernels: {}", why);
    return {};
  };
  if (settings.batch_invariant)
    return decline(ErrorCode::kInvalid,
                   "with --batch-invariant a row's bits may not depend on its chunk's size, and "
                   "FlashInfer takes large ones alone");
  if (activations_ != DType::kBf16)
    return decline(ErrorCode::kUnsupported, "FlashInfer wants activations of bf16");
  if (!offered) return decline(offered.error().code, offered.error().message);
  use_flash({.library = *std::move(offered), .forms = {}});
  std::vector<std::string> notes;
  flash_.forms = probe_flash(*this, notes);
  const std::string name = flash_.library->description();
  for (const std::string& note : notes) log::warning("{}: {}; the own kernel does it", name, note);
  if (flash_.forms.empty()) {
    use_flash({});
    return decline(ErrorCode::kUnsupported, name + " does not do on this GPU what it should");
  }
  log::info("attention by {} from {} rows of a sequence on", name, flash_.least_rows);
  return {};
}

void CudaStream::plan_flash(DeviceAttention& lists, const FlashForm& form, std::int64_t heads,
                            std::span<const FlashSequence> sequences, std::int64_t own) {
  const FlashPlan plan(form, heads, device_.flash_.library->blocks(), sequences);
  lists.own_tile_count = own;
  lists.flash_form = form;
  lists.flash = plan.at(send_list(plan.integers()));
}

std::int64_t CudaStream::launch_flash(const DeviceAttention& lists,
                                      const AttentionKernelArgs& attention) {
  if (lists.flash.works == 0 || !fits(attention)) return lists.tile_count;
  launch(launch_flash_attention, {&device_.flash_, {attention, lists.flash_form, lists.flash}});
  return lists.own_tile_count;
}

}  // namespace saccade::cuda
