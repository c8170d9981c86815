// Adapters through the real binary: several and the model itself at once, each answered as PEFT's
// greedy tokens say; loaded, replaced and unloaded while it runs; every API, and files of requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kLlama = kGoldens + "llama3/scaled";
const std::string kAdapters = kGoldens + "lora/llama3/";

json::value json_of(const RawAnswer& answer) {
  auto tree = json::parse(answer.body);
  EXPECT_TRUE(tree) << answer.body;
  return tree ? *std::move(tree) : json::value();
}

class LoraServer {
 public:
  explicit LoraServer(std::vector<std::string> more, const Environment& environment = {}) {
    std::vector<std::string> arguments = {"serve",
                                          "--model",
                                          kLlama,
                                          "--served-model-name",
                                          "tiny",
                                          "--max-model-len",
                                          "256",
                                          "--dtype",
                                          "float32",
                                          "--enable-lora",
                                          "--max-lora-rank",
                                          "16"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    server_ = std::make_unique<ServerProcess>(SACCADE_BINARY, arguments, environment);
  }
  ~LoraServer() { EXPECT_EQ(server_->stop(), 0) << server_->log(); }

  RawAnswer ask(const std::string& path, const std::string& body) const {
    return exchange(server_->port(), "POST", path, body);
  }
  RawAnswer get(const std::string& path) const {
    return exchange(server_->port(), "GET", path, "");
  }
  // What a model writes after one prompt.
  RawAnswer complete(const std::string& model, bool stream = false, int tokens = 12) const {
    return ask("/v1/completions",
               R"({"prompt":"How many are there?","temperature":0,"ignore_eos":true,"model":")" +
                   model + R"(","max_tokens":)" + std::to_string(tokens) +
                   (stream ? R"(,"stream":true})" : "}"));
  }
  std::string text(const std::string& model) const {
    const RawAnswer answer = complete(model);
    EXPECT_EQ(answer.status, 200) << model << ": " << answer.body;
    const json::value tree = json_of(answer);
    EXPECT_EQ(tree.at("model").as_string(), model.empty() ? "tiny" : model);
    return std::string(tree.at("choices").as_array().at(0).at("text").as_string());
  }
  RawAnswer load(const std::string& name, const std::string& path, bool in_place = false) const {
    return ask("/v1/load_lora_adapter", R"({"lora_name":")" + name + R"(","lora_path":")" + path +
                                            R"(","load_inplace":)" +
                                            (in_place ? "true}" : "false}"));
  }
  RawAnswer unload(const std::string& name) const {
    return ask("/v1/unload_lora_adapter", R"({"lora_name":")" + name + R"("})");
  }
  std::string metrics() const { return get("/metrics").body; }
  std::string log() const { return server_->log(); }

 private:
  std::unique_ptr<ServerProcess> server_;
};

std::string streamed_text(const std::string& body) {
  std::string text;
  for (std::size_t begin = 0; begin < body.size();) {
    const std::size_t end = std::min(body.find("\n\n", begin), body.size());
    const std::string line = body.substr(begin, end - begin);
    begin = end + 2;
    if (!line.starts_with("data: {")) continue;
    const json::value tree = json::parse(line.substr(6)).value();
    const json::array& choices = tree.at("choices").as_array();
    if (!choices.empty()) text += std::string(choices[0].at("text").as_string());
  }
  return text;
}

TEST(Lora, SeveralAndTheModelAtOnce) {
  const std::string json =
      R"({"name":"every","path":")" + kAdapters + R"(every","base_model_name":"tiny"})";
  const LoraServer server(
      {"--lora-modules", "attention=" + kAdapters + "attention", json, "--max-loras", "2"});
  const std::string plain = server.text("tiny");
  const std::string attention = server.text("attention");
  const std::string every = server.text("every");
  EXPECT_NE(plain, attention);
  EXPECT_NE(plain, every);
  EXPECT_NE(attention, every);
  EXPECT_EQ(server.text(""), plain);

  std::vector<std::pair<std::string, std::future<std::string>>> asked;
  for (int i = 0; i < 12; ++i) {
    const std::string model = std::vector<std::string>{"tiny", "attention", "every"}[i % 3];
    const bool stream = i % 2 == 0;
    asked.emplace_back(
        model, std::async(std::launch::async, [&server, model, stream] {
          const RawAnswer answer = server.complete(model, stream);
          if (stream) return streamed_text(answer.body);
          return std::string(json_of(answer).at("choices").as_array().at(0).at("text").as_string());
        }));
  }
  for (auto& [model, answer] : asked)
    EXPECT_EQ(answer.get(), model == "tiny" ? plain : model == "every" ? every : attention);
  EXPECT_THAT(server.metrics(), HasSubstr("vllm:lora_requests_info{"));
  EXPECT_THAT(server.metrics(), HasSubstr("max_lora=\"2\""));
}

TEST(Lora, EveryApiChoosesByName) {
  const LoraServer server({"--lora-modules", "every=" + kAdapters + "every"});
  const json::value models = json_of(server.get("/v1/models"));
  ASSERT_EQ(models.at("data").as_array().size(), 2u);
  const json::value& card = models.at("data").as_array().at(1);
  EXPECT_EQ(card.at("id").as_string(), "every");
  EXPECT_EQ(card.at("parent").as_string(), "tiny");
  EXPECT_EQ(card.at("root").as_string(), kAdapters + "every");
  EXPECT_TRUE(models.at("data").as_array().at(0).at("parent").is_null());
  EXPECT_EQ(json_of(server.get("/v1/models/every")).at("id").as_string(), "every");

  const std::string messages = R"("messages":[{"role":"user","content":"Hello there"}],)";
  struct Api {
    const char* path;
    std::string members;
  };
  for (const Api& api :
       {Api{"/v1/chat/completions", messages + R"("temperature":0,"max_tokens":8)"},
        Api{"/v1/messages", messages + R"("temperature":0,"max_tokens":8)"},
        Api{"/v1/responses", R"("input":"Hello there","temperature":0,"max_output_tokens":16)"},
        Api{"/v1/completions", R"("prompt":["a","b"],"temperature":0,"max_tokens":8)"}}) {
    const auto answer = [&](const std::string& model) {
      return server.ask(api.path, "{" + api.members + R"(,"model":")" + model + R"("})");
    };
    const RawAnswer adapted = answer("every");
    EXPECT_EQ(adapted.status, 200) << api.path << adapted.body;
    EXPECT_THAT(adapted.body, HasSubstr(R"("model":"every")")) << api.path;
    EXPECT_EQ(answer("tiny").status, 200);
    const RawAnswer unknown = answer("other");
    EXPECT_EQ(unknown.status, 404) << api.path;
    EXPECT_THAT(unknown.body, HasSubstr("other")) << api.path;
  }
}

TEST(Lora, LoadedAndUnloadedWhileItRuns) {
  const LoraServer server({"--max-cpu-loras", "2"}, {{"VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1"}});
  const std::string plain = server.text("tiny");
  EXPECT_EQ(server.complete("a").status, 404);
  const RawAnswer added = server.load("a", kAdapters + "attention");
  EXPECT_EQ(added.status, 200);
  EXPECT_EQ(added.body, "Success: LoRA adapter 'a' added successfully.");
  const std::string attention = server.text("a");
  EXPECT_NE(attention, plain);

  const RawAnswer again = server.load("a", kAdapters + "every");
  EXPECT_EQ(again.status, 400);
  EXPECT_THAT(again.body, HasSubstr("The lora adapter 'a' has already been loaded. If you want to "
                                    "load the adapter in place, set 'load_inplace' to True."));
  EXPECT_THAT(again.body, HasSubstr("InvalidUserInput"));
  EXPECT_EQ(server.text("a"), attention);

  // Other numbers under the same name: nothing of what was computed before is read.
  EXPECT_EQ(server.load("a", kAdapters + "every", true).status, 200);
  const std::string every = server.text("a");
  EXPECT_NE(every, attention);
  EXPECT_EQ(server.load("a", kAdapters + "attention", true).status, 200);
  EXPECT_EQ(server.text("a"), attention);

  // One that runs when it is unloaded ends as it would have; the next is not found.
  const auto runs = [&] {
    return server.metrics().find("running_lora_adapters=\"a\"") != std::string::npos;
  };
  while (runs()) {  // the answer before is told before it is counted as ended
  }
  auto running = std::async(std::launch::async, [&] { return server.complete("a", true, 150); });
  while (!runs() && running.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready) {
  }
  EXPECT_EQ(server.unload("a").body, "Success: LoRA adapter 'a' removed successfully.");
  EXPECT_EQ(server.complete("a").status, 404);
  const std::string rest = streamed_text(running.get().body);
  EXPECT_TRUE(rest.starts_with(attention)) << rest;
  EXPECT_EQ(json_of(server.get("/v1/models")).at("data").as_array().size(), 1u);
  const RawAnswer absent = server.unload("a");
  EXPECT_EQ(absent.status, 404);
  EXPECT_THAT(absent.body, HasSubstr("The lora adapter 'a' cannot be found."));
  EXPECT_EQ(server.text("tiny"), plain);

  // More than stay in memory.
  std::vector<std::string> before;
  for (const char* name : {"attention", "every", "expression", "one_layer"}) {
    EXPECT_EQ(server.load(name, kAdapters + name).status, 200);
    before.push_back(server.text(name));
  }
  std::size_t i = 0;
  for (const char* name : {"attention", "every", "expression", "one_layer"})
    EXPECT_EQ(server.text(name), before[i++]);
  EXPECT_EQ(before[0], attention);
  EXPECT_EQ(before[1], every);
}

TEST(Lora, BadAdaptersAreRefusedByName) {
  const TemporaryDirectory folder;
  const LoraServer server({"--allow-runtime-lora-updating", "--allowed-lora-paths", kAdapters,
                           folder / "in", "--max-lora-rank", "4"});
  struct Case {
    std::string body;
    int status;
    const char* said;
  };
  fs::create_directories(folder / "in");
  fs::copy(kAdapters + "attention", folder / "in/nan");
  std::ofstream(folder / "in/nan/adapter_config.json") << R"({"r":4,"use_dora":true})";
  fs::copy(kAdapters + "attention", folder / "in/cut");
  fs::resize_file(folder / "in/cut/adapter_model.safetensors", 1000);
  fs::create_directory_symlink(kGoldens + "lora/gemma3/every", folder / "in/link");
  const auto asks = [](const std::string& name, const std::string& path) {
    return R"({"lora_name":")" + name + R"(","lora_path":")" + path + R"("})";
  };
  for (const Case& each :
       {Case{asks("a", folder / "in/none"), 404, "No adapter found for"},
        Case{asks("a", "/etc"), 400, "is not in a folder of --allowed-lora-paths"},
        Case{asks("a", kAdapters + "../gemma3/every"), 400, "is not in a folder of"},
        Case{asks("a", folder / "in/link"), 400, "is not in a folder of"},
        Case{asks("a", folder / "in/nan"), 400, "use_dora true is not supported"},
        Case{asks("a", folder / "in/cut"), 400, "adapter_model.safetensors"},
        Case{asks("a", kAdapters + "every"), 400, "the limit is 4 (--max-lora-rank)"},
        Case{asks("tiny", kAdapters + "attention"), 400, "is the name of the model itself"},
        Case{asks("", kAdapters + "attention"), 400, "Both 'lora_name' and 'lora_path'"},
        Case{R"({"lora_name":"a"})", 400, "Both 'lora_name' and 'lora_path' must be provided."},
        Case{R"({"lora_name":1,"lora_path":"x"})", 400, "lora_name"},
        Case{asks("a", kAdapters + "attention\\u0000x"), 400, "has a NUL behind"},
        Case{"[]", 400, "no JSON object"}, Case{"{", 400, ""}}) {
    const RawAnswer answer = server.ask("/v1/load_lora_adapter", each.body);
    EXPECT_EQ(answer.status, each.status) << each.body << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(each.said)) << each.body;
  }
  EXPECT_EQ(server.ask("/v1/unload_lora_adapter", "{}").status, 400);
  EXPECT_EQ(server.load("a", kAdapters + "attention").status, 200);
  EXPECT_EQ(json_of(server.get("/v1/models")).at("data").as_array().size(), 2u);
}

TEST(Lora, WithoutLeaveThereAreNoSuchRoutes) {
  const LoraServer server({});
  EXPECT_EQ(server.load("a", kAdapters + "attention").status, 404);
  EXPECT_EQ(server.unload("a").status, 404);
}

TEST(Lora, FlagsThatDoNotFitAreNamed) {
  const auto said = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"serve", "--model", kLlama, "--port", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run_to_end(SACCADE_BINARY, arguments);
    EXPECT_NE(ended.status, 0);
    return ended.output;
  };
  EXPECT_THAT(said({"--lora-modules", "a=/x"}), HasSubstr("--lora-modules: --enable-lora is"));
  EXPECT_THAT(said({"--enable-lora", "--lora-modules", "a"}), HasSubstr("'a' is not NAME=FOLDER"));
  EXPECT_THAT(said({"--enable-lora", "--lora-modules", R"({"name":"a"})"}), HasSubstr("path"));
  EXPECT_THAT(said({"--enable-lora", "--lora-modules", "a=/nowhere"}),
              HasSubstr("--lora-modules a: No adapter found for"));
  EXPECT_THAT(said({"--enable-lora", "--max-loras", "3", "--max-cpu-loras", "2"}),
              HasSubstr("--max-cpu-loras 2 is less than --max-loras 3"));
}

TEST(Lora, FilesOfRequestsNameThemToo) {
  const TemporaryDirectory folder;
  std::ofstream in(folder / "in.jsonl");
  for (const char* model : {"tiny", "every", "other"})
    in << R"({"custom_id":")" << model
       << R"(","method":"POST","url":"/v1/completions","body":{"prompt":"How many are there?",)"
       << R"("temperature":0,"ignore_eos":true,"max_tokens":12,"model":")" << model << "\"}}\n";
  in.close();
  const Ended ended =
      run_to_end(SACCADE_BINARY,
                 {"batch", "-i", folder / "in.jsonl", "-o", folder / "out.jsonl", "--model", kLlama,
                  "--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", "256",
                  "--enable-lora", "--lora-modules", "every=" + kAdapters + "every"});
  const LoraServer server({"--lora-modules", "every=" + kAdapters + "every"});
  std::ifstream out(folder / "out.jsonl");
  int lines = 0;
  for (std::string line; std::getline(out, line); ++lines) {
    const json::value tree = json::parse(line).value();
    const std::string model(tree.at("custom_id").as_string());
    if (model == "other") {
      EXPECT_THAT(line, HasSubstr("does not exist"));
      continue;
    }
    EXPECT_EQ(
        std::string(
            tree.at("response").at("body").at("choices").as_array().at(0).at("text").as_string()),
        server.text(model));
  }
  EXPECT_EQ(lines, 3) << ended.output;
}

}  // namespace
}  // namespace saccade::test
