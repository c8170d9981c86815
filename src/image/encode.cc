// Encoders for data sets: JPEG as Pillow writes it, and PNG.
// clang-format off
#include <cstdio>  // first: jpeglib.h needs FILE and size_t
#include <jpeglib.h>
// clang-format on

#include <png.h>

#include <csetjmp>
#include <cstdlib>

#include "image/pixels.h"

namespace saccade {
namespace {

constexpr int kJpegMaxSide = 65'500;  // JPEG_MAX_DIMENSION

// libjpeg reports errors by longjmp; run() is the only place they land.
class JpegWriter {
 public:
  JpegWriter() {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) {
      auto& self = *static_cast<JpegWriter*>(info->client_data);
      info->err->format_message(info, self.reason_);
      std::longjmp(self.escape_, 1);
    };
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&info_);
    std::free(bytes_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  bool run(const Pixels& pixels, int quality) {
    if (setjmp(escape_) != 0) return false;
    write(pixels, quality);
    return true;
  }

  const char* reason() const { return reason_; }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span<const unsigned char>(bytes_, size_));
  }

 private:
  void write(const Pixels& pixels, int quality) {
    jpeg_create_compress(&info_);
    info_.client_data = this;
    jpeg_mem_dest(&info_, &bytes_, &size_);
    info_.image_width = static_cast<JDIMENSION>(pixels.width);
    info_.image_height = static_cast<JDIMENSION>(pixels.height);
    info_.input_components = 3;
    info_.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info_);  // 4:2:0
    jpeg_set_quality(&info_, quality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    const std::size_t row_bytes = static_cast<std::size_t>(pixels.width) * 3;
    while (info_.next_scanline < info_.image_height) {
      auto* row = const_cast<JSAMPROW>(pixels.rgb.data() + info_.next_scanline * row_bytes);
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
  }

  jpeg_compress_struct info_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf escape_{};
  char reason_[JMSG_LENGTH_MAX] = {};
  unsigned char* bytes_ = nullptr;  // grown by libjpeg
  unsigned long size_ = 0;
};

}  // namespace

Result<std::vector<std::byte>> encode_jpeg(const Pixels& pixels, int quality) {
  if (pixels.width < 1 || pixels.height < 1 || pixels.width > kJpegMaxSide ||
      pixels.height > kJpegMaxSide) {
    return fail(ErrorCode::kInvalid, "{}x{} pixels as JPEG, which holds 1 to {} a side",
                pixels.width, pixels.height, kJpegMaxSide);
  }
  if (quality < 1 || quality > 100)
    return fail(ErrorCode::kInvalid, "JPEG quality {} is not 1 to 100", quality);
  JpegWriter writer;
  if (!writer.run(pixels, quality)) return fail(ErrorCode::kInternal, "JPEG: {}", writer.reason());
  return std::vector<std::byte>(writer.bytes().begin(), writer.bytes().end());
}

Result<std::vector<std::byte>> encode_png(const Pixels& pixels) {
  if (pixels.width < 1 || pixels.height < 1)
    return fail(ErrorCode::kInvalid, "{}x{} pixels as PNG", pixels.width, pixels.height);
  // libpng's simplified interface catches its own errors.
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> bytes(size);
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.rgb.data(), 0, nullptr) ==
      0) {
    return fail(ErrorCode::kInternal, "PNG: {}", image.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace saccade
