#include "tools/formats.h"

#include "base/hash.h"

namespace saccade::tools {
namespace {

constexpr CallMarker kHermes[] = {{"<tool_call>", "</tool_call>", BodyKind::kJson}};
constexpr CallMarker kQwenXml[] = {
    {"<tool_call>", "</tool_call>", BodyKind::kXml},
    {"<function=", "</tool_call>", BodyKind::kXmlInFunction},
};
constexpr CallMarker kSeedXml[] = {
    {"<seed:tool_call>", "</seed:tool_call>", BodyKind::kXml},
    {"<function=", "</seed:tool_call>", BodyKind::kXmlInFunction},
};
constexpr CallMarker kLlamaJson[] = {{"<|python_tag|>", "", BodyKind::kJsonSeries}};
constexpr CallMarker kLlamaPython[] = {{"<|python_start|>", "<|python_end|>", BodyKind::kPython}};
constexpr CallMarker kLfm[] = {
    {"<|tool_call_start|>", "<|tool_call_end|>", BodyKind::kCode},
};
constexpr CallMarker kInternLm[] = {
    {"<|action_start|><|plugin|>", "<|action_end|>", BodyKind::kJson},
    {"<|action_start|> <|plugin|>", "<|action_end|>", BodyKind::kJson},
};
constexpr CallMarker kPhi[] = {
    {"functools", "", BodyKind::kJsonList},
    {"<|tool_call|>", "<|/tool_call|>", BodyKind::kJsonList},
};
constexpr CallMarker kGranite[] = {
    {"<|tool_call|>", "", BodyKind::kJsonList},
    {"<tool_call>", "</tool_call>", BodyKind::kJsonList},  // Granite 3.1
};
constexpr CallMarker kMistral[] = {{"[TOOL_CALLS]", "", BodyKind::kMistral}};
constexpr CallMarker kGemma[] = {{"```tool_code", "```", BodyKind::kCode}};
constexpr CallMarker kJamba[] = {{"<tool_calls>", "</tool_calls>", BodyKind::kJsonList}};
constexpr CallMarker kMinimax[] = {{"<tool_calls>", "</tool_calls>", BodyKind::kJsonLines}};
constexpr CallMarker kNemotron[] = {{"<TOOLCALL>", "</TOOLCALL>", BodyKind::kJsonList}};

constexpr std::string_view kThenName = "{\"name\": \"";
constexpr std::string_view kThenArguments = "\", \"arguments\": ";
constexpr std::string_view kThenParameters = "\", \"parameters\": ";

constexpr WrittenForm kWrittenHermes = {
    "", "<tool_call>\n{\"name\": \"", kThenArguments, "}\n</tool_call>", "\n", ""};
constexpr WrittenForm kWrittenLlama = {"", kThenName, kThenParameters, "}", "; ", ""};
constexpr WrittenForm kWrittenInternLm = {
    "", "<|action_start|><|plugin|>\n{\"name\": \"", kThenParameters, "}<|action_end|>", "\n", ""};

// A list between markers.
constexpr WrittenForm list_between(std::string_view before, std::string_view after) {
  return {before, kThenName, kThenArguments, "}", ", ", after};
}

constexpr ToolCallFormat kFormats[] = {
    {"hermes", kHermes, 0, {}, kWrittenHermes},
    {"qwen3_coder", kQwenXml},
    {"qwen3_xml", kQwenXml},
    {"seed_oss", kSeedXml, 0, {}, {}, false, "<seed:think>", "</seed:think>"},
    {"llama3_json", kLlamaJson, '{', BodyKind::kJsonSeries, kWrittenLlama},
    {"llama4_json", kLlamaJson, '{', BodyKind::kJsonSeries, kWrittenLlama},
    {"pythonic", {}, '[', BodyKind::kPython},
    {"llama4_pythonic", kLlamaPython, '[', BodyKind::kPython},
    {"lfm2", kLfm, 0, {}, list_between("<|tool_call_start|>[", "]<|tool_call_end|>")},
    {"internlm", kInternLm, 0, {}, kWrittenInternLm},
    {"phi4_mini_json", kPhi, 0, {}, list_between("functools[", "]")},
    {"granite", kGranite, 0, {}, list_between("<|tool_call|>[", "]")},
    {"mistral", kMistral, 0, {}, list_between("[TOOL_CALLS][", "]"), true},
    {"gemma3", kGemma, '[', BodyKind::kPython, list_between("```tool_code\n[", "]\n```")},
    {"jamba", kJamba, 0, {}, list_between("<tool_calls>[", "]</tool_calls>")},
    {"minimax",
     kMinimax,
     0,
     {},
     list_between("<tool_calls>\n[", "]\n</tool_calls>"),
     false,
     "<think>",
     "</think>"},
    {"nemotron_json", kNemotron, 0, {}, list_between("<TOOLCALL>[", "]</TOOLCALL>")},
};

constexpr ReasoningFormat kReasoning[] = {
    {"qwen3", "<think>", "</think>"},
    {"deepseek_r1", "<think>", "</think>", true},
    {"glm45", "<think>", "</think>"},
    {"mistral", "[THINK]", "[/THINK]"},
    {"seed_oss", "<seed:think>", "</seed:think>"},
};

template <typename Table>
Result<const typename Table::value_type*> by_name(const Table& table, std::string_view what,
                                                  std::string_view name) {
  std::string names;
  for (const auto& format : table) {
    if (format.name == name) return &format;
    names += names.empty() ? "" : ", ";
    names += format.name;
  }
  return fail(ErrorCode::kInvalid, "{} '{}' is not known; {} are", what, name.substr(0, 40), names);
}

bool has(std::string_view source, std::string_view text) {
  return source.find(text) != std::string_view::npos;
}

}  // namespace

Result<const ToolCallFormat*> tool_call_format(std::string_view name) {
  return by_name(std::span(kFormats), "--tool-call-parser", name);
}

Result<const ReasoningFormat*> reasoning_format(std::string_view name) {
  return by_name(std::span(kReasoning), "--reasoning-parser", name);
}

std::span<const ToolCallFormat> tool_call_formats() { return kFormats; }
std::span<const ReasoningFormat> reasoning_formats() { return kReasoning; }

const ToolCallFormat* format_of_template(std::string_view source) {
  // The first whose every text is there. Markers that templates share come with what tells them
  // apart.
  struct Sign {
    std::string_view format;
    std::string_view text;
    std::string_view also;
  };
  constexpr Sign kSigns[] = {
      {"mistral", "[TOOL_CALLS]", ""},
      {"seed_oss", "seed:tool_call", "<function="},
      {"qwen3_coder", "<tool_call>", "<parameter="},
      {"hermes", "<tool_call>", "\"arguments\":"},
      {"hermes", "<tool_call>", "\\\"arguments\\\":"},
      {"internlm", "<|action_start|>", "<|plugin|>"},
      {"lfm2", "<|tool_call_start|>", ""},
      {"llama4_pythonic", "<|python_start|>", ""},
      {"phi4_mini_json", "functools[", ""},
      {"phi4_mini_json", "<|/tool_call|>", ""},
      {"granite", "<|tool_call|>", ""},
      {"nemotron_json", "<TOOLCALL>", ""},
      {"jamba", "<tool_calls>", ""},
      {"llama3_json", "\"parameters\": ", "ipython"},
      {"pythonic", "func_name1(params_name1=", ""},
      {"gemma3", "tool_code", ""},
  };
  for (const Sign& sign : kSigns) {
    if (has(source, sign.text) && has(source, sign.also)) return *tool_call_format(sign.format);
  }
  return nullptr;
}

const ReasoningFormat* reasoning_of_template(std::string_view source) {
  for (const ReasoningFormat& format : kReasoning) {
    if (has(source, format.begin) || has(source, format.end)) return &format;
  }
  return nullptr;
}

bool opens_reasoning(const ReasoningFormat& format, std::string_view prompt) {
  while (!prompt.empty() && (prompt.back() == '\n' || prompt.back() == ' '))
    prompt.remove_suffix(1);
  return prompt.ends_with(format.begin);
}

std::string call_id(const ToolCallFormat& format, std::string_view seed, int call) {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const std::size_t length = format.short_ids ? 9 : 24;
  const std::uint64_t base = hash_combine(hash64(seed), static_cast<std::uint64_t>(call));
  std::string id = format.short_ids ? "" : "call_";
  for (std::size_t i = 0; i < length; ++i) id += kLetters[hash_combine(base, i) % kLetters.size()];
  return id;
}

}  // namespace saccade::tools
