#include "api/requests/fields/video_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/requests/chat_request.h"

namespace saccade::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A request of one user message of these parts.
Result<ChatRequest> request(const std::string& parts, const std::string& members = "") {
  return parse_chat_request(R"({"messages": [{"role": "user", "content": [)" + parts + "]}]" +
                            members + "}");
}

constexpr auto kTwo = R"({"type": "video", "video": ["data:1", "file:///2"]})";

TEST(VideoPart, TakesEveryForm) {
  const auto made = request(R"(
      {"type": "text", "text": "a"},
      {"type": "video_url", "video_url": {"url": "data:video/jpeg; BASE64,AA==,BB==,CC=="}},
      {"type": "image_url", "image_url": "data:i"},
      {"type": "video", "video": ["data:1", "file:///2"], "fps": 2.5, "max_pixels": 9,
       "total_pixels": 99},
      {"video_url": "DATA:video/JPEG;base64,DD==", "sample_fps": 4, "min_pixels": 3},
      {"type": "video_url", "video_url": {"url": ["data:3"], "fps": 1}})");
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->videos.size(), 4u);
  EXPECT_THAT(made->videos[0].frames,
              ElementsAre("data:image/jpeg;base64,AA==", "data:image/jpeg;base64,BB==",
                          "data:image/jpeg;base64,CC=="));
  EXPECT_EQ(made->videos[0].fps, std::nullopt);
  EXPECT_THAT(made->videos[1].frames, ElementsAre("data:1", "file:///2"));
  EXPECT_EQ(made->videos[1].fps, 2.5);
  EXPECT_EQ(made->videos[1].max_pixels, 9);
  EXPECT_EQ(made->videos[1].total_pixels, 99);
  EXPECT_EQ(made->videos[2].frames.size(), 1u);
  EXPECT_EQ(made->videos[2].fps, 4);
  EXPECT_EQ(made->videos[2].min_pixels, 3);
  EXPECT_EQ(made->videos[3].fps, 1);
  const auto messages =
      template_messages(*made, [](std::string_view text) { return std::string(text); });
  EXPECT_EQ(messages[0].at("content").at(1).at("type"), "video");
  EXPECT_EQ(messages[0].at("content").at(2).at("type"), "image");
  EXPECT_EQ(made->messages[0].content[5].index, 3u);
}

TEST(VideoPart, TakesFiles) {
  const auto made = request(R"(
      {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
      {"type": "video_url", "video_url": {"url": "HTTPS://a/film.mp4", "num_frames": 9}, "fps": 3},
      {"type": "video", "video": "file:///film.webm", "min_frames": 2, "max_frames": 6,
       "max_pixels": 9},
      {"type": "text", "text": "a"})");
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->videos.size(), 3u);
  EXPECT_EQ(made->videos[0].file, "data:video/mp4;base64,AAAA");
  EXPECT_TRUE(made->videos[0].frames.empty());
  EXPECT_EQ(made->videos[0].num_frames, std::nullopt);
  EXPECT_EQ(made->videos[1].file, "HTTPS://a/film.mp4");
  EXPECT_EQ(made->videos[1].num_frames, 9);
  EXPECT_EQ(made->videos[1].fps, 3);
  EXPECT_EQ(made->videos[2].min_frames, 2);
  EXPECT_EQ(made->videos[2].max_frames, 6);
  EXPECT_EQ(made->videos[2].max_pixels, 9);
}

TEST(VideoPart, FramesOfFilesAreWishedForByTheNearest) {
  const std::string file = R"({"type": "video_url", "video_url": "file:///a.mp4"})";
  auto made = request(file + R"(, {"type": "video", "video": "file:///b.mp4", "num_frames": 7})",
                      R"(, "mm_processor_kwargs": {"fps": [1, 2], "num_frames": 3, "max_frames": 5,
                           "do_sample_frames": true, "max_pixels": 99},
                           "media_io_kwargs": {"video": {"num_frames": 32, "fps": 8}})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->videos[0].num_frames, 3);
  EXPECT_EQ(made->videos[1].num_frames, 7);
  EXPECT_EQ(made->videos[0].fps, 1);
  EXPECT_EQ(made->videos[1].fps, 2);
  EXPECT_EQ(made->videos[1].max_frames, 5);
  EXPECT_EQ(made->mm_processor_kwargs.size(), 1u);  // max_pixels
  made = request(file, R"(, "media_io_kwargs": {"video": {"num_frames": 32, "fps": 8}})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->videos[0].num_frames, 32);
  EXPECT_EQ(made->videos[0].fps, 8);
  made = request(file, R"(, "media_io_kwargs": {"video": {"num_frames": -1, "fps": -1}})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->videos[0].num_frames, std::nullopt);
  EXPECT_EQ(made->videos[0].fps, std::nullopt);
  for (const std::string members :
       {R"("mm_processor_kwargs": {"do_sample_frames": false})",
        R"("mm_processor_kwargs": {"num_frames": 0})", R"("mm_processor_kwargs": {"fps": 0})",
        R"("media_io_kwargs": {"video": {"num_frames": "4"}})"})
    EXPECT_FALSE(request(file, ", " + members)) << members;
  EXPECT_FALSE(request(R"({"type": "video", "video": "file:///b.mp4", "num_frames": 0})"));
}

TEST(VideoPart, RefusesWhatIsNeitherFileNorFrames) {
  for (const std::string url : {"data:video/mp4,AAAA", "ftp://a/film.mp4", "/film.webm",
                                "data:video/jpeg,A", "data:image/png;base64,AAAA", "x"}) {
    for (const std::string& part :
         {R"({"type": "video_url", "video_url": {"url": ")" + url + "\"}}",
          R"({"type": "video", "video": ")" + url + "\"}"}) {
      const auto made = request(part);
      ASSERT_FALSE(made) << part;
      EXPECT_EQ(made.error().param, "messages");
      EXPECT_THAT(made.error().message, HasSubstr("neither a video file"));
      EXPECT_THAT(made.error().message, HasSubstr("FRAME,FRAME"));
    }
  }
}

TEST(VideoPart, RefusesWhatIsNoListOfFrames) {
  for (const std::string part :
       {R"({"type": "video"})", R"({"type": "video", "video": []})",
        R"({"type": "video", "video": [1]})", R"({"type": "video", "video": [""]})",
        R"({"type": "video", "video": 5})", R"({"type": "video_url", "video_url": {}})",
        R"({"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,"}})",
        R"({"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,A,,B"}})",
        R"({"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,A,"}})",
        R"({"type": "video", "video": ["a"], "fps": 0})",
        R"({"type": "video", "video": ["a"], "fps": "2"})",
        R"({"type": "video", "video": ["a"], "max_pixels": 0})",
        R"({"type": "video", "video": ["a"], "total_pixels": 1.5})",
        R"({"type": "video", "video": ["a"], "resized_height": 28})"}) {
    const auto made = request(part);
    ASSERT_FALSE(made) << part;
    EXPECT_EQ(made.error().param, "messages") << part;
  }
  std::string many = R"({"type": "video_url", "video_url": "data:video/jpeg;base64,A)";
  for (int i = 0; i < 4096; ++i) many += ",A";
  EXPECT_THAT(request(many + "\"}").error().message, HasSubstr("4096"));
}

TEST(VideoPart, RatesComeFromTheNearest) {
  const std::string own = R"({"type": "video", "video": ["a"], "fps": 8}, )" + std::string(kTwo);
  const auto rates = [&](const std::string& members) {
    std::vector<std::optional<double>> each;
    auto made = request(own, members);
    EXPECT_TRUE(made) << made.error().message;
    if (!made) return each;
    EXPECT_EQ(json::find(made->mm_processor_kwargs, "fps"), nullptr);
    for (const VideoPart& video : made->videos) each.push_back(video.fps);
    return each;
  };
  EXPECT_THAT(rates(""), ElementsAre(8, std::nullopt));
  EXPECT_THAT(rates(R"(, "mm_processor_kwargs": {"fps": 3, "do_sample_frames": false})"),
              ElementsAre(8, 3));
  EXPECT_THAT(rates(R"(, "mm_processor_kwargs": {"fps": [3, 4]})"), ElementsAre(8, 4));
  // 30 a second, every tenth.
  EXPECT_THAT(rates(R"(, "media_io_kwargs": {"video": {"fps": 30, "total_num_frames": 20}})"),
              ElementsAre(8, 3));
  EXPECT_THAT(
      rates(R"(, "media_io_kwargs": {"video": {"fps": 30}}, "mm_processor_kwargs": {"fps": 5})"),
      ElementsAre(8, 5));
}

TEST(VideoPart, RefusesSamplingOnTheServer) {
  for (const std::string members :
       {R"("mm_processor_kwargs": {"do_sample_frames": true})",
        R"("mm_processor_kwargs": {"fps": []})", R"("mm_processor_kwargs": {"fps": [1, 2]})",
        R"("mm_processor_kwargs": {"fps": "2"})", R"("mm_processor_kwargs": {"fps": -1})",
        R"("media_io_kwargs": {"video": {"num_frames": 1}})",
        R"("media_io_kwargs": {"video": {"do_sample_frames": true}})",
        R"("media_io_kwargs": {"video": {"frames_indices": [1]}})",
        R"("media_io_kwargs": {"video": {"frames_indices": 1}})",
        R"("media_io_kwargs": {"video": {"total_num_frames": 1}})",
        R"("media_io_kwargs": {"video": {"fps": 0}})"}) {
    EXPECT_FALSE(request(kTwo, ", " + members)) << members;
  }
  EXPECT_TRUE(request(kTwo, R"(, "media_io_kwargs": {"video": {"num_frames": -1}})"));
  EXPECT_TRUE(request(R"("text")", R"(, "mm_processor_kwargs": {"fps": []})"));
}

}  // namespace
}  // namespace saccade::api
