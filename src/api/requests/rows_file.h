// What a client's own rows of an image travel in from a request to what lays them out: a head with
// the file of their grid, and the file of the rows.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::api {

struct RowsFile {
  std::string_view grid;  // may be empty
  std::string_view rows;
};

// What stands before the file of the rows: no image begins so. A multiple of 3 bytes, so that the
// base64 of the whole is that of the head with that of the rows behind it. kTooLarge: a grid of
// over 64 KiB.
Result<std::string> rows_file_head(std::string_view grid);
bool is_rows_file(std::string_view file);
// Views of `file`. kInvalid: it has no whole head.
Result<RowsFile> split_rows_file(std::string_view file);

}  // namespace saccade::api
