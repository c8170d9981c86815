// A weight of codes of four bits, (code - zero) * scale of its group of inputs or in SuperBlocks,
// as panels of outputs: FourBitPanels in kernels.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/device.h"
#include "ops/packed_form.h"

namespace saccade::cpu {

class FourBitWeight final : public PackedWeight {
 public:
  // The matrix that the parts make, stacked along their outputs; null where it is not one of such
  // codes, or where its groups do not begin at multiples of 32 inputs once they are in order. Of
  // SuperBlocks, that do not round activations, too: they are multiplied by bytes alone.
  // `order`: of FourBitKernels, or of TileKernels, whose panels have 16 lanes. Where all parts
  // round activations it is that of CodeByteKernels, whatever was asked for.
  static std::unique_ptr<FourBitWeight> pack(std::span<const StoredMatrix> parts,
                                             std::int64_t lanes, CodeOrder order, ThreadPool& pool);
  PackedForm form() const;
  // As RestoresPacked::restore(), of a device whose panels have so many lanes.
  static std::unique_ptr<PackedWeight> restore(const PackedForm& form, std::int64_t lanes,
                                               std::shared_ptr<const void> owner);

  std::size_t bytes() const override {
    return storage_.bytes() + order_.size() * sizeof(std::int32_t);
  }
  DType operand_dtype() const override {
    if (by_bytes_) return DType::kI8;
    return code_order_ == CodeOrder::kInputs ? DType::kF32 : DType::kBf16;
  }

  std::int64_t panel_bytes() const { return layout_.panel_stride; }
  std::int64_t panels() const { return layout_.panels; }
  // Some panels from `first` on.
  FourBitPanels panels(std::int64_t first, std::int64_t count) const {
    FourBitPanels some = layout_;
    some.weights += first * layout_.panel_stride;
    some.panels = count;
    return some;
  }
  bool super_blocks() const { return layout_.super_blocks; }
  std::int64_t group() const { return layout_.group; }
  std::int64_t groups() const { return (in() + layout_.group - 1) / layout_.group; }
  // Which input of x each packed one takes; empty: its own.
  std::span<const std::int32_t> order() const { return order_; }
  // Row `out` of the matrix as numbers, inputs where they were stored.
  void unpack_row(std::int64_t out, float* values) const;

 private:
  struct Part;
  static std::unique_ptr<FourBitWeight> pack_super_blocks(std::span<const StoredMatrix> parts,
                                                          std::int64_t lanes, ThreadPool& pool);
  // Of SuperBlocks, without its memory.
  FourBitWeight(std::int64_t out, std::int64_t in, std::int64_t lanes);
  FourBitWeight(std::int64_t out, std::int64_t in, std::int64_t group, DType scale_type,
                std::int64_t lanes, CodeOrder order, bool by_bytes);  // without its memory
  void allocate();
  void adopt(Buffer storage);
  std::size_t storage_bytes() const {
    return static_cast<std::size_t>(layout_.panels * layout_.panel_stride);
  }
  void store(const Part& part, std::int64_t begin, std::int64_t end);
  void store_super_block(const SuperBlock& block, std::int64_t out, std::int64_t index);
  void unpack_super_blocks(std::int64_t out, float* values) const;
  void store_grid(const Part& part, std::int64_t row);
  void store_words(const Part& part, std::int64_t begin, std::int64_t end);
  static std::uint32_t in_pairs(std::uint32_t word);
  std::byte* panel(std::int64_t index) const {
    return storage_.data() + index * layout_.panel_stride;
  }
  // Where the code of an output of a panel and a packed input is, and how far it is shifted there.
  struct Place {
    std::int64_t byte;
    int shift;
  };
  Place place(std::int64_t lane, std::int64_t input) const;

  std::int64_t lanes_;
  CodeOrder code_order_;
  bool by_bytes_;  // rows of x are rounded to bytes
  FourBitPanels layout_;
  Buffer storage_;
  std::vector<std::int32_t> order_;
};

// Null where it is none.
const FourBitWeight* four_bits(const PackedWeight* weight);

}  // namespace saccade::cpu
