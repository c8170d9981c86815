// Every member that a client can send is in the table, and what the table says is what the parsers
// do.
#include "api/requests/fields/field_table.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "api/pages/openapi.h"
#include "api/requests/fields/fields.h"

namespace saccade::api {
namespace {

const std::map<std::string_view, RequestKind> kKinds = {
    {"ChatCompletionRequest", RequestKind::kChat},  {"CompletionRequest", RequestKind::kCompletion},
    {"ResponseRequest", RequestKind::kResponse},    {"MessagesRequest", RequestKind::kMessages},
    {"CountTokensRequest", RequestKind::kMessages}, {"EmbeddingRequest", RequestKind::kEmbedding},
    {"PoolingRequest", RequestKind::kPooling},      {"ScoreRequest", RequestKind::kScore},
    {"RerankRequest", RequestKind::kRerank},        {"TokenizeRequest", RequestKind::kTokenize},
    {"DetokenizeRequest", RequestKind::kDetokenize}};

const std::set<std::string, std::less<>>& members_of(std::string_view schema) {
  for (const RequestSchema& one : request_schemas())
    if (one.name == schema) return one.members;
  throw std::logic_error("no such schema");
}

TEST(FieldTable, HasEveryFieldOfEveryClient) {
  const auto clients =
      json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/client_fields.json").value();
  std::size_t seen = 0;
  for (const auto& [schema, kind] : kKinds) {
    const json::value* places = json::find(clients.as_object(), name_of(kind));
    ASSERT_NE(places, nullptr) << "client_fields.json has no \"" << name_of(kind) << "\"";
    for (const json::value& field : places->at("").at("").as_array()) {
      ++seen;
      EXPECT_NE(field_row(kind, field.as_string()), nullptr) << schema << ": " << field.as_string();
    }
  }
  EXPECT_GT(seen, 200U);
}

TEST(FieldTable, ARowIsOneFate) {
  std::set<std::pair<std::string_view, std::uint16_t>> seen;
  for (const FieldRow& row : field_table()) {
    for (std::uint16_t kind = 1; kind <= 512; kind = static_cast<std::uint16_t>(kind * 2)) {
      if ((row.kinds & kind) == 0) continue;
      EXPECT_TRUE(seen.emplace(row.name, kind).second) << row.name << " has two fates";
    }
    EXPECT_TRUE(row.fate != Fate::kIgnored || !row.note.empty()) << row.name << ": why?";
  }
}

TEST(FieldTable, IsWhatTheParsersTake) {
  for (const RequestSchema& schema : request_schemas()) {
    const RequestKind kind = kKinds.at(schema.name);
    for (const std::string& member : schema.members) {
      const FieldRow* row = field_row(kind, member);
      ASSERT_NE(row, nullptr) << schema.name << ": " << member;
      EXPECT_NE(row->fate, Fate::kRefused) << schema.name << ": " << member;
    }
    for (const FieldRow& row : field_table()) {
      if ((row.kinds & static_cast<std::uint16_t>(kind)) == 0 || row.fate == Fate::kRefused)
        continue;
      // A conversation has chat's parser there.
      if (kind == RequestKind::kTokenize && members_of("ChatCompletionRequest").contains(row.name))
        continue;
      EXPECT_TRUE(schema.members.contains(row.name)) << schema.name << ": " << row.name;
    }
  }
}

TEST(FieldTable, WhatIsRefusedIsRefusedByItsName) {
  for (const RequestSchema& schema : request_schemas()) {
    const RequestKind kind = kKinds.at(schema.name);
    for (const FieldRow& row : field_table()) {
      if ((row.kinds & static_cast<std::uint16_t>(kind)) == 0 || row.fate != Fate::kRefused)
        continue;
      json::value body = json::parse(schema.least).value();
      body.as_object()[row.name] = json::array{json::object{{"a", 1}}};
      std::string text;
      json::JsonWriter(text).value(body);
      const auto done = schema.parse(text);
      ASSERT_FALSE(done) << schema.name << ": " << row.name;
      EXPECT_EQ(done.error().param, row.name) << done.error().message;
    }
  }
}

}  // namespace
}  // namespace saccade::api
