// Chat templates against real Jinja2: our own templates (tests/golden/jinja, made by
// tools/goldens/jinja.py), and templates as model makers published them where that data lies beside
// the repository.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "text/jinja_globals.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace saccade {
namespace {

const std::string kPublished = SACCADE_SOURCE_DIR "/../shared/data/chat_templates";
constexpr std::int64_t kNow = 1795167000;  // 2026-11-20T09:30:00

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What the reference's render(**variables) makes of it.
Result<std::string> render(const std::string& source, const json::object& given) {
  TRY(const jinja::Program program, jinja::parse(source));
  jinja::RenderState state({}, kNow);
  jinja::Variables variables;
  jinja::add_globals(state, variables);
  for (const auto& member : given) {
    TRY(variables[std::string(member.key())], jinja::from_json(state, member.value()));
  }
  return jinja::Interpreter(state, variables).run(program);
}

TEST(ChatTemplates, PublishedOnesRenderAsTheReferenceDoes) {
  if (!std::filesystem::exists(kPublished + "/expected.jsonl")) {
    GTEST_SKIP() << kPublished << " is not here";
  }
  auto cases = json::parse_file(kPublished + "/cases.json");
  ASSERT_TRUE(cases) << cases.error().message;
  const json::object defaults = cases->at("defaults").as_object();
  std::ifstream rows(kPublished + "/expected.jsonl");
  int checked = 0;
  for (std::string line; std::getline(rows, line); ++checked) {
    auto row = json::parse(line);
    ASSERT_TRUE(row) << row.error().message;
    const std::string name(row->at("template").as_string());
    const std::string kind(row->at("case").as_string());
    SCOPED_TRACE(name + " / " + kind);
    json::object variables = defaults;
    for (const auto& member : cases->at("cases").at(kind).as_object()) {
      variables[member.key()] = member.value();
    }
    const auto text = render(read(kPublished + "/" + name), variables);
    if (row->as_object().contains("error")) {
      EXPECT_FALSE(text) << "the reference says " << row->at("error").as_string();
      continue;
    }
    EXPECT_EQ(text ? *text : "refused: " + text.error().message,
              std::string(row->at("text").as_string()));
  }
  EXPECT_EQ(checked, 460);
}

TEST(ChatTemplates, OwnOnesRenderAsTheReferenceDoes) {
  int checked = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(SACCADE_SOURCE_DIR "/tests/golden/jinja")) {
    auto file = json::parse_file(entry.path().string());
    ASSERT_TRUE(file) << file.error().message;
    for (const auto& row : file->at("rows").as_array()) {
      const std::string source(row.at("template").as_string());
      SCOPED_TRACE(entry.path().filename().string() + ": " + source);
      ++checked;
      json::object variables = file->at("variables").as_object();
      if (const auto* own = json::find(row.as_object(), "variables")) {
        for (const auto& member : own->as_object()) variables[member.key()] = member.value();
      }
      const auto text = render(source, variables);
      if (const auto* error = json::find(row.as_object(), "error")) {
        EXPECT_FALSE(text) << "the reference says " << error->as_string() << ", we render "
                           << *text;
        continue;
      }
      EXPECT_EQ(text ? *text : "refused: " + text.error().message,
                std::string(row.at("text").as_string()));
    }
  }
  EXPECT_GT(checked, 400);
}

}  // namespace
}  // namespace saccade
