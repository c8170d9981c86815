// JPEG through libjpeg-turbo, with the settings of Pillow: slow integer DCT, fancy upsampling,
// CMYK taken as inverted whatever the Adobe marker says.

// clang-format off
#include <cstdio>  // first: jpeglib.h needs FILE and size_t
#include <jpeglib.h>
// clang-format on

#include <csetjmp>
#include <string>
#include <string_view>
#include <vector>

#include "image/formats.h"

namespace saccade {
namespace {

// A progressive file may hold any number of scans, each a pass over the whole image; encoders write
// about ten.
constexpr int kMaxScans = 100;

// All state that libjpeg's callbacks touch. libjpeg reports errors by longjmp; run() is the only
// place they land, and the functions it runs hold nothing with a destructor.
class JpegReader {
 public:
  explicit JpegReader(ImageBytes bytes, const Cancelled& cancelled = {})
      : bytes_(bytes), cancelled_(cancelled) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) {
      JpegReader& self = of(info);
      info->err->format_message(info, self.reason_);
      std::longjmp(self.escape_, 1);
    };
    errors_.output_message = [](j_common_ptr) {};
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // False when libjpeg gave up; failure() says why.
  bool run(void (*step)(JpegReader&)) {
    if (setjmp(escape_) != 0) return false;
    step(*this);
    return true;
  }
  tl::unexpected<Error> failure() const {
    return fail(ended_ ? ErrorCode::kCancelled : ErrorCode::kUndecodable, "JPEG: {}",
                std::string_view(reason_));
  }

  static void open(JpegReader& self) {
    jpeg_create_decompress(&self.info_);
    self.info_.client_data = &self;
    self.source_.next_input_byte = reinterpret_cast<const JOCTET*>(self.bytes_.data());
    self.source_.bytes_in_buffer = self.bytes_.size();
    self.source_.init_source = [](j_decompress_ptr) {};
    self.source_.term_source = [](j_decompress_ptr) {};
    self.source_.resync_to_restart = jpeg_resync_to_restart;
    self.source_.fill_input_buffer = [](j_decompress_ptr info) -> boolean {
      of(info).give_up("the data is truncated");
    };
    self.source_.skip_input_data = [](j_decompress_ptr info, long count) {
      jpeg_source_mgr& source = *info->src;
      if (count <= 0) return;
      if (static_cast<std::size_t>(count) > source.bytes_in_buffer) {
        of(info).give_up("the data is truncated");
      }
      source.next_input_byte += count;
      source.bytes_in_buffer -= static_cast<std::size_t>(count);
    };
    self.info_.src = &self.source_;
    // Called for each row, and for each row of blocks of each scan.
    self.progress_.progress_monitor = [](j_common_ptr info) {
      JpegReader& reader = of(info);
      reader.ended_ = is_cancelled(reader.cancelled_);
      if (reader.ended_) reader.give_up("nobody waits for it any more");
      const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
      if (decompress->input_scan_number > kMaxScans) reader.give_up("over 100 scans");
    };
    self.info_.progress = &self.progress_;
    jpeg_save_markers(&self.info_, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&self.info_, TRUE);
    if (self.info_.num_components == 2 || self.info_.num_components > 4) {
      std::snprintf(self.reason_, sizeof(self.reason_), "%d components", self.info_.num_components);
      std::longjmp(self.escape_, 1);
    }
  }

  // Fills rows_, which start_rows() has sized.
  static void start(JpegReader& self) {
    const int components = self.info_.num_components;
    self.info_.out_color_space = components == 4 ? JCS_CMYK : JCS_RGB;
    self.info_.dct_method = JDCT_ISLOW;
    self.info_.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&self.info_);
  }

  // One row into `row`; Pillow does not look at what follows the last row, and neither do we.
  static void read_row(JpegReader& self) {
    JSAMPROW row = self.row_;
    jpeg_read_scanlines(&self.info_, &row, 1);
  }
  void set_row(std::uint8_t* row) { row_ = row; }

  const jpeg_decompress_struct& info() const { return info_; }

 private:
  template <typename Object>
  static JpegReader& of(Object* info) {
    return *static_cast<JpegReader*>(info->client_data);
  }
  [[noreturn]] void give_up(const char* reason) {
    std::snprintf(reason_, sizeof(reason_), "%s", reason);
    std::longjmp(escape_, 1);
  }

  ImageBytes bytes_;
  Cancelled cancelled_;
  bool ended_ = false;  // since it was cancelled
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf escape_{};
  char reason_[JMSG_LENGTH_MAX] = {};
  std::uint8_t* row_ = nullptr;
};

Orientation orientation_in(const jpeg_decompress_struct& info) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
  std::string exif;  // may be split over segments
  std::string_view xmp;
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr;
       marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (data.starts_with(kExif)) exif += data.substr(kExif.size());
    if (data.starts_with(kXmp)) xmp = data.substr(kXmp.size());
  }
  return orientation_of(exif_orientation(std::as_bytes(std::span(exif))), xmp_orientation(xmp));
}

// PIL's CMYK to RGB, from ink stored inverted.
void inverted_cmyk_to_rgb(const std::uint8_t* inks, int width, std::uint8_t* rgb) {
  for (int x = 0; x < width; ++x, inks += 4, rgb += 3) {
    const int light = inks[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - inks[c]) * light + 128;
      rgb[c] = static_cast<std::uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

}  // namespace

Result<StoredHeader> read_jpeg_header(ImageBytes bytes) {
  JpegReader reader(bytes);
  if (!reader.run(JpegReader::open)) return reader.failure();
  return StoredHeader{reader.info().image_width, reader.info().image_height,
                      orientation_in(reader.info())};
}

Result<Pixels> read_jpeg(ImageBytes bytes, const Cancelled& cancelled) {
  JpegReader reader(bytes, cancelled);
  if (!reader.run(JpegReader::open)) return reader.failure();
  if (!reader.run(JpegReader::start)) return reader.failure();
  const int width = static_cast<int>(reader.info().output_width);
  const int height = static_cast<int>(reader.info().output_height);
  TRY(Pixels pixels, filled_pixels(width, height, 0, cancelled));
  const bool cmyk = reader.info().num_components == 4;
  std::vector<std::uint8_t> inks(cmyk ? static_cast<std::size_t>(width) * 4 : 0);
  for (int y = 0; y < height; ++y) {
    std::uint8_t* row = pixels.rgb.data() + static_cast<std::size_t>(y) * width * 3;
    reader.set_row(cmyk ? inks.data() : row);
    if (!reader.run(JpegReader::read_row)) return reader.failure();
    if (cmyk) inverted_cmyk_to_rgb(inks.data(), width, row);
  }
  return pixels;
}

}  // namespace saccade
