#include "api/requests/similarity.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <numeric>

#include "api/pages/limits.h"
#include "api/requests/embeddings.h"
#include "api/requests/fields/fields.h"
#include "api/requests/fields/sampling_fields.h"

namespace saccade::api {
namespace {

// A text, or {"text": ...}, as Jina's and Cohere's documents are.
Result<CompletionPrompt> read_text(const json::value& v, std::string_view where) {
  const json::value* text = &v;
  if (v.is_object()) {
    if (json::find(v.get_object(), "image") != nullptr)
      return invalid(where, "'{}' has an 'image', texts alone are compared", where);
    text = json::find(v.get_object(), "text");
    if (text == nullptr)
      return invalid(where, "'{}' has no 'text': images and other contents are not supported",
                     where);
  }
  if (!text->is_string())
    return invalid(where, "'{}' holds {}, a string is required", where, json::kind_name(*text));
  return CompletionPrompt{false, std::string(text->get_string()), {}};
}

Result<std::vector<CompletionPrompt>> read_texts(const json::value& v, std::string_view name) {
  std::vector<CompletionPrompt> texts;
  if (!v.is_array()) {
    TRY(CompletionPrompt one, read_text(v, name));
    texts.push_back(std::move(one));
    return texts;
  }
  const json::array& list = v.get_array();
  if (list.empty()) return invalid(name, "'{}' is an empty array", name);
  TRY_DO(within(limits::kInputs, list.size(), name));
  for (const json::value& item : list) {
    TRY(CompletionPrompt one, read_text(item, name));
    texts.push_back(std::move(one));
  }
  return texts;
}

// One of several names for the same member.
Result<std::vector<CompletionPrompt>> take_texts(Fields& fields,
                                                 std::initializer_list<std::string_view> names) {
  const json::value* given = nullptr;
  std::string_view under;
  for (const std::string_view name : names) {
    const json::value* v = fields.take(name);
    if (v == nullptr) continue;
    if (given != nullptr)
      return invalid(name, "'{}' and '{}' are the same member, one may be given", under, name);
    given = v;
    under = name;
  }
  if (given == nullptr)
    return invalid(*names.begin(), "'{}' is missing, a string or an array of strings is required",
                   *names.begin());
  return read_texts(*given, under);
}

Result<void> take_common(Fields& fields, RequestKind kind, SimilarityRequest& request) {
  TRY_DO(fields.settle(kind));
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  TRY(request.truncate_prompt_tokens,
      fields.integer("truncate_prompt_tokens", -1, kMaxPooledTokens));
  TRY_DO(check_truncation_side(fields));
  TRY(request.request_id, take_request_id(fields));
  return {};
}

double dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](float x, float y) { return static_cast<double>(x) * y; });
}

}  // namespace

Result<SimilarityRequest> parse_score_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  SimilarityRequest request;
  TRY(request.first, take_texts(fields, {"text_1", "queries", "data_1"}));
  TRY(request.second, take_texts(fields, {"text_2", "documents", "items", "data_2"}));
  if (request.first.size() != 1 && request.first.size() != request.second.size())
    return invalid("text_1",
                   "'text_1' has {} texts and 'text_2' {}: one for all, or as many, are required",
                   request.first.size(), request.second.size());
  TRY_DO(take_common(fields, RequestKind::kScore, request));
  request.unknown = fields.unknown();
  return request;
}

Result<RerankRequest> parse_rerank_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  RerankRequest request;
  const json::value* query = fields.take("query");
  if (query == nullptr) return invalid("query", "'query' is missing, a string is required");
  TRY(CompletionPrompt one, read_text(*query, "query"));
  request.texts.first.push_back(std::move(one));
  const json::value* documents = fields.take("documents");
  const json::value* texts = fields.take("texts");
  if (documents != nullptr && texts != nullptr)
    return invalid("texts", "'documents' and 'texts' are the same member, one may be given");
  request.as_list = texts != nullptr;
  if (request.as_list) documents = texts;
  if (documents == nullptr || !documents->is_array())
    return invalid("documents", "'documents' is {}, an array is required",
                   documents == nullptr ? "missing" : json::kind_name(*documents));
  TRY(request.texts.second, read_texts(*documents, "documents"));
  TRY(const auto top, fields.integer("top_n", 0));
  request.top_n = top.value_or(0);
  TRY(const auto shown, fields.boolean("return_documents"));
  TRY(const auto text, fields.boolean("return_text"));
  request.return_documents = request.as_list ? text.value_or(false) : shown.value_or(true);
  TRY_DO(take_common(fields, RequestKind::kRerank, request.texts));
  request.texts.unknown = fields.unknown();
  return request;
}

std::vector<double> cosines(std::span<const float> rows, std::int64_t dimensions,
                            std::size_t first) {
  const auto width = static_cast<std::size_t>(dimensions);
  const auto row = [&](std::size_t i) { return rows.subspan(i * width, width); };
  const std::size_t second = rows.size() / width - first;
  std::vector<double> scores;
  for (std::size_t i = 0; i < second; ++i) {
    const auto a = row(first == 1 ? 0 : i);
    const auto b = row(first + i);
    const double length = std::sqrt(dot(a, a)) * std::sqrt(dot(b, b));
    scores.push_back(length > 0 ? std::clamp(dot(a, b) / length, -1.0, 1.0) : 0.0);
  }
  return scores;
}

std::string score_response(const AnswerHead& head, std::span<const double> scores,
                           std::int64_t prompt_tokens) {
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  w.member("id", std::string_view(head.id));
  w.member("object", "list");
  w.member("created", head.created);
  w.member("model", std::string_view(head.model));
  w.key("data");
  w.begin_array();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    w.begin_object();
    w.member("index", static_cast<std::int64_t>(i));
    w.member("object", "score");
    w.member("score", scores[i]);
    w.end_object();
  }
  w.end_array();
  write_vector_usage(w, prompt_tokens);
  w.end_object();
  return out;
}

std::string rerank_response(const AnswerHead& head, const RerankRequest& request,
                            std::span<const double> scores, std::int64_t prompt_tokens) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return scores[i]; });
  const auto most = static_cast<std::size_t>(request.top_n);
  if (most > 0 && most < order.size()) order.resize(most);
  std::string out;
  json::JsonWriter w(out);
  if (request.as_list) {
    w.begin_array();
    for (const std::size_t i : order) {
      w.begin_object();
      w.member("index", static_cast<std::int64_t>(i));
      if (request.return_documents)
        w.member("text", std::string_view(request.texts.second[i].text));
      w.member("score", scores[i]);
      w.end_object();
    }
    w.end_array();
    return out;
  }
  w.begin_object();
  w.member("id", std::string_view(head.id));
  w.member("model", std::string_view(head.model));
  write_vector_usage(w, prompt_tokens);
  w.key("results");
  w.begin_array();
  for (const std::size_t i : order) {
    w.begin_object();
    w.member("index", static_cast<std::int64_t>(i));
    if (request.return_documents) {
      w.key("document");
      w.begin_object();
      w.member("text", std::string_view(request.texts.second[i].text));
      w.end_object();
    }
    w.member("relevance_score", scores[i]);
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return out;
}

}  // namespace saccade::api
