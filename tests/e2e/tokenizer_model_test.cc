// A checkpoint whose tokenizer is a SentencePiece model alone, with the real binary: the program
// holds two protobufs (that library's and gRPC's), which must not meet.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

TEST(TokenizerModel, IsServed) {
  const fs::path tokenizer = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/tokenizers/model_bpe";
  const TemporaryDirectory folder;
  const Ended made = run_to_end(SACCADE_BINARY, {"model", "make-dummy", "--family", "llama-3",
                                                 "--size", "tiny", "--out", folder.path()});
  ASSERT_EQ(made.status, 0) << made.output;
  fs::remove(folder / "tokenizer.json");
  for (const char* name : {"tokenizer.model", "tokenizer_config.json"}) {
    if (fs::exists(tokenizer / name))
      fs::copy(tokenizer / name, folder / name, fs::copy_options::overwrite_existing);
  }
  ServerProcess server(SACCADE_BINARY,
                       {"serve", "--model", folder.path(), "--kv-cache-bytes", "16MiB"});
  std::ifstream strings(tokenizer / "strings.jsonl");
  int compared = 0;
  for (std::string line; compared < 20 && std::getline(strings, line);) {
    const json::value row = json::parse(line).value();
    const std::string text(row.at("text").as_string());
    if (text.empty() || !row.at("plain").as_bool()) continue;
    const json::object body = {{"prompt", text}, {"add_special_tokens", false}};
    const RawAnswer answer =
        exchange(server.port(), "POST", "/tokenize", boost::json::serialize(body));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(json::parse(answer.body).value().at("tokens"), row.at("ids")) << text;
    ++compared;
  }
  EXPECT_EQ(compared, 20);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace saccade::test
