#include "ops/cpu/weights/four_bit_weight.h"

#include <algorithm>

#include "base/host_memory.h"
#include "ops/cpu/weights/packed_pieces.h"

namespace saccade::cpu {

const FourBitWeight* four_bits(const PackedWeight* weight) {
  return dynamic_cast<const FourBitWeight*>(weight);
}

std::unique_ptr<FourBitWeight> FourBitWeight::pack(std::span<const StoredMatrix> parts,
                                                   std::int64_t lanes, CodeOrder code_order,
                                                   ThreadPool& pool) {
  for (const StoredMatrix& matrix : parts) {
    if (matrix.format == StoredMatrix::Format::kDense || matrix.dequantize) return nullptr;
  }
  const bool int8_activations = std::ranges::all_of(parts, &StoredMatrix::rounds_activations);
  if (int8_activations && std::ranges::all_of(parts, has_super_blocks) && parts.front().in() > 0)
    return SuperBlockWeight::pack(parts, lanes, pool);
  return GroupedCodes::pack(parts, lanes, int8_activations ? CodeOrder::kInputs : code_order,
                            int8_activations, pool);
}

void FourBitWeight::allocate() {
  Result<Buffer> storage = allocate_host(storage_bytes());
  CHECK(storage.has_value(), "weight {}x{}: {}", out(), in(), storage.error().message);
  adopt(std::move(*storage));
}

void FourBitWeight::adopt(Buffer storage) {
  storage_ = std::move(storage);
  layout_.weights = storage_.data();
}

PackedForm FourBitWeight::form() const {
  PackedForm form{out(), in(), {}, {}};
  form.layout = {layout_.super_blocks ? kSuperBlockForm : kFourBitForm,
                 static_cast<std::int64_t>(layout_.scale_type),
                 layout_.group,
                 lanes_,
                 static_cast<std::int64_t>(code_order_),
                 int8_activations_ ? 1 : 0};
  form.pieces = {std::span(storage_.data(), storage_bytes()), std::as_bytes(std::span(order_))};
  return form;
}

std::unique_ptr<PackedWeight> FourBitWeight::restore(const PackedForm& form, std::int64_t lanes,
                                                     std::shared_ptr<const void> owner) {
  const auto& [kind, scale_type, group, its_lanes, order, int8_activations] = form.layout;
  if ((kind != kFourBitForm && kind != kSuperBlockForm) || its_lanes != lanes || group < 1 ||
      form.pieces.size() != 2)
    return nullptr;
  std::unique_ptr<FourBitWeight> weight;
  if (kind == kSuperBlockForm) {
    weight = std::make_unique<SuperBlockWeight>(form.out, form.in, lanes);
  } else {
    const GroupedCodes::Layout layout{group, static_cast<DType>(scale_type), lanes,
                                      static_cast<CodeOrder>(order), int8_activations != 0};
    weight = std::make_unique<GroupedCodes>(form.out, form.in, layout);
  }
  const std::size_t ordered = static_cast<std::size_t>(form.in) * sizeof(std::int32_t);
  if (form.pieces[0].size() != weight->storage_bytes() ||
      (!form.pieces[1].empty() && form.pieces[1].size() != ordered))
    return nullptr;
  weight->adopt(borrow(form.pieces[0], std::move(owner)));
  weight->order_ = list_of<std::int32_t>(form.pieces[1]);
  return weight;
}

}  // namespace saccade::cpu
