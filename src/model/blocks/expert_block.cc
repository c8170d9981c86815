#include "model/blocks/expert_block.h"

#include <fmt/format.h>

#include <array>

namespace saccade {

void ExpertBlock::add_weights(WeightTable& table, const ExpertSettings& settings,
                              const ExpertNames& names, const std::string& at,
                              const Widths& widths) {
  const auto [hidden, intermediate, mine] = widths;
  const auto count = static_cast<std::size_t>(settings.count);
  gate_up_.resize(count);
  down_.resize(count);
  table.linear(router_, at + names.router, settings.count, hidden, Bias::kNo);
  if (names.stacked) return add_stacked(table, at + names.experts, widths);
  for (std::size_t e = 0; e < count; ++e) {
    const std::string expert = fmt::format("{}{}.{}.", at, names.experts, e);
    table.stacked(gate_up_[e],
                  {{expert + "gate_proj", intermediate, {mine}, {}},
                   {expert + "up_proj", intermediate, {mine}, {}}},
                  hidden, Bias::kNo, MatrixRole::kTextLayer);
    table.stacked(down_[e], {{expert + "down_proj", hidden, {}, mine}}, intermediate, Bias::kNo,
                  MatrixRole::kTextLayer);
  }
}

void ExpertBlock::add_stacked(WeightTable& table, const std::string& name, const Widths& widths) {
  const std::int64_t hidden = widths.hidden;
  const std::int64_t intermediate = widths.intermediate;
  const WeightTable::Range mine = widths.mine;  // names, since lambdas below take copies of them
  const auto count = static_cast<std::int64_t>(down_.size());
  table.row(
      {{name + ".gate_up_proj", {count, hidden, 2 * intermediate}, TensorKind::kExperts}},
      [=, this](const WeightTable::Tensors& tensors, Device& device,
                DType compute) -> Result<std::size_t> {
        std::size_t bytes = 0;
        for (std::size_t e = 0; e < gate_up_.size(); ++e) {
          const StoredMatrix& both = tensors.matrices[e];
          const std::array parts = {
              both.outputs(mine.begin, mine.end),
              both.outputs(intermediate + mine.begin, intermediate + mine.end)};
          gate_up_[e].weight = device.pack(parts, compute);
          bytes += gate_up_[e].weight->bytes();
        }
        return bytes;
      },
      MatrixRole::kTextLayer);
  table.row(
      {{name + ".down_proj", {count, intermediate, hidden}, TensorKind::kExperts}},
      [=, this](const WeightTable::Tensors& tensors, Device& device,
                DType compute) -> Result<std::size_t> {
        std::size_t bytes = 0;
        for (std::size_t e = 0; e < down_.size(); ++e) {
          const StoredMatrix share = tensors.matrices[e].inputs(mine.begin, mine.end);
          down_[e].weight = device.pack({&share, 1}, compute);
          bytes += down_[e].weight->bytes();
        }
        return bytes;
      },
      MatrixRole::kTextLayer);
}

void ExpertBlock::list() {
  experts_.clear();
  for (std::size_t e = 0; e < down_.size(); ++e)
    experts_.push_back({gate_up_[e].weight.get(), down_[e].weight.get()});
}

}  // namespace saccade
