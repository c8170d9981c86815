// Where an image, or a video's frames, end up: arithmetic only, made before any pixel is decoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saccade {

// `key` names everything that decides the embedding besides the image's bytes and the model, and
// where a video's tokens stand in time; it is part of every cache key.
struct ImageLayout {
  int width = 0;  // of the original
  int height = 0;
  int resized_width = 0;
  int resized_height = 0;
  int first_width = 0;  // between two resizings; 0: there is one
  int first_height = 0;
  // Of an image that is also cut into slices: how many there are. Then it is encoded whole at the
  // first size, and its slices share the size that it is resized to.
  int slices_across = 0;
  int slices_down = 0;
  std::int64_t grid_t = 1;  // groups of frames; 1 for an image, and for what the encoder takes
  std::int64_t frames = 0;  // of a video, as given; 0: an image
  double fps = 0;           // of a video: frames a second, of those given
  std::vector<double> seconds = {};  // of a video: when each frame is; empty: at fps from 0
  double duration = 0;               // of a video file: seconds of all of it; 0: of a list
  std::int64_t grid_h = 0;           // patches (Qwen), or tiles (others) before any merging
  std::int64_t grid_w = 0;
  std::int64_t tokens = 0;  // rows of the embedding = placeholders in the prompt
  // Of a video: rows of one group's embedding, of which a prompt may leave some out; 0: its share
  // of the tokens.
  std::int64_t group_tokens = 0;
  std::string key;
};

// Of one group of a video's frames, `frames` of them: what the encoder takes.
ImageLayout group_layout(const ImageLayout& video, std::int64_t frames);

}  // namespace saccade
