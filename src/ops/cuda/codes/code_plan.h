// How a device keeps stacked matrices as their checkpoint's codes, or that it does not: decided and
// laid out on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/cuda/codes/code_kernels.h"
#include "ops/formats/stored_matrix.h"

namespace saccade::cuda {

// What all parts have in common: groups of `group` places, the last of which may be shorter.
struct CodePlan {
  CodeForm form = CodeForm::kE4m3;
  std::int64_t group = 0;  // inputs: a multiple of 16, or all
  std::int64_t groups = 1;
  std::vector<std::int32_t> order;  // the input at each place; empty: their own (act-order)
};

// None: they are to become numbers, since they are stored as such, or in groups that are not so.
std::optional<CodePlan> plan_codes(std::span<const StoredMatrix> parts);

// Where outputs of one part go: row r of the weight's codes, r of each group's scales and zeros.
struct CodeOutputs {
  std::byte* codes = nullptr;  // of the first output, over zeros
  std::int64_t stride = 0;     // bytes from output to output
  float* scales = nullptr;     // of the first output and group
  std::uint8_t* zeros = nullptr;
  std::int64_t group_stride = 0;  // of both, from group to group
};
// Outputs [begin, end). What is no number in E4M3 makes its whole output none, by its scale.
void place_codes(const CodePlan& plan, const StoredMatrixReader& part, std::int64_t begin,
                 std::int64_t end, const CodeOutputs& to);

}  // namespace saccade::cuda
