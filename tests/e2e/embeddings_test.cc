// /v1/embeddings with the real binary: values against the golden files, every form of input,
// errors, and models of the other kind.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <tuple>

#include "base/json.h"
#include "base/text/base64.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

const std::string kGenerator = SACCADE_SOURCE_DIR "/tests/golden/qwen2/odd_heads";

// Of errors too.
json::value tree_of_any(const RawAnswer& answer) {
  auto tree = json::parse(answer.body);
  EXPECT_TRUE(tree) << answer.body;
  return tree.value_or(json::value());
}

std::vector<float> row(const json::value& tree, std::size_t index) {
  std::vector<float> values;
  for (const auto& value : tree.at("data").at(index).at("embedding").as_array())
    values.push_back(static_cast<float>(value.to_number<double>()));
  return values;
}

class Embeddings : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<ServerProcess>(
        SACCADE_BINARY, std::vector<std::string>{"serve", "--model", kSentenceEncoder,
                                                 "--served-model-name", "mini", "--threads", "2"});
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->stop(), 0) << server_->log();
    server_.reset();
  }
  static RawAnswer post(const std::string& body, const std::string& path = "/v1/embeddings") {
    return exchange(server_->port(), "POST", path, body);
  }
  static std::unique_ptr<ServerProcess> server_;
};
std::unique_ptr<ServerProcess> Embeddings::server_;

TEST_F(Embeddings, FormsOfInputGiveTheSameVectors) {
  const auto text = tree_of_any(post(R"({"model": "mini", "input": "A saccade is the jump."})"));
  EXPECT_EQ(text.at("object").as_string(), "list");
  EXPECT_EQ(text.at("model").as_string(), "mini");
  const std::vector<float> one = row(text, 0);
  ASSERT_EQ(one.size(), 48U);
  double square = 0;
  for (const float value : one) square += double{value} * value;
  EXPECT_NEAR(square, 1, 1e-5);

  const auto tokens = tree_of_any(post(R"({"prompt": "A saccade is the jump."})", "/tokenize"));
  const std::string ids = boost::json::serialize(tokens.at("tokens"));
  EXPECT_EQ(tokens.at("max_model_len").as_int64(), 24);
  EXPECT_EQ(text.at("usage").at("prompt_tokens").as_int64(), tokens.at("count").as_int64());
  EXPECT_EQ(row(tree_of_any(post(R"({"input": )" + ids + "}")), 0), one);
  const auto several = tree_of_any(post(R"({"input": ["other", "", "A saccade is the jump."]})"));
  EXPECT_EQ(several.at("data").as_array().size(), 3U);
  EXPECT_EQ(several.at("data").at(2).at("index").as_int64(), 2);
  EXPECT_EQ(row(several, 2), one);
  EXPECT_EQ(row(tree_of_any(post(R"({"input": [)" + ids + "," + ids + "]}")), 1), one);

  const auto coded =
      tree_of_any(post(R"({"input": "A saccade is the jump.", "encoding_format": "base64"})"));
  const auto bytes =
      base64_decode(std::string_view(coded.at("data").at(0).at("embedding").as_string()));
  ASSERT_TRUE(bytes);
  ASSERT_EQ(bytes->size(), one.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes->data(), one.data(), bytes->size()), 0);
}

// One path for all that an encoder does.
TEST_F(Embeddings, InvocationsAreWhatTheirMembersSay) {
  for (const auto& [path, body] : std::vector<std::pair<std::string, std::string>>{
           {"/v1/embeddings", R"({"input": "A saccade is the jump."})"},
           {"/pooling", R"({"input": "A saccade is the jump.", "task": "embed"})"},
           {"/rerank", R"({"query": "A jump", "documents": ["of the eye", "a cat"]})"},
           {"/reranking", R"({"query": "A jump", "documents": ["of the eye", "a cat"]})"},
           {"/v1/reranking", R"({"query": "A jump", "documents": ["of the eye", "a cat"]})"},
           {"/score", R"({"text_1": "A jump", "text_2": ["of the eye", "a cat"]})"},
           {"/score", R"({"queries": "A jump", "documents": ["of the eye", "a cat"]})"},
           {"/score", R"({"data_1": "A jump", "data_2": ["of the eye", "a cat"]})"}}) {
    auto named = tree_of_any(post(body, path)).as_object();
    auto invoked = tree_of_any(post(body, "/invocations")).as_object();
    for (const char* own : {"id", "created"}) {
      named.erase(own);
      invoked.erase(own);
    }
    EXPECT_EQ(invoked, named) << path;
    EXPECT_FALSE(named.contains("error")) << path;
  }
  EXPECT_EQ(post("[1]", "/invocations").status, 400);
}

TEST(EmbeddingLength, IsWhatTheFlagSays) {
  ServerProcess server(SACCADE_BINARY,
                       {"serve", "--model", kSentenceEncoder, "--max-model-len", "8"});
  const auto ask = [&](const std::string& more, const std::string& path = "/v1/embeddings") {
    return exchange(
        server.port(), "POST", path,
        R"({"input": ")" + std::string(100, 'a') + R"( b c d e f g h i j k l m n")" + more + "}");
  };
  EXPECT_EQ(ask("").status, 400);
  EXPECT_NE(ask("").body.find("maximum context length is 8 tokens"), std::string::npos);
  EXPECT_EQ(ask(R"(, "truncate_prompt_tokens": 9)").status, 400);
  EXPECT_EQ(tree_of_any(ask(R"(, "truncate_prompt_tokens": -1)")).at("usage").at("prompt_tokens"),
            8);
  EXPECT_EQ(exchange(server.port(), "POST", "/score",
                     R"({"text_1": "a", "text_2": "a b c d e f g h i j k l m n"})")
                .status,
            400);
  EXPECT_NE(exchange(server.port(), "GET", "/v1/models", "").body.find(R"("max_model_len":8)"),
            std::string::npos);
}

// vLLM's /pooling gives the same rows under other names.
TEST_F(Embeddings, PoolingIsTheSameInItsShape) {
  const auto embedded = tree_of_any(post(R"({"input": "A saccade is the jump."})"));
  const auto pooled =
      tree_of_any(post(R"({"input": "A saccade is the jump.", "task": "embed"})", "/pooling"));
  EXPECT_EQ(pooled.at("object").as_string(), "list");
  EXPECT_EQ(pooled.at("data").at(0).at("object").as_string(), "pooling");
  EXPECT_EQ(pooled.at("data").at(0).at("data"), embedded.at("data").at(0).at("embedding"));
  EXPECT_EQ(pooled.at("usage"), embedded.at("usage"));
  const RawAnswer other = post(R"({"input": "x", "task": "classify"})", "/pooling");
  EXPECT_EQ(other.status, 400);
  EXPECT_NE(other.body.find("'task' must be"), std::string::npos) << other.body;
}

TEST_F(Embeddings, LongTextsAreRefusedOrCut) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the picture ";
  const auto refused = post(R"({"input": ")" + text + R"("})");
  EXPECT_EQ(refused.status, 400);
  const std::string message(tree_of_any(refused).at("error").at("message").as_string());
  EXPECT_NE(message.find("maximum context length is 24 tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("82"), std::string::npos) << message;

  const auto cut = post(R"({"input": ")" + text + R"(", "truncate_prompt_tokens": -1})");
  EXPECT_EQ(cut.status, 200);
  EXPECT_EQ(tree_of_any(cut).at("usage").at("prompt_tokens").as_int64(), 24);
  EXPECT_EQ(post(R"({"input": "x", "truncate_prompt_tokens": 25})").status, 400);
}

TEST_F(Embeddings, ErrorsNameWhatIsWrong) {
  struct Case {
    const char* body;
    int status;
    const char* word;
  };
  for (const auto& [body, status, word] : std::initializer_list<Case>{
           {R"({"input": )", 400, "JSON"},
           {R"({"model": "mini"})", 400, "input"},
           {R"({"model": "other", "input": "x"})", 404, "other"},
           {R"({"input": [999999]})", 400, "999999"},
           {R"({"input": [[-1]]})", 400, "-1"},
           {R"({"input": "x", "dimensions": 12})", 400, "matryoshka"},
           {R"({"input": "x", "encoding_format": "int8"})", 400, "int8"},
           {R"({"input": [[]]})", 400, "no tokens"},
       }) {
    const auto answer = post(body);
    EXPECT_EQ(answer.status, status) << body;
    EXPECT_NE(answer.body.find(word), std::string::npos) << answer.body;
  }
  EXPECT_EQ(post(R"({"input": "x", "dimensions": 48})").status, 200);
}

TEST_F(Embeddings, GenerationIsNotThisModelsKind) {
  for (const auto& [path, name] : {std::pair{"/v1/chat/completions", "Chat Completions"},
                                   std::pair{"/v1/completions", "Completions"}}) {
    const auto answer = post(R"({"prompt": "x"})", path);
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(tree_of_any(answer).at("error").at("message").as_string(),
              std::string("The model does not support ") + name + " API");
  }
  ServerProcess generator(SACCADE_BINARY, {"serve", "--model", kGenerator});
  const auto answer = exchange(generator.port(), "POST", "/v1/embeddings", R"({"input": "x"})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(tree_of_any(answer).at("error").at("message").as_string(),
            "The model does not support Embeddings API");
}

TEST_F(Embeddings, ConcurrentClientsGetTheirOwn) {
  const auto alone = [](int i) {
    return row(
        tree_of_any(post(R"({"input": "client )" + std::to_string(i) + R"(", "user": "u"})")), 0);
  };
  std::vector<std::vector<float>> wanted;
  for (int i = 0; i < 8; ++i) wanted.push_back(alone(i));
  std::vector<std::vector<float>> given(8);
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&, i] {
      for (int k = 0; k < 5; ++k) given[static_cast<std::size_t>(i)] = alone(i);
    });
  for (auto& client : clients) client.join();
  EXPECT_EQ(given, wanted);
  // A client that goes away before its answer leaves nothing behind.
  exchange(server_->port(), "POST", "/v1/embeddings", R"({"input": "gone"})", 0);
  const auto page = exchange(server_->port(), "GET", "/metrics", "");
  EXPECT_NE(page.body.find("saccade:embedded_texts_total"), std::string::npos);
  EXPECT_EQ(exchange(server_->port(), "GET", "/health", "").status, 200);
}

TEST_F(Embeddings, TheModelSaysWhatItIs) {
  const auto models = tree_of_any(exchange(server_->port(), "GET", "/v1/models", ""));
  const auto& card = models.at("data").at(0);
  EXPECT_EQ(card.at("id").as_string(), "mini");
  EXPECT_EQ(card.at("max_model_len").as_int64(), 24);
  EXPECT_TRUE(card.at("capabilities").at("embeddings").as_bool());
  EXPECT_EQ(exchange(server_->port(), "GET", "/v1/models/mini", "").status, 200);
  EXPECT_EQ(exchange(server_->port(), "GET", "/v1/embeddings", "").status, 405);
  const auto back = tree_of_any(post(R"({"tokens": [2, 3]})", "/detokenize"));
  EXPECT_FALSE(back.at("prompt").as_string().empty());
}

// --- saccade bench similarity -------------------------------------------------------------------

const char* const kPairs = R"({"individual_request_metrics": [
 {"generated_text": "Three red squares.", "answer_text": "There are three squares, all red."},
 {"generated_text": "", "answer_text": "A house."},
 {"generated_text": "A blue circle.", "answer_text": "A blue circle."},
 {"error_code": 500, "generated_text": "x", "answer_text": "y"}]})";

double cosine_of(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i) product += double{a[i]} * b[i];
  return product;  // both have length 1
}

std::string line_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

TEST_F(Embeddings, SimilarityIsTheMeanCosineHereAndThere) {
  const std::string path = ::testing::TempDir() + "/saccade_pairs.json";
  std::ofstream(path) << kPairs;
  const auto rows = tree_of_any(post(R"({"input": ["Three red squares.",
      "There are three squares, all red.", "", "A house.", "A blue circle.", "A blue circle."]})"));
  double mean = 0;
  for (std::size_t i = 0; i < 3; ++i) mean += cosine_of(row(rows, 2 * i), row(rows, 2 * i + 1)) / 3;

  const std::string url = "http://127.0.0.1:" + std::to_string(server_->port());
  const Ended here =
      run_to_end(SACCADE_BINARY, {"bench", "similarity", path, "--encoder", kSentenceEncoder});
  const Ended there =
      run_to_end(SACCADE_BINARY, {"bench", "similarity", path, "--embedding-url", url + "/v1"});
  ASSERT_EQ(here.status, 0) << here.output;
  ASSERT_EQ(there.status, 0) << there.output;
  const std::string name = "embedding cosine";
  EXPECT_EQ(line_of(here.output, name), line_of(there.output, name));
  const std::string figure = line_of(there.output, name);
  ASSERT_FALSE(figure.empty()) << there.output;
  EXPECT_NEAR(std::stod(figure.substr(name.size())), mean, 5.1e-5);
  EXPECT_NE(there.output.find("pairs                        3"), std::string::npos);
  // By itself it takes the published encoder out of the cache, and says what to fetch without it.
  const std::filesystem::path cache = ::testing::TempDir() + "/saccade_similarity_cache";
  const auto by_itself = [&] {
    setenv("HF_HOME", cache.c_str(), 1);
    const Ended ended = run_to_end(SACCADE_BINARY, {"bench", "similarity", path});
    unsetenv("HF_HOME");
    return ended;
  };
  std::filesystem::create_directories(cache);
  const Ended without = by_itself();
  EXPECT_EQ(without.status, 0) << without.output;
  EXPECT_EQ(line_of(without.output, name), "");
  EXPECT_NE(without.output.find("model pull sentence-transformers/all-MiniLM-L6-v2"),
            std::string::npos);
  const auto model = cache / "hub/models--sentence-transformers--all-MiniLM-L6-v2";
  std::filesystem::create_directories(model / "refs");
  std::filesystem::create_directories(model / "snapshots");
  std::ofstream(model / "refs/main") << "abc";
  std::filesystem::create_directory_symlink(std::filesystem::absolute(kSentenceEncoder),
                                            model / "snapshots/abc");
  EXPECT_EQ(line_of(by_itself().output, name), figure);
  std::filesystem::remove_all(cache);

  for (const auto& [flag, value, word] :
       {std::tuple{"--embedding-url", std::string("http://127.0.0.1:1"), "127.0.0.1"},
        std::tuple{"--encoder", kGenerator, "generates text"},
        std::tuple{"--encoder", std::string("/nowhere"), "/nowhere"}}) {
    const Ended failed = run_to_end(SACCADE_BINARY, {"bench", "similarity", path, flag, value});
    EXPECT_NE(failed.status, 0);
    EXPECT_NE(failed.output.find(word), std::string::npos) << failed.output;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace saccade::test
