// Flags of `saccade serve` that came from vLLM, by what they do: what answers are by default, what
// HTTP shows of them. checkpoint_places_test.cc has where a checkpoint comes from.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "base/json.h"
#include "net/server/http_server.h"
#include "tests/e2e/serve_requests.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

const std::string kQuantised = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/quantised/awq_row";

TEST(Choices, AnotherNameIsRefusedWithThoseThereAre) {
  for (const auto& [flag, names] :
       std::map<std::string, std::string>{{"--kv-policy", "jenga,maxpage,static,paged"},
                                          {"--encoder-cache", "off,store,overlay"},
                                          {"--scheduling-policy", "fcfs,priority"},
                                          {"--fairness", "client,none"},
                                          {"--role", "all,encoder,pd"},
                                          {"--dtype", "auto,float32,float,bfloat16,float16,half"},
                                          {"--encoder-fallback", "local,refuse"},
                                          {"--over-target", "accept,refuse"}})
    expect_refused(serve({flag, "other"}), {flag, "other", names});
  expect_refused(serve({"--kv-cache-dtype", "other"}),
                 {"--kv-cache-dtype", "other", "int8 or fp8"});
}

TEST(Checkpoints, QuantizationIsWhatTheCheckpointSays) {
  for (const char* name : {"awq", "awq_marlin"}) {
    const Tried tried = start_or_end(SACCADE_BINARY, {"serve", kQuantised, "-q", name});
    EXPECT_TRUE(tried.started) << tried.ended.output;
  }
  for (const std::string& checkpoint : {kQuantised, kCheckpoint}) {
    const Tried tried =
        start_or_end(SACCADE_BINARY, {"serve", checkpoint, "-q", "int8", "--quantize-head"});
    EXPECT_TRUE(tried.started) << tried.ended.output;
  }
  expect_refused(serve({"--quantize-head"}), {"--quantize-head", "--quantization int8"});
  for (const Arguments& four_bits : {Arguments{"serve", kQuantised}, serve({"-q", "int4"})}) {
    Arguments flags = four_bits;
    flags.emplace_back("--quantize-activations");
    const Tried tried = start_or_end(SACCADE_BINARY, flags);
    EXPECT_TRUE(tried.started) << tried.ended.output;
    EXPECT_NE(tried.ended.output.find("activations before four bits in int8"), std::string::npos)
        << tried.ended.output;
  }
  for (const char* method : {"int8", "int4"}) {
    const Tried plain = start_or_end(SACCADE_BINARY, serve({"-q", method}));
    EXPECT_NE(plain.ended.output.find(std::string("--quantization ") + method + ": text layers W"),
              std::string::npos)
        << plain.ended.output;
    EXPECT_NE(plain.ended.output.find("head in int8"), std::string::npos) << plain.ended.output;
    const Tried only = start_or_end(SACCADE_BINARY, serve({"-q", method, "--weight-only"}));
    EXPECT_TRUE(only.started) << only.ended.output;
    EXPECT_EQ(only.ended.output.find("head in int8"), std::string::npos) << only.ended.output;
  }
  for (const Arguments& flags :
       {Arguments{"--quantize-tower"}, {"--quantize-tower", "-q", "int8"}}) {
    const Tried tried = start_or_end(SACCADE_BINARY, serve(flags));
    EXPECT_TRUE(tried.started) << tried.ended.output;
    EXPECT_NE(tried.ended.output.find("tower's layers in int8"), std::string::npos)
        << tried.ended.output;
  }
  expect_refused({"serve", kQuantised, "--quantize-tower"}, {"no vision tower"});
  expect_refused(serve({"--quantize-activations", "--weight-only", "-q", "int4"}),
                 {"--quantize-activations", "--weight-only"});
  for (const char* method : {"none", "int8"})
    expect_refused(serve({"--quantize-activations", "-q", method}),
                   {"--quantize-activations", "no matrix has four bits"});
  expect_refused({"serve", kQuantised, "--quantization", "gptq"},
                 {"--quantization gptq", "stored as awq"});
  expect_refused(serve({"--quantization", "fp8"}), {"--quantization fp8", "not quantised"});
  expect_refused(serve({"-q", "bitsandbytes"}), {"--quantization bitsandbytes", "awq, gptq, fp8"});
}

TEST(Checkpoints, ConfigurationThatIsLaidOver) {
  ServerProcess server(SACCADE_BINARY, serve({"--hf-overrides.max_position_embeddings", "100"}));
  expect_words(exchange(server.port(), "GET", "/v1/models", "").body, {R"("max_model_len":100)"});
  expect_refused(serve({"--hf-overrides", R"({"architectures": ["Other"]})"}), {"Other"});
  expect_refused(serve({"--hf-overrides", "none"}), {"--hf-overrides", "JSON"});
}

// --- sizes --------------------------------------------------------------------------------------

TEST(Sizes, AsPeopleWriteThem) {
  const std::map<std::string, std::string> lengths = {
      {"1k", "1000"}, {"1K", "1024"}, {"1.5k", "1500"}, {"auto", "2048"}, {"-1", "2048"}};
  for (const auto& [given, length] : lengths) {
    ServerProcess server(SACCADE_BINARY, serve({"--max-model-len", given, "--max-num-seqs", "2",
                                                "--max-num-batched-tokens", "2k",
                                                "--kv-cache-memory-bytes", "64M"}));
    expect_words(exchange(server.port(), "GET", "/v1/models", "").body,
                 {"\"max_model_len\":" + length});
  }
  expect_refused(serve({"--max-model-len", "1.5K"}), {"--max-model-len", "1.5K"});
  expect_refused(serve({"--max-model-len", "1x"}), {"--max-model-len", "1x"});
  expect_refused(serve({"--max-num-batched-tokens", "9t"}), {"--max-num-batched-tokens"});
  expect_refused(serve({"--kv-cache-dtype", "nvfp4"}),
                 {"--kv-cache-dtype", "nvfp4", "bfloat16", "int8", "fp8"});
  expect_refused(serve({"--kv-cache-dtype", "fp8_e5m2"}), {"--kv-cache-dtype", "fp8_e4m3 takes"});
}

TEST(Sizes, KeysAndValuesInBf16) {
  ServerProcess server(SACCADE_BINARY,
                       serve({"--dtype", "float32", "--kv-cache-dtype", "bfloat16"}));
  expect_words(server.log(), {"keys and values as bfloat16"});
  EXPECT_EQ(completion_tokens(complete(server)), 8);
}

TEST(Sizes, KeysAndValuesInBytes) {
  const std::map<std::string, std::string> stored = {{"int8", "int8"},
                                                     {"int8_per_token_head", "int8"},
                                                     {"fp8", "float8_e4m3"},
                                                     {"fp8_e4m3", "float8_e4m3"}};
  for (const auto& [given, name] : stored) {
    ServerProcess server(SACCADE_BINARY, serve({"--kv-cache-dtype", given}));
    expect_words(server.log(), {"keys and values as " + name});
    EXPECT_EQ(completion_tokens(complete(server)), 8);
  }
}

// --- answers by default -------------------------------------------------------------------------

TEST(Answers, LengthOfTheCheckpointsAndTheOperators) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "generation_config.json") << R"({"max_new_tokens": 5})";
  const std::string chat = "/v1/chat/completions";
  const auto tokens = [&](const ServerProcess& server, const std::string& more) {
    return completion_tokens(exchange(
        server.port(), "POST", chat,
        R"({"messages": [{"role": "user", "content": "x"}], "ignore_eos": true)" + more + "}"));
  };
  ServerProcess server(SACCADE_BINARY, serve({"--generation-config", folder.path()}));
  EXPECT_EQ(tokens(server, ""), 5);                      // where the request says nothing
  EXPECT_EQ(tokens(server, R"(, "max_tokens": 9)"), 9);  // no bound
  ServerProcess bounded(SACCADE_BINARY,
                        serve({"--generation-config", folder.path(), "--override-generation-config",
                               R"({"max_new_tokens": 3})"}));
  EXPECT_EQ(tokens(bounded, ""), 3);
  EXPECT_EQ(tokens(bounded, R"(, "max_tokens": 9)"), 3);
  EXPECT_EQ(tokens(bounded, R"(, "max_tokens": 2)"), 2);
  EXPECT_EQ(completion_tokens(complete(bounded)), 3);
  std::ofstream(folder / "generation_config.json") << R"({"max_new_tokens": 0})";
  expect_refused(serve({"--generation-config", folder.path()}), {"max_new_tokens", "0"});
}

TEST(Answers, SamplingByTheOperator) {
  const std::string any = R"({"prompt": "one two", "max_tokens": 8, "ignore_eos": true, "seed": )";
  ServerProcess server(SACCADE_BINARY,
                       serve({"--override-generation-config", R"({"temperature": 0})"}));
  const std::string text = text_of(complete(server, any + "1}"));
  for (const char* seed : {"2}", "3}", "4}"})
    EXPECT_EQ(text_of(complete(server, any + seed)), text);
  expect_refused(serve({"--override-generation-config", R"({"warmth": 0})"}),
                 {"--override-generation-config", "warmth", "temperature"});
}

// A template from elsewhere names the tokens of a checkpoint that has no template itself.
TEST(Answers, TemplatesFromElsewhereNameTheCheckpointsTokens) {
  const std::string paligemma = SACCADE_SOURCE_DIR "/tests/golden/paligemma/first";
  const ServerProcess server(SACCADE_BINARY,
                             {"serve", "--model", paligemma, "--chat-template",
                              "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"});
  const RawAnswer answer =
      exchange(server.port(), "POST", "/tokenize",
               R"({"messages": [{"role": "user", "content": "x"}], "return_token_strs": true})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::object tree = tree_of(answer);
  const json::value* strings = json::find(tree, "token_strs");
  ASSERT_NE(strings, nullptr) << answer.body;
  ASSERT_GE(strings->get_array().size(), 3U);
  EXPECT_EQ(strings->get_array().front().get_string(), "<bos>");
  EXPECT_EQ(strings->get_array().back().get_string(), "<eos>");
}

TEST(Answers, WhatTemplatesSee) {
  ServerProcess server(
      SACCADE_BINARY,
      serve({"--chat-template", "{{ greeting }}{{ messages[0].content }}{% if tools %}T{% endif %}",
             "--default-chat-template-kwargs.greeting", "hello",
             "--exclude-tools-when-tool-choice-none"}));
  const auto rendered = [&](const std::string& more) {
    const json::object tree = tree_of(
        exchange(server.port(), "POST", "/tokenize",
                 R"({"messages": [{"role": "user", "content": "x"}], "return_token_strs": true)" +
                     more + "}"));
    std::string text;
    if (const json::value* strings = json::find(tree, "token_strs"))
      for (const json::value& each : strings->get_array()) text += each.get_string().c_str();
    return text;
  };
  const std::string tools =
      R"(, "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": )";
  EXPECT_EQ(rendered(""), "hellox");
  EXPECT_EQ(rendered(R"(, "chat_template_kwargs": {"greeting": "bye"})"), "byex");
  EXPECT_EQ(rendered(tools + "\"none\""), "hellox");
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt"})
    expect_refused(
        serve({"--default-chat-template-kwargs", R"({")" + std::string(name) + R"(": []})"}),
        {"--default-chat-template-kwargs", name});
}

TEST(Answers, AsIfEveryRequestHadAsked) {
  ServerProcess server(SACCADE_BINARY,
                       serve({"--enable-force-include-usage", "--return-tokens-as-token-ids",
                              "--enable-per-request-metrics", "--no-enable-auto-tool-choice"}));
  const RawAnswer stream =
      complete(server, R"({"prompt": "x", "max_tokens": 2, "stream": true, "logprobs": 1})");
  expect_words(stream.body, {R"("usage":{)", "token_id:"});
  expect_words(complete(server).body, {R"("metrics":{)"});
  const RawAnswer refused =
      exchange(server.port(), "POST", "/v1/chat/completions",
               R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1,
          "tools": [{"type": "function", "function": {"name": "f"}}]})");
  EXPECT_EQ(refused.status, 400);
  expect_words(refused.body, {"--no-enable-auto-tool-choice"});
}

TEST(Answers, MediaThatMayCome) {
  const std::string image =
      R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": )"
      R"("data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"}}]}],)"
      R"( "max_tokens": 1})";
  for (const Arguments& flags :
       {Arguments{"--limit-mm-per-prompt.image", "0"}, Arguments{"--language-model-only"},
        Arguments{"--limit-mm-per-prompt", R"({"image": {"count": 0, "width": 512}})"}}) {
    ServerProcess server(SACCADE_BINARY, serve(flags));
    const RawAnswer answer = exchange(server.port(), "POST", "/v1/chat/completions", image);
    EXPECT_EQ(answer.status, 400) << answer.body;
    expect_words(answer.body, {"image"});
  }
  ServerProcess uncached(SACCADE_BINARY,
                         serve({"--mm-processor-cache-gb", "0", "--limit-mm-per-prompt.image=1"}));
  EXPECT_EQ(exchange(uncached.port(), "POST", "/v1/chat/completions", image).status, 200);
}

// --- HTTP ---------------------------------------------------------------------------------------

// The page asks for the key itself: it is there without one.
TEST(Http, ThePageIsThereUnlessItIsNotWanted) {
  {
    ServerProcess server(SACCADE_BINARY, serve({"--api-key", "secret"}));
    const RawAnswer page = exchange(server.port(), "GET", "/", "");
    if (page.status == 404 && server.log().find("built without npm") != std::string::npos)
      GTEST_SKIP() << "built without npm";
    EXPECT_EQ(page.status, 200);
    expect_words(page.head, {"Content-Security-Policy: default-src 'none'"});
    expect_words(page.body, {"<title>Saccade</title>", "</html>"});
    EXPECT_EQ(exchange(server.port(), "GET", "/v1/models", "").status, 401);
  }
  ServerProcess server(SACCADE_BINARY, serve({"--no-ui"}));
  EXPECT_EQ(exchange(server.port(), "GET", "/", "").status, 404);
}

TEST(Http, PathsWithAndWithoutTheRoot) {
  ServerProcess server(SACCADE_BINARY, serve({"--root-path", "/x/"}));
  const RawAnswer page = exchange(server.port(), "GET", "/", "");
  EXPECT_EQ(exchange(server.port(), "GET", "/x/", "").body, page.body);
  for (const char* path : {"/v1/models", "/x/v1/models"})
    EXPECT_EQ(exchange(server.port(), "GET", path, "").status, 200) << path;
  EXPECT_EQ(exchange(server.port(), "POST", "/x/v1/completions", kGreedy).status, 200);
  for (const char* path : {"/xv1/models", "/y/v1/models", "/x"})
    EXPECT_EQ(exchange(server.port(), "GET", path, "").status, 404) << path;
  expect_refused(serve({"--root-path", "x"}), {"--root-path", "'x'"});
}

// What `path` answers; empty where nobody listens.
std::string ask_socket(const std::string& path, const std::string& request) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::ranges::copy(path, address.sun_path);
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
    char piece[4096];
    for (ssize_t n = 0; (n = read(fd, piece, sizeof piece)) > 0;)
      answer.append(piece, static_cast<std::size_t>(n));
  }
  close(fd);
  return answer;
}

// Whoever may open the socket may use the server, under whichever name.
TEST(Http, AUnixSocketInsteadOfAPort) {
  TemporaryDirectory folder;
  const std::string path = folder.path() + "/saccade.sock";
  ServerProcess server(SACCADE_BINARY, serve({"--uds", path}));
  EXPECT_NE(server.log().find("listening on " + path + ", a Unix socket"), std::string::npos)
      << server.log();
  const std::string tail = " HTTP/1.1\r\nHost: backend.example\r\nConnection: close\r\n";
  EXPECT_TRUE(ask_socket(path, "GET /v1/models" + tail + "\r\n").starts_with("HTTP/1.1 200"));
  const std::string answer = ask_socket(
      path, "POST /v1/completions" + tail + "Content-Type: application/json\r\n" +
                "Content-Length: " + std::to_string(kGreedy.size()) + "\r\n\r\n" + kGreedy);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  expect_refused(serve({"--uds", path}), {path, "another server does"});
  expect_refused(serve({"--uds", path, "--host", "127.0.0.1"}), {"--uds", "--host"});
  EXPECT_EQ(server.stop(), 0) << server.log();
  EXPECT_FALSE(fs::exists(path));
}

// Before the weights are loaded, which here are missing.
TEST(Http, AUnixSocketThatCannotBeIsRefusedFirst) {
  const TemporaryDirectory folder;
  const std::string model = folder / "model";
  link_files(kCheckpoint, model, "model.safetensors");
  const auto refused = [&](const std::string& path, const Arguments& words) {
    expect_refused({"serve", model, "--uds", path}, words);
  };
  refused(folder / "none/s.sock", {"none/s.sock", "No such file", "folder is missing"});
  refused(folder / std::string(108, 'x'), {"107"});
  refused("/proc/s.sock", {"cannot listen on /proc/s.sock"});
  refused(folder.path(), {"no socket"});
  refused("", {"--uds is empty"});
  // What can be is left as it was.
  refused(folder / "s.sock", {"safetensors"});
  EXPECT_FALSE(fs::exists(folder / "s.sock"));
}

TEST(Http, HeadersOfAnswers) {
  ServerProcess server(SACCADE_BINARY, serve({"--enable-request-id-headers", "--allow-credentials",
                                              "--cors-allow-origins", "http://a.example"}));
  expect_words(complete(server, kGreedy, "X-Request-Id: mine\r\nOrigin: http://a.example\r\n").head,
               {"X-Request-Id: mine", "Access-Control-Allow-Credentials: true"});
  const std::string head = complete(server).head;
  expect_words(head, {"X-Request-Id: "});
  EXPECT_EQ(head.find("Credentials"), std::string::npos) << head;
  EXPECT_NE(complete(server).head, head);
  ServerProcess plain(SACCADE_BINARY, serve({}));
  EXPECT_EQ(complete(plain).head.find("X-Request-Id"), std::string::npos);
}

// --- the environment ----------------------------------------------------------------------------

TEST(Variables, AsVllmNamesThem) {
  ServerProcess server(SACCADE_BINARY, serve({}),
                       {{"VLLM_CPU_OMP_THREADS_BIND", "0"},
                        {"VLLM_CPU_KVCACHE_SPACE", "0.01"},
                        {"VLLM_LOGGING_LEVEL", "DEBUG"},
                        {"VLLM_HOST_IP", "10.0.0.1"}});
  expect_words(server.log(), {"1 thread", "VLLM_HOST_IP has no effect here: "});
  EXPECT_EQ(complete(server).status, 200);
  for (const auto& [name, value] : {std::pair{"VLLM_CPU_OMP_THREADS_BIND", "0-"},
                                    {"VLLM_CPU_OMP_THREADS_BIND", "4000"},
                                    {"VLLM_CPU_KVCACHE_SPACE", "much"},
                                    {"VLLM_LOGGING_LEVEL", "loud"}})
    expect_refused(serve({}), {name, value}, {{name, value}});
}

TEST(Variables, TheLogsLevelByTheNearest) {
  // It starts without a word, so it is ended by a port that is taken.
  net::HttpServerSettings settings;
  settings.port = 0;
  const auto taken =
      net::HttpServer::listen(settings, [](const net::HttpRequest&, const net::Responder&) {});
  ASSERT_TRUE(taken);
  const Arguments on_it = {"--port", std::to_string((*taken)->port()), "--enforce-eager"};
  const auto said = [&](const Arguments& more, const Environment& environment) {
    Arguments flags = on_it;
    flags.insert(flags.end(), more.begin(), more.end());
    return run_to_end(SACCADE_BINARY, serve(flags), environment).output.find("--enforce-eager") !=
           std::string::npos;
  };
  EXPECT_TRUE(said({}, {}));
  EXPECT_FALSE(said({}, {{"VLLM_LOGGING_LEVEL", "ERROR"}}));
  EXPECT_FALSE(said({"--uvicorn-log-level", "warning"}, {{"VLLM_LOGGING_LEVEL", "INFO"}}));
  EXPECT_TRUE(said({"--uvicorn-log-level", "warning", "--log-level", "INFO"}, {}));
}

}  // namespace
}  // namespace saccade::test
