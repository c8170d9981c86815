#include "bench/metrics/text_embedder.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/clock.h"
#include "base/json_scopes.h"
#include "net/client/http_client.h"

namespace saccade::bench {
namespace {

using Rows = std::vector<std::vector<float>>;

std::string request_body(const std::string& model, std::span<const std::string> texts) {
  std::string body;
  json::JsonWriter w(body);
  w.begin_object();
  w.member("model", model);
  w.member("encoding_format", "float");
  w.member("truncate_prompt_tokens", -1);
  json::array_member(w, "input", texts);
  w.end_object();
  return body;
}

Result<std::vector<float>> vector_of(const json::value& item) {
  const json::value* list = item.is_object() ? json::find(item.get_object(), "embedding") : nullptr;
  if (list == nullptr || !list->is_array() || list->get_array().empty())
    return fail(ErrorCode::kInvalid, "an entry of 'data' has no 'embedding' of numbers");
  std::vector<float> values;
  for (const json::value& value : list->get_array()) {
    if (!value.is_number())
      return fail(ErrorCode::kInvalid, "an 'embedding' holds {}", json::kind_name(value));
    values.push_back(static_cast<float>(value.to_number<double>()));
  }
  return values;
}

// The vectors of an answer, by their index.
Result<Rows> embedded_rows(const std::string& body, std::size_t count) {
  TRY(const json::value tree, json::parse(body));
  const json::value* data = tree.is_object() ? json::find(tree.get_object(), "data") : nullptr;
  if (data == nullptr || !data->is_array() || data->get_array().size() != count)
    return fail(ErrorCode::kInvalid, "'data' is not a list of {} embeddings", count);
  Rows rows(count);
  for (const json::value& item : data->get_array()) {
    TRY(std::vector<float> row, vector_of(item));
    TRY(const std::int64_t index, json::get_int(item.get_object(), "index"));
    if (index < 0 || index >= static_cast<std::int64_t>(count) ||
        !rows[static_cast<std::size_t>(index)].empty())
      return fail(ErrorCode::kInvalid, "'index' {} of {} is wrong or there twice", index, count);
    rows[static_cast<std::size_t>(index)] = std::move(row);
  }
  return rows;
}

Result<std::string> served_name(const EmbeddingServer& server) {
  if (!server.model.empty()) return server.model;
  TRY(ServerProbe probe, ServerProbe::create(server.target));
  TRY(const ServerDescription description, probe.describe());
  if (description.models.empty())
    return fail(ErrorCode::kUnavailable, "{} lists no model; name it with --embedding-model",
                server.target.base_url);
  return description.models.front().id;
}

}  // namespace

Result<Embedder> make_embedder(const EmbeddingServer& server) {
  TRY(const net::Url url, server.target.api_url("/embeddings"));
  TRY(const std::string model, served_name(server));
  TRY(std::shared_ptr<net::HttpClient> client, net::HttpClient::create(server.target.client));
  return Embedder([=](std::span<const std::string> texts) -> Result<Rows> {
    Rows all;
    for (std::size_t begin = 0; begin < texts.size(); begin += server.batch) {
      const auto part = texts.subspan(begin, std::min(server.batch, texts.size() - begin));
      net::ClientRequest request;
      request.url = url;
      request.headers = server.target.headers;
      request.body = {std::make_shared<const std::string>(request_body(model, part))};
      request.deadline =
          steady_now() + static_cast<Nanos>(server.request_s * static_cast<double>(kSecond));
      TRY(const net::ClientResponse response, client->send(std::move(request)));
      if (response.status != 200)
        return fail(ErrorCode::kUnavailable, "{}/embeddings answered {}: {}",
                    server.target.base_url, response.status, response.body.substr(0, 200));
      auto rows = embedded_rows(response.body, part.size());
      if (!rows) return fail_within(server.target.base_url, std::move(rows).error());
      std::ranges::move(*rows, std::back_inserter(all));
    }
    return all;
  });
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0;
  double square_a = 0;
  double square_b = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    product += double{a[i]} * b[i];
    square_a += double{a[i]} * a[i];
    square_b += double{b[i]} * b[i];
  }
  const double lengths = std::sqrt(square_a) * std::sqrt(square_b);
  return lengths > 0 ? product / lengths : 0;
}

}  // namespace saccade::bench
