// Parsers of tool calls against the chat templates that write them: what a template makes of an
// assistant's calls, the parser chosen from that template reads back.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/json.h"
#include "text/templates/chat_template.h"
#include "tools/answer_parser_testing.h"

namespace saccade {
namespace {

const std::string kPublished = SACCADE_SOURCE_DIR "/../shared/data/chat_templates";

// The format of each published template that writes calls in one that is known.
const std::map<std::string, std::string_view> kFormats = {
    {"Apriel-1.6-15b-Thinker-fixed.jinja", "jamba"},
    {"ByteDance-Seed-OSS.jinja", "seed_oss"},
    {"LFM2.5-8B-A1B.jinja", "lfm2"},
    {"MiMo-VL.jinja", "hermes"},
    {"MiniMax-M1.jinja", "jamba"},
    {"Mistral-Small-3.2-24B-Instruct-2506.jinja", "mistral"},
    {"NVIDIA-Nemotron-Nano-v2.jinja", "nemotron_json"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", "hermes"},
    {"Qwen-QwQ-32B.jinja", "hermes"},
    {"Qwen-Qwen2.5-7B-Instruct.jinja", "hermes"},
    {"Qwen3-Coder.jinja", "qwen3_coder"},
    {"Qwen3.5-4B.jinja", "qwen3_coder"},
    {"StepFun3.5-Flash.jinja", "qwen3_coder"},
    {"fireworks-ai-llama-3-firefunction-v2.jinja", "phi4_mini_json"},
    {"ibm-granite-granite-4.0.jinja", "hermes"},
    {"ibm-granite-granite-4.1.jinja", "hermes"},
    {"meta-llama-Llama-3.1-8B-Instruct.jinja", "llama3_json"},
    {"meta-llama-Llama-3.2-3B-Instruct.jinja", "llama3_json"},
    {"mistralai-Ministral-3-14B-Reasoning-2512.jinja", "mistral"},
    {"unsloth-mistral-Devstral-Small-2507.jinja", "mistral"},
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

json::array array(std::string_view text) { return json::parse(text)->as_array(); }

const char* const kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "description": "Weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"},
      "days": {"type": "integer"}, "exact": {"type": "boolean"}, "min": {"type": "number"},
      "where": {"type": "object"}, "names": {"type": "array"}}, "required": ["city"]}}},
  {"type": "function", "function": {"name": "search", "description": "Search.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}},
      "required": ["query"]}}}])";

const char* const kCalls = R"([
  {"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments":
    {"city": "Zürich", "days": 2, "exact": true, "min": -2.5, "where": {"x": [1, null]},
     "names": ["a", "b"]}}},
  {"id": "call00002", "type": "function", "function": {"name": "search", "arguments":
    {"query": "line one\n\"two\" {a: [<b>]}"}}}])";

struct Outcome {
  std::string text;  // of the assistant, as the template writes it
  json::array calls;
};

// The assistant's message alone: what follows the prompt that asks for it.
Result<Outcome> assistant_text(const ChatTemplate& chat_template, std::string_view content,
                               json::array calls) {
  json::array tools = array(kTools);
  ChatTemplateOptions options;
  options.tools = &tools;
  options.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"enable_thinking", false}};
  json::array messages = array(R"([{"role": "user", "content": "Go."}])");
  TRY(const std::string prompt, chat_template.render(messages, options));
  messages.push_back(json::object{
      {"role", "assistant"}, {"content", json::string(content)}, {"tool_calls", calls}});
  options.add_generation_prompt = false;
  TRY(const std::string whole, chat_template.render(messages, options));
  std::size_t common = 0;
  while (common < prompt.size() && common < whole.size() && prompt[common] == whole[common])
    ++common;
  // A marker may begin as the prompt's next one does.
  constexpr std::string_view kEnds = "\n>]";
  while (common > 0 && kEnds.find(whole[common - 1]) == std::string_view::npos) --common;
  return Outcome{whole.substr(common), std::move(calls)};
}

// As a template would have it: several calls in one message where it takes them.
Result<Outcome> calls_text(const ChatTemplate& chat_template, std::string_view content) {
  auto both = assistant_text(chat_template, content, array(kCalls));
  if (both) return both;
  return assistant_text(chat_template, content, json::array{array(kCalls)[0]});
}

void expect_inverse(const ChatTemplate& chat_template, const tools::ToolCallFormat& format,
                    const tools::ReasoningFormat* reasoning, std::string_view content) {
  const auto outcome = calls_text(chat_template, content);
  ASSERT_TRUE(outcome) << outcome.error().message;
  tools::ParserForm form;
  form.calls = &format;
  form.reasoning = reasoning;
  form.tools = std::make_shared<json::array>(array(kTools));
  const tools::ParsedAnswer answer = tools::parse_answer(form, outcome->text);
  ASSERT_EQ(answer.calls.size(), outcome->calls.size()) << outcome->text;
  for (std::size_t i = 0; i < answer.calls.size(); ++i) {
    const json::object& function = outcome->calls[i].at("function").as_object();
    EXPECT_EQ(answer.calls[i].name, function.at("name").as_string());
    const auto arguments = json::parse(answer.calls[i].arguments);
    ASSERT_TRUE(arguments) << answer.calls[i].arguments;
    EXPECT_EQ(*arguments, function.at("arguments")) << outcome->text;
  }
  EXPECT_EQ(answer.content.find('{'), std::string::npos) << answer.content;
  EXPECT_EQ(answer.content.substr(0, content.size()), content) << outcome->text;
}

TEST(ToolCallTemplates, TheParserChosenFromATemplateReadsWhatItWrites) {
  if (!std::filesystem::exists(kPublished)) GTEST_SKIP() << kPublished << " is not here";
  int inverted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kPublished)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().filename();
    SCOPED_TRACE(name);
    const std::string source = read(entry.path());
    const tools::ToolCallFormat* format = tools::format_of_template(source);
    const auto expected = kFormats.find(name);
    EXPECT_EQ(format == nullptr ? "" : format->name,
              expected == kFormats.end() ? "" : expected->second);
    if (format == nullptr || expected == kFormats.end()) continue;
    auto chat_template = ChatTemplate::parse(source);
    ASSERT_TRUE(chat_template) << chat_template.error().message;
    const tools::ReasoningFormat* reasoning = tools::reasoning_of_template(source);
    if (name.starts_with("fireworks")) {  // wants variables that no client sends
      EXPECT_FALSE(calls_text(*chat_template, ""));
      continue;
    }
    expect_inverse(*chat_template, *format, reasoning, "");
    ++inverted;
  }
  EXPECT_EQ(inverted, static_cast<int>(kFormats.size()) - 1);
}

// Forms whose makers' templates are not in that folder, as their documents have them: whole
// templates, small.
TEST(ToolCallTemplates, FormsThatDocumentsShow) {
  const std::string begin =
      "{% if tools %}{{ tools | tojson }}{% endif %}"
      "{% for message in messages %}<{{ message.role }}>\n{{ message.content }}"
      "{% for call in message.tool_calls or [] %}{% set f = call.function %}";
  const std::string end =
      "{% endfor %}{% endfor %}{% if add_generation_prompt %}<assistant>\n{% endif %}";
  const std::string python =
      "{{ '[' if loop.first else ', ' }}{{ f.name }}({% for key, value in f.arguments.items() %}"
      "{{ key }}={{ value if value is not string and value is not mapping and value is not iterable"
      " else value | tojson }}{{ ', ' if not loop.last }}{% endfor %}){{ ']' if loop.last }}";
  const auto list = [](const std::string& open, const std::string& close) {
    return "{{ '" + open +
           "[' if loop.first else ', ' }}"
           "{{ {'name': f.name, 'arguments': f.arguments} | tojson }}"
           "{{ ']" +
           close + "' if loop.last }}";
  };
  const std::map<std::string, std::string> templates = {
      {"internlm",
       "<|action_start|><|plugin|>\n{{ {'name': f.name, 'parameters': f.arguments} | tojson }}"
       "<|action_end|>\n"},
      {"phi4_mini_json", list("functools", "")},
      {"granite", list("<|tool_call|>", "")},
      {"pythonic", "{# [func_name1(params_name1=params_value1)] #}" + python},
      {"llama4_pythonic",
       "{{ '<|python_start|>' if loop.first }}" + python + "{{ '<|python_end|>' if loop.last }}"},
      {"gemma3", "{{ '```tool_code\n' if loop.first }}" + python + "{{ '\n```' if loop.last }}"}};
  for (const auto& [name, call] : templates) {
    SCOPED_TRACE(name);
    const std::string source = begin + call + end;
    const tools::ToolCallFormat* format = tools::format_of_template(source);
    ASSERT_NE(format, nullptr);
    EXPECT_EQ(format->name, name);
    auto chat_template = ChatTemplate::parse(source);
    ASSERT_TRUE(chat_template) << chat_template.error().message;
    expect_inverse(*chat_template, *format, nullptr, "");
    if (format->bare == 0) expect_inverse(*chat_template, *format, nullptr, "I will look.");
  }
}

}  // namespace
}  // namespace saccade
