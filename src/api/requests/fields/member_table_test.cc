// Every member that a client can put into an object within a request has a row, and what the row
// says is what the parsers do.
#include "api/requests/fields/member_table.h"

#include <gmock/gmock.h>

#include <boost/json/array.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/requests/chat_request.h"
#include "api/requests/completion_request.h"
#include "api/requests/fields/fields.h"
#include "api/requests/fields/member_check.h"
#include "api/requests/messages_request.h"
#include "api/requests/response_request.h"

namespace saccade::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto C = RequestKind::kChat;
constexpr auto T = RequestKind::kCompletion;
constexpr auto R = RequestKind::kResponse;
constexpr auto M = RequestKind::kMessages;

// A request of the kind with `$` where an object of that place stands, and objects that may stand
// there: between them they have every member that is used.
struct Sample {
  RequestKind kind;
  std::string path;
  std::string body;
  std::vector<std::string> objects;
};

const std::string kImage = R"("data:image/png;base64,AAAA")";
const std::string kFilm = R"("data:video/mp4;base64,AAAA")";
const std::string kOneTool =
    R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])";
const std::string kFlatTools = R"(, "tools": [{"type": "function", "name": "f"}])";
const std::string kInputTools = R"(, "tools": [{"name": "f", "input_schema": {}}])";
const std::string kSchema =
    R"({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}})";

std::string chat_with(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "a"}])" + more + "}";
}
std::string chat_part(const std::string& part) {
  return R"({"messages": [{"role": "user", "content": [)" + part + "]}]}";
}
std::string chat_assistant(const std::string& members) {
  return R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", )" +
         members + "}]}";
}
std::string completion_with(const std::string& more) { return R"({"prompt": "a")" + more + "}"; }
std::string response_with(const std::string& more) { return R"({"input": "a")" + more + "}"; }
std::string item(const std::string& one) {
  return R"({"input": [{"role": "user", "content": "a"}, )" + one + "]}";
}
std::string turn(const std::string& more) {
  return R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}])" + more + "}";
}
std::string block(const std::string& role, const std::string& one) {
  return R"({"max_tokens": 1, "messages": [{"role": ")" + role + R"(", "content": [)" + one +
         R"(]}, {"role": "user", "content": "z"}]})";
}

std::vector<Sample> chat_samples() {
  const std::string url = "{\"url\": " + kImage + "}";
  const std::string film = "{\"url\": " + kFilm + "}";
  const std::string tool = R"({"type": "function", "function": {"name": "f"}})";
  return {
      {C,
       "messages[]",
       R"({"messages": [{"role": "user", "content": "a"}, $]})",
       {R"({"role": "assistant", "content": "b"})"}},
      {C,
       "messages[].content[]",
       chat_part("$"),
       {R"({"type": "text", "text": "a"})", R"({"type": "refusal", "refusal": "a"})",
        R"({"type": "thinking", "thinking": "a"})",
        R"({"type": "image_url", "image_url": )" + kImage + "}",
        R"({"type": "image", "image": )" + kImage + "}",
        R"({"type": "image_embeds", "image_embeds": "AAAA"})",
        R"({"type": "video_url", "video_url": )" + kFilm + "}",
        R"({"type": "video", "video": [)" + kImage + "]}"}},
      {C,
       "messages[].content[].image_url",
       chat_part(R"({"type": "image_url", "image_url": $})"),
       {url}},
      {C, "messages[].content[].image", chat_part(R"({"type": "image", "image": $})"), {url}},
      {C,
       "messages[].content[].video_url",
       chat_part(R"({"type": "video_url", "video_url": $})"),
       {film}},
      {C, "messages[].content[].video", chat_part(R"({"type": "video", "video": $})"), {film}},
      {C,
       "messages[].content[].image_embeds",
       chat_part(R"({"type": "image_embeds", "image_embeds": $})"),
       {R"({"image_embeds": "AAAA"})"}},
      {C,
       "messages[].tool_calls[]",
       chat_assistant(R"("tool_calls": [$])"),
       {R"({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}})"}},
      {C,
       "messages[].tool_calls[].function",
       chat_assistant(R"("tool_calls": [{"id": "c", "function": $}])"),
       {R"({"name": "f", "arguments": "{}"})"}},
      {C,
       "messages[].function_call",
       chat_assistant(R"("function_call": $)"),
       {R"({"name": "f", "arguments": "{}"})"}},
      {C, "messages[].tools[]", chat_assistant(R"("tools": [$])"), {tool}},
      {C,
       "messages[].tools[].function",
       chat_assistant(R"("tools": [{"function": $}])"),
       {R"({"name": "f"})"}},
      {C, "tools[]", chat_with(R"(, "tools": [$])"), {tool}},
      {C,
       "tools[].function",
       chat_with(R"(, "tools": [{"type": "function", "function": $}])"),
       {R"({"name": "f"})"}},
      {C,
       "tool_choice",
       chat_with(R"(, "tool_choice": $)" + kOneTool),
       {tool, R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [)" + tool +
                  "]}}"}},
      {C,
       "tool_choice.function",
       chat_with(R"(, "tool_choice": {"type": "function", "function": $})" + kOneTool),
       {R"({"name": "f"})"}},
      {C,
       "tool_choice.allowed_tools",
       chat_with(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": $})" + kOneTool),
       {R"({"mode": "auto", "tools": [)" + tool + "]}"}},
      {C,
       "tool_choice.allowed_tools.tools[]",
       chat_with(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
            "tools": [$]}})" +
                 kOneTool),
       {tool}},
      {C,
       "tool_choice.allowed_tools.tools[].function",
       chat_with(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
            "tools": [{"type": "function", "function": $}]}})" +
                 kOneTool),
       {R"({"name": "f"})"}},
  };
}

std::vector<Sample> form_samples() {
  using Body = std::string (*)(const std::string&);
  std::vector<Sample> samples;
  for (const auto& [kind, body] : std::initializer_list<std::pair<RequestKind, Body>>{
           {C, chat_with}, {T, completion_with}, {R, response_with}, {M, turn}}) {
    samples.push_back({kind,
                       "structured_outputs",
                       body(R"(, "structured_outputs": $)"),
                       {R"({"regex": "a"})", R"({"json": {}})", "{}"}});
    if (kind != C && kind != T) continue;
    samples.push_back({kind,
                       "response_format",
                       body(R"(, "response_format": $)"),
                       {kSchema, R"({"type": "json_object", "schema": {}})",
                        R"({"type": "structural_tag", "format": {}})",
                        R"({"type": "structural_tag", "structures": [], "triggers": []})"}});
    samples.push_back({kind,
                       "response_format.json_schema",
                       body(R"(, "response_format": {"type": "json_schema", "json_schema": $})"),
                       {R"({"schema": {"type": "object"}})"}});
    samples.push_back(
        {kind,
         "response_format.structures[]",
         body(R"(, "response_format": {"type": "structural_tag", "structures": [$]})"),
         {R"({"begin": "a", "schema": {}, "end": "b"})"}});
    samples.push_back({kind,
                       "stream_options",
                       body(R"(, "stream": true, "stream_options": $)"),
                       {R"({"include_usage": true})"}});
  }
  samples.push_back(
      {R, "stream_options", response_with(R"(, "stream": true, "stream_options": $)"), {"{}"}});
  const std::string frames = R"([{"type": "video", "video": [)" + kImage + ", " + kImage + "]}]";
  samples.push_back(
      {C,
       "media_io_kwargs.video",
       R"({"media_io_kwargs": {"video": $}, "messages": [{"role": "user", "content": )" + frames +
           "}]}",
       {R"({"fps": 2})"}});
  return samples;
}

std::vector<Sample> response_samples() {
  return {
      {R,
       "input[]",
       item("$"),
       {R"({"type": "message", "role": "user", "content": "a"})",
        R"({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})",
        R"({"type": "function_call_output", "call_id": "c", "output": "a"})",
        R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]})"}},
      {R,
       "input[].content[]",
       item(R"({"role": "user", "content": [$]})"),
       {R"({"type": "input_text", "text": "a"})", R"({"type": "refusal", "refusal": "a"})",
        R"({"type": "input_image", "image_url": )" + kImage + "}"}},
      {R,
       "input[].content[].image_url",
       item(R"({"role": "user", "content": [{"type": "input_image", "image_url": $}]})"),
       {"{\"url\": " + kImage + "}"}},
      {R,
       "input[].output[]",
       item(R"({"type": "function_call_output", "call_id": "c", "output": [$]})"),
       {R"({"type": "input_text", "text": "a"})", R"({"type": "refusal", "refusal": "a"})",
        R"({"type": "input_image", "image_url": )" + kImage + "}"}},
      {R,
       "input[].output[].image_url",
       item(R"({"type": "function_call_output", "call_id": "c",
                "output": [{"type": "input_image", "image_url": $}]})"),
       {"{\"url\": " + kImage + "}"}},
      {R,
       "input[].summary[]",
       item(R"({"type": "reasoning", "summary": [$]})"),
       {R"({"type": "summary_text", "text": "a"})"}},
      {R, "text", response_with(R"(, "text": $)"), {R"({"format": {"type": "json_object"}})"}},
      {R,
       "text.format",
       response_with(R"(, "text": {"format": $})"),
       {R"({"type": "json_schema", "schema": {}})"}},
      {R, "reasoning", response_with(R"(, "reasoning": $)"), {"{}"}},
      {R, "tools[]", response_with(R"(, "tools": [$])"), {R"({"type": "function", "name": "f"})"}},
      {R,
       "tool_choice",
       response_with(R"(, "tool_choice": $)" + kFlatTools),
       {R"({"type": "function", "name": "f"})",
        R"({"type": "allowed_tools", "mode": "auto",
            "tools": [{"type": "function", "name": "f"}]})"}},
      {R,
       "tool_choice.tools[]",
       response_with(R"(, "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [$]})" +
                     kFlatTools),
       {R"({"type": "function", "name": "f"})"}},
  };
}

std::vector<Sample> messages_samples() {
  const std::string text = R"({"type": "text", "text": "a"})";
  const std::string shown =
      R"({"type": "image", "source": {"type": "url", "url": "http://a.b/c.png"}})";
  const std::vector<std::string> sources = {
      R"({"type": "base64", "media_type": "image/png", "data": "AAAA"})",
      R"({"type": "url", "url": "http://a.b/c.png"})"};
  const auto result = [](const std::string& inner) {
    return R"({"type": "tool_result", "tool_use_id": "c", "content": [)" + inner + "]}";
  };
  const std::string source = R"({"type": "image", "source": $})";
  const std::string changed =
      R"({"type": "image", "source": )" + sources[1] + R"(, "transformations": $})";
  return {
      {M,
       "messages[]",
       R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}, $]})",
       {R"({"role": "user", "content": "b"})"}},
      {M,
       "messages[].content[]",
       block("user", "$"),
       {text, shown, R"({"type": "tool_result", "tool_use_id": "c", "content": "a"})"}},
      {M,
       "messages[].content[]",
       block("assistant", "$"),
       {text, R"({"type": "thinking", "thinking": "a"})", R"({"type": "redacted_thinking"})",
        R"({"type": "tool_use", "id": "c", "name": "f", "input": {}})"}},
      {M, "messages[].content[].source", block("user", source), sources},
      {M, "messages[].content[].transformations", block("user", changed), {"{}"}},
      {M, "messages[].content[].content[]", block("user", result("$")), {text, shown}},
      {M, "messages[].content[].content[].source", block("user", result(source)), sources},
      {M, "messages[].content[].content[].transformations", block("user", result(changed)), {"{}"}},
      {M, "system[]", turn(R"(, "system": [$])"), {text}},
      {M, "thinking", turn(R"(, "thinking": $)"), {R"({"type": "enabled"})"}},
      {M, "tools[]", turn(R"(, "tools": [$])"), {R"({"name": "f", "input_schema": {}})"}},
      {M,
       "tool_choice",
       turn(R"(, "tool_choice": $)" + kInputTools),
       {R"({"type": "tool", "name": "f"})"}},
      {M, "output_config", turn(R"(, "output_config": $)"), {"{}"}},
      {M,
       "output_config.format",
       turn(R"(, "output_config": {"format": $})"),
       {R"({"type": "json_schema", "schema": {}})"}},
      {M,
       "output_format",
       turn(R"(, "output_format": $)"),
       {R"({"type": "json_schema", "schema": {}})"}},
      {M, "metadata", turn(R"(, "metadata": $)"), {"{}"}},
  };
}

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = [] {
    std::vector<Sample> made = chat_samples();
    for (const auto& more : {form_samples(), response_samples(), messages_samples()})
      made.insert(made.end(), more.begin(), more.end());
    return made;
  }();
  return all;
}

std::string member_text(const json::value& v) {
  std::string text;
  json::JsonWriter(text).value(v);
  return text;
}

std::string body_of(const Sample& sample, const json::value& object) {
  const std::size_t at = sample.body.find('$');
  return sample.body.substr(0, at) + member_text(object) + sample.body.substr(at + 1);
}

std::string seen_members(const SamplingFields& sampling, const DeliveryFields& delivery) {
  std::string all = fmt::format("{}{}", delivery.include_usage, delivery.continuous_usage_stats);
  if (const auto& form = sampling.structured)
    all += fmt::format("{} {} {} {}", static_cast<int>(form->kind), form->text,
                       fmt::join(form->choices, ","), static_cast<int>(form->blanks));
  return all;
}

// All that decides an answer, as far as objects within a request do.
std::string seen_members(const ChatRequest& request) {
  const auto as_is = [](std::string_view text) { return std::string(text); };
  std::string all = seen_members(request.sampling, request.delivery);
  all += member_text(template_messages(request, as_is)) +
         member_text(template_tools(request, as_is)) + member_text(request.chat_template_kwargs);
  for (const ImagePart& image : request.images)
    all += fmt::format("{} {} {} {} {}", image.url, static_cast<int>(image.detail),
                       image.min_pixels.value_or(0), image.max_pixels.value_or(0), image.uuid);
  for (const VideoPart& video : request.videos)
    all += fmt::format("{} {} {} {} {} {} {} {} {}", fmt::join(video.frames, ","), video.file,
                       video.fps.value_or(0), video.num_frames.value_or(0),
                       video.min_frames.value_or(0), video.max_frames.value_or(0),
                       video.min_pixels.value_or(0), video.max_pixels.value_or(0),
                       video.total_pixels.value_or(0));
  const ToolFields& tools = request.tools;
  return all + fmt::format("{} {} {} {}", static_cast<int>(tools.choice), tools.name,
                           fmt::join(tools.allowed, ","), tools.parallel);
}

Result<std::string> parsed_members(RequestKind kind, const std::string& body) {
  if (kind == T) {
    TRY(const CompletionRequest request, parse_completion_request(body));
    return seen_members(request.sampling, request.delivery);
  }
  if (kind == R) {
    TRY(ResponseRequest request, parse_response_request(body));
    TRY_DO(add_conversation(request, {}));
    return seen_members(request.chat);
  }
  TRY(const ChatRequest request,
      kind == C ? parse_chat_request(body) : parse_messages_request(body));
  return seen_members(request);
}

std::vector<Sample> samples_of(RequestKind kind, std::string_view path) {
  std::vector<Sample> found;
  for (const Sample& sample : samples())
    if (sample.kind == kind && sample.path == path) found.push_back(sample);
  return found;
}

// Whether something else is made of a request where the object has the member, said wrongly.
bool is_heard(const Sample& sample, std::string_view member) {
  for (const std::string& text : sample.objects) {
    const json::value object = json::parse(text).value();
    const auto without = parsed_members(sample.kind, body_of(sample, object));
    EXPECT_TRUE(without) << body_of(sample, object) << ": " << without.error().message;
    for (const json::value& nonsense : {json::value(json::object{{"a", 1}}), json::value(7)}) {
      json::value changed = object;
      changed.as_object()[member] = nonsense;
      const auto with = parsed_members(sample.kind, body_of(sample, changed));
      if (!with || *with != *without) return true;
    }
  }
  return false;
}

struct Client {
  RequestKind kind;
  std::string path;
  std::string type;  // or role; may be empty
  json::array members;
};

std::vector<Client> clients() {
  const auto all = json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/client_fields.json").value();
  std::vector<Client> made;
  for (const RequestKind kind : {C, T, R, M}) {
    for (const auto& place : all.at(name_of(kind)).as_object()) {
      if (place.key().empty()) continue;
      for (const auto& type : place.value().as_object())
        made.push_back({kind, place.key(), type.key(), type.value().as_array()});
    }
  }
  return made;
}

TEST(MemberTable, HasEveryMemberOfEveryClient) {
  std::size_t members = 0;
  for (const Client& client : clients()) {
    const std::size_t end = client.path.rfind('.');
    const Place* outer =
        end == std::string::npos ? nullptr : place_of(client.kind, client.path.substr(0, end));
    const MemberRow* within =
        outer == nullptr ? nullptr : row_of(*outer, client.path.substr(end + 1));
    if (within != nullptr && within->fate == Fate::kRefused) continue;
    const Place* place = place_of(client.kind, client.path);
    ASSERT_NE(place, nullptr) << name_of(client.kind) << ": " << client.path;
    for (const json::value& member : client.members) {
      ++members;
      if (place->others == Others::kTemplate) continue;
      EXPECT_NE(row_of(*place, member.as_string()), nullptr)
          << name_of(client.kind) << ": " << client.path << "." << member.as_string();
    }
  }
  EXPECT_GT(members, 200U);
}

// Of a type that has no members in the golden.
TEST(MemberTable, OtherTypesAreRefusedByTheirNames) {
  std::size_t types = 0;
  for (const Client& client : clients()) {
    if (!client.members.empty()) continue;
    for (const Sample& sample : samples_of(client.kind, client.path)) {
      ++types;
      const json::object object{{"type", json::string(client.type)}};
      const auto made = parsed_members(
          client.kind, body_of(sample, client.type.empty() ? json::object() : object));
      ASSERT_FALSE(made) << sample.path << ": " << client.type;
      EXPECT_THAT(made.error().message, HasSubstr(client.type.substr(0, 40)));
    }
  }
  EXPECT_GT(types, 80U);
}

TEST(MemberTable, EveryPlaceHasASample) {
  for (const Place& place : member_table()) {
    bool found = false;
    for (const RequestKind kind : {C, T, R, M}) {
      const bool holds = (place.kinds & static_cast<std::uint16_t>(kind)) != 0;
      found = found || (holds && !samples_of(kind, place.path).empty());
    }
    EXPECT_TRUE(found) << place.path;
  }
}

TEST(MemberTable, ARowIsOneFateAndSaysWhy) {
  for (const Place& place : member_table()) {
    std::set<std::string_view> seen;
    for (const MemberRow& row : place.rows) {
      EXPECT_TRUE(seen.insert(row.name).second) << place.path << "." << row.name;
      EXPECT_TRUE(row.fate != Fate::kIgnored || !row.note.empty()) << row.name << ": why?";
    }
  }
}

TEST(MemberTable, WhatIsUsedIsHeardAndWhatIsIgnoredIsNot) {
  std::map<std::string, bool> heard;
  for (const Sample& sample : samples()) {
    const Place* place = place_of(sample.kind, sample.path);
    ASSERT_NE(place, nullptr) << sample.path;
    for (const MemberRow& row : place->rows) {
      if (row.fate == Fate::kRefused) continue;
      const std::string name =
          fmt::format("{}: {}.{}", name_of(sample.kind), sample.path, row.name);
      const bool is = is_heard(sample, row.name);
      if (row.fate == Fate::kIgnored) {
        EXPECT_FALSE(is) << name;
      } else {
        heard[name] = heard[name] || is;
      }
    }
  }
  for (const auto& [name, is] : heard) EXPECT_TRUE(is) << name;
}

TEST(MemberTable, WhatIsRefusedIsRefusedByItsPath) {
  for (const Sample& sample : samples()) {
    for (const MemberRow& row : place_of(sample.kind, sample.path)->rows) {
      if (row.fate != Fate::kRefused) continue;
      json::value object = json::parse(sample.objects.front()).value();
      object.as_object()[row.name] = json::array{json::object{{"a", 1}}};
      const auto made = parsed_members(sample.kind, body_of(sample, object));
      ASSERT_FALSE(made) << sample.path << "." << row.name;
      const std::string_view top =
          std::string_view(sample.path).substr(0, sample.path.find_first_of(".["));
      EXPECT_EQ(made.error().param, top) << row.name;
      EXPECT_THAT(made.error().message, HasSubstr(fmt::format(".{}'", row.name)));
      for (const json::value& nothing : {json::value(), json::value(json::string(row.harmless))}) {
        object.as_object()[row.name] = nothing;
        const auto passed = parsed_members(sample.kind, body_of(sample, object));
        EXPECT_TRUE(passed) << passed.error().message;
      }
    }
  }
}

// A part of one type that has the contents of another: neither is left out.
TEST(MemberTable, APartHasContentsOfOneType) {
  const std::string image = R"("image_url": )" + kImage;
  const std::string source = R"("source": {"type": "url", "url": "http://a.b/c.png"})";
  const std::vector<std::pair<RequestKind, std::string>> mixed = {
      {C, chat_part(R"({"type": "text", "text": "a", )" + image + "}")},
      {C, chat_part(R"({"type": "image_url", "text": "a", )" + image + "}")},
      {C, chat_part(R"({"type": "refusal", "refusal": "a", "text": "b"})")},
      {C, chat_part(R"({"type": "thinking", "thinking": "a", "text": "b"})")},
      {C, chat_part(R"({"type": "image_embeds", "image_embeds": "AAAA", "text": "b"})")},
      {C, chat_part(R"({"type": "video_url", "text": "a", "video_url": )" + kFilm + "}")},
      {R, item(R"({"role": "user", "content": [{"type": "input_text", "text": "a", )" + image +
               "}]}")},
      {R, item(R"({"role": "user", "content": [{"type": "input_image", "text": "a", )" + image +
               "}]}")},
      {M, block("user", R"({"type": "text", "text": "a", )" + source + "}")},
      {M, block("user", R"({"type": "image", "text": "a", )" + source + "}")},
      {M, block("assistant", R"({"type": "thinking", "thinking": "a", "text": "b"})")}};
  for (const auto& [kind, body] : mixed) {
    const auto made = parsed_members(kind, body);
    ASSERT_FALSE(made) << body;
    EXPECT_THAT(made.error().message, HasSubstr("too: send it as a part of its own")) << body;
  }
  EXPECT_TRUE(parsed_members(C, chat_part(R"({"type": "text", "text": "a", "image_url": null})")));
}

TEST(MemberTable, ErrorsNameThePlaceWithItsNumbers) {
  EXPECT_EQ(parsed_members(
                C, R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content":
                [{"type": "text", "text": "a"}, {"type": "image_url",
                  "image_url": {"url": "data:image/png;base64,AA", "resized_width": 28}}]}]})")
                .error()
                .message,
            "'messages[1].content[1].image_url.resized_width' is not supported for chat: send "
            "'min_pixels' and 'max_pixels'");
  EXPECT_EQ(parsed_members(R, response_with(R"(, "text": {"nope": 1})")).error().message,
            "'text.nope' is not known; format, verbosity are");
}

TEST(MemberTable, WhatNobodyKnowsIsSaidWithItsPlace) {
  const auto unknown = [](const std::string& body) {
    return parse_chat_request(body).value().unknown;
  };
  EXPECT_THAT(unknown(chat_part(R"({"type": "text", "text": "a", "nope": 1}, {"type": "image_url",
                  "image_url": {"url": "data:image/png;base64,AA", "neither": 1}, "nope": 2})")),
              ElementsAre("messages[].content[].image_url.neither", "messages[].content[].nope"));
  EXPECT_THAT(unknown(R"({"messages": [{"role": "user", "content": "a", "nope": 1}]})"),
              ElementsAre());
  std::string many = R"({"type": "text", "text": "a")";
  for (int i = 0; i < 100; ++i) many += fmt::format(R"(, "nope{}": 1)", i);
  EXPECT_EQ(unknown(chat_part(many + "}")).size(), 64U);
}

}  // namespace
}  // namespace saccade::api
