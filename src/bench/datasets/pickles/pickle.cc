#include "bench/datasets/pickles/pickle.h"

#include <limits>
#include <optional>
#include <vector>

#include "bench/datasets/pickles/pickle_array.h"

namespace saccade::bench {
namespace {

constexpr std::size_t kMaxIds = std::size_t{256} << 20;  // of all rows together

using Kind = PickleValue::Kind;

// What a DataFrame is made of, as pandas 1.3 to 3 and numpy 1 and 2 name it.
bool is_frame_class(std::string_view name) {
  return name.starts_with("pandas.") || name.starts_with("numpy.") ||
         name.starts_with("pyarrow.lib.") || name == "builtins.slice" ||
         name == "__builtin__.slice" || name == "_codecs.encode" || name == "builtins.bytearray" ||
         name == "__builtin__.bytearray";
}

// A list of rows, some of which are numpy's arrays.
bool is_list_with_arrays(const Pickle& pickle) {
  if (!pickle.is_sequence(pickle.root)) return false;
  bool arrays = false;
  for (const PickleValue& value : pickle.values) {
    if (value.kind != Kind::kClass) continue;
    if (!value.text.starts_with("numpy.") && value.text != "_codecs.encode") return false;
    arrays = true;
  }
  return arrays;
}

// The ids of an array of integers of one dimension.
std::optional<std::vector<std::int64_t>> ids_of_array(const Pickle& pickle, std::uint32_t index) {
  const auto found = PickleObjects(pickle).array(index);
  if (!found || found->objects != nullptr || found->shape.size() != 1 || found->size() == 0)
    return std::nullopt;
  std::vector<std::int64_t> ids(found->size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = found->integer(i);
  return ids;
}

bool is_ids(const Pickle& pickle, std::uint32_t index) {
  if (!pickle.is_sequence(index) || pickle.values[index].items.empty()) return false;
  for (const std::uint32_t item : pickle.values[index].items)
    if (pickle.values[item].kind != Kind::kInt) return false;
  return true;
}

// Of a sequence of ids or an array of them; absent for anything else.
std::optional<std::vector<std::int64_t>> ids_at(const Pickle& pickle, std::uint32_t index) {
  if (pickle.values[index].kind == Kind::kObject) return ids_of_array(pickle, index);
  if (!is_ids(pickle, index)) return std::nullopt;
  std::vector<std::int64_t> ids;
  for (const std::uint32_t item : pickle.values[index].items)
    ids.push_back(pickle.values[item].number);
  return ids;
}

// The ids in a row: the row itself, or its only member that holds some.
std::optional<std::vector<std::int64_t>> ids_of_row(const Pickle& pickle, std::uint32_t row) {
  if (auto ids = ids_at(pickle, row)) return ids;
  if (!pickle.is_sequence(row)) return std::nullopt;
  std::optional<std::vector<std::int64_t>> found;
  for (const std::uint32_t item : pickle.values[row].items) {
    if (!pickle.is_sequence(item) && pickle.values[item].kind != Kind::kObject) continue;
    if (found) return std::nullopt;
    found = ids_at(pickle, item);
    if (!found) return std::nullopt;
  }
  return found;
}

}  // namespace

Result<Pickle> parse_prompts(std::string_view bytes) {
  constexpr PickleRules kRules{
      .knows_class = is_frame_class,
      .readable = "lists, tuples, integers, strings and numpy arrays, and pandas DataFrames,"};
  TRY(Pickle pickle, parse_pickle(bytes, kRules));
  if (!pickle.beyond_plain.empty() && !is_data_frame(pickle) && !is_list_with_arrays(pickle))
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
    total += ids->size();
    if (total > kMaxIds)
      return fail(ErrorCode::kTooLarge, "the pickle has over {} token ids", kMaxIds);
    std::vector<std::int32_t> row;
    row.reserve(ids->size());
    for (const std::int64_t id : *ids) {
      if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
        return fail(ErrorCode::kInvalid, "row {} of the pickle has a token id {}", i, id);
      row.push_back(static_cast<std::int32_t>(id));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace saccade::bench
