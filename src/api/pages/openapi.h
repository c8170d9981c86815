// GET /openapi.json: what the router answers, and the members of requests. Nothing is listed twice:
// paths are the router's own, members are those that the parsers take.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade::api {

struct OpenApiRoute {
  std::string_view method;
  std::string_view path;    // "/v1/models/" stands for all below; "{id}" for one segment
  bool needs_key = false;   // where the server has keys
  bool is_refusal = false;  // of another kind of model
};

// A request's body.
struct RequestSchema {
  std::string_view name;
  std::string_view least;  // the smallest body that is taken: its members are required
  Result<void> (*parse)(std::string_view body);
  std::set<std::string, std::less<>> members;  // that the parser takes
};
// Made once, by asking the parsers. Any thread.
const std::vector<RequestSchema>& request_schemas();

// JSON's types of a member, a letter each: (s)tring, (i)nteger, (n)umber, (b)oolean, (a)rray,
// (o)bject; empty: any. Null is absent everywhere. No value: nobody has described it.
std::optional<std::string_view> types_of(std::string_view schema, std::string_view member);
// What an endpoint is for; empty: nobody has said.
std::string_view summary_of(std::string_view path);

// OpenAPI 3.1.
std::string openapi_document(std::span<const OpenApiRoute> routes, std::string_view version);

}  // namespace saccade::api
