#include "batch/batch_line.h"

#include "base/json_scopes.h"

namespace saccade::batch {
namespace {

constexpr std::size_t kDeepestBody = 64;  // as requests over HTTP, one level further in
constexpr std::size_t kMaxIdBytes = 512;
constexpr int kOk = 200;
constexpr std::string_view kAnswerBegin = R"({"id":"batch_req_)";

auto refused(std::string_view code, std::int64_t number, std::string_view why) {
  return tl::unexpected<LineError>(LineError{code, fmt::format("line {}: {}", number, why)});
}

// The member as text; null where it is absent or something else.
const json::string* text_of(const json::object& from, std::string_view name) {
  const json::value* const found = json::find(from, name);
  return found == nullptr ? nullptr : found->if_string();
}

// A line with its id, and the members that `put` adds.
template <typename Put>
std::string line_of(std::int64_t number, Put put) {
  std::string out;
  json::JsonWriter w(out);
  json::put_object(w, [&] {
    w.member("id", std::string_view(answer_id(number)));
    put(w);
  });
  return out + '\n';
}

void null_member(json::JsonWriter& w, std::string_view name) {
  w.key(name);
  w.null();
}

}  // namespace

tl::expected<BatchLine, LineError> read_line(std::string_view text, std::int64_t number) {
  const Result<json::value> parsed = json::parse(text, kDeepestBody + 1);
  if (!parsed) return refused("invalid_json_line", number, parsed.error().message);
  const json::object* const line = parsed->if_object();
  if (line == nullptr) return refused("invalid_json_line", number, "an object is required");

  BatchLine made;
  const json::string* const id = text_of(*line, "custom_id");
  if (id == nullptr)
    return refused("missing_required_parameter", number, "'custom_id' is required, as a string");
  if (id->size() > kMaxIdBytes)
    return refused(
        "invalid_custom_id", number,
        fmt::format("'custom_id' has {} bytes, {} are possible", id->size(), kMaxIdBytes));
  made.custom_id = *id;
  const json::string* const method = text_of(*line, "method");
  if (method == nullptr || *method != "POST")
    return refused("invalid_method", number, "'method' must be \"POST\"");
  const json::string* const url = text_of(*line, "url");
  if (url == nullptr || !url->starts_with('/'))
    return refused("invalid_url", number, "'url' must be a path, such as \"/v1/chat/completions\"");
  const json::value* const body = json::find(*line, "body");
  if (body == nullptr || !body->is_object())
    return refused("missing_required_parameter", number, "'body' is required, as an object");
  const json::value* const stream = json::find(body->get_object(), "stream");
  if (stream != nullptr && stream->is_bool() && stream->get_bool())
    return refused("invalid_request", number, "'stream' is true: the answers of a batch are whole");

  net::HttpRequest& request = made.request;
  request.method = "POST";
  request.target = *url;
  const std::size_t query = request.target.find('?');
  request.path = request.target.substr(0, query);
  if (query != std::string::npos) request.query = request.target.substr(query + 1);
  request.headers = {{"content-type", "application/json"}};
  json::JsonWriter(request.body).value(*body);
  return made;
}

std::string answer_id(std::int64_t number) { return fmt::format("batch_req_{:06}", number); }

std::string answer_line(std::int64_t number, std::string_view custom_id,
                        const net::HttpResponse& answer) {
  return line_of(number, [&](json::JsonWriter& w) {
    w.member("custom_id", custom_id);
    json::object_member(w, "response", [&] {
      w.member("status_code", answer.status);
      w.member("request_id", std::string_view(answer_id(number)));
      w.key("body");
      if (answer.content_type.starts_with("application/json")) {
        w.raw(answer.body);
      } else {
        w.value(std::string_view(answer.body));
      }
    });
    null_member(w, "error");
  });
}

std::string error_line(std::int64_t number, const LineError& error) {
  return line_of(number, [&](json::JsonWriter& w) {
    null_member(w, "custom_id");
    null_member(w, "response");
    json::object_member(w, "error", [&] {
      w.member("code", error.code);
      w.member("message", std::string_view(error.message));
    });
  });
}

bool may_begin_answer(std::string_view text) {
  return text.starts_with(kAnswerBegin.substr(0, text.size()));
}

Result<AnsweredKey> read_answer_key(std::string_view text) {
  constexpr std::size_t kDeepestAnswer = 256;
  TRY(const json::value parsed, json::parse(text, kDeepestAnswer));
  const json::object* const line = parsed.if_object();
  const json::string* const id = line == nullptr ? nullptr : text_of(*line, "id");
  if (id == nullptr || !line->contains("custom_id") || !line->contains("response"))
    return fail(ErrorCode::kInvalid, "no 'id', 'custom_id' and 'response'");
  AnsweredKey key;
  key.id = *id;
  if (const json::string* const custom = text_of(*line, "custom_id"))
    key.custom_id = std::string(*custom);
  const json::value* const response = json::find(*line, "response");
  const auto status = response != nullptr && response->is_object()
                          ? json::get_int_or(response->get_object(), "status_code", 0)
                          : Result<std::int64_t>(0);
  key.is_error = !status || *status != kOk;
  return key;
}

}  // namespace saccade::batch
