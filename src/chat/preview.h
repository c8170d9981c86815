// Pictures in a terminal, for those that can show them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "image/pixels.h"

namespace saccade::chat {

enum class PreviewKind { kNone, kSixel, kKitty };

// What a terminal is asked: whether it knows kitty's graphics, then its attributes, which every
// terminal answers, so that nobody waits for what does not come.
std::string preview_question();
// `answers` ends with the attributes ("ESC [ ? ... c"): there is nothing more to wait for.
bool is_complete(std::string_view answers);
// Kitty's graphics where the terminal said OK, sixel where 4 is among its attributes.
PreviewKind preview_kind(std::string_view answers);

// The picture in the terminal's own words, its longer side at most `side` pixels. Empty for kNone.
std::string preview(PreviewKind kind, const Pixels& pixels, int side);

}  // namespace saccade::chat
