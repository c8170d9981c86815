// --device as people write it.
#include "serve/assembly/device_choice.h"

#include <gtest/gtest.h>

namespace saccade::serve {
namespace {

using Kind = DeviceChoice::Kind;

TEST(DeviceChoice, TakesItsForms) {
  EXPECT_EQ(*parse_device("auto"), (DeviceChoice{Kind::kAuto, 0}));
  EXPECT_EQ(*parse_device("cpu"), (DeviceChoice{Kind::kCpu, 0}));
  EXPECT_EQ(*parse_device("cuda"), (DeviceChoice{Kind::kCuda, 0}));
  EXPECT_EQ(*parse_device("cuda:0"), (DeviceChoice{Kind::kCuda, 0}));
  EXPECT_EQ(*parse_device("cuda:17"), (DeviceChoice{Kind::kCuda, 17}));
}

TEST(DeviceChoice, RefusesOthersByName) {
  for (const char* text : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda: 1",
                           "cuda:99999", "cuda:99999999999999999999", "cpu:0"}) {
    const auto choice = parse_device(text);
    ASSERT_FALSE(choice.has_value()) << text;
    EXPECT_EQ(choice.error().code, ErrorCode::kInvalid);
    EXPECT_NE(choice.error().message.find(std::string("device ") + text), std::string::npos);
    EXPECT_NE(choice.error().message.find("cuda:N"), std::string::npos);
  }
}

TEST(DeviceChoice, AutoRunsOnWhatThereIs) {
  const auto device = make_device({Kind::kAuto, 0}, 1);
  ASSERT_TRUE(device.has_value()) << device.error().message;
  const auto cpu = make_device({Kind::kCpu, 0}, 1);
  ASSERT_TRUE(cpu.has_value());
  EXPECT_EQ((*cpu)->name(), "cpu");
}

// Where there is no such GPU, the message says which was asked for and what to do.
TEST(DeviceChoice, AGpuThatIsNotThereIsNamed) {
  const auto device = make_device({Kind::kCuda, 900}, 1);
  ASSERT_FALSE(device.has_value());
  EXPECT_NE(device.error().message.find("900"), std::string::npos) << device.error().message;
}

}  // namespace
}  // namespace saccade::serve
