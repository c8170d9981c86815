// Rows that a client brings in an image's place: those that transformers' encoder makes of a
// picture, saved by PyTorch (tools/goldens/image_embeds.py), get the answer that the picture gets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text/base64.h"
#include "tensor/dtype.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

std::string file_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(bytes.empty()) << path;
  return bytes;
}
std::string rows_file(const std::string& name) {
  return file_of(kGoldens + "image_embeds/" + name);
}
std::string as_base64(const std::string& file) { return "\"" + base64_encode(file) + "\""; }

// A file of one tensor.
std::string safetensors(const std::string& name, const std::string& type, const std::string& shape,
                        const std::string& bytes) {
  const std::string header = R"({")" + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape +
                             R"(,"data_offsets":[0,)" + std::to_string(bytes.size()) + "]}}";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + bytes;
}
// t, h and w as int64.
std::string grid_bytes(const std::array<char, 3>& thw) {
  std::string numbers(24, '\0');
  for (std::size_t i = 0; i < thw.size(); ++i) numbers[8 * i] = thw[i];
  return numbers;
}
std::string rows_part(const std::string& embeds, const std::string& more = "") {
  return R"({"type":"image_embeds","image_embeds":)" + embeds + more + "}";
}
std::string with_grid(const std::string& rows, const std::string& grid) {
  return R"({"image_embeds":)" + as_base64(rows) + R"(,"image_grid_thw":)" + as_base64(grid) + "}";
}
std::string picture_part(const std::string& file) {
  return R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" + base64_encode(file) +
         R"("}})";
}

class Server {
 public:
  explicit Server(const std::string& checkpoint,
                  std::vector<std::string> flags = {"--enable-mm-embeds"})
      : process_(SACCADE_BINARY, arguments(checkpoint, std::move(flags))) {}
  ~Server() { EXPECT_EQ(process_.stop(), 0) << process_.log(); }

  RawAnswer ask(const std::string& parts) {
    return exchange(process_.port(), "POST", "/v1/chat/completions",
                    R"({"messages":[{"role":"user","content":[)" + parts +
                        R"(,{"type":"text","text":"What is shown in this picture?"}]}],)"
                        R"("max_tokens":16,"temperature":0,"logprobs":true})");
  }
  // The message, its tokens and how long its prompt was.
  std::string answer(const std::string& parts) {
    const RawAnswer raw = ask(parts);
    EXPECT_EQ(raw.status, 200) << raw.body;
    const auto tree = json::parse(raw.body);
    if (!tree || raw.status != 200) return "";
    const json::value& usage = tree->at("usage");
    cached_ = usage.at("prompt_tokens_details").at("cached_tokens").to_number<std::int64_t>();
    const json::value& choice = tree->at("choices").at(0);
    std::string all = boost::json::serialize(choice.at("message")) +
                      boost::json::serialize(usage.at("prompt_tokens"));
    for (const json::value& token : choice.at("logprobs").at("content").as_array())
      all += boost::json::serialize(token.at("bytes"));
    return all;
  }
  std::int64_t cached() const { return cached_; }  // tokens of the last prompt
  void expect_refused(const std::string& parts, const std::vector<std::string>& named) {
    const RawAnswer raw = ask(parts);
    EXPECT_EQ(raw.status, 400) << parts.substr(0, 80) << raw.body;
    for (const std::string& name : named)
      EXPECT_NE(raw.body.find(name), std::string::npos) << name << " is not in " << raw.body;
  }

 private:
  static std::vector<std::string> arguments(const std::string& checkpoint,
                                            std::vector<std::string> flags) {
    std::vector<std::string> all = {
        "serve", "--model", kGoldens + checkpoint, "--dtype", "float32", "--block-size", "4"};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }
  ServerProcess process_;
  std::int64_t cached_ = 0;
};

TEST(ImageEmbeds, AnswerAsThePictureDoes) {
  Server server("qwen2_vl/odd_heads");
  const std::string picture = picture_part(file_of(kGoldens + "qwen2_vl/images/wide.png"));
  const std::string of_picture = server.answer(picture);
  const std::string grid = rows_file("qwen2_vl_grid.pt");
  const std::string rows = rows_part(with_grid(rows_file("qwen2_vl.pt"), grid));
  EXPECT_EQ(server.answer(rows), of_picture);
  // Nothing of the picture's was taken for the rows' but the text before them.
  const std::int64_t before = server.cached();
  EXPECT_EQ(server.answer(rows), of_picture);
  EXPECT_GE(server.cached(), before + 10);  // their own are found again
  EXPECT_EQ(server.answer(rows_part(as_base64(rows_file("qwen2_vl.safetensors")))), of_picture);
  // Beside a picture, and sent once under a name.
  const std::string of_both = server.answer(picture + "," + picture);
  EXPECT_EQ(server.answer(rows + "," + picture), of_both);
  const std::string named = rows_part(with_grid(rows_file("qwen2_vl.pt"), grid), R"(,"uuid":"a")");
  EXPECT_EQ(server.answer(named), of_picture);
  EXPECT_EQ(server.answer(rows_part("null", R"(,"uuid":"a")")), of_picture);
}

TEST(ImageEmbeds, FamiliesWhoseRowsAreCounted) {
  Server server("llava_onevision/newlines");
  const std::string picture = picture_part(file_of(kGoldens + "llava_onevision/images/wide.png"));
  const std::string of_picture = server.answer(picture);
  EXPECT_EQ(server.answer(rows_part(as_base64(rows_file("llava_onevision.pt")))), of_picture);
  EXPECT_EQ(server.answer(rows_part(as_base64(rows_file("llava_onevision.safetensors")))),
            of_picture);
}

// The same tokens as the picture's, one for one; and rows of zeros get others, so that rows matter.
// The same numbers in other types: those of fewer bits are rounded first, so that all can have
// them.
TEST(ImageEmbeds, EveryTypeOfNumbers) {
  Server server("llava_onevision/newlines");
  const std::string file = rows_file("llava_onevision.safetensors");
  constexpr std::size_t kNumbers = 49 * 96;
  const std::string floats = file.substr(file.size() - kNumbers * sizeof(float));
  std::vector<Bf16> bf16;
  std::vector<F16> f16;
  std::vector<float> of_bf16;
  std::vector<float> of_f16;
  std::vector<double> f64;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    float number = 0;
    std::memcpy(&number, floats.data() + i * sizeof number, sizeof number);
    f64.push_back(static_cast<double>(number));
    of_bf16.push_back(to_float(bf16.emplace_back(to_bf16(number))));
    of_f16.push_back(to_float(f16.emplace_back(to_f16(number))));
  }
  const auto answer = [&](const std::string& type, const auto& numbers) {
    const std::string bytes(reinterpret_cast<const char*>(numbers.data()),
                            numbers.size() * sizeof(numbers[0]));
    return server.answer(
        rows_part(as_base64(safetensors("image_embeds", type, "[1,49,96]", bytes))));
  };
  const std::string whole = server.answer(rows_part(as_base64(file)));
  EXPECT_EQ(answer("F64", f64), whole);
  EXPECT_EQ(answer("F16", f16), answer("F32", of_f16));
  EXPECT_EQ(answer("BF16", bf16), answer("F32", of_bf16));
}

TEST(ImageEmbeds, EveryFamilyThatTakesThem) {
  struct Family {
    const char* checkpoint;
    const char* file;
    std::size_t rows;
    std::size_t width;
    bool grid;
  };
  for (const auto& [checkpoint, file, count, width, grid] :
       {Family{"internvl3/hf3", "internvl3.pt", 12, 48, false},
        Family{"paligemma/first", "paligemma.pt", 9, 96, false},
        Family{"gemma3/pooled", "gemma3.pt", 4, 96, false},
        Family{"phi_3_vision/su", "phi_3_vision.pt", 73, 96, false},
        Family{"qwen2_5_vl/odd_heads", "qwen2_5_vl.safetensors", 10, 96, true},
        Family{"qwen3_vl/odd_heads", "qwen3_vl.safetensors", 8, 288, true},
        Family{"glm4v/odd_heads", "glm4v.safetensors", 10, 96, true},
        Family{"qwen3_vl_moe/every_layer", "qwen3_vl_moe.safetensors", 8, 144, true}}) {
    SCOPED_TRACE(checkpoint);
    Server server(checkpoint);
    const std::string family = std::string(checkpoint).substr(0, std::string(checkpoint).find('/'));
    const std::string picture = picture_part(file_of(kGoldens + family + "/images/wide.png"));
    const std::string of_picture = server.answer(picture);
    const std::string file_of_rows = rows_file(file);
    const std::string rows = rows_part(as_base64(file_of_rows));
    EXPECT_EQ(server.answer(rows), of_picture);
    // Among pictures.
    const std::string of_three = server.answer(picture + "," + picture + "," + picture);
    EXPECT_NE(of_three, of_picture);
    EXPECT_EQ(server.answer(picture + "," + rows + "," + picture), of_three);

    const std::string zeros =
        safetensors("image_embeds", "F32", fmt::format("[{},{}]", count, width),
                    std::string(count * width * sizeof(float), '\0'));
    EXPECT_NE(server.answer(rows_part(grid ? with_grid(zeros, file_of_rows) : as_base64(zeros))),
              of_picture);
  }
}

TEST(ImageEmbeds, EveryEncoderCache) {
  for (const char* cache : {"off", "overlay"}) {
    Server server("qwen2_vl/odd_heads", {"--enable-mm-embeds", "--encoder-cache", cache});
    const std::string picture = picture_part(file_of(kGoldens + "qwen2_vl/images/wide.png"));
    const std::string rows =
        rows_part(with_grid(rows_file("qwen2_vl.pt"), rows_file("qwen2_vl_grid.pt")));
    EXPECT_EQ(server.answer(rows), server.answer(picture)) << cache;
  }
}

TEST(ImageEmbeds, WhatIsWrongIsNamed) {
  Server server("qwen2_vl/odd_heads");
  const std::string rows = rows_file("qwen2_vl.pt");
  const std::string grid = rows_file("qwen2_vl_grid.pt");
  server.expect_refused(rows_part(as_base64(rows)), {"image_grid_thw"});
  server.expect_refused(rows_part(with_grid(rows, rows)), {"image_grid_thw", "F32", "int64"});
  server.expect_refused(rows_part(with_grid(rows_file("refused_nan.pt"), grid)),
                        {"image 0", "image_embeds[3][17] is nan"});
  server.expect_refused(rows_part(with_grid(rows_file("refused_transposed.pt"), grid)),
                        {"not contiguous"});
  server.expect_refused(rows_part(with_grid(rows_file("refused_integers.pt"), grid)), {"I64"});
  server.expect_refused(rows_part(with_grid(rows_file("refused_two_images.pt"), grid)),
                        {"[2, 6, 96]", "2 images"});
  server.expect_refused(rows_part(with_grid(rows_file("refused_dict.pt"), grid)),
                        {"other than one tensor"});
  server.expect_refused(rows_part(with_grid(rows_file("refused_none.pt"), grid)),
                        {"other than one tensor"});
  server.expect_refused(rows_part(with_grid(rows_file("refused_bare_pickle.pt"), grid)),
                        {"bare pickle"});
  server.expect_refused(
      rows_part(with_grid(rows_file("llava_onevision.pt"),
                          safetensors("image_grid_thw", "I64", "[3]", grid_bytes({1, 14, 14})))),
      {"49 rows", "the largest image has 48"});
  constexpr std::array<std::array<char, 3>, 3> kGrids = {{{1, 4, 8}, {2, 2, 10}, {1, 5, 8}}};
  for (const auto& thw : kGrids) {
    server.expect_refused(
        rows_part(with_grid(rows, safetensors("image_grid_thw", "I64", "[1,3]", grid_bytes(thw)))),
        {"image_grid_thw is [", "for 10 rows", "multiples of 2", "h * w 40"});
  }
  server.expect_refused(rows_part(as_base64("no tensor at all")), {"neither torch.save's zip"});
  server.expect_refused(rows_part("\"no base64!\""), {"base64"});
  server.expect_refused(rows_part("7"), {"image_embeds", "base64"});
  server.expect_refused(rows_part(R"({"image_sizes":"AAAA"})"), {"image_sizes"});
  server.expect_refused(R"({"type":"image_embeds"})", {"image_embeds"});
  // Cut anywhere, and with any byte turned over: a 400, or an answer to other numbers.
  for (std::size_t size = 0; size < rows.size(); size += 97)
    server.expect_refused(rows_part(with_grid(rows.substr(0, size), grid)), {});
  for (std::size_t at = 0; at < rows.size(); at += 89) {
    std::string turned = rows;
    turned[at] = static_cast<char>(~turned[at]);
    const RawAnswer raw = server.ask(rows_part(with_grid(turned, grid)));
    EXPECT_TRUE(raw.status == 400 || raw.status == 200) << at << ": " << raw.body;
  }
}

TEST(ImageEmbeds, AreOffUnlessAskedFor) {
  Server server("qwen2_vl/odd_heads", {});
  server.expect_refused(
      rows_part(with_grid(rows_file("qwen2_vl.pt"), rows_file("qwen2_vl_grid.pt"))),
      {"image 0", "--enable-mm-embeds"});
}

TEST(ImageEmbeds, FamiliesThatCannotAreNamed) {
  Server server("smolvlm2/fifths");
  const std::string rows = safetensors("image_embeds", "F32", "[1,64]", std::string(256, '\0'));
  server.expect_refused(rows_part(as_base64(rows)), {"smolvlm2", "image_embeds"});
}

}  // namespace
}  // namespace saccade::test
