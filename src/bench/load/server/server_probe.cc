#include "bench/load/server/server_probe.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/json.h"
#include "bench/load/server/metrics_page.h"

namespace saccade::bench {
namespace {

constexpr Nanos kAnswerLimit = 10 * kSecond;

std::string without_slash(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

std::string brief(std::string_view body) {
  return std::string(body.substr(0, 200)) + (body.size() > 200 ? "..." : "");
}

ServedModel served_model(const json::object& entry) {
  ServedModel model;
  model.id = json::get_string_or(entry, "id", "").value_or("");
  model.root = json::get_string_or(entry, "root", "").value_or("");
  model.max_model_len = json::get_int_or(entry, "max_model_len", -1).value_or(-1);
  return model;
}

// A flat object's members as strings.
void append_parameters(const json::value& tree, StringPairs& out) {
  if (!tree.is_object()) return;
  for (const auto& member : tree.get_object()) {
    const json::value& v = member.value();
    if (v.is_object() || v.is_array()) continue;
    std::string text;
    if (v.is_string())
      text = v.get_string();
    else
      json::JsonWriter(text).value(v);
    out.emplace_back(member.key(), std::move(text));
  }
}

class Watch final : public ServerWatch {
 public:
  Watch(ServerProbe probe, Nanos period, int pid)
      : probe_(std::move(probe)),
        period_(period),
        pid_(pid),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  std::vector<Sample> stop() override {
    thread_.request_stop();
    thread_.join();
    read();
    return std::move(samples_);
  }

 private:
  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any pause;
    while (!stop.stop_requested()) {
      read();
      pause.wait_for(lock, stop, std::chrono::nanoseconds(period_), [] { return false; });
    }
  }

  void add(std::string source, std::vector<std::pair<std::string, double>> values) {
    if (values.empty()) return;
    samples_.push_back({steady_now(), std::move(source), std::move(values)});
  }

  // What fails once is not asked again: no server grows a metrics page in the middle of a run.
  void read() {
    if (has_page_) {
      auto page = probe_.scrape();
      has_page_ = page.has_value();
      if (page) add("metrics", *std::move(page));
    }
    if (pid_ >= 0) add("memory", process_memory(pid_));
    if (has_gpu_) {
      auto readings = gpu_readings();
      has_gpu_ = !readings.empty();
      add("gpu", std::move(readings));
    }
  }

  ServerProbe probe_;
  Nanos period_;
  int pid_;
  bool has_page_ = true;
  bool has_gpu_ = true;
  std::vector<Sample> samples_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace

Result<net::Url> ServerTarget::url(std::string_view endpoint) const {
  return net::parse_url(without_slash(base_url) + std::string(endpoint));
}

Result<net::Url> ServerTarget::root_url(std::string_view path) const {
  TRY(net::Url url, net::parse_url(base_url));
  url.path = path;
  return url;
}

Result<net::Url> ServerTarget::api_url(std::string_view path) const {
  const std::string base = without_slash(base_url);
  return net::parse_url(base + (base.ends_with("/v1") ? "" : "/v1") + std::string(path));
}

ServerProbe::ServerProbe(ServerTarget target, std::unique_ptr<net::HttpClient> client)
    : target_(std::move(target)), client_(std::move(client)) {}

Result<ServerProbe> ServerProbe::create(ServerTarget target) {
  TRY(auto client, net::HttpClient::create(target.client));
  return ServerProbe(std::move(target), std::move(client));
}

Result<net::ClientResponse> ServerProbe::ask(std::string_view method, const net::Url& url,
                                             std::string body) {
  net::ClientRequest request;
  request.method = method;
  request.url = url;
  request.headers = target_.headers;
  if (!body.empty()) request.body = {std::make_shared<const std::string>(std::move(body))};
  request.deadline = steady_now() + kAnswerLimit;
  return client_->send(std::move(request));
}

Result<void> ServerProbe::wait_ready(double timeout_s) {
  TRY(const net::Url health, target_.root_url("/health"));
  TRY(const net::Url models, target_.api_url("/models"));
  const Nanos until = steady_now() + static_cast<Nanos>(timeout_s * 1e9);
  Nanos pause = 100 * kMillisecond;
  for (;;) {
    std::string last;
    for (const net::Url& url : {health, models}) {
      const auto answer = ask("GET", url);
      if (answer && answer->status >= 200 && answer->status < 300) return {};
      last =
          answer ? fmt::format("{} answers {}", url.path, answer->status) : answer.error().message;
      if (!answer) break;
    }
    if (steady_now() + pause > until)
      return fail(ErrorCode::kUnavailable, "the server at {} is not ready: {}", target_.base_url,
                  last);
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
    pause = std::min(pause * 2, 2 * kSecond);
  }
}

Result<ServerDescription> ServerProbe::describe() {
  ServerDescription description;
  TRY(const net::Url models, target_.api_url("/models"));
  TRY(const net::ClientResponse answer, ask("GET", models));
  if (answer.status == 200) {
    auto parsed = json::parse(answer.body);
    if (!parsed)
      return fail(ErrorCode::kInvalid, "{} of {} is not JSON: {}", models.path, target_.base_url,
                  brief(answer.body));
    const json::value* data =
        parsed->is_object() ? json::find(parsed->get_object(), "data") : nullptr;
    if (data != nullptr && data->is_array())
      for (const json::value& entry : data->get_array())
        if (entry.is_object()) description.models.push_back(served_model(entry.get_object()));
  }
  TRY(const net::Url version, target_.root_url("/version"));
  if (const auto said = ask("GET", version); said && said->status == 200) {
    if (const auto parsed = json::parse(said->body); parsed && parsed->is_object()) {
      description.version = json::get_string_or(parsed->get_object(), "version", "").value_or("");
      append_parameters(*parsed, description.parameters);
    }
  }
  TRY(const net::Url details, target_.root_url("/server_info"));
  if (const auto said = ask("GET", details); said && said->status == 200)
    if (const auto parsed = json::parse(said->body); parsed)
      append_parameters(*parsed, description.parameters);
  return description;
}

Result<std::string> ServerProbe::reset_caches() {
  std::string done;
  for (const char* path :
       {"/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache", "/flush_cache"}) {
    TRY(const net::Url url, target_.root_url(path));
    const auto answer = ask("POST", url);
    if (answer && answer->status == 200) done += (done.empty() ? "" : ", ") + std::string(path);
  }
  if (done.empty())
    return fail(ErrorCode::kUnsupported,
                "the server at {} has none of the cache resets that are known", target_.base_url);
  return done;
}

Result<void> ServerProbe::post(std::string_view path) {
  TRY(const net::Url url, target_.root_url(path));
  TRY(const net::ClientResponse answer, ask("POST", url));
  if (answer.status != 200)
    return fail(ErrorCode::kUnsupported, "{} of {} answers {}", path, target_.base_url,
                answer.status);
  return {};
}

Result<std::int32_t> ServerProbe::count_tokens(const std::string& model, std::string_view text,
                                               bool with_added) {
  TRY(const net::Url url, target_.root_url("/tokenize"));
  std::string body;
  json::JsonWriter w(body);
  w.begin_object();
  w.member("model", model);
  w.member("prompt", text);  // vLLM's names, SGLang's and ours
  w.member("add_special_tokens", with_added);
  w.member("content", text);  // llama-server's, which counts nothing without them
  w.member("add_special", with_added);
  w.end_object();
  TRY(const net::ClientResponse answer, ask("POST", url, std::move(body)));
  if (answer.status != 200)
    return fail(ErrorCode::kUnsupported, "/tokenize of {} answers {}: {}", target_.base_url,
                answer.status, brief(answer.body));
  TRY(const json::value parsed, json::parse(answer.body));
  const json::value* const tokens =
      parsed.is_object() ? json::find(parsed.get_object(), "tokens") : nullptr;
  if (tokens == nullptr || !tokens->is_array())
    return fail(ErrorCode::kUnsupported, "/tokenize of {} gives no tokens: {}", target_.base_url,
                brief(answer.body));
  if (tokens->get_array().empty() && !text.empty())
    return fail(ErrorCode::kUnsupported, "/tokenize of {} counts 0 tokens of {} bytes",
                target_.base_url, text.size());
  return static_cast<std::int32_t>(tokens->get_array().size());
}

Result<std::vector<std::pair<std::string, double>>> ServerProbe::scrape() {
  TRY(const net::Url url, target_.root_url("/metrics"));
  TRY(const net::ClientResponse answer, ask("GET", url));
  if (answer.status != 200)
    return fail(ErrorCode::kNotFound, "/metrics of {} answers {}", target_.base_url, answer.status);
  return parse_metrics_page(answer.body);
}

Result<std::unique_ptr<ServerWatch>> ServerWatch::start(ServerTarget target, Nanos period,
                                                        int server_pid) {
  TRY(ServerProbe probe, ServerProbe::create(std::move(target)));
  return std::make_unique<Watch>(std::move(probe), period, server_pid);
}

}  // namespace saccade::bench
