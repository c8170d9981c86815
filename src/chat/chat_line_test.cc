#include "chat/chat_line.h"

#include <gtest/gtest.h>

#include "chat/chat.h"

namespace saccade::chat {
namespace {

TEST(ChatLine, QuestionsAndCommands) {
  const auto parts = [](std::string_view line) {
    const auto parsed = parse_chat_line(line);
    return parsed ? parsed->command + "|" + parsed->text : "error: " + parsed.error().message;
  };
  EXPECT_EQ(parts("  what is it? "), "|what is it?");
  EXPECT_EQ(parts(""), "|");
  EXPECT_EQ(parts("/image  my file.png "), "image|my file.png");
  EXPECT_EQ(parts("/quit"), "quit|");
  EXPECT_EQ(parts("//etc is a folder"), "|/etc is a folder");
  EXPECT_EQ(parts("/sytem x"),
            "error: there is no /sytem: is it /system, /set, /save? (a question "
            "may begin with //)");
  EXPECT_EQ(parts("/zoom"),
            "error: there is no /zoom: /help lists what there is (a question may begin with //)");
  EXPECT_NE(command_help().find("/undo"), std::string::npos);
}

TEST(ChatLine, AServerOrAModel) {
  for (const char* server : {"http://h", "https://h:1/v1", "localhost", "10.0.0.5:8000", "h:80"})
    EXPECT_TRUE(names_server(server)) << server;
  for (const char* model : {"glimpse", "Qwen/Qwen2-VL-2B", "adapter:latest", ":80", "a/b:7"})
    EXPECT_FALSE(names_server(model)) << model;
}

}  // namespace
}  // namespace saccade::chat
