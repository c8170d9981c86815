#include "model/images/image_layout.h"

namespace saccade {

ImageLayout group_layout(const ImageLayout& video, std::int64_t frames) {
  ImageLayout group = video;
  group.grid_t = 1;
  group.frames = frames;
  group.seconds.clear();
  group.tokens = video.group_tokens > 0 ? video.group_tokens : video.tokens / video.grid_t;
  return group;
}

}  // namespace saccade
