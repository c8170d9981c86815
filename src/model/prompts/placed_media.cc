#include "model/prompts/placed_media.h"

#include <array>
#include <cstddef>

namespace saccade {
namespace {

struct Medium {
  const ImageLayout* layout;
  int input;
};

// The images, or the videos.
struct MediumKind {
  std::string_view name;
  std::string_view literal;
  const WriteMedium& write;
  std::vector<Medium> media = {};
  std::size_t found = 0;
  std::size_t at = 0;  // where the next literal is
};

}  // namespace

Result<PlacedMedia> place_media(std::string_view rendered, std::span<const ImageLayout> media,
                                const MediaForms& forms) {
  std::array<MediumKind, 2> kinds = {MediumKind{"image", forms.image, forms.write_image},
                                     MediumKind{"video", forms.video, forms.write_video}};
  int input = 0;
  for (const ImageLayout& layout : media) {
    const bool video = layout.frames > 0;
    kinds[video ? 1 : 0].media.push_back({&layout, input});
    input += video ? static_cast<int>(layout.grid_t) : 1;
  }
  for (MediumKind& kind : kinds) kind.at = rendered.find(kind.literal);

  PlacedMedia placed;
  std::size_t begin = 0;
  for (;;) {
    MediumKind& next = kinds[0].at <= kinds[1].at ? kinds[0] : kinds[1];
    placed.text += rendered.substr(begin, next.at - begin);
    if (next.at == std::string_view::npos) break;
    if (next.found < next.media.size()) {
      const Medium& medium = next.media[next.found];
      next.write(*medium.layout, medium.input, placed);
    }
    ++next.found;
    begin = next.at + next.literal.size();
    next.at = rendered.find(next.literal, begin);
  }
  for (const MediumKind& kind : kinds) {
    if (kind.found != kind.media.size())
      return fail(ErrorCode::kInvalid, "the prompt has {} {} placeholders for {} {}s", kind.found,
                  kind.name, kind.media.size(), kind.name);
  }
  return placed;
}

}  // namespace saccade
