#include "ops/readback.h"

namespace saccade {

Result<View> readable(Stream& stream, View from, Buffer& staging) {
  if (from.space() == Space::kHost) {
    stream.synchronize();
    return from;
  }
  const std::size_t bytes =
      static_cast<std::size_t>(from.rows() * from.cols()) * size_of(from.dtype());
  if (staging.bytes() < bytes) {
    TRY(staging, stream.device().allocate(bytes, Space::kHost));
  }
  const View to = staging.view(from.dtype(), from.rows(), from.cols());
  stream.download(from, to);
  stream.synchronize();
  return to;
}

}  // namespace saccade
