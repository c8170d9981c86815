// Every family with its encoder apart: images, DeepStack's slices and videos come out as a solo
// run's, token for token.
#include "tests/e2e/cluster_setup.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

std::string file_base64(const std::string& path) {
  const std::string bytes = read_file(path);
  EXPECT_FALSE(bytes.empty()) << path;
  return base64_encode(bytes);
}

std::string picture(const std::string& family, const std::string& name) {
  return "data:image/png;base64," + file_base64(kGoldens + family + "/images/" + name + ".png");
}

std::string video_chat(int frames) {
  std::string list;
  for (int i = 0; i < frames; ++i)
    list +=
        (i == 0 ? "" : ",") + file_base64(kGoldens + "frames/wide_" + std::to_string(i) + ".png");
  return R"({"temperature": 0, "max_tokens": 12, "ignore_eos": true, "return_token_ids": true,
    "messages": [{"role": "user", "content": [{"type": "video_url", "video_url":
    {"url": "data:video/jpeg;base64,)" +
         list + R"("}}, {"type": "text", "text": "what happens?"}]}]})";
}

struct Family {
  std::string folder;      // of tests/golden
  std::string checkpoint;  // in it
  bool videos = false;
  int images = 2;  // of one request
};

void PrintTo(const Family& family, std::ostream* to) {
  *to << family.folder << "/" << family.checkpoint;
}

class Families : public testing::TestWithParam<Family> {};

TEST_P(Families, AnswerAsTheSoloRun) {
  const Family& family = GetParam();
  const std::string model = kGoldens + family.folder + "/" + family.checkpoint;
  const Flags template_flags =
      family.folder == "paligemma"
          ? Flags{"--chat-template",
                  "{% for m in messages %}{% for p in m['content'] %}{% if "
                  "p['type'] == 'text' %}{{ p['text'] }}{% else %}<image>{% "
                  "endif %}{% endfor %}{% endfor %}"}
          : Flags{};
  ServerProcess solo(SACCADE_BINARY, serve(model, template_flags));
  EncoderRole encoder(model);
  ServerProcess server(
      SACCADE_BINARY,
      serve(model, EncoderRole::join(pd(encoder.address(), {"--encoder-fallback", "refuse"}),
                                     template_flags)));
  wait_until_connected(server);
  for (const std::string name : {"wide", "tall", "small"}) {
    const std::string body = chat({picture(family.folder, name)});
    EXPECT_EQ(ask(server, body), ask(solo, body)) << name;
  }
  if (family.images > 1) {
    const std::string body =
        chat({picture(family.folder, "square"), picture(family.folder, "wide")},
             R"(, "mm_processor_kwargs": {})");
    EXPECT_EQ(ask(server, body), ask(solo, body));
  }
  if (family.videos) {
    const std::string body = video_chat(5);
    EXPECT_EQ(ask(server, body), ask(solo, body));
  }
  EXPECT_EQ(metric(server, "saccade:exchange_failures_total", "reason=\"refused\""), 0);
  expect_nothing_left(server);
  expect_nothing_left_at(encoder.process());
  EXPECT_EQ(server.stop(), 0) << server.log();
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
}

INSTANTIATE_TEST_SUITE_P(
    Goldens, Families,
    testing::Values(Family{"qwen2_vl", "odd_heads", true}, Family{"qwen2_5_vl", "odd_heads", true},
                    Family{"qwen3_vl", "odd_heads", true}, Family{"internvl2", "internlm2"},
                    Family{"llava_onevision", "newlines", true}, Family{"phi_3_vision", "su"},
                    Family{"gemma3", "pooled"}, Family{"smolvlm2", "halves", true},
                    Family{"paligemma", "second", false, 1}, Family{"mistral3", "squares"},
                    Family{"pixtral", "short"}, Family{"mllama", "quarters"},
                    Family{"glm4v", "odd_heads", true}, Family{"minicpmv", "slices", true}),
    [](const testing::TestParamInfo<Family>& param) { return param.param.folder; });

}  // namespace
}  // namespace saccade::test
