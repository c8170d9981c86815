// Parquet through Apache Arrow C++. Arrow's types stay in this file.
#include "bench/datasets/parquet_file.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/regular_file.h"

namespace saccade::bench {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

tl::unexpected<Error> from_arrow(const std::string& path, const arrow::Status& status) {
  return fail(ErrorCode::kCorrupt, "{}: {}", path, status.ToString());
}

// Arrow from 24 on returns results; before, it filled an argument.
template <typename Reader>
arrow::Result<std::shared_ptr<arrow::Table>> read_group(Reader& reader, int group,
                                                        const std::vector<int>& columns) {
  if constexpr (requires {
                  {
                    reader.ReadRowGroup(group, columns)
                  } -> std::same_as<arrow::Result<std::shared_ptr<arrow::Table>>>;
                }) {
    return reader.ReadRowGroup(group, columns);
  } else {
    std::shared_ptr<arrow::Table> table;
    ARROW_RETURN_NOT_OK(reader.ReadRowGroup(group, columns, &table));
    return table;
  }
}

std::string root_of(const std::string& column) { return column.substr(0, column.find('.')); }

// Follows "a.b.c" from the array of `a` into its structs.
ArrayPtr field_at(ArrayPtr array, std::string_view path) {
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos && array != nullptr;) {
    path.remove_prefix(dot + 1);
    dot = path.find('.');
    const auto* structs = dynamic_cast<const arrow::StructArray*>(array.get());
    if (structs == nullptr) return nullptr;
    array = structs->GetFieldByName(std::string(path.substr(0, dot)));
  }
  return array;
}

// Text or bytes, 32-bit or 64-bit offsets; nothing for null and for other types.
std::optional<std::string> string_at(const arrow::Array& array, std::int64_t index) {
  if (array.IsNull(index)) return std::nullopt;
  if (const auto* small = dynamic_cast<const arrow::BinaryArray*>(&array))
    return small->GetString(index);
  if (const auto* large = dynamic_cast<const arrow::LargeBinaryArray*>(&array))
    return large->GetString(index);
  return std::nullopt;
}

// The part of a list column's values that belongs to a row.
struct ListSlice {
  ArrayPtr values;
  std::int64_t begin;
  std::int64_t end;
};

std::optional<ListSlice> list_at(const arrow::Array& array, std::int64_t index) {
  const auto slice = [index](const auto& lists) {
    return ListSlice{lists.values(), lists.value_offset(index), lists.value_offset(index + 1)};
  };
  if (array.IsNull(index)) return std::nullopt;
  if (const auto* small = dynamic_cast<const arrow::ListArray*>(&array)) return slice(*small);
  if (const auto* large = dynamic_cast<const arrow::LargeListArray*>(&array)) return slice(*large);
  return std::nullopt;
}

std::optional<std::int64_t> int_at(const arrow::Array& array, std::int64_t index) {
  if (array.IsNull(index)) return std::nullopt;
  if (const auto* wide = dynamic_cast<const arrow::Int64Array*>(&array)) return wide->Value(index);
  if (const auto* narrow = dynamic_cast<const arrow::Int32Array*>(&array))
    return narrow->Value(index);
  return std::nullopt;
}

class ArrowParquetFile final : public ParquetFile {
 public:
  ArrowParquetFile(std::string path, std::unique_ptr<parquet::arrow::FileReader> reader)
      : path_(std::move(path)), reader_(std::move(reader)) {
    const auto metadata = reader_->parquet_reader()->metadata();
    std::int64_t first = 0;
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      group_begin_.push_back(first);
      first += metadata->RowGroup(group)->num_rows();
    }
    group_begin_.push_back(first);
    for (int leaf = 0; leaf < metadata->num_columns(); ++leaf)
      leaves_[root_of(metadata->schema()->Column(leaf)->path()->ToDotString())].push_back(leaf);
  }

  std::int64_t rows() const override { return group_begin_.back(); }
  bool has(const std::string& column) const override { return leaves_.contains(root_of(column)); }

  Result<std::string> bytes(const std::string& column, std::size_t row) override {
    TRY(const auto place, locate(column, row));
    const auto found = string_at(*place.first, place.second);
    if (!found) return wrong_type(column, row, "text");
    return *found;
  }

  Result<std::vector<std::vector<std::int32_t>>> int_lists(const std::string& column) override {
    std::vector<std::vector<std::int32_t>> lists;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows()); ++row) {
      TRY(const auto place, locate(column, row));
      const auto list = list_at(*place.first, place.second);
      if (!list) return wrong_type(column, row, "a list of integers");
      std::vector<std::int32_t> ids;
      for (std::int64_t i = list->begin; i < list->end; ++i) {
        const auto id = int_at(*list->values, i);
        if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max())
          return wrong_type(column, row, "a list of token ids");
        ids.push_back(static_cast<std::int32_t>(*id));
      }
      if (ids.empty()) return wrong_type(column, row, "a list with token ids");
      lists.push_back(std::move(ids));
    }
    return lists;
  }

  Result<std::vector<SharedTurn>> turns(const std::string& column, std::size_t row) override {
    TRY(const auto place, locate(column, row));
    const auto list = list_at(*place.first, place.second);
    const auto* structs =
        list ? dynamic_cast<const arrow::StructArray*>(list->values.get()) : nullptr;
    const ArrayPtr from = structs != nullptr ? structs->GetFieldByName("from") : nullptr;
    const ArrayPtr value = structs != nullptr ? structs->GetFieldByName("value") : nullptr;
    if (from == nullptr || value == nullptr)
      return wrong_type(column, row, "a list of {from, value}");
    std::vector<SharedTurn> turns;
    for (std::int64_t i = list->begin; i < list->end; ++i) {
      const auto who = string_at(*from, i);
      auto said = string_at(*value, i);
      if (!who || !said) return wrong_type(column, row, "a list of {from, value} texts");
      turns.push_back({*who == "human" || *who == "user", std::move(*said)});
    }
    return turns;
  }

 private:
  tl::unexpected<Error> wrong_type(const std::string& column, std::size_t row,
                                   std::string_view wanted) const {
    return fail(ErrorCode::kInvalid, "{}: row {}: column '{}' is not {}", path_, row, column,
                wanted);
  }

  // The array that holds the row's value, and the index in it.
  Result<std::pair<ArrayPtr, std::int64_t>> locate(const std::string& column, std::size_t row) {
    const auto wanted = static_cast<std::int64_t>(row);
    if (wanted >= rows()) return fail(ErrorCode::kInvalid, "{}: row {} of {}", path_, row, rows());
    int group = group_;
    if (group < 0 || wanted < group_begin_[static_cast<std::size_t>(group)] ||
        wanted >= group_begin_[static_cast<std::size_t>(group) + 1]) {
      group = static_cast<int>(std::upper_bound(group_begin_.begin(), group_begin_.end(), wanted) -
                               group_begin_.begin() - 1);
      group_ = group;
      columns_.clear();
    }
    TRY(const ArrayPtr root, column_of_group(root_of(column)));
    ArrayPtr array = field_at(root, column);
    if (array == nullptr)
      return fail(ErrorCode::kNotFound, "{}: there is no column '{}'", path_, column);
    return std::pair{array, wanted - group_begin_[static_cast<std::size_t>(group)]};
  }

  Result<ArrayPtr> column_of_group(const std::string& root) {
    if (const auto it = columns_.find(root); it != columns_.end()) return it->second;
    const auto leaves = leaves_.find(root);
    if (leaves == leaves_.end())
      return fail(ErrorCode::kNotFound, "{}: there is no column '{}'", path_, root);
    try {
      auto table = read_group(*reader_, group_, leaves->second);
      if (!table.ok()) return from_arrow(path_, table.status());
      auto joined = (*table)->CombineChunks();
      if (!joined.ok()) return from_arrow(path_, joined.status());
      const auto chunks = (*joined)->column(0);
      if (chunks->num_chunks() != 1)
        return fail(ErrorCode::kCorrupt, "{}: column '{}' does not join", path_, root);
      return columns_[root] = chunks->chunk(0);
    } catch (const std::exception& error) {
      return fail(ErrorCode::kCorrupt, "{}: {}", path_, error.what());
    }
  }

  std::string path_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<std::int64_t> group_begin_;           // first row of each group, and the end
  std::map<std::string, std::vector<int>> leaves_;  // of each top-level column
  int group_ = -1;                                  // whose columns are kept
  std::map<std::string, ArrayPtr> columns_;
};

}  // namespace

Result<std::unique_ptr<ParquetFile>> ParquetFile::open(const std::string& path) {
  TRY(const OpenedFile file, open_regular_file(path));  // Arrow would wait for a FIFO's writer
  ::close(file.descriptor);
  try {
    auto input = arrow::io::ReadableFile::Open(path);
    if (!input.ok()) return fail(ErrorCode::kNotFound, "{}: cannot be opened", path);
    parquet::arrow::FileReaderBuilder builder;
    if (const auto opened = builder.Open(*input); !opened.ok()) return from_arrow(path, opened);
    std::unique_ptr<parquet::arrow::FileReader> reader;
    if (const auto built = builder.Build(&reader); !built.ok()) return from_arrow(path, built);
    return std::make_unique<ArrowParquetFile>(path, std::move(reader));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kCorrupt, "{}: {}", path, error.what());
  }
}

}  // namespace saccade::bench
