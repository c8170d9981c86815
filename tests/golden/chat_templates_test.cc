// Chat templates against real Jinja2: our own templates (tests/golden/jinja, made by
// tools/goldens/jinja.py), and templates as model makers published them where that data lies beside
// the repository.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "base/rng.h"
#include "text/jinja/builtins/globals.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/syntax/parser.h"
#include "text/templates/content_format.h"
#include "text/templates/final_message.h"
#include "text/templates/system_messages.h"
#include "text/unicode/python_text.h"

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

std::string fnv(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", value);
}

// The forms of messages' contents: 's' a string, 'p' parts.
std::string forms_of(const json::array& messages) {
  std::string forms;
  for (const json::value& message : messages)
    forms += message.at("content").is_string() ? 's' : 'p';
  return forms;
}

json::array with_forms(json::array messages, std::string_view forms) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (forms[i] == 's') continue;
    json::value& content = messages[i].get_object().at("content");
    content = json::array{json::object{{"type", "text"}, {"text", content}}};
  }
  return messages;
}

// The forms in which the reference shows every text.
std::vector<std::string> forms_that_show(const json::object& outcomes) {
  std::vector<std::string> forms;
  for (const auto& [name, outcome] : outcomes)
    if (outcome != "lost" && outcome != "refused") forms.emplace_back(name);
  return forms;
}

// Whatever forms a request's messages have: they stay if the template shows all texts, else they
// become ones that do, and the rendering is the reference's of those.
void expect_shown(const ChatTemplate& chat_template, const ContentFormat& format,
                  const ChatTemplateOptions& options, const json::array& conversation,
                  const json::object& outcomes) {
  const std::vector<std::string> good = forms_that_show(outcomes);
  for (const auto& [given, outcome] : outcomes) {
    SCOPED_TRACE("given as " + std::string(given));
    json::array messages = with_forms(conversation, given);
    auto arranged = format.arrange(
        messages, [](std::string_view, int) { return "[]"; }, options.tools != nullptr);
    auto text = arranged ? chat_template.render(messages, options)
                         : Result<std::string>(tl::unexpected<Error>(arranged.error()));
    if (text) {
      const auto render = [&](const json::array& other) {
        return chat_template.render(other, options);
      };
      if (auto seen = format.check(messages, *text, render); !seen)
        text = tl::unexpected<Error>(seen.error());
    }
    if (good.empty()) {
      EXPECT_FALSE(text) << *text;
      continue;
    }
    const std::string forms = forms_of(messages);
    ASSERT_TRUE(text) << forms << ": " << text.error().message;
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const bool has_text = !conversation[i].at("content").get_string().empty();
      if (has_text && outcome != "lost" && outcome != "refused") {
        EXPECT_EQ(forms[i], given[i]) << forms;
      }
    }
    EXPECT_EQ(fnv(*text), std::string(outcomes.at(forms).get_string())) << forms << ": " << *text;
  }
}

// Of the templates in `folder`, which are `rows` of content_forms.json. How many of their roles can
// be shown at all.
void expect_forms(const char* rows, const std::string& folder, int expected_shown) {
  const auto golden = json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/content_forms.json");
  ASSERT_TRUE(golden) << golden.error().message;
  ChatTemplateOptions options;
  options.variables = golden->at("variables").as_object();
  options.now_unix_seconds = kNow;
  int shown = 0;
  for (const auto& [name, conversations] : golden->at(rows).as_object()) {
    SCOPED_TRACE(std::string(name));
    const auto chat_template = ChatTemplate::parse(read(folder + "/" + std::string(name)));
    ASSERT_TRUE(chat_template) << chat_template.error().message;
    const auto told = ContentFormat::of(*chat_template, options.variables);
    ASSERT_TRUE(told) << told.error().message;
    const ContentFormat& format = *told;
    for (const auto& [role, outcomes] : conversations.as_object()) {
      SCOPED_TRACE(std::string(role));
      options.tools = role == "tool" ? &golden->at("tools").as_array() : nullptr;
      expect_shown(*chat_template, format, options, golden->at("conversations").at(role).as_array(),
                   outcomes.as_object());
      shown += forms_that_show(outcomes.as_object()).empty() ? 0 : 1;
    }
  }
  EXPECT_EQ(shown, expected_shown);
}

TEST(ChatTemplates, PublishedOnesLoseNoTextInEitherForm) {
  if (!std::filesystem::exists(kPublished)) GTEST_SKIP() << kPublished << " is not here";
  expect_forms("templates", kPublished, 173);  // of 46 templates with four roles each
}

TEST(ChatTemplates, PublishedOnesOfGoldensLoseNoTextInEitherForm) {
  expect_forms("here", SACCADE_SOURCE_DIR "/tools/goldens", 7);  // of two
}

// What a template makes of a conversation whose last message is `text`, whole and cut behind it.
struct Continued {
  std::string whole;
  Result<std::string> cut;
};
Result<Continued> continued(const ChatTemplate& chat_template, const ContentFormat& format,
                            const ChatTemplateOptions& options, const std::string& text) {
  const auto placeholder = [](std::string_view, int) { return "[]"; };
  json::array messages{json::object{{"role", "user"}, {"content", "question"}},
                       json::object{{"role", "assistant"}, {"content", text}}};
  json::array plain = messages;
  TRY_DO(format.arrange(plain, placeholder));
  TRY(std::string whole, chat_template.render(plain, options));
  TRY(const FinalMessage mark, FinalMessage::mark(messages));
  TRY_DO(format.arrange(messages, placeholder));
  TRY(std::string rendered, chat_template.render(messages, options));
  return Continued{std::move(whole), mark.cut(std::move(rendered))};
}

// Prefills that also stand in what closes a turn, white space at either end, and pieces drawn.
std::vector<std::string> prefills(const std::string& closing) {
  std::vector<std::string> all = {"|", ">",   "<",  "end",  "OK! ", "a\n", " a",  "</",
                                  "s", "im_", "[/", "\n\n", "",     " ",   "x\t", "assistant"};
  Rng rng(32);
  const std::string pool = closing + " \nOK! {\"a\": [1]}|<>";
  const auto characters = static_cast<std::size_t>(std::ranges::count_if(
      pool, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  for (int i = 0; i < 60; ++i) {
    const auto from = static_cast<std::int64_t>(rng() % characters);
    const std::size_t at = jinja::byte_of(pool, from);
    all.push_back(pool.substr(
        at, jinja::byte_of(pool, from + 1 + static_cast<std::int64_t>(rng() % 12)) - at));
  }
  return all;
}

std::string_view without_ends(std::string_view text) {
  return jinja::strip(text, std::nullopt, true, true);
}

// Whatever the prefill, the prompt ends with what the template made of it, and nothing of what
// closes the turn.
TEST(ChatTemplates, PublishedOnesAreContinuedBehindAnyPrefill) {
  if (!std::filesystem::exists(kPublished)) GTEST_SKIP() << kPublished << " is not here";
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kPublished)) {
    if (entry.path().extension() != ".jinja") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const auto chat_template = ChatTemplate::parse(read(entry.path().string()));
    ASSERT_TRUE(chat_template) << chat_template.error().message;
    ChatTemplateOptions options;
    options.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    options.now_unix_seconds = kNow;
    options.add_generation_prompt = false;
    const auto found = ContentFormat::of(*chat_template, options.variables);
    ASSERT_TRUE(found) << found.error().message;
    const ContentFormat& format = *found;
    const auto usual = continued(*chat_template, format, options, "word");
    if (!usual || !usual->cut) continue;  // it shows no assistant's last words
    ASSERT_TRUE(usual->cut->ends_with("word")) << *usual->cut;
    ASSERT_TRUE(usual->whole.starts_with(*usual->cut));
    const std::string closing = usual->whole.substr(usual->cut->size());
    ++checked;
    for (const std::string& text : prefills(closing)) {
      SCOPED_TRACE("prefill '" + text + "'");
      const auto made = continued(*chat_template, format, options, text);
      // An empty message may be left out by a template, which is then said.
      if (!made || !made->cut) {
        EXPECT_TRUE(without_ends(text).empty());
        continue;
      }
      if (without_ends(text).empty()) continue;
      EXPECT_TRUE(made->whole.starts_with(*made->cut)) << *made->cut << " of " << made->whole;
      EXPECT_EQ(without_ends(std::string_view(made->whole).substr(made->cut->size())),
                without_ends(closing));
      EXPECT_TRUE(without_ends(*made->cut).ends_with(without_ends(text))) << *made->cut;
    }
  }
  EXPECT_GT(checked, 40);
}

// Every template that takes a system message takes a developer's, in its place and in a later one.
TEST(ChatTemplates, PublishedOnesTakeADevelopersMessage) {
  if (!std::filesystem::exists(kPublished)) GTEST_SKIP() << kPublished << " is not here";
  const auto conversation = [](std::string_view roles) {
    json::array messages;
    for (const char role : roles) {
      const char* name = role == 's'   ? "system"
                         : role == 'd' ? "developer"
                         : role == 'u' ? "user"
                                       : "assistant";
      messages.push_back(
          json::object{{"role", name}, {"content", fmt::format("text of {}", role)}});
    }
    return messages;
  };
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kPublished)) {
    if (entry.path().extension() != ".jinja") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const auto chat_template = ChatTemplate::parse(read(entry.path().string()));
    ASSERT_TRUE(chat_template) << chat_template.error().message;
    ChatTemplateOptions options;
    options.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    options.now_unix_seconds = kNow;
    const auto found = ContentFormat::of(*chat_template, options.variables);
    ASSERT_TRUE(found) << found.error().message;
    const ContentFormat& format = *found;
    if (format.forms("system").as_string != Shown::kText &&
        format.forms("system").as_parts != Shown::kText)
      continue;
    if (!chat_template->render(conversation("su"), options)) continue;  // it wants tools
    const SystemMessages instructions =
        SystemMessages::of(*chat_template, format, options.variables);
    for (const std::string_view roles : {"du", "sdu", "udau", "suadu", "suasu"}) {
      SCOPED_TRACE(roles);
      json::array messages = conversation(roles);
      instructions.arrange(messages);
      ASSERT_TRUE(format.arrange(messages, [](std::string_view, int) { return "[]"; }));
      const auto text = chat_template->render(messages, options);
      if (!text && instructions.knows_developer()) continue;  // as its makers will have it
      ASSERT_TRUE(text) << text.error().message;
      for (const char role : roles)
        EXPECT_NE(text->find(fmt::format("text of {}", role)), std::string::npos)
            << role << ": " << *text;
    }
    ++checked;
  }
  EXPECT_GT(checked, 40);
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
