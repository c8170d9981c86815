#include "api/requests/chat_batch.h"

#include <array>
#include <boost/json/array.hpp>
#include <string>
#include <utility>

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"
#include "base/json.h"

namespace saccade::api {
namespace {

constexpr std::size_t kMaxWritten = std::size_t{64} << 20;

constexpr std::array<std::string_view, 6> kSingle = {
    "stream",           "use_beam_search",    "echo",
    "return_token_ids", "return_prompt_text", "prompt_logprobs"};

Result<void> check_single(const json::object& members) {
  for (const std::string_view name : kSingle) {
    const json::value* value = json::find(members, name);
    if (value != nullptr && !(value->is_bool() && !value->get_bool()))
      return invalid(name, "'{}' is not supported in a batch: send its conversations one by one",
                     name);
  }
  const json::value* n = json::find(members, "n");
  if (n != nullptr && *n != json::value(1))
    return invalid("n", "'n' must be 1 in a batch: send its conversations one by one");
  return {};
}

}  // namespace

Result<std::vector<ChatRequest>> parse_chat_batch(std::string_view body,
                                                  ByteReservation* reserved) {
  TRY(json::value tree, parse_body(body));
  json::object& members = tree.get_object();
  TRY_DO(check_single(members));
  json::value* const found = members.if_contains("messages");
  if (found == nullptr || !found->is_array() || found->get_array().empty())
    return invalid("messages", "'messages' is {}, a list of conversations is required",
                   found == nullptr    ? "missing"
                   : found->is_array() ? "an empty list"
                                       : json::kind_name(*found));
  // Before anything is made for each.
  if (found->get_array().size() > limits::kPrompts.most)
    return invalid("messages", "'messages' has {} conversations, {} are possible",
                   found->get_array().size(), limits::kPrompts.most);
  const json::array conversations = std::move(found->get_array());
  *found = nullptr;
  std::string others;
  json::JsonWriter(others).value(tree);
  if (others.size() * conversations.size() > kMaxWritten)
    return invalid("messages",
                   "{} conversations with {} bytes of other members each: together the limit is {}",
                   conversations.size(), others.size(), kMaxWritten);
  // As much as if they had come one by one.
  if (reserved != nullptr && !reserved->grow(others.size() * (conversations.size() - 1)))
    return fail(ErrorCode::kUnavailable,
                "no room for {} conversations with {} bytes of other members each, beside other "
                "requests (--max-preparing-bytes)",
                conversations.size(), others.size());
  std::vector<ChatRequest> requests;
  for (std::size_t i = 0; i < conversations.size(); ++i) {
    if (!conversations[i].is_array())
      return invalid("messages", "messages[{}] is {}, a list of messages is required", i,
                     json::kind_name(conversations[i]));
    members["messages"] = conversations[i];
    std::string one;
    json::JsonWriter(one).value(tree);
    auto request = parse_chat_request(one);
    if (!request) return fail_within(fmt::format("messages[{}]", i), std::move(request).error());
    requests.push_back(*std::move(request));
  }
  return requests;
}

}  // namespace saccade::api
