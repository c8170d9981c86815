// What the datasets of files share: rows of JSON, and which of them are used.
#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "bench/datasets/dataset_files.h"
#include "bench/datasets/python_random.h"
#include "bench/datasets/text_file.h"

namespace saccade::bench {

std::vector<std::size_t> choose_rows(std::size_t available, std::size_t wanted,
                                     const RowChoice& choice, std::uint64_t seed) {
  std::vector<std::size_t> rows(available);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  PythonRandom random(seed);
  if (choice.shuffle) random.shuffle(rows);
  if (rows.size() > wanted) rows.resize(wanted);
  if (available == 0 || !choice.oversample) return rows;
  const std::size_t distinct = rows.size();
  PythonRandom again(seed);
  while (rows.size() < wanted) rows.push_back(rows[again.below(distinct)]);
  return rows;
}

Result<void> for_each_json_row(
    const std::string& path,
    const std::function<Result<void>(const json::value&, std::size_t)>& visit) {
  TRY(const std::string text, read_text_file(path));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return fail(ErrorCode::kInvalid, "{}: the file is empty", path);
  // An array of objects is one document; a line that is an array is a row.
  const std::size_t second = text.find_first_not_of(" \t\r\n", first + 1);
  if (text[first] == '[' && second != std::string::npos && text[second] == '{') {
    auto document = json::parse(text);
    if (!document) return fail_within(path, std::move(document).error());
    std::size_t number = 0;
    for (const json::value& row : document->as_array()) {
      if (auto visited = visit(row, 0); !visited)
        return fail_within(fmt::format("{}: row {}", path, number), std::move(visited).error());
      ++number;
    }
    return {};
  }
  std::string_view rest = text;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t length = std::min(rest.find('\n'), rest.size());
    const std::string_view row = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto here = [&] { return fmt::format("{}:{}", path, line); };
    auto parsed = json::parse(row);
    if (!parsed) return fail_within(here(), std::move(parsed).error());
    if (auto visited = visit(*parsed, line); !visited)
      return fail_within(here(), std::move(visited).error());
  }
  return {};
}

}  // namespace saccade::bench
