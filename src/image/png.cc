// PNG through libpng. The header and the orientation come from our own walk over the chunks, so
// that a hostile size costs nothing.
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "image/formats.h"

namespace saccade {
namespace {

constexpr std::size_t kSignatureBytes = 8;

std::uint32_t big_endian(ImageBytes bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<unsigned>(bytes[at + i]);
  return value;
}

// The XMP packet of an uncompressed iTXt chunk; empty for any other text.
std::string_view xmp_of(std::string_view text) {
  constexpr std::string_view kKeyword("XML:com.adobe.xmp\0\0", 19);  // with "not compressed"
  if (!text.starts_with(kKeyword)) return {};
  text.remove_prefix(std::min(text.size(), kKeyword.size() + 1));
  for (int field = 0; field < 2; ++field) {  // language, translated keyword
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text;
}

Orientation orientation_in(ImageBytes bytes) {
  std::optional<std::int64_t> exif, xmp;
  for (std::size_t at = kSignatureBytes; at <= bytes.size() && bytes.size() - at >= 12;) {
    const std::size_t length = big_endian(bytes, at);
    if (length > bytes.size() - at - 12) break;
    const std::string_view name(reinterpret_cast<const char*>(bytes.data() + at + 4), 4);
    const ImageBytes data = bytes.subspan(at + 8, length);
    if (name == "IEND") break;
    if (name == "eXIf") exif = exif_orientation(data);
    if (name == "iTXt") {
      const auto found = xmp_orientation(
          xmp_of(std::string_view(reinterpret_cast<const char*>(data.data()), data.size())));
      if (found) xmp = found;
    }
    at += 12 + length;
  }
  return orientation_of(exif, xmp);
}

struct Colour {
  std::uint8_t rgb[3] = {0, 0, 0};  // an index past the palette is black, as in Pillow
};

// libpng reports errors by longjmp; run() is the only place they land, and the functions it runs
// hold nothing with a destructor.
class PngReader {
 public:
  explicit PngReader(ImageBytes bytes) : rest_(bytes) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool create(std::uint32_t width, std::uint32_t height) {
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp reason) {
          auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
          std::snprintf(self.reason_, sizeof(self.reason_), "%s", reason);
          png_longjmp(png, 1);
        },
        [](png_structp, png_const_charp) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    png_set_user_limits(png_, width, height);
    return true;
  }

  bool run(void (*step)(PngReader&)) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    step(*this);
    return true;
  }
  std::string_view reason() const { return reason_; }

  // Settles on 8 bits a sample (but for 16-bit gray), packed pixels unpacked.
  static void start(PngReader& self) {
    png_set_read_fn(self.png_, &self, [](png_structp png, png_bytep out, std::size_t count) {
      auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
      if (reader.has_all_rows()) {
        if (count > reader.max_behind_rows_) {
          reader.ended_ = true;
          png_longjmp(png, 1);
        }
        reader.max_behind_rows_ -= count;
      }
      if (count > reader.rest_.size()) png_error(png, "the data is truncated");
      std::memcpy(out, reader.rest_.data(), count);
      reader.rest_ = reader.rest_.subspan(count);
    });
    // Text, profiles and the like are skipped unread; tRNS is not among them.
    png_set_keep_unknown_chunks(self.png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(self.png_, self.info_);
    const int depth = png_get_bit_depth(self.png_, self.info_);
    const int colour = png_get_color_type(self.png_, self.info_);
    if (colour == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(self.png_);
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_packing(self.png_);
    if (depth == 16 && colour != PNG_COLOR_TYPE_GRAY) png_set_strip_16(self.png_);
    self.passes_ = png_set_interlace_handling(self.png_);
    png_read_update_info(self.png_, self.info_);
    self.info_read_ = true;
  }

  static void read_row(PngReader& self) { png_read_row(self.png_, self.row_, nullptr); }
  // The row was read, as run() says, or what comes behind the last one was left.
  bool row_is_read() { return run(read_row) || ended_; }
  void set_row(std::uint8_t* row) { row_ = row; }

  int passes() const { return passes_; }
  std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  int width() const { return static_cast<int>(png_get_image_width(png_, info_)); }
  int height() const { return static_cast<int>(png_get_image_height(png_, info_)); }
  int colour_type() const { return png_get_color_type(png_, info_); }
  bool sixteen_bits() const { return png_get_bit_depth(png_, info_) == 16; }

  // The palette, composited on white where it has alpha.
  std::array<Colour, 256> palette() const {
    std::array<Colour, 256> table{};
    if (colour_type() != PNG_COLOR_TYPE_PALETTE) return table;
    png_colorp colours = nullptr;
    int count = 0;
    png_get_PLTE(png_, info_, &colours, &count);
    png_bytep alphas = nullptr;
    int alpha_count = 0;
    png_get_tRNS(png_, info_, &alphas, &alpha_count, nullptr);
    for (int i = 0; i < 256; ++i) {
      std::uint8_t rgba[4] = {0, 0, 0, 255};
      if (i < count) {
        rgba[0] = colours[i].red;
        rgba[1] = colours[i].green;
        rgba[2] = colours[i].blue;
      }
      if (i < alpha_count) rgba[3] = alphas[i];
      put_over_white(rgba, table[static_cast<std::size_t>(i)].rgb);
    }
    return table;
  }

 private:
  // Behind the last row libpng inflates what is left of the data, a thousand bytes for each of the
  // file, and throws it away. The end of the data needs no more than this.
  static constexpr std::size_t kMaxBehindRows = std::size_t{8} << 10;

  // Also while libpng asks for more to finish what it calls a row.
  bool has_all_rows() const {
    constexpr int kInterlacedPasses = 7;
    return passes_ > 1 ? png_get_current_pass_number(png_) >= kInterlacedPasses
                       : info_read_ &&
                             png_get_current_row_number(png_) >= png_get_image_height(png_, info_);
  }

  ImageBytes rest_;
  bool info_read_ = false;
  bool ended_ = false;
  std::size_t max_behind_rows_ = kMaxBehindRows;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::uint8_t* row_ = nullptr;
  int passes_ = 1;
  char reason_[160] = "out of memory";
};

// A big-endian 16-bit gray as PIL's convert("RGB") shows it: not scaled, cut off at 255.
std::uint8_t saturated(const std::uint8_t* sample) { return sample[0] != 0 ? 255 : sample[1]; }

// One row as libpng left it to RGB.
class RowConverter {
 public:
  explicit RowConverter(const PngReader& reader)
      : width_(reader.width()),
        colour_type_(reader.colour_type()),
        sixteen_bits_(reader.sixteen_bits()),
        palette_(reader.palette()) {}

  void convert(const std::uint8_t* row, std::uint8_t* rgb) const {
    switch (colour_type_) {
      case PNG_COLOR_TYPE_GRAY:
        for (int x = 0; x < width_; ++x, row += sixteen_bits_ ? 2 : 1, rgb += 3)
          std::memset(rgb, sixteen_bits_ ? saturated(row) : *row, 3);
        return;
      case PNG_COLOR_TYPE_GRAY_ALPHA:
        for (int x = 0; x < width_; ++x, row += 2, rgb += 3)
          std::memset(rgb, over_white(row[0], row[1]), 3);
        return;
      case PNG_COLOR_TYPE_PALETTE:
        for (int x = 0; x < width_; ++x, rgb += 3) std::memcpy(rgb, palette_[row[x]].rgb, 3);
        return;
      case PNG_COLOR_TYPE_RGB:
        std::memcpy(rgb, row, static_cast<std::size_t>(width_) * 3);
        return;
      default:  // RGB with alpha
        for (int x = 0; x < width_; ++x, row += 4, rgb += 3) put_over_white(row, rgb);
    }
  }

 private:
  int width_;
  int colour_type_;
  bool sixteen_bits_;
  std::array<Colour, 256> palette_;
};

tl::unexpected<Error> undecodable(const PngReader& reader) {
  return fail(ErrorCode::kUndecodable, "PNG: {}", reader.reason());
}

}  // namespace

Result<StoredHeader> read_png_header(ImageBytes bytes) {
  constexpr std::size_t kHeaderBytes = kSignatureBytes + 8 + 13;
  if (bytes.size() < kHeaderBytes || big_endian(bytes, kSignatureBytes) != 13 ||
      std::memcmp(bytes.data() + kSignatureBytes + 4, "IHDR", 4) != 0) {
    return fail(ErrorCode::kUndecodable, "PNG: no image header in {} bytes", bytes.size());
  }
  return StoredHeader{big_endian(bytes, kSignatureBytes + 8),
                      big_endian(bytes, kSignatureBytes + 12), orientation_in(bytes)};
}

Result<Pixels> read_png(ImageBytes bytes, const Cancelled& cancelled) {
  TRY(const StoredHeader header, read_png_header(bytes));
  PngReader reader(bytes);
  if (!reader.create(static_cast<std::uint32_t>(header.width),
                     static_cast<std::uint32_t>(header.height))) {
    return undecodable(reader);
  }
  if (!reader.run(PngReader::start)) return undecodable(reader);

  // Interlaced files need every row between passes; others only one at a time.
  const int height = reader.height();
  const std::size_t row_bytes = reader.row_bytes();
  const bool interlaced = reader.passes() > 1;
  TRY(std::vector<std::uint8_t> rows,
      filled(row_bytes * static_cast<std::size_t>(interlaced ? height : 1), 0, cancelled));
  TRY(Pixels pixels, filled_pixels(reader.width(), height, 0, cancelled));
  const RowConverter converter(reader);
  for (int pass = 0; pass < reader.passes(); ++pass) {
    for (int y = 0; y < height; ++y) {
      TRY_DO(check_cancelled(cancelled));
      std::uint8_t* row = rows.data() + (interlaced ? row_bytes * static_cast<std::size_t>(y) : 0);
      reader.set_row(row);
      if (!reader.row_is_read()) return undecodable(reader);
      if (pass + 1 == reader.passes())
        converter.convert(row, pixels.rgb.data() + static_cast<std::size_t>(y) * pixels.width * 3);
    }
  }
  return pixels;
}

}  // namespace saccade
