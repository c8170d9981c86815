// Columns of a Parquet file by row. Needs Apache Arrow at build time; without it open() says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/datasets/dataset_files.h"

namespace saccade::bench {

// One thread. A column is named with dots into structs: "image.bytes". kNotFound names a column
// that the file does not have, kInvalid one of another type. Only what is asked for is read: one
// row group is kept at a time.
class ParquetFile {
 public:
  static Result<std::unique_ptr<ParquetFile>> open(const std::string& path);
  virtual ~ParquetFile() = default;

  virtual std::int64_t rows() const = 0;
  virtual bool has(const std::string& column) const = 0;
  // Of text or bytes.
  virtual Result<std::string> bytes(const std::string& column, std::size_t row) = 0;
  virtual Result<std::vector<std::vector<std::int32_t>>> int_lists(const std::string& column) = 0;
  // A list of structs {from, value}.
  virtual Result<std::vector<SharedTurn>> turns(const std::string& column, std::size_t row) = 0;
};

}  // namespace saccade::bench
