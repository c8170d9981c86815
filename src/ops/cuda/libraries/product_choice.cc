// Which algorithms will do: pure, over what runs of them gave.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "base/check.h"
#include "ops/cuda/libraries/product_table.h"

namespace saccade::cuda {
namespace {

constexpr std::int64_t kSamples = 8;

// Rows of `count` that are looked at: the first, the last and some between.
std::vector<std::int64_t> samples_of(std::int64_t count) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < std::min(kSamples, count); ++i)
    rows.push_back(count <= kSamples ? i : i * (count - 1) / (kSamples - 1));
  return rows;
}

// Why an algorithm will not do.
enum class Fault { kNone, kCompany, kNumbers };

class Chooser {
 public:
  Chooser(std::int64_t max_rows, const RunProduct& run, const NearOwn& near)
      : max_rows_(max_rows), run_(run), near_(near) {}

  // The rows of a class that are probed; none where even its least are too many.
  std::optional<RowClass> probed(std::size_t row_class) const {
    RowClass rows = kRowClasses[row_class];
    rows.most = std::min({rows.most, kMaxProbedRows, max_rows_});
    if (rows.most < rows.least) return std::nullopt;
    return rows;
  }

  // Whether rows have the same bits at other places of other batches of the class: among the
  // most, among the least (one of its own in the first class), and among a number between.
  bool ignores_company(const RowClass& rows, const ProductAlgorithm& algorithm) const {
    const std::int64_t middle = (rows.least + rows.most) / 2;
    for (const std::int64_t count : {rows.least, middle}) {
      const std::int64_t first = rows.most - count;
      const std::vector<std::int64_t> here = samples_of(count);
      std::vector<std::int64_t> there;
      for (const std::int64_t row : here) there.push_back(first + row);
      const auto all = run_(0, rows.most, there, &algorithm);
      const auto few = run_(first, count, here, &algorithm);
      if (!all || !few || *all != *few) return false;
    }
    return true;
  }

  // Whether the first and the last of the most rows are what the own kernel makes of the same rows,
  // which for it are the same in any company: a library that errs alike for all is found here.
  bool agrees(const RowClass& rows, const ProductAlgorithm& algorithm) {
    const std::int64_t count = std::min(kSamples, rows.most);
    for (const std::int64_t first : {std::int64_t{0}, rows.most - count}) {
      std::vector<std::int64_t> places(static_cast<std::size_t>(count));
      std::iota(places.begin(), places.end(), first);
      const auto theirs = run_(0, rows.most, places, &algorithm);
      const auto& own = own_rows(first, count);
      if (!theirs || !own || !near_(*theirs, *own)) return false;
    }
    return true;
  }

  Fault fault_of(const RowClass& rows, const ProductAlgorithm& algorithm) {
    if (!ignores_company(rows, algorithm)) return Fault::kCompany;
    return agrees(rows, algorithm) ? Fault::kNone : Fault::kNumbers;
  }

  // Of the candidates that will do the quickest, or nothing where the own kernel is quicker.
  // Without times the first one.
  std::optional<ProductAlgorithm> quickest(const RowClass& rows,
                                           std::span<const ProductAlgorithm> fit,
                                           const TimeProduct& time) const {
    if (!time || rows.most > kMaxTimedRows) return fit.front();
    std::optional<ProductAlgorithm> best = fit.front();
    double least = time(rows.most, &fit.front());
    const auto take_if_quicker = [&](std::optional<ProductAlgorithm> other, double seconds) {
      if (kClearlyQuicker * seconds >= least) return;
      best = other;
      least = seconds;
    };
    for (const ProductAlgorithm& other : fit.subspan(1))
      take_if_quicker(other, time(rows.most, &other));
    take_if_quicker(std::nullopt, time(rows.most, nullptr));
    return best;
  }

  // Of the first rows of all classes' operands: that classes can be compared.
  std::optional<ProductBits> first_rows(const RowClass& rows,
                                        const ProductAlgorithm* algorithm) const {
    constexpr std::array<std::int64_t, 8> kFirst = {0, 1, 2, 3, 4, 5, 6, 7};
    return run_(0, rows.most,
                std::span(kFirst).first(
                    static_cast<std::size_t>(std::min<std::int64_t>(kFirst.size(), rows.most))),
                algorithm);
  }

 private:
  const std::optional<ProductBits>& own_rows(std::int64_t first, std::int64_t count) {
    const auto [at, made] = own_.try_emplace({first, count});
    if (made) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
      std::iota(rows.begin(), rows.end(), 0);
      at->second = run_(first, count, rows, nullptr);
    }
    return at->second;
  }

  std::int64_t max_rows_;
  const RunProduct& run_;
  const NearOwn& near_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::optional<ProductBits>> own_;
};

std::string note_of(std::size_t row_class, std::string_view why) {
  const RowClass& rows = kRowClasses[row_class];
  const std::string range = row_class + 1 < kRowClassCount
                                ? fmt::format("{} to {} rows", rows.least, rows.most)
                                : fmt::format("{} rows and more", rows.least);
  return fmt::format("{}: {}", range, why);
}

// All classes with the bits of `pinned`: by the first candidate that has them, by the own kernel
// for the fewest rows if it has, or else by `pinned` itself. Nothing where that will not do.
std::optional<ProductChoice> choose_with_bits_of(
    const ProductAlgorithm& pinned, std::span<const std::vector<ProductAlgorithm>> candidates,
    Chooser& chooser) {
  const auto widest = chooser.probed(0);
  if (!widest) return std::nullopt;
  const auto want = chooser.first_rows(*widest, &pinned);
  if (!want) return std::nullopt;
  ProductChoice choice;
  for (std::size_t at = 0; at < kRowClassCount; ++at) {
    const auto rows = chooser.probed(at);
    if (!rows) return std::nullopt;  // nobody knows what it would do there
    if (chooser.fault_of(*rows, pinned) != Fault::kNone ||
        chooser.first_rows(*rows, &pinned) != want)
      return std::nullopt;
    if (at == 0 && chooser.first_rows(*rows, nullptr) == want) continue;
    choice[at] = pinned;
    for (const ProductAlgorithm& candidate : candidates[at]) {
      if (candidate == pinned) break;
      if (!chooser.ignores_company(*rows, candidate) ||
          chooser.first_rows(*rows, &candidate) != want)
        continue;
      choice[at] = candidate;
      break;
    }
  }
  return choice;
}

}  // namespace

std::size_t row_class_of(std::int64_t rows) {
  std::size_t at = 0;
  while (rows > kRowClasses[at].most) ++at;
  return at;
}

ProductChoice choose_products(std::span<const std::vector<ProductAlgorithm>> candidates,
                              std::int64_t max_rows, bool batch_invariant, const RunProduct& run,
                              const NearOwn& near, std::vector<std::string>& notes,
                              const TimeProduct& time) {
  CHECK(candidates.size() == kRowClassCount, "{} classes", candidates.size());
  Chooser chooser(max_rows, run, near);
  if (batch_invariant) {
    for (std::size_t at = kRowClassCount; at-- > 0;) {
      for (const ProductAlgorithm& pinned : candidates[at])
        if (auto choice = choose_with_bits_of(pinned, candidates, chooser)) return *choice;
    }
    notes.emplace_back(
        "no algorithm gives a row the same bits in batches of every size, and near the own "
        "kernel's");
    return {};
  }
  ProductChoice choice;
  for (std::size_t at = 1; at < kRowClassCount; ++at) {
    const auto rows = chooser.probed(at);
    if (!rows || candidates[at].empty()) {
      notes.push_back(note_of(at, rows ? "the library has no algorithm" : "too large to probe"));
      continue;
    }
    bool wrong = false;
    std::vector<ProductAlgorithm> fit;
    for (const ProductAlgorithm& candidate : candidates[at]) {
      const Fault fault = chooser.fault_of(*rows, candidate);
      wrong = wrong || fault == Fault::kNumbers;
      if (fault == Fault::kNone) fit.push_back(candidate);
      if (!fit.empty() && (!time || rows->most > kMaxTimedRows)) break;
    }
    if (!fit.empty()) choice[at] = chooser.quickest(*rows, fit, time);
    if (wrong)
      notes.push_back(note_of(at, "results of an algorithm are not near the own kernel's"));
    else if (fit.empty())
      notes.push_back(note_of(at, "a row's bits depend on the rows beside it"));
  }
  return choice;
}

// Errors by norms, over all results. x is random: partial sums grow on the way, so that each of at
// most `in` additions is off by no more than 2^-23 (tensor cores may cut instead of rounding) of
// what the results are; both of two sums are so. Hopper's tensor cores keep 14 bits of sums of
// E4M3, of 32 terms at a time, four times before they are added up in f32: 2^-10 at the most. A
// result is rounded by 2^-8 of itself, twice, and a library's tanh is good to 2^-11, of what is at
// most doubled where it counts: less than 2^-9 of all.
bool near_own(const ProductNearness& of, std::span<const std::byte> theirs,
              std::span<const std::byte> own) {
  if (theirs.size() != own.size()) return false;
  double bound = static_cast<double>(of.in) * 0x1p-22;
  if (of.operands == DType::kE4m3) bound += 0x1p-10;
  if (of.type == DType::kBf16) bound += 2 * 0x1p-8;
  if (of.epilogue == Epilogue::kBiasGelu) bound += 0x1p-9;
  const auto number = [&](std::span<const std::byte> from, std::size_t i) -> double {
    if (of.type == DType::kBf16) {
      Bf16 value;
      std::memcpy(&value, from.data() + i * sizeof(value), sizeof(value));
      return to_float(value);
    }
    float value;
    std::memcpy(&value, from.data() + i * sizeof(value), sizeof(value));
    return value;
  };
  double apart = 0;
  double size = 0;
  for (std::size_t i = 0; i < own.size() / size_of(of.type); ++i) {
    const double want = number(own, i);
    if (!std::isfinite(want)) continue;  // of a weight that is none
    const double off = number(theirs, i) - want;
    apart += off * off;
    size += want * want;
  }
  // NaN is not near.
  return std::sqrt(apart) <= bound * std::sqrt(size);
}

}  // namespace saccade::cuda
