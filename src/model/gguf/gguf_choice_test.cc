#include "model/gguf/gguf_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kRepository = {
    "README.md",
    "Vl-7B-BF16-00001-of-00002.gguf",
    "Vl-7B-BF16-00002-of-00002.gguf",
    "Vl-7B-IQ4_XS.gguf",
    "Vl-7B-Q4_K.gguf",
    "Vl-7B-Q4_K_M.gguf",
    "Vl-7B-UD-Q4_K_XL.gguf",
    "Q8_0/Vl-7B.gguf",
    "mmproj-F16.gguf",
    "mmproj-Q8_0.gguf",
};

std::vector<std::string> model_of(const std::vector<std::string>& files, std::string pattern) {
  auto choice = choose_gguf(files, {.model = std::move(pattern)});
  if (!choice) return {choice.error().message};
  return choice->model;
}

std::string projector_of(std::vector<std::string> projectors, std::string pattern = "",
                         const std::string& model = "m.gguf") {
  projectors.push_back(model);
  auto choice = choose_gguf(projectors, {.projector = std::move(pattern)});
  return choice ? choice->projector : choice.error().message;
}

TEST(GgufChoice, APatternIsANameOrAWholePartOfOne) {
  EXPECT_THAT(model_of(kRepository, "q4_k_m"), ElementsAre("Vl-7B-Q4_K_M.gguf"));
  EXPECT_THAT(model_of(kRepository, "Q4_K"), ElementsAre("Vl-7B-Q4_K.gguf"));
  EXPECT_THAT(model_of(kRepository, "Q4_K_XL"), ElementsAre("Vl-7B-UD-Q4_K_XL.gguf"));
  EXPECT_THAT(model_of(kRepository, "UD-Q4_K_XL"), ElementsAre("Vl-7B-UD-Q4_K_XL.gguf"));
  EXPECT_THAT(model_of(kRepository, "Q8_0"), ElementsAre("Q8_0/Vl-7B.gguf"));  // no projector
  EXPECT_THAT(model_of(kRepository, "vl-7b-iq4_xs.GGUF"), ElementsAre("Vl-7B-IQ4_XS.gguf"));
  EXPECT_THAT(model_of(kRepository, "Vl-7B"), ElementsAre("Q8_0/Vl-7B.gguf"));  // whole
  EXPECT_THAT(model_of(kRepository, "*XL*"), ElementsAre("Vl-7B-UD-Q4_K_XL.gguf"));
  EXPECT_THAT(model_of(kRepository, ""), ElementsAre("Vl-7B-Q4_K_M.gguf"));
  EXPECT_THAT(model_of({"a-Q2_K.gguf", "mmproj.gguf"}, ""), ElementsAre("a-Q2_K.gguf"));
}

TEST(GgufChoice, AllPartsOfAModelOrNone) {
  for (const char* pattern : {"bf16", "Vl-7B-BF16-00001-of-00002.gguf", "*bf16*.gguf"})
    EXPECT_THAT(model_of(kRepository, pattern),
                ElementsAre("Vl-7B-BF16-00001-of-00002.gguf", "Vl-7B-BF16-00002-of-00002.gguf"));
  EXPECT_THAT(model_of({"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}, "m"),
              ElementsAre(HasSubstr("m-00002-of-00003.gguf is missing")));
}

TEST(GgufChoice, SeveralOrNoneAreRefusedByAListOfWhatThereIs) {
  const auto refused = [](const std::vector<std::string>& files, const std::string& pattern) {
    const auto choice = choose_gguf(files, {.model = pattern});
    EXPECT_FALSE(choice) << pattern;
    return choice ? Error() : choice.error();
  };
  Error error = refused(kRepository, "Q5_K_M");
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("fits \"Q5_K_M\"; there are Q8_0/Vl-7B.gguf, "));
  EXPECT_THAT(error.message, HasSubstr("Vl-7B-IQ4_XS.gguf"));
  EXPECT_EQ(error.message.find("mmproj"), std::string::npos);
  error = refused(kRepository, "*Q4*");
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_THAT(error.message, HasSubstr("\"*Q4*\" fits 4 models in GGUF; name one of "
                                       "Vl-7B-IQ4_XS.gguf, Vl-7B-Q4_K.gguf, Vl-7B-Q4_K_M.gguf"));
  EXPECT_THAT(refused({"a-Q2_K.gguf", "a-Q3_K.gguf"}, "").message,
              HasSubstr("name one of a-Q2_K.gguf, a-Q3_K.gguf"));
  EXPECT_EQ(refused({"mmproj.gguf", "x.bin"}, "").code, ErrorCode::kNotFound);
  EXPECT_THAT(refused({"x.bin"}, "Q8_0").message, HasSubstr("there is none"));
}

TEST(GgufChoice, TheProjectorThatHasLostLeast) {
  EXPECT_EQ(projector_of({}), "");
  EXPECT_EQ(projector_of({"mmproj-Q8_0.gguf"}), "mmproj-Q8_0.gguf");
  EXPECT_EQ(projector_of({"mmproj-Q8_0.gguf", "mmproj-F16.gguf"}), "mmproj-F16.gguf");
  EXPECT_EQ(projector_of({"mmproj-F32.gguf", "mmproj-m-bf16.gguf", "mmproj-F16.gguf"}),
            "mmproj-m-bf16.gguf");
  EXPECT_EQ(projector_of({"m.mmproj-f32.gguf", "mmproj-F16.gguf"}), "mmproj-F16.gguf");
  EXPECT_EQ(projector_of({"mmproj-Q8_0.gguf", "mmproj-m.gguf"}), "mmproj-m.gguf");
  EXPECT_EQ(projector_of({"mmproj-Q4_0.gguf", "mmproj-Q8_0.gguf"}), "mmproj-Q8_0.gguf");
  EXPECT_EQ(projector_of({"mmproj-F16.gguf", "a/mmproj-Q8_0.gguf"}, "", "a/m.gguf"),
            "a/mmproj-Q8_0.gguf");
  EXPECT_EQ(projector_of({"mmproj-F16.gguf", "mmproj-BF16.gguf"}, "f16"), "mmproj-F16.gguf");
  EXPECT_THAT(projector_of({"mmproj-a-F16.gguf", "mmproj-b-F16.gguf"}),
              HasSubstr("name one of mmproj-a-F16.gguf, mmproj-b-F16.gguf as --mmproj"));
  EXPECT_THAT(projector_of({"mmproj-F16.gguf"}, "F32"), HasSubstr("there are mmproj-F16.gguf"));
  const auto alone = choose_gguf(kRepository, {.model = "Q4_K", .text_alone = true});
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->projector, "");
}

}  // namespace
}  // namespace saccade
