// GIF through giflib: the first frame on its canvas, as Pillow shows it.
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "image/formats.h"

namespace saccade {
namespace {

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using Gif = std::unique_ptr<GifFileType, CloseGif>;

// A file opened and read up to the first frame's pixels.
struct FirstFrame {
  std::unique_ptr<ImageBytes> rest;  // what giflib has not read yet
  Gif gif;
  std::optional<int> transparent;
  // The screen, grown where the frame reaches past it.
  int width = 0;
  int height = 0;
};

tl::unexpected<Error> undecodable(int giflib_error) {
  const char* reason = GifErrorString(giflib_error);
  return fail(ErrorCode::kUndecodable, "GIF: {}", reason != nullptr ? reason : "damaged");
}

Result<FirstFrame> open_first_frame(ImageBytes bytes) {
  FirstFrame frame;
  frame.rest = std::make_unique<ImageBytes>(bytes);
  int error = 0;
  frame.gif.reset(DGifOpen(
      frame.rest.get(),
      [](GifFileType* gif, GifByteType* out, int count) {
        auto& rest = *static_cast<ImageBytes*>(gif->UserData);
        const std::size_t taken = std::min(rest.size(), static_cast<std::size_t>(count));
        if (taken > 0) std::memcpy(out, rest.data(), taken);
        rest = rest.subspan(taken);
        return static_cast<int>(taken);
      },
      &error));
  if (frame.gif == nullptr) return undecodable(error);

  GifFileType* gif = frame.gif.get();
  while (true) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &record) == GIF_ERROR) return undecodable(gif->Error);
    if (record == TERMINATE_RECORD_TYPE) return undecodable(D_GIF_ERR_NO_IMAG_DSCR);
    if (record == IMAGE_DESC_RECORD_TYPE) break;
    if (record != EXTENSION_RECORD_TYPE) continue;
    int code = 0;
    GifByteType* block = nullptr;  // length, then the bytes
    if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return undecodable(gif->Error);
    if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr && block[0] >= 4 && (block[1] & 1) != 0)
      frame.transparent = block[4];
    while (block != nullptr) {
      if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return undecodable(gif->Error);
    }
  }
  if (DGifGetImageDesc(gif) == GIF_ERROR) return undecodable(gif->Error);
  frame.width = std::max(gif->SWidth, gif->Image.Left + gif->Image.Width);
  frame.height = std::max(gif->SHeight, gif->Image.Top + gif->Image.Height);
  return frame;
}

// Pillow takes a table that is the ramp 0, 1, 2, ... for gray, which has no transparency. (Where
// only the frame's own table is a ramp it shows the global table's colours; not copied.)
bool is_ramp(const ColorMapObject& map) {
  for (int i = 0; i < map.ColorCount; ++i) {
    const GifColorType& colour = map.Colors[i];
    if (colour.Red != i || colour.Green != i || colour.Blue != i) return false;
  }
  return true;
}

struct Colour {
  std::uint8_t rgb[3] = {0, 0, 0};  // an index past the table is black, as in Pillow
};

std::array<Colour, 256> colours_of(const FirstFrame& frame) {
  const ColorMapObject* map =
      frame.gif->Image.ColorMap != nullptr ? frame.gif->Image.ColorMap : frame.gif->SColorMap;
  std::array<Colour, 256> table{};
  if (map == nullptr || is_ramp(*map)) {
    for (std::size_t i = 0; i < table.size(); ++i)
      std::memset(table[i].rgb, static_cast<int>(i), sizeof(table[i].rgb));
    return table;
  }
  for (int i = 0; i < std::min(map->ColorCount, 256); ++i) {
    const GifColorType& colour = map->Colors[i];
    table[static_cast<std::size_t>(i)] = {{colour.Red, colour.Green, colour.Blue}};
  }
  if (frame.transparent)
    table[static_cast<std::size_t>(*frame.transparent)] = {{255, 255, 255}};  // white shows through
  return table;
}

}  // namespace

Result<StoredHeader> read_gif_header(ImageBytes bytes) {
  TRY(const FirstFrame frame, open_first_frame(bytes));
  return StoredHeader{frame.width, frame.height, Orientation::kTopLeft};
}

Result<Pixels> read_gif(ImageBytes bytes, const Cancelled& cancelled) {
  TRY(const FirstFrame frame, open_first_frame(bytes));
  const GifImageDesc& place = frame.gif->Image;
  const std::array<Colour, 256> table = colours_of(frame);
  // Around the frame lies the transparent index if there is one, else index 0.
  const Colour& around = table[static_cast<std::size_t>(frame.transparent.value_or(0))];
  std::vector<std::uint8_t> row;
  for (int x = 0; x < frame.width; ++x)
    row.insert(row.end(), std::begin(around.rgb), std::end(around.rgb));
  Pixels canvas{frame.width, frame.height, {}};
  canvas.rgb.reserve(row.size() * static_cast<std::size_t>(frame.height));
  for (int y = 0; y < frame.height; ++y) {
    TRY_DO(check_cancelled(cancelled));
    canvas.rgb.insert(canvas.rgb.end(), row.begin(), row.end());
  }

  struct Pass {
    int first, step;
  };
  constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  constexpr Pass kPlain[] = {{0, 1}};
  const std::span<const Pass> passes =
      place.Interlace ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kPlain);
  std::vector<GifPixelType> line(static_cast<std::size_t>(place.Width));
  for (const Pass& pass : passes) {
    for (int y = pass.first; y < place.Height && place.Width > 0; y += pass.step) {
      TRY_DO(check_cancelled(cancelled));
      if (DGifGetLine(frame.gif.get(), line.data(), place.Width) == GIF_ERROR)
        return undecodable(frame.gif->Error);
      std::uint8_t* to = canvas.rgb.data() +
                         (static_cast<std::size_t>(place.Top + y) * canvas.width + place.Left) * 3;
      for (const GifPixelType index : line) {
        std::memcpy(to, table[index].rgb, 3);
        to += 3;
      }
    }
  }
  return canvas;
}

}  // namespace saccade
