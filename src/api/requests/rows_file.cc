#include "api/requests/rows_file.h"

#include <fmt/format.h>

#include <charconv>

namespace saccade::api {
namespace {

// Then six digits, the bytes of the grid, and a new line.
constexpr std::string_view kHead = "saccade image_embeds ";
constexpr std::size_t kHeadBytes = kHead.size() + 7;
constexpr std::size_t kMaxGrid = 64 << 10;

constexpr std::size_t filled_up(std::size_t bytes) { return (bytes + 2) / 3 * 3; }

}  // namespace

Result<std::string> rows_file_head(std::string_view grid) {
  if (grid.size() > kMaxGrid)
    return fail(ErrorCode::kTooLarge, "image_grid_thw has {} bytes, limit {}", grid.size(),
                kMaxGrid);
  std::string head = fmt::format("{}{:06}\n{}", kHead, grid.size(), grid);
  head.resize(filled_up(head.size()));
  return head;
}

bool is_rows_file(std::string_view file) { return file.starts_with(kHead); }

Result<RowsFile> split_rows_file(std::string_view file) {
  const auto broken = [] { return fail(ErrorCode::kInvalid, "a file of rows without its head"); };
  if (!is_rows_file(file) || file.size() < kHeadBytes) return broken();
  const char* const end = file.data() + kHeadBytes - 1;
  std::size_t grid = 0;
  const auto read = std::from_chars(file.data() + kHead.size(), end, grid);
  if (read.ec != std::errc() || read.ptr != end || filled_up(kHeadBytes + grid) > file.size())
    return broken();
  return RowsFile{file.substr(kHeadBytes, grid), file.substr(filled_up(kHeadBytes + grid))};
}

}  // namespace saccade::api
