#include "bench/datasets/pickle.h"

#include <limits>
#include <optional>

namespace saccade::bench {
namespace {

constexpr std::size_t kMaxIds = std::size_t{256} << 20;  // of all rows together

using Kind = PickleValue::Kind;

// What a DataFrame is made of, as pandas 1.3 to 3 and numpy 1 and 2 name it.
bool is_frame_class(std::string_view name) {
  return name.starts_with("pandas.") || name.starts_with("numpy.") || name == "builtins.slice" ||
         name == "__builtin__.slice" || name == "_codecs.encode";
}

bool is_ids(const Pickle& pickle, std::uint32_t index) {
  if (!pickle.is_sequence(index) || pickle.values[index].items.empty()) return false;
  for (const std::uint32_t item : pickle.values[index].items)
    if (pickle.values[item].kind != Kind::kInt) return false;
  return true;
}

// The sequence of ids in a row: the row itself, or its only member that is one.
std::optional<std::uint32_t> ids_of_row(const Pickle& pickle, std::uint32_t row) {
  if (is_ids(pickle, row)) return row;
  if (!pickle.is_sequence(row)) return std::nullopt;
  std::optional<std::uint32_t> found;
  for (const std::uint32_t item : pickle.values[row].items) {
    if (!pickle.is_sequence(item)) continue;
    if (found || !is_ids(pickle, item)) return std::nullopt;
    found = item;
  }
  return found;
}

}  // namespace

Result<Pickle> parse_prompts(std::string_view bytes) {
  constexpr PickleRules kRules{
      .knows_class = is_frame_class,
      .readable = "lists, tuples, integers and strings, and pandas DataFrames,"};
  TRY(Pickle pickle, parse_pickle(bytes, kRules));
  if (!pickle.beyond_plain.empty() && !is_data_frame(pickle))
    return refuse_in_pickle(kRules, pickle.beyond_plain, pickle.beyond_plain_at);
  return pickle;
}

Result<TokenRows> token_rows(const Pickle& pickle, std::string_view column) {
  if (is_data_frame(pickle)) return frame_token_rows(pickle, column);
  if (!pickle.is_sequence(pickle.root))
    return fail(ErrorCode::kInvalid, "the pickle is not a list of prompts");
  TokenRows rows;
  std::size_t total = 0;
  const auto& items = pickle.values[pickle.root].items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto ids = ids_of_row(pickle, items[i]);
    if (!ids) return fail(ErrorCode::kInvalid, "row {} of the pickle has no list of token ids", i);
    const auto& members = pickle.values[*ids].items;
    total += members.size();
    if (total > kMaxIds)
      return fail(ErrorCode::kTooLarge, "the pickle has over {} token ids", kMaxIds);
    std::vector<std::int32_t> row;
    row.reserve(members.size());
    for (const std::uint32_t member : members) {
      const std::int64_t id = pickle.values[member].number;
      if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
        return fail(ErrorCode::kInvalid, "row {} of the pickle has a token id {}", i, id);
      row.push_back(static_cast<std::int32_t>(id));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace saccade::bench
