#include "text/templates/chat_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <filesystem>
#include <fstream>

namespace saccade {
namespace {

json::array parse_array(std::string_view text) { return json::parse(text)->as_array(); }

class CheckpointFolder {
 public:
  CheckpointFolder() {
    std::string pattern = testing::TempDir() + "chat_template_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~CheckpointFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }

 private:
  std::string path_;
};

TEST(ChatTemplate, GivesTheTemplateWhatTransformersDoes) {
  const auto parsed = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}{{ m.role }}={{ m['content'] }};{% endfor %}"
      "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ extra }}");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ChatTemplateOptions options;
  options.variables = {{"bos_token", "<s>"}, {"extra", 2.0}};
  const auto messages = parse_array(R"([{"role": "user", "content": "hi"}])");
  EXPECT_EQ(*parsed->render(messages, options), "<s>user=hi;TrueTrueTrue2.0");

  const auto tools = parse_array(R"([{"name": "f"}])");
  options.tools = &tools;
  options.documents = &tools;
  options.add_generation_prompt = false;
  EXPECT_EQ(*parsed->render(messages, options), "<s>user=hi;FalseFalseFalse2.0");
}

TEST(ChatTemplate, RendersAgainAndAgain) {
  const auto parsed = ChatTemplate::parse(
      "{% set ns = namespace(n=0) %}{% macro m() %}{{ ns.n }}{% endmacro %}"
      "{% for x in messages %}{% set ns.n = ns.n + 1 %}{{ m() }}{% endfor %}");
  ASSERT_TRUE(parsed);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*parsed->render(parse_array("[1, 2, 3]"), {}), "123");
}

TEST(ChatTemplate, TimeIsTheOneGiven) {
  const auto parsed = ChatTemplate::parse("{{ strftime_now('%d %b %Y') }}");
  ASSERT_TRUE(parsed);
  ChatTemplateOptions options;
  options.now_unix_seconds = 1795167000;
  EXPECT_EQ(*parsed->render({}, options), "20 Nov 2026");
}

TEST(ChatTemplate, RaisedTextIsShownAsItIs) {
  const auto parsed = ChatTemplate::parse("{{ raise_exception('Roles must alternate') }}");
  const auto text = parsed->render({}, {});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(text.error().message, "Roles must alternate");
}

TEST(ChatTemplate, ErrorsSayThatItIsTheTemplate) {
  EXPECT_EQ(ChatTemplate::parse("{{ x | nosuch }}").error().message,
            "chat template: line 1: No filter named 'nosuch'.");
  EXPECT_EQ(ChatTemplate::parse("{{ x.y }}")->render({}, {}).error().message,
            "chat template: line 1: 'x' is undefined");
}

TEST(ChatTemplate, IntegersOf64BitsKeepTheirDigits) {
  const auto parsed = ChatTemplate::parse("{{ messages | tojson }}");
  EXPECT_EQ(*parsed->render(parse_array("[18446744073709551615, -9223372036854775808]"), {}),
            "[18446744073709551615, -9223372036854775808]");
}

TEST(LoadChatTemplate, PrefersTheFileThenTheJsonThenTheTokenizerConfig) {
  const CheckpointFolder folder;
  EXPECT_EQ(load_chat_template(folder.path()).error().code, ErrorCode::kNotFound);
  folder.write("tokenizer_config.json",
               R"({"chat_template": "C", "bos_token": null, "eos_token": "</s>",
                   "pad_token": {"content": "<pad>", "special": true}})");
  auto loaded = load_chat_template(folder.path());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->source, "C");
  EXPECT_FALSE(loaded->variables.contains("bos_token"));
  EXPECT_EQ(loaded->variables.at("eos_token").as_string(), "</s>");
  EXPECT_EQ(loaded->variables.at("pad_token").as_string(), "<pad>");

  folder.write("chat_template.json", R"({"chat_template": "J"})");
  EXPECT_EQ(load_chat_template(folder.path())->source, "J");
  folder.write("chat_template.jinja", "{{ 1 }}\n");
  EXPECT_EQ(load_chat_template(folder.path())->source, "{{ 1 }}\n");
  EXPECT_EQ(load_chat_template(folder.path())->variables.at("eos_token").as_string(), "</s>");
}

// Templates may come from elsewhere: what they name is the checkpoint's all the same.
TEST(LoadSpecialTokens, FromWhateverFileHasThem) {
  const CheckpointFolder folder;
  EXPECT_TRUE(load_special_tokens(folder.path())->empty());
  folder.write("config.json",
               R"({"bos_token_id": 2, "eos_token_id": [1, 107], "pad_token_id": 0})");
  folder.write("tokenizer.json", R"({"added_tokens": [{"id": 0, "content": "<pad>"}, {"id": 2,
               "content": "<bos>"}, {"id": 3, "content": "<unk>"}, 5]})");
  auto tokens = load_special_tokens(folder.path());
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(tokens->at("bos_token").as_string(), "<bos>");
  EXPECT_EQ(tokens->at("pad_token").as_string(), "<pad>");
  EXPECT_FALSE(tokens->contains("eos_token"));
  folder.write("special_tokens_map.json",
               R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
  EXPECT_EQ(load_special_tokens(folder.path())->at("bos_token").as_string(), "<s>");
  EXPECT_EQ(load_special_tokens(folder.path())->at("eos_token").as_string(), "</s>");
  folder.write("tokenizer_config.json", R"({"bos_token": "<|begin|>"})");
  EXPECT_EQ(load_special_tokens(folder.path())->at("bos_token").as_string(), "<|begin|>");
  EXPECT_EQ(load_chat_template(folder.path()).error().code, ErrorCode::kNotFound);
}

TEST(LoadChatTemplate, TakesTheDefaultOfSeveral) {
  const CheckpointFolder folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "T"},
                                     {"name": "default", "template": "D"}]})");
  EXPECT_EQ(load_chat_template(folder.path())->source, "D");
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "T"}]})");
  const auto none = load_chat_template(folder.path());
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("'default'"), std::string::npos);
}

TEST(LoadChatTemplate, RefusesFilesThatAreSomethingElse) {
  const CheckpointFolder folder;
  folder.write("chat_template.json", "[1]");
  EXPECT_EQ(load_chat_template(folder.path()).error().code, ErrorCode::kInvalid);
  folder.write("chat_template.json", R"({"chat_template": 5})");
  EXPECT_EQ(load_chat_template(folder.path()).error().code, ErrorCode::kInvalid);
  folder.write("chat_template.json", "{");
  EXPECT_EQ(load_chat_template(folder.path()).error().code, ErrorCode::kInvalid);
  folder.write("tokenizer_config.json", "[]");
  EXPECT_EQ(load_chat_template(folder.path()).error().code, ErrorCode::kInvalid);
  folder.write("tokenizer_config.json", "{}");
  folder.write("chat_template.jinja", std::string(std::size_t{2} << 20, 'x'));
  EXPECT_EQ(load_chat_template(folder.path()).error().code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace saccade
