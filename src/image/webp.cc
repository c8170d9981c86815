// WebP through libwebp: still images, and the first frame of animations on their canvas.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <new>
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

struct Target {
  bool alpha = false;  // RGBA, else RGB
  std::span<std::uint8_t> bytes;
  int stride = 0;
};

tl::unexpected<Error> damaged_frame() {
  return fail(ErrorCode::kUndecodable, "WebP: the frame is damaged");
}

Result<void> decode_whole(ImageBytes frame, const Target& to) {
  const auto decode = to.alpha ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  if (decode(data_of(frame), frame.size(), to.bytes.data(), to.bytes.size(), to.stride) == nullptr)
    return damaged_frame();
  return {};
}

// libwebp cannot be stopped, but decodes as many rows as the bytes that it has make: a large frame
// gets them in pieces. Of a lossless one it looks at nothing before an eighth is there; where its
// bytes end within a row up to eight rows are done again, and where they end before the first one,
// what was read of its tables is. So its pieces are larger, and double until rows come.
Result<void> decode_frame(ImageBytes frame, const Target& to, const Cancelled& cancelled) {
  constexpr int kLossless = 2;
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(data_of(frame), frame.size(), &features) != VP8_STATUS_OK)
    return damaged_frame();
  const bool lossless = features.format == kLossless;
  const std::int64_t pixels = std::int64_t{features.width} * features.height;
  const std::int64_t piece_pixels = std::int64_t{1} << (lossless ? 20 : 17);
  // In pieces it would also refuse some tiny frames that are sound.
  if (pixels <= piece_pixels) return decode_whole(frame, to);

  const std::unique_ptr<WebPIDecoder, decltype(&WebPIDelete)> decoder(
      WebPINewRGB(to.alpha ? MODE_RGBA : MODE_RGB, to.bytes.data(), to.bytes.size(), to.stride),
      WebPIDelete);
  if (decoder == nullptr) throw std::bad_alloc();
  const std::size_t piece = 1 + frame.size() / static_cast<std::size_t>(pixels / piece_pixels);
  constexpr std::size_t kChunkHeader = 8;
  std::size_t next = lossless ? kChunkHeader + frame.size() / 8 : piece;
  for (std::size_t end = 0; end < frame.size();) {
    TRY_DO(check_cancelled(cancelled));
    end = std::min(frame.size(), end + next);
    const VP8StatusCode status = WebPIUpdate(decoder.get(), data_of(frame), end);
    if (status == VP8_STATUS_OK) return {};
    if (status != VP8_STATUS_SUSPENDED) break;
    int rows = 0;
    WebPIDecGetRGB(decoder.get(), &rows, nullptr, nullptr, nullptr);
    next = lossless && rows == 0 ? end : piece;
  }
  return damaged_frame();
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

Result<Pixels> read_webp(ImageBytes bytes, const Cancelled& cancelled) {
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
  TRY(Pixels canvas, filled_pixels(width, height, alpha ? 255 : 0, cancelled));
  if (frame.width <= 0 || frame.height <= 0 || frame.x_offset > width - frame.width ||
      frame.y_offset > height - frame.height) {
    return fail(ErrorCode::kUndecodable, "WebP: a {}x{} frame at ({}, {}) of {}x{}", frame.width,
                frame.height, frame.x_offset, frame.y_offset, width, height);
  }

  const std::size_t at = (static_cast<std::size_t>(frame.y_offset) * width + frame.x_offset) * 3;
  const ImageBytes coded = std::as_bytes(std::span(frame.fragment.bytes, frame.fragment.size));
  if (!alpha) {
    TRY_DO(decode_frame(coded, {false, std::span(canvas.rgb).subspan(at), width * 3}, cancelled));
    return canvas;
  }
  TRY(std::vector<std::uint8_t> rgba,
      filled(static_cast<std::size_t>(frame.width) * frame.height * 4, 0, cancelled));
  TRY_DO(decode_frame(coded, {true, rgba, frame.width * 4}, cancelled));
  for (int y = 0; y < frame.height; ++y) {
    TRY_DO(check_cancelled(cancelled));
    const std::uint8_t* from = rgba.data() + static_cast<std::size_t>(y) * frame.width * 4;
    std::uint8_t* to = canvas.rgb.data() + at + static_cast<std::size_t>(y) * width * 3;
    for (int x = 0; x < frame.width; ++x, from += 4, to += 3) put_over_white(from, to);
  }
  return canvas;
}

}  // namespace saccade
