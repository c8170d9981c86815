// golden_files pack FOLDER [SUFFIX]: packs the files below FOLDER whose names end in SUFFIX
//   (.safetensors; "": all) into FOLDER/goldens.packed.
// golden_files unpack FOLDER: for every goldens.packed below FOLDER, writes what is in it, where it
//   is missing or older.
// golden_files check FOLDER: fails where a file is not what its archive has.
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/golden_files/archive.h"
#include "tests/support/golden_files/sections.h"

namespace {

using namespace saccade;
using namespace saccade::test;
namespace fs = std::filesystem;

constexpr const char* kArchive = "goldens.packed";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Under another name first, so that nobody reads half a file, two builds at once neither.
void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  const fs::path partial = fmt::format("{}.{}.partial", path.string(), getpid());
  std::ofstream(partial, std::ios::binary) << bytes;
  fs::rename(partial, path);
}

std::vector<fs::path> below(const fs::path& folder, std::string_view suffix) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(suffix))
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

int pack_folder(const fs::path& folder, std::string_view suffix) {
  std::vector<GoldenFile> files;
  for (const fs::path& path : below(folder, suffix)) {
    if (path.filename() == kArchive) continue;
    files.push_back({fs::relative(path, folder).string(), 0, {}, read(path)});
  }
  divide(files);
  const std::string archive = pack(files);
  const auto back = unpack(archive);
  if (!back) {
    fmt::print(stderr, "golden_files: {}\n", back.error().message);
    return 1;
  }
  write(folder / kArchive, archive);
  size_t bytes = 0, made = 0;
  for (const GoldenFile& file : files) {
    for (const Section& section : file.sections) {
      bytes += section.size;
      made += section.kind == Section::Kind::made ? section.size : 0;
    }
  }
  fmt::print("{}: {} files, {} bytes, {} of them of seeds; packed {}\n", folder.string(),
             files.size(), bytes, made, archive.size());
  return 0;
}

bool older(const fs::path& path, const fs::path& than) {
  std::error_code missing;
  const auto time = fs::last_write_time(path, missing);
  return missing || time < fs::last_write_time(than);
}

int unpack_below(const fs::path& root) {
  for (const fs::path& path : below(root, kArchive)) {
    const std::string archive = read(path);
    const auto listed = contents(archive);
    const auto stale = [&](const GoldenFile& file) {
      return older(path.parent_path() / file.path, path);
    };
    if (listed && std::none_of(listed->begin(), listed->end(), stale)) continue;
    const auto files = unpack(archive);
    if (!files) {
      fmt::print(stderr, "golden_files: {}: {}\n", path.string(), files.error().message);
      return 1;
    }
    for (const GoldenFile& file : *files) {
      if (stale(file)) write(path.parent_path() / file.path, file.bytes);
    }
  }
  return 0;
}

int check_below(const fs::path& root) {
  int wrong = 0;
  for (const fs::path& path : below(root, kArchive)) {
    const auto listed = contents(read(path));
    if (!listed) {
      fmt::print(stderr, "golden_files: {}: {}\n", path.string(), listed.error().message);
      return 1;
    }
    for (const GoldenFile& file : *listed) {
      const std::string bytes = read(path.parent_path() / file.path);
      if (crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())) ==
          file.crc)
        continue;
      fmt::print(stderr,
                 "golden_files: {} is not what {} has: `golden_files pack {}` if the file is "
                 "right, else remove it and build\n",
                 (path.parent_path() / file.path).string(), path.string(),
                 path.parent_path().string());
      wrong = 1;
    }
  }
  return wrong;
}

}  // namespace

int main(int count, char** words) {
  const std::string_view command = count > 1 ? words[1] : "";
  if (command == "pack" && (count == 3 || count == 4))
    return pack_folder(words[2], count == 4 ? words[3] : ".safetensors");
  if (command == "unpack" && count == 3) return unpack_below(words[2]);
  if (command == "check" && count == 3) return check_below(words[2]);
  fmt::print(stderr, "golden_files pack FOLDER [SUFFIX] | unpack FOLDER | check FOLDER\n");
  return 2;
}
