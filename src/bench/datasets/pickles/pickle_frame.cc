// The column of token ids in a pickled DataFrame: found in the tree of block manager, blocks and
// arrays that pandas writes, which is walked and never run.
#include <algorithm>
#include <limits>
#include <optional>

#include "bench/datasets/pickles/pickle.h"
#include "bench/datasets/pickles/pickle_array.h"

namespace saccade::bench {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMaxFrameIds = std::size_t{256} << 20;  // of all rows together

class Frame : private PickleObjects {
 public:
  explicit Frame(const Pickle& pickle) : PickleObjects(pickle), pickle_(pickle) {}

  Result<TokenRows> column(std::string_view name) const {
    const PickleValue* const manager = member(state(value(pickle_.root)), "_mgr");
    const PickleValue* const parts = arguments(manager);
    if (!is_made_by(manager, "BlockManager") || parts == nullptr || parts->items.size() != 2)
      return fail(ErrorCode::kUnsupported,
                  "the DataFrame was not written by pandas 1.3 to 3 (save it as Parquet)");
    const PickleValue& axes = value(parts->items[1]);
    const std::vector<std::string> names =
        axes.items.empty() ? std::vector<std::string>() : strings_below(axes.items[0]);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      return fail(ErrorCode::kNotFound, "the DataFrame has no column '{}', but {}", name,
                  fmt::join(names, ", "));
    const std::int64_t wanted = found - names.begin();
    for (const std::uint32_t block : value(parts->items[0]).items) {
      const PickleValue* const block_parts = arguments(&value(block));
      if (block_parts == nullptr || block_parts->items.size() != 3) continue;
      const auto row = row_in_block(block_parts->items[1], wanted);
      if (row) return rows_of(array(block_parts->items[0]), *row, name);
    }
    return fail(ErrorCode::kInvalid, "the DataFrame has no data for its column '{}'", name);
  }

 private:
  const PickleValue* member(const PickleValue* dict, std::string_view name) const {
    if (dict == nullptr || dict->kind != Kind::kDict) return nullptr;
    for (std::size_t i = 0; i + 1 < dict->items.size(); i += 2)
      if (value(dict->items[i]).kind == Kind::kString && value(dict->items[i]).text == name)
        return &value(dict->items[i + 1]);
    return nullptr;
  }

  // The strings of the first array of strings in a tree: how an index holds the names of columns,
  // whatever array class is around it.
  std::vector<std::string> strings_below(std::uint32_t root) const {
    constexpr std::size_t kMaxVisited = 1000;
    std::vector<std::uint32_t> left = {root};
    for (std::size_t visited = 0; !left.empty() && visited < kMaxVisited; ++visited) {
      const std::uint32_t index = left.back();
      left.pop_back();
      if (auto names = arrow_strings(index)) return *std::move(names);
      if (const auto found = array(index); found && found->objects != nullptr) {
        std::vector<std::string> names;
        for (const std::uint32_t item : *found->objects)
          names.push_back(value(item).kind == Kind::kString ? value(item).text : "");
        return names;
      }
      const auto& items = value(index).items;
      left.insert(left.end(), items.rbegin(), items.rend());
    }
    return {};
  }

  // Which row of a block is that column: its placement is a slice or an array of columns.
  std::optional<std::size_t> row_in_block(std::uint32_t placement, std::int64_t column) const {
    if (is_made_by(&value(placement), ".slice")) {
      const auto& bounds = arguments(&value(placement))->items;
      if (bounds.size() != 3) return std::nullopt;
      const std::int64_t start = value(bounds[0]).number;
      const std::int64_t stop = value(bounds[1]).number;
      const std::int64_t step = value(bounds[2]).kind == Kind::kInt ? value(bounds[2]).number : 1;
      if (step < 1 || start < 0 || column < start || column >= stop || (column - start) % step != 0)
        return std::nullopt;
      return static_cast<std::size_t>((column - start) / step);
    }
    const auto columns = array(placement);
    if (!columns || columns->objects != nullptr) return std::nullopt;
    for (std::size_t i = 0; i < columns->size(); ++i)
      if (columns->integer(i) == column) return i;
    return std::nullopt;
  }

  Result<TokenRows> rows_of(const std::optional<PickleArray>& block, std::size_t row,
                            std::string_view name) const {
    if (!block || block->objects == nullptr || block->shape.size() != 2)
      return fail(ErrorCode::kInvalid, "column '{}' of the DataFrame holds no lists", name);
    const std::size_t items = block->objects->size();
    const auto height = static_cast<std::size_t>(std::max<std::int64_t>(block->shape[0], 0));
    if (row >= height || items % height != 0)
      return fail(ErrorCode::kInvalid, "column '{}' of the DataFrame is broken", name);
    const std::size_t length = items / height;
    TokenRows rows;
    std::size_t total = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t at = block->fortran ? row + i * height : row * length + i;
      TRY(auto ids, ids_of((*block->objects)[at], i, name));
      total += ids.size();
      if (total > kMaxFrameIds)
        return fail(ErrorCode::kTooLarge, "the DataFrame has over {} token ids", kMaxFrameIds);
      rows.push_back(std::move(ids));
    }
    return rows;
  }

  // A cell: a list or a tuple of integers, or an array of them.
  Result<std::vector<std::int32_t>> ids_of(std::uint32_t cell, std::size_t row,
                                           std::string_view name) const {
    std::vector<std::int64_t> numbers;
    if (pickle_.is_sequence(cell)) {
      for (const std::uint32_t item : value(cell).items)
        numbers.push_back(value(item).kind == Kind::kInt ? value(item).number : -1);
    } else if (const auto found = array(cell); found && found->objects == nullptr) {
      for (std::size_t i = 0; i < found->size(); ++i) numbers.push_back(found->integer(i));
    }
    if (numbers.empty())
      return fail(ErrorCode::kInvalid, "row {} of column '{}' holds no token ids", row, name);
    std::vector<std::int32_t> ids;
    ids.reserve(numbers.size());
    for (const std::int64_t number : numbers) {
      if (number < 0 || number > std::numeric_limits<std::int32_t>::max())
        return fail(ErrorCode::kInvalid, "row {} of column '{}' holds what is no token id", row,
                    name);
      ids.push_back(static_cast<std::int32_t>(number));
    }
    return ids;
  }

  const Pickle& pickle_;
};

}  // namespace

bool is_data_frame(const Pickle& pickle) {
  const PickleValue& root = pickle.values[pickle.root];
  if (root.kind != Kind::kObject) return false;
  const std::string& made_by = pickle.values[root.items[0]].text;
  return made_by == "pandas.core.frame.DataFrame" || made_by == "pandas.DataFrame";
}

Result<TokenRows> frame_token_rows(const Pickle& pickle, std::string_view column) {
  return Frame(pickle).column(column);
}

}  // namespace saccade::bench
