#include "video/child/frame_converter.h"

extern "C" {
#include <libavutil/frame.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

namespace saccade::video {
namespace {

constexpr std::size_t kChannels = 3;
constexpr int kRowAlignment = 64;  // what swscale's fastest loops write

// Yuvj formats say in their name that they use all 256 values.
bool full_range(const AVFrame& picture) {
  switch (picture.format) {
    case AV_PIX_FMT_YUVJ420P:
    case AV_PIX_FMT_YUVJ422P:
    case AV_PIX_FMT_YUVJ444P:
    case AV_PIX_FMT_YUVJ440P:
    case AV_PIX_FMT_YUVJ411P:
      return true;
    default:
      return picture.color_range == AVCOL_RANGE_JPEG;
  }
}

// Where a chroma sample is among its luma samples, across and down, of 256; absent where a picture
// does not say it.
std::optional<std::pair<int, int>> chroma_place(AVChromaLocation location) {
  switch (location) {
    case AVCHROMA_LOC_LEFT:
      return std::pair(0, 128);
    case AVCHROMA_LOC_CENTER:
      return std::pair(128, 128);
    case AVCHROMA_LOC_TOPLEFT:
      return std::pair(0, 0);
    case AVCHROMA_LOC_TOP:
      return std::pair(128, 0);
    case AVCHROMA_LOC_BOTTOMLEFT:
      return std::pair(0, 256);
    case AVCHROMA_LOC_BOTTOM:
      return std::pair(128, 256);
    default:
      return {};
  }
}

// Pixel (x, y) of what is shown, in the upright picture of width x height.
void turn(const std::vector<std::uint8_t>& from, int width, int height, int quarter_turns,
          std::vector<std::uint8_t>& to) {
  to.resize(from.size());
  const int shown_width = quarter_turns % 2 == 0 ? width : height;
  const int shown_height = quarter_turns % 2 == 0 ? height : width;
  std::uint8_t* out = to.data();
  for (int y = 0; y < shown_height; ++y) {
    for (int x = 0; x < shown_width; ++x) {
      const int from_x = quarter_turns == 1   ? y
                         : quarter_turns == 2 ? width - 1 - x
                                              : width - 1 - y;
      const int from_y = quarter_turns == 1   ? height - 1 - x
                         : quarter_turns == 2 ? height - 1 - y
                                              : x;
      const auto at = static_cast<std::size_t>(from_y) * static_cast<std::size_t>(width) +
                      static_cast<std::size_t>(from_x);
      std::memcpy(out, from.data() + at * kChannels, kChannels);
      out += kChannels;
    }
  }
}

}  // namespace

FrameConverter::FrameConverter() = default;
FrameConverter::~FrameConverter() { sws_freeContext(scaler_); }

// Where swscale has to interpolate chroma (10 bits, odd sides), by cubics: of what it offers that
// is nearest to the reference.
Result<void> FrameConverter::prepare(const AVFrame& picture) {
  const Form form{picture.width, picture.height, picture.format};
  if (scaler_ != nullptr && form == form_) return {};
  sws_freeContext(scaler_);
  scaler_ = sws_alloc_context();
  if (scaler_ == nullptr)
    return fail(ErrorCode::kTooLarge, "converting to RGB takes more memory than it may");
  form_ = form;
  const std::pair<const char*, std::int64_t> options[] = {
      {"srcw", picture.width},        {"srch", picture.height},
      {"dstw", picture.width},        {"dsth", picture.height},
      {"src_format", picture.format}, {"dst_format", AV_PIX_FMT_RGB24},
      {"sws_flags", SWS_BICUBIC},     {"src_range", full_range(picture) ? 1 : 0},
  };
  for (const auto& [name, value] : options) av_opt_set_int(scaler_, name, value, 0);
  const AVPixFmtDescriptor* described =
      av_pix_fmt_desc_get(static_cast<AVPixelFormat>(form.format));
  const auto place = chroma_place(picture.chroma_location);
  if (place && described != nullptr) {
    if (described->log2_chroma_w > 0) av_opt_set_int(scaler_, "src_h_chr_pos", place->first, 0);
    if (described->log2_chroma_h > 0) av_opt_set_int(scaler_, "src_v_chr_pos", place->second, 0);
  }
  if (sws_init_context(scaler_, nullptr, nullptr) >= 0) return {};
  const char* name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(picture.format));
  return fail(ErrorCode::kUnsupported, "pictures of the form {} are not supported",
              name == nullptr ? "unknown" : name);
}

Result<const std::vector<std::uint8_t>*> FrameConverter::convert(const AVFrame& picture,
                                                                 int quarter_turns) {
  const int width = picture.width;
  const int height = picture.height;
  TRY_DO(prepare(picture));
  const int* matrix = sws_getCoefficients(picture.colorspace == AVCOL_SPC_UNSPECIFIED
                                              ? SWS_CS_DEFAULT
                                              : static_cast<int>(picture.colorspace));
  constexpr int kOne = 1 << 16;
  sws_setColorspaceDetails(scaler_, matrix, full_range(picture) ? 1 : 0,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, kOne, kOne);
  const std::size_t row = static_cast<std::size_t>(width) * kChannels;
  const std::size_t stride = (row + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  padded_.resize(stride * static_cast<std::size_t>(height));
  const std::array<std::uint8_t*, 4> planes{padded_.data()};
  const std::array<int, 4> strides{static_cast<int>(stride)};
  if (sws_scale(scaler_, picture.data, picture.linesize, 0, height, planes.data(),
                strides.data()) != height)
    return fail(ErrorCode::kUndecodable, "a picture cannot be converted to RGB");
  upright_.resize(row * static_cast<std::size_t>(height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y)
    std::memcpy(upright_.data() + y * row, padded_.data() + y * stride, row);
  if (quarter_turns == 0) return &upright_;
  turn(upright_, width, height, quarter_turns, turned_);
  return &turned_;
}

}  // namespace saccade::video
