// A decoded picture, in whatever form its codec has them, as RGB the right way up.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

struct AVFrame;
struct SwsContext;

namespace saccade::video {

// One thread.
class FrameConverter {
 public:
  FrameConverter();
  ~FrameConverter();
  FrameConverter(const FrameConverter&) = delete;
  FrameConverter& operator=(const FrameConverter&) = delete;

  // 8-bit RGB, row-major, without padding, turned clockwise; by the picture's own matrix and range,
  // BT.601 and limited where it says none. Valid until the next call. kTooLarge for no memory,
  // kUnsupported for a form that swscale does not know.
  Result<const std::vector<std::uint8_t>*> convert(const AVFrame& picture, int quarter_turns);

 private:
  struct Form {
    int width = 0;
    int height = 0;
    int format = -1;
    bool operator==(const Form&) const = default;
  };
  Result<void> prepare(const AVFrame& picture);

  SwsContext* scaler_ = nullptr;  // for form_
  Form form_;
  std::vector<std::uint8_t> padded_;  // rows as swscale writes them
  std::vector<std::uint8_t> upright_;
  std::vector<std::uint8_t> turned_;
};

}  // namespace saccade::video
