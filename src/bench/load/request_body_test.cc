#include "bench/load/request_body.h"

#include <gtest/gtest.h>

#include <map>

namespace saccade::bench {
namespace {

SharedImage image_of(const std::string& base64) {
  EncodedImage image;
  image.width = 4;
  image.height = 3;
  image.media_type = "image/jpeg";
  image.base64 = std::make_shared<const std::string>(base64);
  image.bytes = 9;
  image.sha256 = "hash of " + base64;
  return std::make_shared<const EncodedImage>(image);
}

Prompt question(std::string text, SharedImage image = nullptr) {
  Prompt prompt;
  prompt.messages = {{.parts = {{.text = std::move(text)}}}};
  if (image != nullptr) prompt.messages[0].parts.push_back({.image = std::move(image)});
  prompt.max_tokens = 200;
  return prompt;
}

// The body that vLLM's client of 2024 sends for MMMU_Pro: text, then image.
TEST(RequestBody, OfTheClientOf2024) {
  BodySettings settings{.model = "m",
                        .include_usage = false,
                        .ignore_eos = true,
                        .max_tokens_key = "max_tokens",
                        .temperature = 0.0};
  EXPECT_EQ(
      join(encode_body(settings, question("Answer.", image_of("QUJD")))),
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Answer."},)"
      R"({"type":"image_url","image_url":{"url":"data:image/jpeg;base64,QUJD"}}]}],)"
      R"("temperature":0.0,"max_tokens":200,"stream":true,"ignore_eos":true})");
}

TEST(RequestBody, OfTheCurrentClient) {
  EXPECT_EQ(
      join(encode_body({.model = "m"}, question("Hi \"you\""))),
      R"({"model":"m","messages":[{"role":"user","content":"Hi \"you\""}],)"
      R"("max_completion_tokens":200,"stream":true,"stream_options":{"include_usage":true}})");
  BodySettings parts{.model = "m", .stream = false, .always_parts = true};
  EXPECT_EQ(join(encode_body(parts, question("Hi"))),
            R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],)"
            R"("max_completion_tokens":200,"stream":false})");
}

TEST(RequestBody, NamesAnAdapterEach) {
  BodySettings settings{.model = "m", .lora_modules = {"a", "b", "c"}, .lora_in_turn = true};
  for (std::size_t i = 0; i < 7; ++i) {
    const std::string body = join(encode_body(settings, question("Hi"), i));
    EXPECT_TRUE(body.starts_with(std::string(R"({"model":")") + "abc"[i % 3] + "\"")) << body;
  }
  settings.lora_in_turn = false;
  std::map<std::string, int> drawn;
  for (std::size_t i = 0; i < 3000; ++i) {
    ++drawn[model_of(settings, i)];
    EXPECT_EQ(model_of(settings, i), model_of(settings, i));
  }
  for (const char* name : {"a", "b", "c"}) EXPECT_NEAR(drawn[name], 1000, 120) << name;
  BodySettings other = settings;
  other.lora_seed = 1;
  int same = 0;
  for (std::size_t i = 0; i < 3000; ++i) same += model_of(settings, i) == model_of(other, i);
  EXPECT_NEAR(same, 1000, 120);
}

TEST(RequestBody, Completions) {
  BodySettings settings{
      .endpoint = Endpoint::kCompletions, .model = "m", .repetition_penalty = 1.0};
  EXPECT_EQ(join(encode_body(settings, question("Once"))),
            R"({"model":"m","prompt":"Once","repetition_penalty":1.0,"max_tokens":200,)"
            R"("stream":true,"stream_options":{"include_usage":true}})");
  Prompt ids;
  ids.token_ids = {1, 2, 30};
  settings.continuous_usage_stats = true;
  EXPECT_EQ(join(encode_body(settings, ids)),
            R"({"model":"m","prompt":[1,2,30],"repetition_penalty":1.0,"stream":true,)"
            R"("stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
}

TEST(RequestBody, ExtraFieldsReplaceOurs) {
  BodySettings settings{.model = "m", .include_usage = false, .temperature = 0.7};
  settings.extra["temperature"] = 0;
  settings.extra["chat_template_kwargs"] = json::object{{"thinking", false}};
  EXPECT_EQ(
      join(encode_body(settings, question("x"))),
      R"({"model":"m","messages":[{"role":"user","content":"x"}],"max_completion_tokens":200,)"
      R"("stream":true,"temperature":0,"chat_template_kwargs":{"thinking":false}})");
}

TEST(RequestBody, HistoryGoesFirst) {
  const std::vector<ChatMessage> history = {{.parts = {{.text = "1"}}},
                                            {.role = "assistant", .parts = {{.text = "2"}}}};
  EXPECT_NE(join(encode_body({.model = "m"}, history, question("3")))
                .find(R"([{"role":"user","content":"1"},{"role":"assistant","content":"2"},)"
                      R"({"role":"user","content":"3"}])"),
            std::string::npos);
}

TEST(RequestBody, ImagesAreSharedNotCopied) {
  const SharedImage image = image_of(std::string(1 << 20, 'A'));
  const BodyPieces first = encode_body({.model = "m"}, question("a", image));
  const BodyPieces second = encode_body({.model = "m"}, question("b", image));
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[1].get(), image->base64.get());
  EXPECT_EQ(second[1].get(), image->base64.get());
  EXPECT_EQ(size_of(first), join(first).size());
}

TEST(RequestBody, RecordsHashWhatIsSent) {
  const PromptRecord a = describe(question("a", image_of("QQ==")), true);
  EXPECT_EQ(a.text, "a");
  ASSERT_EQ(a.images.size(), 1u);
  EXPECT_EQ(a.images[0].width, 4);
  EXPECT_EQ(a.content_hash.size(), 64u);
  EXPECT_EQ(describe(question("a", image_of("QQ==")), false).content_hash, a.content_hash);
  EXPECT_EQ(describe(question("a", image_of("QQ==")), false).text, "");
  EXPECT_NE(describe(question("b", image_of("QQ==")), true).content_hash, a.content_hash);
  EXPECT_NE(describe(question("a", image_of("Qg==")), true).content_hash, a.content_hash);
  EXPECT_NE(describe(question("a"), true).content_hash, a.content_hash);
  const std::vector<PromptRecord> both = {a, describe(question("b"), false)};
  const std::vector<PromptRecord> swapped = {both[1], both[0]};
  EXPECT_NE(dataset_hash(both), dataset_hash(swapped));
}

}  // namespace
}  // namespace saccade::bench
