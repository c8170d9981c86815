// WebP through libwebp: still images, and the first frame of animations on their canvas.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "image/formats.h"

namespace saccade {
namespace {

const std::uint8_t* data_of(ImageBytes bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

using Demuxer = std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)>;

Result<Demuxer> open_file(ImageBytes bytes) {
  const WebPData data{data_of(bytes), bytes.size()};
  Demuxer demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (demuxer == nullptr || WebPDemuxGetI(demuxer.get(), WEBP_FF_FRAME_COUNT) == 0) {
    return fail(ErrorCode::kUndecodable, "WebP: the file is damaged or truncated");
  }
  return demuxer;
}

ImageBytes chunk_of(const WebPDemuxer* demuxer, const char* name) {
  WebPChunkIterator chunk{};
  ImageBytes bytes;
  if (WebPDemuxGetChunk(demuxer, name, 1, &chunk) != 0) {
    bytes = std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size));  // within the input
  }
  WebPDemuxReleaseChunkIterator(&chunk);
  return bytes;
}

}  // namespace

Result<StoredHeader> read_webp_header(ImageBytes bytes) {
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(data_of(bytes), bytes.size(), &features) != VP8_STATUS_OK) {
    return fail(ErrorCode::kUndecodable, "WebP: no image header in {} bytes", bytes.size());
  }
  TRY(const Demuxer demuxer, open_file(bytes));
  const ImageBytes xmp = chunk_of(demuxer.get(), "XMP ");
  StoredHeader header;
  header.width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  header.height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  header.orientation =
      orientation_of(exif_orientation(chunk_of(demuxer.get(), "EXIF")),
                     xmp_orientation({reinterpret_cast<const char*>(xmp.data()), xmp.size()}));
  return header;
}

Result<Pixels> read_webp(ImageBytes bytes) {
  WebPBitstreamFeatures features{};
  WebPGetFeatures(data_of(bytes), bytes.size(), &features);
  TRY(const Demuxer demuxer, open_file(bytes));
  WebPIterator frame{};
  const bool found = WebPDemuxGetFrame(demuxer.get(), 1, &frame) != 0;
  const std::unique_ptr<WebPIterator, decltype(&WebPDemuxReleaseIterator)> release(
      &frame, WebPDemuxReleaseIterator);
  if (!found) return fail(ErrorCode::kUndecodable, "WebP: no first frame");

  const int width = static_cast<int>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH));
  const int height = static_cast<int>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT));
  const bool alpha = features.has_alpha != 0;
  Pixels canvas = black_pixels(width, height);
  if (alpha) std::fill(canvas.rgb.begin(), canvas.rgb.end(), std::uint8_t{255});
  if (frame.width <= 0 || frame.height <= 0 || frame.x_offset > width - frame.width ||
      frame.y_offset > height - frame.height) {
    return fail(ErrorCode::kUndecodable, "WebP: a {}x{} frame at ({}, {}) of {}x{}", frame.width,
                frame.height, frame.x_offset, frame.y_offset, width, height);
  }

  const std::size_t at = (static_cast<std::size_t>(frame.y_offset) * width + frame.x_offset) * 3;
  std::vector<std::uint8_t> rgba;
  const std::uint8_t* decoded = nullptr;
  if (alpha) {
    rgba.resize(static_cast<std::size_t>(frame.width) * frame.height * 4);
    decoded = WebPDecodeRGBAInto(frame.fragment.bytes, frame.fragment.size, rgba.data(),
                                 rgba.size(), frame.width * 4);
  } else {
    decoded = WebPDecodeRGBInto(frame.fragment.bytes, frame.fragment.size, canvas.rgb.data() + at,
                                canvas.rgb.size() - at, width * 3);
  }
  if (decoded == nullptr) return fail(ErrorCode::kUndecodable, "WebP: the frame is damaged");
  for (int y = 0; alpha && y < frame.height; ++y) {
    const std::uint8_t* from = rgba.data() + static_cast<std::size_t>(y) * frame.width * 4;
    std::uint8_t* to = canvas.rgb.data() + at + static_cast<std::size_t>(y) * width * 3;
    for (int x = 0; x < frame.width; ++x, from += 4, to += 3) put_over_white(from, to);
  }
  return canvas;
}

}  // namespace saccade
