// A weight of codes of four bits as panels of outputs: FourBitPanels in kernels.h. There are two:
// codes in groups of inputs (grouped_codes.cc), and SuperBlocks (super_block_weight.cc).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/cpu/isa/kernels.h"
#include "ops/device.h"
#include "ops/formats/packed_form.h"

namespace saccade::cpu {

class FourBitWeight : public PackedWeight {
 public:
  // The matrix that the parts make, stacked along their outputs; null where it is not one of such
  // codes, or where its groups do not begin at multiples of 32 inputs once they are in order. Of
  // SuperBlocks, that do not round activations, too: they are multiplied by int8 alone.
  // `order`: of FourBitKernels, or of TileKernels, whose panels have 16 lanes. Where all parts
  // round activations it is that of W4A8Kernels, whatever was asked for.
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
    if (int8_activations_) return DType::kI8;
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
  virtual void unpack_row(std::int64_t out, float* values) const = 0;

 protected:
  static constexpr std::int64_t kRows = 64;  // packed at a time: whole panels
  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t kWordCodes = 8;  // of 32 bits
  static std::int64_t round_up(std::int64_t value, std::int64_t unit) {
    return (value + unit - 1) / unit * unit;
  }

  // Without its memory; layout_ is complete when that is taken.
  FourBitWeight(std::int64_t out, std::int64_t in, std::int64_t lanes, CodeOrder order,
                bool int8_activations)
      : PackedWeight(out, in),
        lanes_(lanes),
        code_order_(order),
        int8_activations_(int8_activations) {
    layout_.panels = (out + lanes - 1) / lanes;
  }
  void allocate();
  std::byte* panel(std::int64_t index) const {
    return storage_.data() + index * layout_.panel_stride;
  }

  std::int64_t lanes_;
  CodeOrder code_order_;
  bool int8_activations_;  // rows of x are rounded to bytes
  FourBitPanels layout_;
  std::vector<std::int32_t> order_;

 private:
  void adopt(Buffer storage);
  std::size_t storage_bytes() const {
    return static_cast<std::size_t>(layout_.panels * layout_.panel_stride);
  }

  Buffer storage_;
};

// Codes in groups of inputs: (code - zero) * scale of the group.
class GroupedCodes final : public FourBitWeight {
 public:
  // Null as FourBitWeight::pack().
  static std::unique_ptr<FourBitWeight> pack(std::span<const StoredMatrix> parts,
                                             std::int64_t lanes, CodeOrder order,
                                             bool int8_activations, ThreadPool& pool);
  // How a weight lies in memory.
  struct Layout {
    std::int64_t group;  // inputs
    DType scale_type;
    std::int64_t lanes;
    CodeOrder order;
    bool int8_activations;
  };
  GroupedCodes(std::int64_t out, std::int64_t in, const Layout& layout);  // without its memory
  void unpack_row(std::int64_t out, float* values) const override;

 private:
  struct Part;
  void store(const Part& part, std::int64_t begin, std::int64_t end);
  void store_grid(const Part& part, std::int64_t row);
  void store_words(const Part& part, std::int64_t begin, std::int64_t end);
  static std::uint32_t in_pairs(std::uint32_t word);
  // Where the code of an output of a panel and a packed input is, and how far it is shifted there.
  struct Place {
    std::int64_t byte;
    int shift;
  };
  Place place(std::int64_t lane, std::int64_t input) const;
};

// SuperBlocks (ops/formats/block_codes.h); rows of x are rounded to bytes.
class SuperBlockWeight final : public FourBitWeight {
 public:
  static std::unique_ptr<FourBitWeight> pack(std::span<const StoredMatrix> parts,
                                             std::int64_t lanes, ThreadPool& pool);
  SuperBlockWeight(std::int64_t out, std::int64_t in, std::int64_t lanes);  // without its memory
  void unpack_row(std::int64_t out, float* values) const override;

 private:
  void store(const SuperBlock& block, std::int64_t out, std::int64_t index);
};

// Null where it is none.
const FourBitWeight* four_bits(const PackedWeight* weight);

}  // namespace saccade::cpu
