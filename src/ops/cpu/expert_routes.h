// Which rows go to which experts of a layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads/thread_pool.h"
#include "tensor/tensor.h"

namespace saccade::cpu {

// Lists that grow to the largest use and stay. One thread.
class ExpertRoutes {
 public:
  struct Visit {
    std::int32_t row = 0;
    float weight = 0;
  };

  // As ExpertsArgs says, of logits [rows, experts] in f32.
  void plan(View logits, std::int64_t per_row, bool normalise, ThreadPool& pool);
  // The rows of an expert, ascending.
  std::span<const Visit> of(std::size_t expert) const {
    return std::span(visits_).subspan(begins_[expert], begins_[expert + 1] - begins_[expert]);
  }

 private:
  struct Choice {
    std::int32_t expert = 0;
    float weight = 0;
  };
  static void choose(std::span<const float> logits, bool normalise, std::span<Choice> chosen);
  void sort(std::size_t experts, std::size_t per_row);

  std::vector<Choice> choices_;      // [rows, per_row], likeliest first
  std::vector<Visit> visits_;        // by expert
  std::vector<std::size_t> begins_;  // [experts + 1]
};

}  // namespace saccade::cpu
