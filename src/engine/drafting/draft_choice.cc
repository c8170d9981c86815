#include "engine/drafting/draft_choice.h"

#include <algorithm>

namespace saccade {
namespace {

// Of the price: drafting that has stopped begins above it.
constexpr double kModelBegins = 1.5;

}  // namespace

void DraftRecord::came(std::span<const TokenId> tokens, AcceptanceRate* all) {
  const auto came = tokens.subspan(std::min(static_cast<std::size_t>(known_), tokens.size()));
  known_ = static_cast<std::int64_t>(tokens.size());
  saved_ += kReadingShare * static_cast<double>(came.size());
  const std::size_t count = std::min(came.size(), draft_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const bool hit = came[i] == draft_[i];
    observe(hit, all);
    if (!hit) break;
  }
  if (!came.empty()) draft_.clear();
}

void DraftRecord::observe(bool hit, AcceptanceRate* all) {
  rate_.observe(hit);
  if (all != nullptr) all->observe(hit);
}

bool DraftRecord::reads(double price) {
  reading_ = reading_ || saved_ >= price;
  return reading_;
}

void DraftRecord::has_read() {
  reading_ = false;
  saved_ = 0;
}

std::vector<std::int64_t> DraftChoice::choose(std::span<const Candidate> of,
                                              const DraftPrices& prices) {
  std::vector<std::int64_t> counts(of.size());
  std::vector<double> chances(of.size(), 1.0);
  std::int64_t rows = 0;
  for (std::int64_t token = 1; token <= max_tokens_; ++token) {
    std::vector<std::size_t> taking;
    double gain = 0;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (counts[i] + 1 < token || of[i].most < token) continue;
      chances[i] *= of[i].rate;
      const auto more = static_cast<std::int64_t>(taking.size()) + 1;
      if (chances[i] <= prices.row + prices.sequence || rows + more > max_rows_) continue;
      gain += chances[i] - prices.row;
      taking.push_back(i);
    }
    if (taking.empty()) break;
    const double price = prices.step + prices.sequence * static_cast<double>(taking.size() - 1);
    const bool begins = token == 1 && !on_;
    if (gain <= (begins ? kModelBegins : 1.0) * price) break;
    for (const std::size_t i : taking) counts[i] = token;
    rows += static_cast<std::int64_t>(taking.size());
  }
  if (std::ranges::any_of(of, [](const Candidate& at) { return at.most > 0; })) on_ = rows > 0;
  return counts;
}

}  // namespace saccade
