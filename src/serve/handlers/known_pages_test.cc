// What is told of a model by pages that other servers' clients know.
#include "serve/handlers/known_pages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace saccade::serve {
namespace {

TEST(KnownPages, TokenizerInfoHasTheTemplateInUse) {
  const std::filesystem::path folder = ::testing::TempDir() + "/saccade_known_pages";
  std::filesystem::create_directories(folder);
  KnownModel model{.name = "m", .path = folder, .tokenizer = folder};
  std::filesystem::remove(folder / "tokenizer_config.json");
  EXPECT_EQ(tokenizer_info(model).error().code, ErrorCode::kNotFound);
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"tokenizer_class": "T", "chat_template": "the file's"})";
  const auto told = [&] { return json::parse(tokenizer_info(model).value()).value(); };
  EXPECT_EQ(told().at("chat_template"), "the file's");
  model.chat_template = "--chat-template's";
  EXPECT_EQ(told().at("chat_template"), "--chat-template's");
  EXPECT_EQ(told().at("tokenizer_class"), "T");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace saccade::serve
