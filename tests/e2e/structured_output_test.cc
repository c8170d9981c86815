// Structured outputs of the real binary: whatever form a request asks for, the answer has it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

const char* const kSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},
        "age":{"type":"integer","minimum":0,"maximum":130},"kind":{"enum":["cat","dog"]},
        "tags":{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2}},
        "required":["name","age","kind","tags"],"additionalProperties":false})";

class StructuredOutputs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<ServerProcess>(
        SACCADE_BINARY,
        std::vector<std::string>{"serve", "--model", kCheckpoint, "--dtype", "float32",
                                 "--served-model-name", "tiny", "--max-model-len", "512"});
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->stop(), 0) << server_->log();
    server_.reset();
  }
  static RawAnswer post(const std::string& path, const std::string& body) {
    return exchange(server_->port(), "POST", path, body);
  }
  static RawAnswer chat(const std::string& members) {
    return post(
        "/v1/chat/completions",
        R"({"messages":[{"role":"user","content":"Say it."}],"max_tokens":200,)" + members + "}");
  }
  static RawAnswer complete(const std::string& members) {
    return post("/v1/completions", R"({"prompt":"Say it:","max_tokens":200,)" + members + "}");
  }

  static std::unique_ptr<ServerProcess> server_;
};
std::unique_ptr<ServerProcess> StructuredOutputs::server_;

struct Choice {
  std::string text;
  std::string finish;
};

std::vector<Choice> choices_of(const RawAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  std::vector<Choice> choices;
  const auto tree = json::parse(answer.body);
  if (!tree || answer.status != 200) return choices;
  for (const auto& choice : tree->at("choices").as_array()) {
    const json::object& at = choice.as_object();
    const auto* message = json::find(at, "message");
    choices.push_back({std::string((message ? message->at("content") : at.at("text")).as_string()),
                       std::string(at.at("finish_reason").as_string())});
  }
  return choices;
}

// What kSchema says.
void expect_valid(const std::string& text) {
  const auto value = json::parse(text);
  ASSERT_TRUE(value && value->is_object()) << text;
  const json::object& at = value->get_object();
  ASSERT_EQ(at.size(), 4u) << text;
  EXPECT_TRUE(at.at("name").is_string()) << text;
  EXPECT_GE(at.at("age").as_int64(), 0);
  EXPECT_LE(at.at("age").as_int64(), 130);
  const std::string_view kind = at.at("kind").as_string();
  EXPECT_TRUE(kind == "cat" || kind == "dog") << text;
  const json::array& tags = at.at("tags").as_array();
  EXPECT_TRUE(tags.size() == 1 || tags.size() == 2) << text;
  for (const auto& tag : tags) EXPECT_TRUE(tag.is_bool()) << text;
}

std::string as_schema(const std::string& schema) {
  return R"("response_format":{"type":"json_schema","json_schema":{"name":"it","strict":true,)"
         R"("schema":)" +
         schema + "}}";
}

TEST_F(StructuredOutputs, EveryAnswerIsValid) {
  for (int seed = 0; seed < 12; ++seed) {
    const std::string sampled =
        R"(,"temperature":1.5,"seed":)" + std::to_string(seed) +
        (seed % 3 == 0 ? R"(,"repetition_penalty":1.4,"logprobs":true)" : "");
    const auto choices = choices_of(chat(as_schema(kSchema) + R"(,"n":3)" + sampled));
    ASSERT_EQ(choices.size(), 3u);
    for (const Choice& choice : choices) {
      // Blanks without end are of the grammar too: only what ended is whole.
      if (choice.finish == "stop") expect_valid(choice.text);
    }
    const auto compact = choices_of(complete(
        R"("structured_outputs":{"disable_any_whitespace":true,"json":)" + std::string(kSchema) +
        R"(},"n":2,"temperature":1.5,"seed":)" + std::to_string(seed)));
    ASSERT_EQ(compact.size(), 2u);
    for (const Choice& choice : compact) {
      EXPECT_EQ(choice.finish, "stop");
      expect_valid(choice.text);
    }
  }
}

TEST_F(StructuredOutputs, EachFormOfAsking) {
  for (
      const std::string members :
      {R"("structured_outputs":{"choice":["red","green","blue"]})",
       R"("guided_choice":["red","green","blue"])",
       R"("structured_outputs":{"regex":"red|green|blue"})", R"("guided_regex":"red|green|blue")",
       R"("structured_outputs":{"grammar":"root ::= \"red\" | rest\nrest ::= \"green\" | \"blue\""})",
       R"("guided_grammar":"root ::= \"red\" | \"green\" | \"blue\"")"}) {
    for (const RawAnswer& answer : {chat(members), complete(members)}) {
      const auto choices = choices_of(answer);
      ASSERT_EQ(choices.size(), 1u) << members;
      const std::string& text = choices[0].text;
      EXPECT_TRUE(text == "red" || text == "green" || text == "blue") << members << ": " << text;
      EXPECT_EQ(choices[0].finish, "stop");
    }
  }
  for (const std::string members :
       {R"("guided_json":{"type":"array","items":{"type":"null"},"maxItems":2})",
        R"("guided_json":"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"maxItems\":2}")"}) {
    const auto choices = choices_of(chat(members + R"(,"temperature":0.1,"max_tokens":400)"));
    ASSERT_EQ(choices.size(), 1u);
    EXPECT_EQ(choices[0].text[0], '[') << choices[0].text;
    if (choices[0].finish == "stop") {
      EXPECT_TRUE(json::parse(choices[0].text)) << choices[0].text;
    }
  }
  const auto object =
      choices_of(chat(R"("response_format":{"type":"json_object"},"max_tokens":30)"));
  ASSERT_EQ(object.size(), 1u);
  EXPECT_EQ(object[0].text[0], '{') << object[0].text;
  const auto tagged =
      choices_of(chat(R"("response_format":{"type":"structural_tag","structures":[{"begin":"<f>",
              "schema":{"type":"integer"},"end":"</f>"}],"triggers":["<f>"]},"max_tokens":20)"));
  EXPECT_EQ(tagged.size(), 1u);
}

TEST_F(StructuredOutputs, StreamsAreTheSameText) {
  const std::string members =
      R"("structured_outputs":{"regex":"[a-z]{3,12}( [0-9]{2}){1,4}\\."},"seed":5)";
  const auto whole = choices_of(chat(members));
  ASSERT_EQ(whole.size(), 1u);
  const RawAnswer stream = chat(members + R"(,"stream":true)");
  std::string text;
  for (std::size_t at = 0; (at = stream.body.find("data: {", at)) != std::string::npos; ++at) {
    const std::size_t end = stream.body.find("\n\n", at);
    const auto event = json::parse(std::string_view(stream.body).substr(at + 6, end - at - 6));
    ASSERT_TRUE(event);
    for (const auto& choice : event->at("choices").as_array()) {
      const auto* content = json::find(choice.at("delta").as_object(), "content");
      if (content) text += std::string_view(content->as_string());
    }
  }
  EXPECT_EQ(text, whole[0].text);
  EXPECT_EQ(text.back(), '.');
}

TEST_F(StructuredOutputs, CutAnswersSayLength) {
  const auto cut =
      choices_of(chat(R"("structured_outputs":{"regex":"[a-z]{900}"},"max_tokens":6)"));
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0].finish, "length");
  const auto least = choices_of(
      chat(R"("structured_outputs":{"choice":["yes","no"]},"min_tokens":50,"ignore_eos":true)"));
  ASSERT_EQ(least.size(), 1u);
  EXPECT_EQ(least[0].finish, "stop");
}

TEST_F(StructuredOutputs, RefusalsNameTheMember) {
  struct Refused {
    const char* members;
    const char* param;
    const char* words;
  };
  for (const auto& [members, param, words] :
       {Refused{R"("response_format":{"type":"json_schema","json_schema":{"name":"a","schema":
                   {"type":"object","properties":{"a":{"not":{}}}}}})",
                "response_format", "schema #/properties/a: 'not' is not supported"},
        Refused{R"p("structured_outputs":{"regex":"(?=a)"})p", "structured_outputs.regex",
                "look-around"},
        Refused{R"("structured_outputs":{"json":"{"})", "structured_outputs.json", "JSON"},
        Refused{R"("guided_grammar":"start ::= a")", "guided_grammar", "no rule 'root'"},
        Refused{R"("guided_regex":"a","guided_choice":["b"])", "guided_choice", "guided_regex"},
        Refused{R"("structured_outputs":{"regex":"[^a]{4}(a?){4294967295}"})",
                "structured_outputs.regex", "count"}}) {
    for (const char* more : {"", R"(,"stream":true)"}) {
      const RawAnswer answer = chat(std::string(members) + more);
      EXPECT_EQ(answer.status, 400) << answer.body;
      const auto tree = json::parse(answer.body);
      ASSERT_TRUE(tree) << answer.body;
      EXPECT_EQ(tree->at("error").at("param").as_string(), param);
      EXPECT_NE(answer.body.find(words), std::string::npos) << answer.body;
    }
  }
  std::string deep = "{}";
  for (int i = 0; i < 25; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  EXPECT_EQ(chat(as_schema(deep) + R"(,"max_tokens":5)").status, 200);
  std::string many;
  for (int i = 0; i < 20000; ++i) many += (i ? ",\"value " : "\"value ") + std::to_string(i) + "\"";
  EXPECT_EQ(chat(as_schema(R"({"enum":[)" + many + "]}")).status, 400);
}

// Many at once, some cut off in the middle: whoever stays gets what they get alone.
TEST_F(StructuredOutputs, ManyAtOnceAndSomeGone) {
  const auto members = [](int i) {
    return R"("structured_outputs":{"regex":"[a-f]{10,40}[0-9]{)" + std::to_string(1 + i % 5) +
           R"(}"},"seed":)" + std::to_string(i);
  };
  std::vector<std::string> alone;
  for (int i = 0; i < 8; ++i) alone.push_back(choices_of(chat(members(i)))[0].text);
  std::vector<std::string> together(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      if (i < 8) {
        const auto choices = choices_of(chat(members(i)));
        if (!choices.empty()) together[static_cast<std::size_t>(i)] = choices[0].text;
      } else {
        const std::string body =
            R"({"messages":[{"role":"user","content":"x"}],"stream":true,)" + members(i) + "}";
        exchange(server_->port(), "POST", "/v1/chat/completions", body, 400);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

// Blanks outside of strings, but for one behind ',' and ':'.
bool compact(const std::string& text) {
  bool within = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) within = !within;
    if (within || std::string_view(" \t\r\n").find(text[i]) == std::string_view::npos) continue;
    if (text[i] != ' ' || i == 0 || (text[i - 1] != ',' && text[i - 1] != ':')) return false;
  }
  return true;
}

// Of ten answers in JSON of a model that writes whatever it may, how many have such blanks.
int loose_answers(const std::vector<std::string>& flags, const std::string& members) {
  std::vector<std::string> arguments = {"serve",   "--model",         kCheckpoint, "--dtype",
                                        "float32", "--max-model-len", "512"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  ServerProcess server(SACCADE_BINARY, arguments);
  const RawAnswer answer = exchange(
      server.port(), "POST", "/v1/completions",
      R"({"prompt":"Say it:","max_tokens":60,"n":10,"temperature":1.5,"seed":3,"structured_outputs":{"json":)" +
          std::string(kSchema) + members + "}}");
  int loose = 0;
  for (const Choice& choice : choices_of(answer)) loose += compact(choice.text) ? 0 : 1;
  EXPECT_EQ(server.stop(), 0) << server.log();
  return loose;
}

TEST(StructuredOutputsConfig, SaysWhichBlanksThereAreWhereARequestDoesNot) {
  EXPECT_GT(loose_answers({}, ""), 0);
  const std::vector<std::string> none = {"--structured-outputs-config",
                                         R"({"backend":"xgrammar","disable_any_whitespace":true})"};
  EXPECT_EQ(loose_answers(none, ""), 0);
  EXPECT_GT(loose_answers(none, R"(,"disable_any_whitespace":false)"), 0);
  EXPECT_EQ(loose_answers({"--guided-decoding-disable-any-whitespace"}, ""), 0);
}

TEST(StructuredOutputsConfig, MembersThatWouldChangeWhatIsDoneAreNamed) {
  const auto said = [](const std::string& config) {
    const Ended ended = run_to_end(
        SACCADE_BINARY, {"serve", "--model", kCheckpoint, "--structured-outputs-config", config});
    EXPECT_EQ(ended.status, 1) << config;
    return ended.output;
  };
  EXPECT_NE(said(R"({"enable_in_reasoning":false})").find("enable_in_reasoning is false"),
            std::string::npos);
  EXPECT_NE(said(R"({"whitespace_pattern":" "})").find("'whitespace_pattern' is not known"),
            std::string::npos);
  EXPECT_NE(said(R"({"disable_any_whitespace":"yes"})").find("disable_any_whitespace"),
            std::string::npos);
  EXPECT_NE(said(R"({"reasoning_parser_plugin":"my.py"})").find("no Python is run"),
            std::string::npos);
  EXPECT_NE(said(R"({"reasoning_parser":"","reasoning_parser_plugin":"","x":1})")
                .find("'x' is not known"),
            std::string::npos);
  EXPECT_NE(said("yes").find("a JSON object is required"), std::string::npos);
}

}  // namespace
}  // namespace saccade::test
