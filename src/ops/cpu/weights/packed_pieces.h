// What the restoring of packed weights (ops/formats/packed_form.h) shares.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace saccade::cpu {

// PackedForm::layout begins with one of these.
constexpr std::int64_t kPanelForm = 1;
constexpr std::int64_t kFourBitForm = 2;
constexpr std::int64_t kSuperBlockForm = 3;

// Memory that `owner` keeps. Nobody writes to a weight that is restored.
inline Buffer borrow(std::span<const std::byte> piece, std::shared_ptr<const void> owner) {
  return Buffer(const_cast<std::byte*>(piece.data()), piece.size(),
                [owner = std::move(owner)](std::byte*, std::size_t) {});
}

template <typename T>
std::vector<T> list_of(std::span<const std::byte> piece) {
  std::vector<T> list(piece.size() / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), piece.data(), list.size() * sizeof(T));
  return list;
}

}  // namespace saccade::cpu
