// Which algorithms will do: pure, over what runs of them gave.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "ops/cuda/product_table.h"

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

class Chooser {
 public:
  Chooser(std::int64_t most_rows, const RunProduct& run) : most_rows_(most_rows), run_(run) {}

  // The rows of a class that are probed; none where even its least are too many.
  std::optional<RowClass> probed(std::size_t row_class) const {
    RowClass rows = kRowClasses[row_class];
    rows.most = std::min({rows.most, kMostProbedRows, most_rows_});
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
  std::int64_t most_rows_;
  const RunProduct& run_;
};

std::string note_of(std::size_t row_class, std::string_view why) {
  const RowClass& rows = kRowClasses[row_class];
  const std::string range = row_class + 1 < kRowClassCount
                                ? fmt::format("{} to {} rows", rows.least, rows.most)
                                : fmt::format("{} rows and more", rows.least);
  return fmt::format("{}: {}; the own kernel takes them", range, why);
}

// All classes with the bits of `pinned`: by the first candidate that has them, by the own kernel
// for the fewest rows if it has, or else by `pinned` itself. Nothing where that will not do.
std::optional<ProductChoice> choose_with_bits_of(
    const ProductAlgorithm& pinned, std::span<const std::vector<ProductAlgorithm>> candidates,
    const Chooser& chooser) {
  const auto widest = chooser.probed(0);
  if (!widest) return std::nullopt;
  const auto want = chooser.first_rows(*widest, &pinned);
  if (!want) return std::nullopt;
  ProductChoice choice;
  for (std::size_t at = 0; at < kRowClassCount; ++at) {
    const auto rows = chooser.probed(at);
    if (!rows) return std::nullopt;  // nobody knows what it would do there
    if (!chooser.ignores_company(*rows, pinned) || chooser.first_rows(*rows, &pinned) != want)
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
                              std::int64_t most_rows, bool batch_invariant, const RunProduct& run,
                              std::vector<std::string>& notes) {
  CHECK(candidates.size() == kRowClassCount, "{} classes", candidates.size());
  const Chooser chooser(most_rows, run);
  if (batch_invariant) {
    for (std::size_t at = kRowClassCount; at-- > 0;) {
      for (const ProductAlgorithm& pinned : candidates[at])
        if (auto choice = choose_with_bits_of(pinned, candidates, chooser)) return *choice;
    }
    notes.emplace_back(
        "no algorithm gives a row the same bits in batches of every size; the own kernel takes "
        "them all");
    return {};
  }
  ProductChoice choice;
  for (std::size_t at = 1; at < kRowClassCount; ++at) {
    const auto rows = chooser.probed(at);
    if (!rows || candidates[at].empty()) {
      notes.push_back(note_of(at, rows ? "the library has no algorithm" : "too large to probe"));
      continue;
    }
    for (const ProductAlgorithm& candidate : candidates[at]) {
      if (!chooser.ignores_company(*rows, candidate)) continue;
      choice[at] = candidate;
      break;
    }
    if (!choice[at]) notes.push_back(note_of(at, "a row's bits depend on the rows beside it"));
  }
  return choice;
}

}  // namespace saccade::cuda
