#include "api/requests/embeddings.h"

#include <bit>
#include <iterator>

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"
#include "api/requests/fields/sampling_fields.h"
#include "base/text/base64.h"

namespace saccade::api {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are sent as they lie in memory");

// Shortest decimals that read back as the same float32.
void write_floats(json::JsonWriter& w, std::span<const float> values) {
  std::string text = "[";
  for (const float value : values)
    fmt::format_to(std::back_inserter(text), "{}{}", text.size() > 1 ? "," : "", value);
  text += ']';
  w.raw(text);
}

}  // namespace

void write_vector_usage(json::JsonWriter& w, std::int64_t prompt_tokens) {
  w.key("usage");
  w.begin_object();
  w.member("prompt_tokens", prompt_tokens);
  w.member("total_tokens", prompt_tokens);
  w.member("completion_tokens", 0);
  w.key("prompt_tokens_details");
  w.null();
  w.end_object();
}

Result<void> check_truncation_side(Fields& fields) {
  TRY(const auto side, fields.text("truncation_side"));
  if (side && *side != "right")
    return invalid("truncation_side", "'truncation_side' is '{}': the end is cut, 'right' is taken",
                   side->substr(0, 40));
  return {};
}

namespace {

Result<EmbeddingRequest> parse_inputs(Fields& fields, RequestKind kind) {
  TRY_DO(fields.settle(kind));
  EmbeddingRequest request;
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  TRY(request.inputs, read_prompts(fields.take("input"), limits::kInputs));
  TRY(const auto format, fields.text("encoding_format"));
  if (format && *format != "float" && *format != "base64")
    return invalid("encoding_format", "'encoding_format' is '{}', 'float' or 'base64' is required",
                   format->substr(0, 40));
  if (format && *format == "base64") request.format = EncodingFormat::kBase64;
  TRY(request.dimensions, fields.integer("dimensions", 1, kMaxPooledTokens));
  TRY(request.truncate_prompt_tokens,
      fields.integer("truncate_prompt_tokens", -1, kMaxPooledTokens));
  TRY_DO(check_truncation_side(fields));
  TRY(const auto add_special, fields.boolean("add_special_tokens"));
  request.add_special_tokens = add_special.value_or(true);
  TRY(request.request_id, take_request_id(fields));
  // What pooling a model has is part of it; asking for less of it is refused.
  for (const std::string_view name : {"normalize", "use_activation"}) {  // vLLM's older and newer
    TRY(const auto normalised, fields.boolean(name));
    if (normalised && !*normalised)
      return invalid(name, "'{}' is false; embeddings are as the checkpoint has them", name);
  }
  TRY(const auto padding, fields.text("padding"));
  if (padding && *padding != "do_not_pad")
    return invalid("padding", "'padding' is '{}': texts are not padded here, do_not_pad is taken",
                   padding->substr(0, 40));
  request.unknown = fields.unknown();
  return request;
}

}  // namespace

Result<EmbeddingRequest> parse_embedding_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  return parse_inputs(fields, RequestKind::kEmbedding);
}

Result<EmbeddingRequest> parse_pooling_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  const json::value* task = fields.take("task");
  if (task != nullptr && *task != json::value("embed"))
    return invalid("task",
                   "'task' must be \"embed\": rows of single tokens, scores of classes and "
                   "rewards are not what these encoders give");
  return parse_inputs(fields, RequestKind::kPooling);
}

namespace {

// What a list of rows calls itself, and its rows.
struct RowNames {
  std::string_view object;
  std::string_view member;
};

std::string write_rows(const RowNames& names, const AnswerHead& head, std::span<const float> values,
                       std::int64_t dimensions, EncodingFormat format, std::int64_t prompt_tokens) {
  std::string out;
  json::JsonWriter w(out);
  const auto width = static_cast<std::size_t>(dimensions);
  w.begin_object();
  w.member("id", std::string_view(head.id));
  w.member("object", "list");
  w.member("created", head.created);
  w.member("model", std::string_view(head.model));
  w.key("data");
  w.begin_array();
  for (std::size_t i = 0; i * width < values.size(); ++i) {
    const std::span<const float> row = values.subspan(i * width, width);
    w.begin_object();
    w.member("index", static_cast<std::int64_t>(i));
    w.member("object", names.object);
    w.key(names.member);
    if (format == EncodingFormat::kBase64) {
      w.value(std::string_view(
          base64_encode({reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float)})));
    } else {
      write_floats(w, row);
    }
    w.end_object();
  }
  w.end_array();
  write_vector_usage(w, prompt_tokens);
  w.end_object();
  return out;
}

}  // namespace

std::string embedding_response(const AnswerHead& head, std::span<const float> values,
                               std::int64_t dimensions, EncodingFormat format,
                               std::int64_t prompt_tokens) {
  return write_rows({"embedding", "embedding"}, head, values, dimensions, format, prompt_tokens);
}

std::string pooling_response(const AnswerHead& head, std::span<const float> values,
                             std::int64_t dimensions, EncodingFormat format,
                             std::int64_t prompt_tokens) {
  return write_rows({"pooling", "data"}, head, values, dimensions, format, prompt_tokens);
}

}  // namespace saccade::api
