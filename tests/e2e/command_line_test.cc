// Command lines as people have them: published ones start, wrong ones say what was meant, switches
// do what they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/e2e/serve_requests.h"
#include "tests/support/occurrences.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

const std::string kShortRequest = R"({"prompt": "x", "max_tokens": 2, "ignore_eos": true})";

// A file that goes with the test.
class TextFile {
 public:
  TextFile(const std::string& ending, const std::string& text) {
    char pattern[] = "/tmp/saccade-cli-XXXXXX";
    close(mkstemp(pattern));
    fs::remove(pattern);
    path_ = pattern + ending;
    std::ofstream(path_) << text;
  }
  ~TextFile() { fs::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// --- published command lines --------------------------------------------------------------------

struct Published {
  Arguments flags;      // after the model, ports left to the test
  Arguments no_effect;  // each has its notice
};

class PublishedCommands : public testing::TestWithParam<Published> {};

TEST_P(PublishedCommands, Start) {
  static const TextFile chat_template(".jinja", "{{ messages[0]['content'] }}");
  Arguments flags = GetParam().flags;
  for (auto& flag : flags) {
    if (flag == "TEMPLATE") flag = chat_template.path();
    if (flag == "FOLDER") flag = SACCADE_SOURCE_DIR;
  }
  ServerProcess server(SACCADE_BINARY, serve(flags));
  EXPECT_EQ(exchange(server.port(), "POST", "/v1/completions", kShortRequest).status, 200);
  EXPECT_EQ(server.stop(), 0) << server.log();
  EXPECT_EQ(count(server.log(), "has no effect here: "), GetParam().no_effect.size())
      << server.log();
  for (const std::string& flag : GetParam().no_effect)
    expect_words(server.log(), {flag + " has no effect here: "});
}

INSTANTIATE_TEST_SUITE_P(
    , PublishedCommands,
    testing::Values(
        Published{{"--trust_remote_code", "--enable_chunked_prefill", "--max_num_batched_tokens",
                   "1024", "--disable-log-requests"},
                  {"--trust-remote-code", "--enable-chunked-prefill"}},
        Published{{"--enable_chunked_prefill", "--max_num_batched_tokens", "1024",
                   "--disable-log-requests"},
                  {"--enable-chunked-prefill"}},
        Published{{"--trust_remote_code", "--enable_chunked_prefill", "--max_num_batched_tokens",
                   "1024", "--disable-log-requests", "--chat-template", "TEMPLATE"},
                  {"--trust-remote-code", "--enable-chunked-prefill"}},
        Published{
            {"--trust_remote_code", "--enable_chunked_prefill", "--max_num_batched_tokens", "1024",
             "--disable-log-requests", "--disable-v2-block-manager",
             "--use-per-layer-block-manager"},
            {"--trust-remote-code", "--enable-chunked-prefill", "--disable-v2-block-manager"}},
        Published{{"--enable_chunked_prefill", "--max_num_batched_tokens", "1024",
                   "--disable-log-requests", "--disable-v2-block-manager",
                   "--use-per-layer-block-manager"},
                  {"--enable-chunked-prefill", "--disable-v2-block-manager"}},
        Published{
            {"--trust_remote_code", "--enable_chunked_prefill", "--max_num_batched_tokens", "1024",
             "--disable-log-requests", "--disable-v2-block-manager",
             "--use-per-layer-block-manager", "--chat-template", "TEMPLATE"},
            {"--trust-remote-code", "--enable-chunked-prefill", "--disable-v2-block-manager"}},
        Published{{"--allowed-local-media-path", "FOLDER", "--limit-mm-per-prompt", "image=10"},
                  {}},
        Published{{"--host", "127.0.0.1"}, {}},
        Published{{"--block-size", "128", "--max-model-len", "2048", "--enable-prefix-caching",
                   "--enforce-eager"},
                  {"--enforce-eager"}}));

// Jenga's printed flag goes over a baseline that a configuration says.
TEST(CommandLine, ThePerLayerBlockManagerIsJenga) {
  const TextFile baseline(".yaml", "kv-policy: paged\n");
  for (const auto& [flags, policy] :
       {std::pair{Arguments{}, "paged"},
        std::pair{Arguments{"--disable-v2-block-manager", "--use-per-layer-block-manager"},
                  "jenga"}}) {
    Arguments all = flags;
    all.insert(all.end(), {"--config", baseline.path()});
    ServerProcess server(SACCADE_BINARY, serve(all));
    EXPECT_EQ(server.stop(), 0) << server.log();
    expect_words(server.log(), {std::string("KV cache, ") + policy});
  }
}

TEST(CommandLine, TheModelMayComeFirst) {
  ServerProcess server(SACCADE_BINARY,
                       {"serve", kCheckpoint + "/", "--limit-mm-per-prompt", R"({"image": 10})"});
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(CommandLine, AFlagGivenAgainReplacesItsValueAndAListGrows) {
  ServerProcess server(SACCADE_BINARY,
                       serve({"--max-model-len", "7", "--served-model-name", "one",
                              "--max-model-len", "64", "--served-model-name", "two"}));
  const std::string models = exchange(server.port(), "GET", "/v1/models", "").body;
  expect_words(models, {R"("max_model_len":64)", R"("id":"one")", R"("id":"two")"});
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(CommandLine, BudgetsTooSmallForMaxNumSeqsAreSaid) {
  ServerProcess by_cache(SACCADE_BINARY, serve({"--max-num-seqs", "1000", "--kv-cache-bytes",
                                                "1MiB", "--max-model-len", "64"}));
  EXPECT_EQ(exchange(by_cache.port(), "POST", "/v1/completions", kShortRequest).status, 200);
  EXPECT_EQ(by_cache.stop(), 0) << by_cache.log();
  expect_words(by_cache.log(), {"max_num_seqs 1000", "1048576 bytes", "run at once"});

  ServerProcess by_step(SACCADE_BINARY,
                        serve({"--max-num-seqs", "64", "--max-num-batched-tokens", "16"}));
  EXPECT_EQ(by_step.stop(), 0) << by_step.log();
  expect_words(by_step.log(), {"max_num_seqs 64", "16 run at once"});

  ServerProcess enough(SACCADE_BINARY, serve({"--max-num-seqs", "8"}));
  EXPECT_EQ(enough.stop(), 0) << enough.log();
  EXPECT_EQ(count(enough.log(), "run at once"), 0u) << enough.log();
}

// --- wrong command lines ------------------------------------------------------------------------

TEST(CommandLine, WrongFlagsGetAHint) {
  const auto refused = [](const Arguments& arguments, int status, const Arguments& words) {
    const Ended ended = run_to_end(SACCADE_BINARY, arguments);
    EXPECT_EQ(ended.status, status) << ended.output;
    expect_words(ended.output, words);
  };
  refused(serve({"--max-num-seq", "8"}), 2, {"--max-num-seq: did you mean --max-num-seqs?"});
  refused(serve({"--served_modelname", "x"}), 2, {"did you mean --served-model-name?"});
  refused(serve({"--entirely-else"}), 2, {"--entirely-else"});
  refused(serve({"--ctx-size", "4096"}), 2, {"--ctx-size (llama-server): use --max-model-len"});
  refused({"serve", "-m", "model.gguf"}, 2, {"-m (llama-server): ", "saccade serve MODEL.gguf"});
  refused({"serve", "-hf", "ORG/NAME"}, 2, {"-hf (llama-server): name the model first"});
  refused({"server", "x"}, 2, {"server: did you mean serve?"});
  refused({"--version"}, 0, {"saccade ", "features: "});  // is none
  refused({"--model", "x"}, 2, {"a command comes first"});
  refused({"entirely-else"}, 2, {"there is no command entirely-else; there are serve, "});
  refused(serve({"--port", "http"}), 2, {"--port", "http"});
  refused(serve({"--port", "99999999"}), 2, {"--port", "99999999", "65535"});
  refused(serve({"--gpu-memory-utilization", "2"}), 2, {"--gpu-memory-utilization", "2", "1"});
  refused(serve({"--dtype", "int3"}), 2, {"--dtype", "int3", "bfloat16"});
  refused(serve({"--max-num-seqs", "0"}), 2, {"--max-num-seqs", "0"});
  refused(
      serve({"--pipeline-parallel-size", "2"}), 2,
      {"--pipeline-parallel-size 2 is not supported", "--tensor-parallel-size", "saccade proxy"});
  refused(serve({"--limit-mm-per-prompt", "image"}), 1, {"--limit-mm-per-prompt", "image=10"});
  refused(serve({"--max-model-len", "99999"}), 1, {"99999", "2048"});
  refused(serve({"--chat-template", "/nowhere.jinja"}), 1, {"--chat-template", "/nowhere.jinja"});
  refused({"serve"}, 1, {"--model"});
  setenv("HF_HUB_OFFLINE", "1", 1);
  refused({"serve", "--model", "org/none"}, 1,
          {"HF_HUB_OFFLINE", "org/none", "saccade model pull org/none"});
  unsetenv("HF_HUB_OFFLINE");
}

TEST(CommandLine, AFolderThatCannotBeRead) {
  const TextFile no_folder("", "a file");
  Ended ended = run_to_end(SACCADE_BINARY, {"serve", "--model", no_folder.path()});
  EXPECT_EQ(ended.status, 1);
  expect_words(ended.output, {no_folder.path()});
  char empty[] = "/tmp/saccade-empty-XXXXXX";
  ASSERT_NE(mkdtemp(empty), nullptr);
  ended = run_to_end(SACCADE_BINARY, {"serve", "--model", empty});
  fs::remove(empty);
  EXPECT_EQ(ended.status, 1);
  expect_words(ended.output, {empty, "config.json"});
}

TEST(CommandLine, APortInUseIsSaid) {
  const TcpListener taken;
  const std::string port = std::to_string(taken.port());
  const Ended ended = run_to_end(SACCADE_BINARY, serve({"--port", port}));
  EXPECT_EQ(ended.status, 1) << ended.output;
  expect_words(ended.output, {port, "in use"});
}

// --- switches -----------------------------------------------------------------------------------

void expect_key_needed(std::uint16_t port, const std::string& key) {
  const auto ask = [&](const std::string& headers) {
    return exchange(port, "POST", "/v1/completions", kShortRequest, -1, headers).status;
  };
  EXPECT_EQ(ask(""), 401);
  EXPECT_EQ(ask("Authorization: Bearer " + key + "x\r\n"), 401);
  EXPECT_EQ(ask("Authorization: Bearer " + key.substr(1) + "\r\n"), 401);
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER  "})
    EXPECT_EQ(ask("Authorization: " + (scheme + key) + "\r\n"), 200) << scheme;
  EXPECT_EQ(exchange(port, "GET", "/v1/models", "").status, 401);
  EXPECT_EQ(exchange(port, "GET", "/health", "").status, 200);
}

TEST(Switches, ApiKeyByFlagAndByEnvironment) {
  ServerProcess by_flag(SACCADE_BINARY, serve({"--api-key", "first", "second"}));
  expect_key_needed(by_flag.port(), "first");
  expect_key_needed(by_flag.port(), "second");
  EXPECT_EQ(count(by_flag.log(), "second"), 0u) << "the log shows the key";
  for (const char* variable : {"SACCADE_API_KEY", "VLLM_API_KEY"}) {
    ServerProcess server(SACCADE_BINARY, serve({}), {{variable, "from-outside"}});
    expect_key_needed(server.port(), "from-outside");
  }
}

TEST(Switches, CorsHeaders) {
  const auto head = [](const ServerProcess& server, const std::string& method,
                       const std::string& origin) {
    return exchange(server.port(), method, "/v1/completions", kShortRequest, -1,
                    "Origin: " + origin + "\r\n")
        .head;
  };
  // By itself: pages of this machine, and no other's, not even a request that needs no permission.
  ServerProcess plain(SACCADE_BINARY, serve({}));
  for (const std::string method : {"POST", "OPTIONS", "GET"}) {
    const std::string refused = head(plain, method, "http://a.example");
    expect_words(refused, {"403"});
    EXPECT_EQ(count(refused, "Access-Control-Allow"), 0u) << refused;
  }
  expect_words(plain.log(), {"http://a.example", "--allowed-origins"});
  expect_words(head(plain, "POST", "http://localhost:3000"),
               {"200", "Access-Control-Allow-Origin: http://localhost:3000"});
  expect_words(head(plain, "OPTIONS", "http://localhost:3000"),
               {"200", "Access-Control-Allow-Origin: http://localhost:3000",
                "Access-Control-Allow-Methods: GET, POST",
                "Access-Control-Allow-Headers: Authorization, *"});
  ServerProcess open(SACCADE_BINARY, serve({"--allowed-origins", "*"}));
  expect_words(head(open, "POST", "http://a.example"),
               {"200", "Access-Control-Allow-Origin: http://a.example"});
  ServerProcess closed(SACCADE_BINARY,
                       serve({"--allowed-origins", "http://a.example", "http://b.example"}));
  for (const std::string origin : {"http://a.example", "http://b.example"}) {
    expect_words(head(closed, "POST", origin), {"Access-Control-Allow-Origin: " + origin});
    expect_words(head(closed, "GET", origin), {"405", "Access-Control-Allow-Origin: " + origin});
  }
  EXPECT_EQ(count(head(closed, "POST", "http://c.example"), "Access-Control-Allow-Origin"), 0u);
  ServerProcess list(SACCADE_BINARY,
                     serve({"--allowed-origins", R"(["http://a.example", "http://b.example"])"}));
  expect_words(head(list, "POST", "http://b.example"),
               {"Access-Control-Allow-Origin: http://b.example"});
}

TEST(Switches, NonsenseIsRefusedAtStart) {
  const auto refused = [](const Arguments& flags, const Arguments& words) {
    const Ended ended = run_to_end(SACCADE_BINARY, serve(flags));
    EXPECT_NE(ended.status, 0) << flags[0];
    expect_words(ended.output, words);
  };
  refused({"--generation-config", "/none"}, {"--generation-config", "/none"});
  refused({"--allowed-local-media-path", "/none"}, {"--allowed-local-media-path", "/none"});
  refused({"--max-body-mib", "0"}, {"--max-body-mib"});
  refused({"--drain-seconds", "-1"}, {"--drain-seconds"});
  refused({"--media-timeout", "-1"}, {"--media-timeout"});
  refused({"--max-logprobs", "-2"}, {"--max-logprobs"});
  refused({"--max-waiting", "0"}, {"--max-waiting"});
  refused({"--max-model-len", "-2"}, {"--max-model-len"});
  refused({"--tpot-target-ms", "-1"}, {"--tpot-target-ms"});
  refused({"--limit-mm-per-prompt", R"({"image": -1})"}, {"--limit-mm-per-prompt", "-1"});
  refused({"--limit-mm-per-prompt", "image=-1"}, {"--limit-mm-per-prompt", "-1"});
  refused({"--limit-mm-per-prompt", "image="}, {"--limit-mm-per-prompt"});
  refused({"--mm-processor-kwargs", R"({"min_pixels": -1})"}, {"min_pixels", "-1"});
  refused({"--ssl-keyfile", "/none.pem"}, {"--ssl-keyfile", "--ssl-certfile"});
  // Numbers below zero, and above all that there are, do not come round to others.
  refused({"--kv-cache-bytes", "-5"}, {"--kv-cache-bytes", "-5"});
  refused({"--response-store-bytes", "-1"}, {"--response-store-bytes", "-1"});
  refused({"--response-store-bytes", "18446744073709551616"},
          {"--response-store-bytes", "18446744073709551616"});
  refused({"--gpu-memory-utilization", "nan"}, {"--gpu-memory-utilization", "nan"});
  refused({"--tpot-target-ms=-nan"}, {"--tpot-target-ms", "-nan"});
  refused({"--api-key", ""}, {"--api-key"});
  refused({"--served-model-name", ""}, {"--served-model-name is empty"});
  refused({"--served-model-name", "one", ""}, {"--served-model-name is empty"});
}

TEST(Switches, GenerationConfigOfAnotherFolder) {
  char pattern[] = "/tmp/saccade-gen-XXXXXX";
  const fs::path folder = mkdtemp(pattern);
  std::ofstream(folder / "generation_config.json") << R"({"temperature": "hot"})";
  const Ended ended = run_to_end(SACCADE_BINARY, serve({"--generation-config", folder.string()}));
  expect_words(ended.output, {(folder / "generation_config.json").string(), "temperature"});
  fs::remove_all(folder);
}

TEST(Switches, ConfigFileAndServedNames) {
  const TextFile toml(".toml",
                      "max-model-len = 128\nserved_model_name = [\"one\", \"two\"]\n"
                      "enable-log-requests = true\nport = 1\n");
  ServerProcess server(SACCADE_BINARY, serve({"--config", toml.path()}));
  const std::string models = exchange(server.port(), "GET", "/v1/models", "").body;
  expect_words(models, {R"("id":"one")", R"("id":"two")", R"("max_model_len":128)",
                        "\"root\":\"" + kCheckpoint + "\""});
  for (const std::string name : {"one", "two"}) {
    const RawAnswer answer =
        exchange(server.port(), "POST", "/v1/completions",
                 R"({"prompt": "x", "max_tokens": 1, "model": ")" + name + "\"}");
    EXPECT_EQ(answer.status, 200);
    expect_words(answer.body, {"\"model\":\"" + name + "\""});
  }
  expect_words(server.log(), {"cmpl-"});  // the flag in the file
  EXPECT_EQ(exchange(server.port(), "GET", "/v1/models/two", "").status, 200);
  EXPECT_EQ(exchange(server.port(), "POST", "/v1/completions",
                     R"({"prompt": "x", "model": ")" + kCheckpoint + "\"}")
                .status,
            404);
}

TEST(Switches, ConfigFilesThatAreWrong) {
  const TextFile yaml(".yaml", "model: " + kCheckpoint + "\nmax-model-len: 99999\n");
  Ended ended = run_to_end(SACCADE_BINARY, {"serve", "--config", yaml.path()});
  EXPECT_EQ(ended.status, 1);
  expect_words(ended.output, {"99999", "2048"});  // it was read
  const TextFile unknown(".toml", "no-such-flag = 3\n");
  ended = run_to_end(SACCADE_BINARY, serve({"--config", unknown.path()}));
  EXPECT_EQ(ended.status, 1);
  expect_words(ended.output, {unknown.path(), "no-such-flag"});
  const TextFile wrong(".toml", "max-num-seqs = \"many\"\n");
  ended = run_to_end(SACCADE_BINARY, serve({"--config", wrong.path()}));
  EXPECT_EQ(ended.status, 1);
  expect_words(ended.output, {wrong.path(), "max-num-seqs", "many"});
  for (const std::string list : {"port = [1, 2]", "host = [\"a\", \"b\"]", "max-num-seqs = [1, 2]",
                                 "enable-log-requests = [true, false]"}) {
    const TextFile two(".toml", list + "\n");
    ended = run_to_end(SACCADE_BINARY, serve({"--config", two.path()}));
    EXPECT_EQ(ended.status, 1) << list;
    expect_words(ended.output, {two.path(), list.substr(0, list.find(' ')), "a list of 2 values"});
  }
  for (const std::string list :
       {"max-num-seqs = []", "served-model-name = []", "enable-log-requests = []"}) {
    const TextFile empty(".toml", list + "\n");
    ended = run_to_end(SACCADE_BINARY, serve({"--config", empty.path()}));
    EXPECT_EQ(ended.status, 1) << list;
    expect_words(ended.output, {empty.path(), list.substr(0, list.find(' ')), "0 values"});
  }
  for (const std::string none : {"/nowhere.toml", "/dev/zero", "/tmp"}) {
    ended = run_to_end(SACCADE_BINARY, serve({"--config", none}));
    EXPECT_EQ(ended.status, 1);
    expect_words(ended.output, {"--config", none});
  }
}

TEST(Switches, ChatTemplatesThatAreNone) {
  const TextFile empty(".jinja", "");
  const TextFile blank(".jinja", " \n\t\n");
  for (const std::string& path : {empty.path(), blank.path(), std::string("/tmp"),
                                  std::string("/dev/zero"), std::string("/nowhere.jinja")}) {
    const Ended ended = run_to_end(SACCADE_BINARY, serve({"--chat-template", path}));
    EXPECT_EQ(ended.status, 1) << path;
    expect_words(ended.output, {"--chat-template", path});
  }
}

TEST(Switches, AServerGivenTwiceIsRefused) {
  for (const std::string again : {"http://127.0.0.1:1", "http://127.0.0.1:1/", "127.0.0.1:1"}) {
    const Ended ended = run_to_end(
        SACCADE_BINARY,
        {"proxy", "--port", "0", "--pd", "http://127.0.0.1:1,http://b:1", "--pd", again});
    EXPECT_EQ(ended.status, 1) << again;
    expect_words(ended.output, {"--pd", again, "twice"});
  }
  const Ended ended = run_to_end(SACCADE_BINARY, serve({"--encoders", "127.0.0.1:9,127.0.0.1:9"}));
  EXPECT_EQ(ended.status, 1);
  expect_words(ended.output, {"--encoders", "127.0.0.1:9", "twice"});
}

TEST(Switches, RequestsAreLoggedWhenAsked) {
  for (const bool asked : {false, true}) {
    ServerProcess server(SACCADE_BINARY,
                         serve({asked ? "--enable-log-requests" : "--disable-log-requests"}));
    EXPECT_EQ(exchange(server.port(), "POST", "/v1/completions",
                       R"({"prompt": "x", "max_tokens": 1, "request_id": "mine"})")
                  .status,
              200);
    EXPECT_EQ(count(server.log(), "cmpl-mine"), asked ? 1u : 0u) << server.log();
  }
}

TEST(Switches, ThroughputUnderLoadOnly) {
  ServerProcess server(SACCADE_BINARY, serve({"--throughput-log-seconds", "1"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(count(server.log(), "tokens/s"), 0u) << server.log();
  EXPECT_EQ(exchange(server.port(), "POST", "/v1/completions", kShortRequest).status, 200);
  for (int i = 0; i < 300 && count(server.log(), "tokens/s") == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  expect_words(server.log(), {"generation", "tokens/s", "running"});
}

// --- what cannot be written ---------------------------------------------------------------------

// What nobody got is no success, whichever command has printed it.
TEST(CommandLine, StandardOutputThatTakesNothing) {
  const std::string saccade = SACCADE_BINARY;
  for (const std::string& command :
       {" model inspect " + kCheckpoint, std::string(" --version"), std::string(" serve --help")}) {
    for (const std::string nowhere : {" > /dev/full", " >&-"}) {
      const Ended ended = run_to_end("/bin/sh", {"-c", saccade + command + nowhere});
      EXPECT_EQ(ended.status, 1) << command << nowhere;
      expect_words(ended.output, {"standard output"});
    }
    EXPECT_EQ(run_to_end("/bin/sh", {"-c", saccade + command + " <&- > /dev/null"}).status, 0);
  }
}

// The signal would end it with half a folder left behind.
TEST(CommandLine, ALimitOfFileSizesIsAnError) {
  const TemporaryDirectory work;
  const Ended ended =
      run_to_end("/bin/sh", {"-c", "ulimit -f 10; exec " + std::string(SACCADE_BINARY) +
                                       " model quantize --quantization int4 " + kCheckpoint + " " +
                                       work / "out"});
  EXPECT_TRUE(ended.status == 1 || ended.status == 2) << ended.status << ended.output;
  expect_words(ended.output, {work.path()});
  EXPECT_TRUE(std::filesystem::is_empty(work.path()));
}

// The manual has every command's options: none without a word about it.
TEST(Help, EveryOptionIsDescribed) {
  const TemporaryDirectory folder;
  const Ended made = run_to_end(SACCADE_BINARY, {"man", folder.path()});
  ASSERT_EQ(made.status, 0) << made.output;
  int options = 0;
  for (const auto& page : std::filesystem::directory_iterator(folder.path())) {
    std::istringstream lines(read_file(page.path().string()));
    std::string name;
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      if (line != ".TP" || !std::getline(lines, name) || !std::getline(lines, text)) continue;
      ++options;
      EXPECT_FALSE(text == "\\&" || text.starts_with("(default: "))
          << page.path().filename() << ": " << name;
    }
  }
  EXPECT_GT(options, 300);
}

TEST(Help, CommonFlagsStandFirst) {
  const Ended help = run_to_end(SACCADE_BINARY, {"serve", "--help"});
  EXPECT_EQ(help.status, 0);
  const std::size_t first = help.output.find("Common:");
  const std::size_t next = help.output.find("Server:");
  ASSERT_NE(first, std::string::npos) << help.output;
  ASSERT_NE(next, std::string::npos) << help.output;
  EXPECT_LT(first, next);
  const std::string most = help.output.substr(first, next - first);
  for (const char* const flag : {"--model", "--port", "--max-model-len", "--chat-template"})
    EXPECT_NE(most.find(flag), std::string::npos) << flag << " in: " << most;
  EXPECT_LE(std::ranges::count(most, '\n'), 60);
  const Ended alone = run_to_end(SACCADE_BINARY, {});
  EXPECT_EQ(alone.status, 2);
  expect_words(alone.output, {"serve", "proxy", "bench", "model", "doctor", "fit"});
}

TEST(Help, IsAskedForByACommandToo) {
  for (const Arguments& command : {Arguments{}, {"serve"}, {"model", "pull"}, {"bench", "serve"}}) {
    Arguments asked = {"help"};
    asked.insert(asked.end(), command.begin(), command.end());
    Arguments flagged = command;
    flagged.emplace_back("--help");
    const Ended ended = run_to_end(SACCADE_BINARY, asked);
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_EQ(ended.output, run_to_end(SACCADE_BINARY, flagged).output);
  }
  const auto refused = [](const Arguments& arguments, const Arguments& words) {
    const Ended ended = run_to_end(SACCADE_BINARY, arguments);
    EXPECT_EQ(ended.status, 2) << ended.output;
    expect_words(ended.output, words);
  };
  refused({"help", "nope"}, {"there is no command nope; there are serve, batch"});
  refused({"help", "server"}, {"server: did you mean serve?"});
  refused({"help", "model", "nope"}, {"model: there is no command nope; there are", "pull"});
}

// Measuring takes seconds, and 512 MiB, which are not there.
TEST(Help, AModelThatThereIsNotIsNamedBeforeTheMachineIsMeasured) {
  const Ended fit = run_to_end("/bin/sh", {"-c", std::string("ulimit -v 500000; exec ") +
                                                     SACCADE_BINARY + " fit /nonexistent"});
  EXPECT_EQ(fit.status, 1);
  expect_words(fit.output, {"/nonexistent"});
}

TEST(Help, ADatasetThatThereIsNotIsNamedBeforeAnybodyIsAsked) {
  const Ended bench = run_to_end(SACCADE_BINARY, {"bench", "serve", "--dataset-name", "nope",
                                                  "--base-url", "http://127.0.0.1:1"});
  EXPECT_NE(bench.status, 0);
  expect_words(bench.output, {"--dataset-name 'nope' is not known", "random-mm"});
  EXPECT_EQ(bench.output.find("127.0.0.1"), std::string::npos) << bench.output;
}

}  // namespace
}  // namespace saccade::test
