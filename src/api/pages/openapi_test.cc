// The API's description against the parsers: what it says of a member is what they do with it.
#include "api/pages/openapi.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "base/json.h"

namespace saccade::api {
namespace {

struct Probe {
  char type;
  std::string_view text;
};
constexpr Probe kProbes[] = {{'s', R"("x")"}, {'i', "1"},  {'n', "0.5"},
                             {'b', "true"},   {'a', "[]"}, {'o', "{}"}};

// The smallest request with this member added, or in place of its own.
Result<void> parse_with(const RequestSchema& schema, const std::string& member,
                        std::string_view value) {
  json::value body = json::parse(schema.least).value();
  body.as_object()[member] = json::parse(value).value();
  std::string text;
  json::JsonWriter(text).value(body);
  return schema.parse(text);
}

TEST(OpenApi, EverySchemaHasItsParsersMembers) {
  for (const RequestSchema& schema : request_schemas()) {
    EXPECT_TRUE(schema.parse(schema.least)) << schema.name;
    EXPECT_TRUE(schema.members.contains("model")) << schema.name;
    for (const std::string& member : schema.members)
      EXPECT_TRUE(types_of(schema.name, member)) << schema.name << ": " << member;
  }
}

TEST(OpenApi, WhatIsRefusedIsNotListed) {
  for (const RequestSchema& schema : request_schemas()) {
    for (const char* refused : {"prompt_embeds", "functions", "function_call", "suffix", "audio",
                                "mcp_servers", "rank_fields"})
      EXPECT_FALSE(schema.members.contains(refused)) << schema.name << ": " << refused;
    for (const std::string& member : schema.members) {
      const std::string_view types = *types_of(schema.name, member);
      for (const Probe& probe : kProbes) {
        if (types.find(probe.type) == std::string_view::npos) continue;
        const auto done = parse_with(schema, member, probe.text);
        EXPECT_TRUE(done || done.error().message.find("is not supported") == std::string::npos)
            << schema.name << ": " << member << ": " << done.error().message;
      }
    }
  }
}

TEST(OpenApi, OtherTypesAreRefused) {
  for (const RequestSchema& schema : request_schemas()) {
    for (const std::string& member : schema.members) {
      const std::string_view types = *types_of(schema.name, member);
      if (types.empty()) continue;
      for (const Probe& probe : kProbes) {
        const bool fits = types.find(probe.type) != std::string_view::npos ||
                          (probe.type == 'i' && types.find('n') != std::string_view::npos);
        if (fits) continue;
        EXPECT_FALSE(parse_with(schema, member, probe.text))
            << schema.name << ": " << member << " is " << probe.text;
      }
    }
  }
}

TEST(OpenApi, RequiredMembersAreMissed) {
  for (const RequestSchema& schema : request_schemas()) {
    const json::value least = json::parse(schema.least).value();
    for (const auto& member : least.as_object())
      EXPECT_FALSE(parse_with(schema, std::string(member.key()), "null"))
          << schema.name << ": " << member.key();
  }
}

TEST(OpenApi, TheDocumentHasTheRoutes) {
  const OpenApiRoute routes[] = {{"POST", "/v1/chat/completions", true, false},
                                 {"GET", "/v1/models/", true, false},
                                 {"GET", "/v1/responses/{id}", true, false},
                                 {"DELETE", "/v1/responses/{id}", true, false},
                                 {"POST", "/v1/embeddings", true, true}};
  const json::value document = json::parse(openapi_document(routes, "1.2")).value();
  const auto& paths = document.at("paths").as_object();
  EXPECT_EQ(paths.size(), 4u);
  EXPECT_TRUE(paths.at("/v1/responses/{id}").as_object().contains("delete"));
  EXPECT_EQ(paths.at("/v1/models/{id}").at("get").at("parameters").at(0).at("name").as_string(),
            "id");
  EXPECT_EQ(paths.at("/v1/chat/completions")
                .at("post")
                .at("requestBody")
                .at("content")
                .at("application/json")
                .at("schema")
                .at("$ref")
                .as_string(),
            "#/components/schemas/ChatCompletionRequest");
  EXPECT_TRUE(paths.at("/v1/embeddings").at("post").at("responses").as_object().contains("400"));
  const auto& chat = document.at("components").at("schemas").at("ChatCompletionRequest");
  EXPECT_EQ(chat.at("properties").at("temperature").at("type"), (json::array{"number", "null"}));
  EXPECT_EQ(chat.at("required"), (json::array{"messages"}));
  EXPECT_EQ(chat.at("properties").at("top_p").at("exclusiveMinimum").to_number<double>(), 0);
  EXPECT_EQ(chat.at("properties").at("top_p").at("maximum").to_number<double>(), 1);
  for (const OpenApiRoute& route : routes) EXPECT_NE(summary_of(route.path), "") << route.path;
}

}  // namespace
}  // namespace saccade::api
