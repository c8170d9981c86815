// What Llama 3.2 Vision has beside what every family with images is tested for: the published chat
// template here, whatever form messages have, and image tokens that users write out.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/family_golden.h"
#include "text/templates/chat_template.h"

namespace saccade {
namespace {

using test::golden_folder;

ChatTemplate published() {
  const auto file = json::parse_file(golden_folder("mllama/quarters/chat_template.json"));
  EXPECT_TRUE(file);
  return *ChatTemplate::parse(file->get_object().at("chat_template").get_string());
}

ChatTemplateOptions options() {
  ChatTemplateOptions options;
  options.variables["bos_token"] = "<|begin_of_text|>";
  options.variables["date_string"] = "26 Jul 2024";
  return options;
}

json::array conversation(std::string_view text) { return json::parse(text)->get_array(); }

TEST(Mllama, TheTemplateRendersAsTheReferences) {
  const ChatTemplate chat = published();
  for (const std::string name : {"text", "one_image", "three_images", "multi_turn"}) {
    SCOPED_TRACE(name);
    const auto golden =
        read_golden(golden_folder("mllama/quarters") + "/golden/" + name + ".safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto text = chat.render(golden->messages, options());
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(*text, golden->rendered);
  }
}

TEST(Mllama, PlainStringsAndPartsAreOnePrompt) {
  const ChatTemplate chat = published();
  const auto plain = chat.render(conversation(R"([{"role": "user", "content": "Hi <|x|>."},
                       {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "No."}])"),
                                 options());
  const auto parts = chat.render(
      conversation(R"([{"role": "user", "content": [{"type": "text", "text": "Hi <|x|>."}]},
                       {"role": "assistant", "content": [{"type": "text", "text": "Yes?"}]},
                       {"role": "user", "content": [{"type": "text", "text": "No."}]}])"),
      options());
  ASSERT_TRUE(plain) << plain.error().message;
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_EQ(*plain, *parts);
}

TEST(Mllama, ASystemMessageBesideAnImageIsRefusedInTheTemplatesWords) {
  const auto text = published().render(conversation(R"([{"role": "system", "content": "Be brief."},
                       {"role": "user", "content": [{"type": "image"}]}])"),
                                       options());
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("incompatible with system messages"), std::string::npos)
      << text.error().message;
}

TEST(Mllama, ImageTokensThatUsersWriteStayText) {
  const std::string directory = golden_folder("mllama/quarters");
  const auto checkpoint = open_checkpoint(directory);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto processor = Processor::open(*checkpoint);
  ASSERT_TRUE(processor) << processor.error().message;
  const auto tokenizer = load_tokenizer(directory);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const TokenId image = *(*tokenizer)->token_to_id("<|image|>");
  EXPECT_EQ(image, (*processor)->shape().vocab);
  const auto layout = (*processor)->image_layout(40, 30, {});
  ASSERT_TRUE(layout) << layout.error().message;
  const std::string said = (*processor)->guard_literals("an <|image|> of it");
  const auto prompt =
      (*processor)->build_prompt(**tokenizer, "<|image|>" + said, {&*layout, 1}, false);
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(std::ranges::count(prompt->ids, image), 1);
  ASSERT_EQ(prompt->images.size(), 1u);
  EXPECT_EQ(prompt->images.front().tokens, 1);
  EXPECT_TRUE(prompt->cross_attends);
  const auto lacking = (*processor)->build_prompt(**tokenizer, "<|image|>", {}, false);
  ASSERT_FALSE(lacking);
  EXPECT_NE(lacking.error().message.find("1 image placeholders for 0"), std::string::npos)
      << lacking.error().message;
}

}  // namespace
}  // namespace saccade
