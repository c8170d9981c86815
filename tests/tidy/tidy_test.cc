// The house rules that a machine can check: include direction, file length, names, printing,
// third-party walls.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// docs/architecture.md: a folder of src/ and what it may include besides itself.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"base", {}},
    {"tensor", {"base"}},
    {"ops", {"base", "tensor"}},
    {"text", {"base"}},
    {"grammar", {"base", "text"}},
    {"tools", {"base"}},
    {"image", {"base", "tensor"}},
    {"video", {"base"}},
    {"model", {"base", "tensor", "ops", "text", "image"}},
    {"memory", {"base"}},
    {"engine", {"base", "tensor", "ops", "text", "grammar", "image", "model", "memory"}},
    {"net", {"base"}},
    {"hub", {"base", "tensor", "ops", "text", "image", "model", "net"}},
    {"api", {"base"}},
    {"serve",
     {"base", "tensor", "ops", "text", "grammar", "tools", "image", "model", "memory", "engine",
      "net", "api", "cluster", "video"}},
    {"batch",
     {"base", "tensor", "ops", "text", "grammar", "tools", "image", "model", "memory", "engine",
      "net", "api", "cluster", "serve"}},
    {"cluster", {"base", "api", "net", "memory", "engine"}},
    {"bench", {"base", "tensor", "text", "image", "api", "net"}},
    {"chat", {"base", "image", "net", "bench"}},
    {"simulate", {"base", "api", "model", "memory", "engine", "serve", "cluster", "bench"}},
};

// A third-party header and the only places that may include it.
const std::vector<std::pair<std::regex, std::regex>> kWalls = {
    {std::regex(R"(<boost/(asio|beast))"), std::regex(R"(^src/net/)")},
    {std::regex(R"(<openssl/)"), std::regex(R"(^(src/net/|src/base/hash\.cc))")},
    {std::regex(R"(<CLI/)"), std::regex(R"(^apps/)")},
    {std::regex(R"(<spdlog/)"), std::regex(R"(^src/base/log\.cc)")},
    {std::regex(R"(<(pcre2|utf8proc|sentencepiece))"), std::regex(R"(^src/text/)")},
    {std::regex(R"(<(jpeglib|png|webp/|gif_lib))"), std::regex(R"(^src/image/)")},
    {std::regex(R"(<(libav|libsw|seccomp))"), std::regex(R"(^src/video/child/)")},
    {std::regex(R"(<curl/)"), std::regex(R"(^(src/serve/|tests/))")},
    {std::regex(R"(<prometheus/)"), std::regex(R"(^src/serve/)")},
    {std::regex(R"(<(arrow|parquet)/)"), std::regex(R"(^src/bench/)")},
    {std::regex(R"(<(grpc|grpcpp|google)/)"), std::regex(R"(^src/cluster/grpc/)")},
    {std::regex(R"(<hiredis/)"), std::regex(R"(^src/cluster/redis/)")},
    {std::regex(R"(<zmq)"), std::regex(R"(^src/cluster/zmq/)")},
    {std::regex(R"(<(flashinfer|cutlass|cute)/)"), std::regex(R"(^src/ops/cuda/flashinfer/)")},
};

constexpr int kMaxLines = 600;
constexpr std::size_t kMaxOfARoom = 28;

struct Source {
  std::string path;  // relative to the repository
  std::vector<std::string> lines;
};

std::vector<Source> sources(const std::vector<std::string>& folders) {
  std::vector<Source> found;
  for (const auto& folder : folders) {
    const fs::path root = fs::path(SACCADE_SOURCE_DIR) / folder;
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh" &&
          extension != ".inl")
        continue;
      Source source{fs::relative(entry.path(), SACCADE_SOURCE_DIR).string(), {}};
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) source.lines.push_back(line);
      found.push_back(std::move(source));
    }
  }
  return found;
}

TEST(Tidy, IncludesPointDownward) {
  const std::regex include(R"re(^\s*#include "([a-z_]+)/)re");
  for (const auto& source : sources({"src"})) {
    const std::string folder = source.path.substr(4, source.path.find('/', 4) - 4);
    ASSERT_TRUE(kMayInclude.contains(folder))
        << source.path << ": src/" << folder << " is not in the table";
    // Tests beside a source may drive it with any device and with the shared fakes, and read
    // pictures.
    const bool test = source.path.ends_with("_test.cc");
    for (const auto& line : source.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string target = match[1];
      if (target == folder || kMayInclude.at(folder).contains(target)) continue;
      if (test && (target == "tests" || target == "ops" || target == "image")) continue;
      ADD_FAILURE() << source.path << " includes " << target << "/, which " << folder << " may not";
    }
  }
}

TEST(Tidy, ThirdPartyStaysBehindItsWall) {
  for (const auto& source : sources({"src", "apps"})) {
    for (const auto& line : source.lines) {
      if (line.rfind("#include", 0) != 0) continue;
      for (const auto& [header, place] : kWalls) {
        if (std::regex_search(line, header) && !std::regex_search(source.path, place)) {
          ADD_FAILURE() << source.path << ": " << line << " belongs elsewhere";
        }
      }
    }
  }
}

TEST(Tidy, FilesAreOneNounLong) {
  for (const auto& source : sources({"src", "apps", "tests", "benchmarks"})) {
    EXPECT_LE(source.lines.size(), static_cast<std::size_t>(kMaxLines))
        << source.path << " asks to be two nouns";
  }
}

// docs/architecture.md says what each is for, by its last name.
TEST(Tidy, RoomsAreSmallAndExplained) {
  std::map<std::string, std::size_t> rooms;
  for (const auto& source : sources({"src", "apps"})) {
    // A folder that stands in for one of CUTLASS's has its name.
    if (source.path.find("/flashinfer/shim/") != std::string::npos) continue;
    if (source.path.find("_test.") == std::string::npos)
      ++rooms[fs::path(source.path).parent_path()];
  }
  std::ifstream file(fs::path(SACCADE_SOURCE_DIR) / "docs/architecture.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const auto& [room, files] : rooms) {
    EXPECT_LE(files, kMaxOfARoom) << room << " has " << files
                                  << " files: it asks for rooms of its own";
    const std::string name = fs::path(room).filename();
    EXPECT_TRUE(std::regex_search(page, std::regex("`([a-z_0-9]+/)*" + name + "/?`")))
        << "docs/architecture.md does not say what " << room << " is for";
  }
}

TEST(Tidy, NamesSaySomething) {
  const std::regex banned_file(R"((^|/)(utils?|common|helpers?|misc|manager)(\.|/|_))");
  const std::regex banned_type(R"(^\s*(class|struct)\s+\w*(Manager|Helper|Util|Utils|Impl)\b)");
  for (const auto& source : sources({"src", "apps"})) {
    // A header that stands in for one of CUTLASS's has its name.
    if (source.path.find("/flashinfer/shim/") == std::string::npos) {
      EXPECT_FALSE(std::regex_search(source.path, banned_file)) << source.path;
    }
    for (const auto& line : source.lines) {
      EXPECT_FALSE(std::regex_search(line, banned_type)) << source.path << ": " << line;
    }
  }
}

TEST(Tidy, LibrariesDoNotPrintOrExit) {
  const std::regex printing(R"((std::cout|std::cerr|\bprintf\(|\bputs\(|\bexit\())");
  for (const auto& source : sources({"src"})) {
    if (source.path == "src/base/check.cc" || source.path.ends_with("_test.cc")) continue;
    for (const auto& line : source.lines) {
      const std::string code = line.substr(0, line.find("//"));
      EXPECT_FALSE(std::regex_search(code, printing)) << source.path << ": " << line;
    }
  }
}

TEST(Tidy, FirstLineSaysWhatTheFileIs) {
  for (const auto& source : sources({"src", "apps"})) {
    if (!source.path.ends_with(".h")) continue;
    ASSERT_FALSE(source.lines.empty()) << source.path;
    EXPECT_EQ(source.lines[0].rfind("// ", 0), 0u)
        << source.path << " begins with: " << source.lines[0];
  }
}

// The files of a library, of its tests and of the program are compiled in batches
// (cmake/library.cmake), and which are together changes with every file that comes or goes: what is
// local to a file has a name of its own there, or one in a namespace of its own, as the models'
// families have. Read line by line, by how such names are written here; an alias may stand twice.
TEST(Tidy, FileLocalNamesStandOnce) {
  const std::regex library(R"(saccade_library\(\w+([^)]*)\))");
  const std::regex variable(
      R"(^(?:constexpr|const|inline|static|thread_local)\b[^=({;]*\b(\w+)\s*(?:=|\[|\{).*)");
  const std::regex type(R"(^(?:class|struct|enum class|enum) (\w+).*)");
  const std::regex function(R"(^[\w:<>,&*\s~\[\]]+?[\s&*](\w+)\(.*)");
  const std::regex own_namespace(R"(namespace ((?!saccade)\w+) \{)");
  struct Library {
    bool kernels;           // compiled file by file
    std::string elsewhere;  // the room of it that is no part
  };
  std::map<fs::path, Library> libraries;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SACCADE_SOURCE_DIR) / "src")) {
    if (entry.path().filename() != "CMakeLists.txt") continue;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::smatch match;
    if (std::regex_search(text, match, library))
      libraries[entry.path().parent_path()] = {match.str(1).find(" KERNELS") != std::string::npos,
                                               ""};
  }
  EXPECT_GT(libraries.size(), 15u);
  libraries[fs::path(SACCADE_SOURCE_DIR) / "apps"] = {false, "video"};
  libraries[fs::path(SACCADE_SOURCE_DIR) / "src/ops/cuda"] = {false, "emulator"};
  libraries[fs::path(SACCADE_SOURCE_DIR) / "tests/e2e"] = {false, ""};
  std::map<std::pair<fs::path, std::string>, std::set<std::string>> places;
  for (const auto& source : sources({"src", "apps", "tests/e2e"})) {
    if (!source.path.ends_with(".cc")) continue;
    const bool test = source.path.ends_with("_test.cc");
    fs::path folder = (fs::path(SACCADE_SOURCE_DIR) / source.path).parent_path();
    while (!libraries.contains(folder) && folder != SACCADE_SOURCE_DIR)
      folder = folder.parent_path();
    const auto found = libraries.find(folder);
    if (found == libraries.end()) continue;
    const bool elsewhere =
        fs::path(source.path).parent_path().filename() == found->second.elsewhere;
    if (!test && (found->second.kernels || elsewhere)) continue;
    if (test) folder /= "tests";
    bool local = false;
    std::string scope;
    for (const auto& line : source.lines) {
      std::smatch match;
      if (std::regex_match(line, match, own_namespace)) scope = match.str(1) + "::";
      if (line == "namespace {") local = true;
      if (line == "}  // namespace") local = false;
      const bool begins =
          local && !line.empty() && std::isalpha(static_cast<unsigned char>(line[0]));
      if (begins &&
          (std::regex_match(line, match, type) || std::regex_match(line, match, variable) ||
           std::regex_match(line, match, function)))
        places[{folder, scope + match.str(1)}].insert(source.path);
    }
  }
  EXPECT_GT(places.size(), 1000u);
  for (const auto& [name, files] : places) {
    if (files.size() == 1) continue;
    std::string list;
    for (const auto& file : files) list += ' ' + file;
    ADD_FAILURE() << name.second << " is a name in" << list;
  }
}

// `head` leaves before its writer is done; with pipefail the writer's SIGPIPE is then the script's
// exit status, now and then. (`sed -n 1p` reads to the end.)
TEST(Tidy, PipesOfScriptsAreReadToTheEnd) {
  const std::regex leaves_early(R"(\|\s*head\b)");
  int scripts = 0;
  for (const std::string folder : {"scripts", "recipes", "tests", "deploy", "tools", ".ci"}) {
    const fs::path root = fs::path(SACCADE_SOURCE_DIR) / folder;
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (!entry.is_regular_file() || entry.file_size() > 100'000) continue;
      std::ifstream file(entry.path());
      std::string line;
      std::getline(file, line);
      if (!line.starts_with("#!") || line.find("bash") == std::string::npos) continue;
      ++scripts;
      bool pipefail = false;
      for (int number = 2; std::getline(file, line); ++number) {
        if (line.starts_with("set -") && line.find("pipefail") != std::string::npos)
          pipefail = true;
        EXPECT_FALSE(pipefail && std::regex_search(line, leaves_early))
            << entry.path().string() << ":" << number << ": " << line;
      }
    }
  }
  EXPECT_GT(scripts, 20);
}

}  // namespace
