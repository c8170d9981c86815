#include "tests/support/golden_files/archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/check.h"
#include "tests/support/golden_files/normal_stream.h"

namespace saccade::test {
namespace {

constexpr std::string_view kMagic = "saccade goldens 1\n";
constexpr uint64_t kLargest = uint64_t{1} << 30;

template <typename Value>
void put(std::string& out, Value value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Reads what put() wrote; past the end it gives zeros and says so.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename Value>
  Value get() {
    Value value{};
    const std::string_view part = take(sizeof value);
    if (!part.empty()) std::memcpy(&value, part.data(), sizeof value);
    return value;
  }
  std::string_view take(size_t count) {
    if (count > bytes_.size()) {
      ended_ = true;
      return {};
    }
    const std::string_view part = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return part;
  }
  bool ended() const { return ended_; }

 private:
  std::string_view bytes_;
  bool ended_ = false;
};

uint32_t sum_of(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

std::string deflated(const std::string& plain) {
  std::string packed(compressBound(plain.size()), '\0');
  auto size = static_cast<uLongf>(packed.size());
  CHECK(compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                  reinterpret_cast<const Bytef*>(plain.data()), plain.size(), 9) == Z_OK,
        "zlib cannot pack");
  packed.resize(size);
  return packed;
}

// The streams made once for all sections of an archive.
using Streams = std::map<uint32_t, NormalStream>;

Streams streams_for(const std::vector<GoldenFile>& files) {
  std::map<uint32_t, size_t> draws;
  for (const GoldenFile& file : files) {
    for (const Section& section : file.sections) {
      if (section.kind != Section::Kind::made) continue;
      const Recipe& recipe = section.recipe;
      size_t& most = draws[recipe.seed];
      most = std::max(most, NormalStream::reach(recipe.draw, recipe.phase, recipe.tail != 0,
                                                section.size / section.width));
    }
  }
  Streams streams;
  for (const auto& [seed, count] : draws) streams.emplace(seed, NormalStream(seed, count));
  return streams;
}

uint32_t guessed(const Streams& streams, const Section& section, size_t index) {
  const Recipe& recipe = section.recipe;
  const float normal =
      streams.at(recipe.seed)
          .at(recipe.draw, recipe.phase, recipe.tail != 0, index, section.size / section.width);
  const float scaled = normal * recipe.scale;
  return bits_of(section.element, scaled + recipe.mean);
}

// Sections whose bytes look alike stand together: first those made, by width, one place in the
// element after the other.
struct Plane {
  const Section* section;
  char* bytes;
  unsigned place;
};

std::vector<Plane> planes_of(std::vector<GoldenFile>& files) {
  std::vector<Plane> planes;
  for (GoldenFile& file : files) {
    char* at = file.bytes.data();
    for (const Section& section : file.sections) {
      for (unsigned place = 0; section.kind != Section::Kind::repeated && place < section.width;
           ++place) {
        planes.push_back({&section, at, place});
      }
      at += section.size;
    }
  }
  std::stable_sort(planes.begin(), planes.end(), [](const Plane& a, const Plane& b) {
    const auto key = [](const Plane& plane) {
      return std::tuple(plane.section->kind, plane.section->width, plane.section->element,
                        plane.place);
    };
    return key(a) < key(b);
  });
  return planes;
}

// Replaces numbers that are made by how they differ from the guess, or the reverse.
template <typename Function>
void change_made(std::vector<GoldenFile>& files, Function function) {
  const Streams streams = streams_for(files);
  for (GoldenFile& file : files) {
    char* at = file.bytes.data();
    for (const Section& section : file.sections) {
      for (size_t index = 0;
           section.kind == Section::Kind::made && index < section.size / section.width; ++index) {
        uint32_t bits = 0;
        std::memcpy(&bits, at + index * section.width, section.width);
        bits = function(bits, guessed(streams, section, index), section.width);
        std::memcpy(at + index * section.width, &bits, section.width);
      }
      at += section.size;
    }
  }
}

void put_section(std::string& out, const Section& section) {
  put(out, section.kind);
  put(out, section.element);
  put(out, section.width);
  put(out, section.size);
  if (section.kind == Section::Kind::repeated) put(out, section.earlier);
  if (section.kind != Section::Kind::made) return;
  put(out, section.recipe.seed);
  put(out, section.recipe.draw);
  put(out, section.recipe.phase);
  put(out, section.recipe.tail);
  put(out, section.recipe.scale);
  put(out, section.recipe.mean);
}

Section get_section(Reader& in) {
  Section section;
  section.kind = in.get<Section::Kind>();
  section.element = in.get<Element>();
  section.width = in.get<uint8_t>();
  section.size = in.get<uint64_t>();
  if (section.kind == Section::Kind::repeated) section.earlier = in.get<uint32_t>();
  if (section.kind != Section::Kind::made) return section;
  section.recipe.seed = in.get<uint32_t>();
  section.recipe.draw = in.get<uint64_t>();
  section.recipe.phase = in.get<uint8_t>();
  section.recipe.tail = in.get<uint8_t>();
  section.recipe.scale = in.get<float>();
  section.recipe.mean = in.get<float>();
  return section;
}

bool sensible(const Section& section) {
  if (section.kind > Section::Kind::repeated || section.element > Element::f16) return false;
  if (section.size > kLargest || section.width < 1 || section.width > 8 ||
      section.size % section.width != 0)
    return false;
  if (section.kind != Section::Kind::made) return true;
  return section.width == width_of(section.element) && section.recipe.draw <= kLargest &&
         section.recipe.phase < 16 && section.size / section.width >= 16;
}

Result<std::vector<GoldenFile>> read_contents(Reader& in) {
  const auto count = in.get<uint32_t>();
  std::vector<GoldenFile> files;
  while (files.size() < count && !in.ended()) {
    GoldenFile file;
    file.path = in.take(in.get<uint16_t>());
    file.crc = in.get<uint32_t>();
    for (auto left = in.get<uint32_t>(); left > 0 && !in.ended(); --left) {
      file.sections.push_back(get_section(in));
      if (!sensible(file.sections.back()))
        return fail(ErrorCode::kCorrupt, "{}: section {} is not one", file.path,
                    file.sections.size());
    }
    files.push_back(std::move(file));
  }
  if (in.ended()) return fail(ErrorCode::kCorrupt, "the archive's list of files ends early");
  return files;
}

Result<std::string> inflated(std::string_view archive) {
  Reader in(archive);
  if (in.take(kMagic.size()) != kMagic)
    return fail(ErrorCode::kCorrupt, "not an archive of golden files");
  const auto size = in.get<uint64_t>();
  if (in.ended() || size > kLargest)
    return fail(ErrorCode::kCorrupt, "the archive says it holds {} bytes, limit {}", size,
                kLargest);
  const std::string_view packed = archive.substr(kMagic.size() + sizeof size);
  std::string plain(size, '\0');
  auto filled = static_cast<uLongf>(size);
  const int status = uncompress(reinterpret_cast<Bytef*>(plain.data()), &filled,
                                reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (status != Z_OK || filled != size)
    return fail(ErrorCode::kCorrupt, "the archive is damaged: zlib says {}", status);
  return plain;
}

Result<void> fill_repeated(std::vector<GoldenFile>& files) {
  std::vector<std::string_view> sections;
  for (GoldenFile& file : files) {
    size_t at = 0;
    for (const Section& section : file.sections) {
      if (section.kind == Section::Kind::repeated) {
        if (section.earlier >= sections.size() ||
            sections[section.earlier].size() != section.size) {
          return fail(ErrorCode::kCorrupt, "{} repeats a section that is not there", file.path);
        }
        std::memcpy(file.bytes.data() + at, sections[section.earlier].data(), section.size);
      }
      sections.push_back(std::string_view(file.bytes).substr(at, section.size));
      at += section.size;
    }
  }
  return {};
}

}  // namespace

std::string pack(const std::vector<GoldenFile>& given) {
  std::string plain;
  put(plain, static_cast<uint32_t>(given.size()));
  for (const GoldenFile& file : given) {
    put(plain, static_cast<uint16_t>(file.path.size()));
    plain += file.path;
    put(plain, sum_of(file.bytes));
    put(plain, static_cast<uint32_t>(file.sections.size()));
    for (const Section& section : file.sections) put_section(plain, section);
  }
  std::vector<GoldenFile> files = given;
  change_made(files, difference);
  for (const Plane& plane : planes_of(files)) {
    for (size_t at = plane.place; at < plane.section->size; at += plane.section->width)
      plain += plane.bytes[at];
  }
  std::string out(kMagic);
  put(out, static_cast<uint64_t>(plain.size()));
  return out + deflated(plain);
}

Result<std::vector<GoldenFile>> contents(std::string_view archive) {
  TRY(const std::string plain, inflated(archive));
  Reader in(plain);
  return read_contents(in);
}

Result<std::vector<GoldenFile>> unpack(std::string_view archive) {
  TRY(const std::string plain, inflated(archive));
  Reader in(plain);
  TRY(std::vector<GoldenFile> files, read_contents(in));
  for (GoldenFile& file : files) {
    size_t size = 0;
    for (const Section& section : file.sections) size += section.size;
    if (size > kLargest)
      return fail(ErrorCode::kCorrupt, "{} would have {} bytes, limit {}", file.path, size,
                  kLargest);
    file.bytes.resize(size);
  }
  for (const Plane& plane : planes_of(files)) {
    const std::string_view bytes = in.take(plane.section->size / plane.section->width);
    if (in.ended()) return fail(ErrorCode::kCorrupt, "the archive ends early");
    for (size_t i = 0; i < bytes.size(); ++i)
      plane.bytes[i * plane.section->width + plane.place] = bytes[i];
  }
  change_made(files, [](uint32_t bits, uint32_t guess, unsigned width) {
    return corrected(guess, bits, width);
  });
  TRY_DO(fill_repeated(files));
  for (const GoldenFile& file : files) {
    if (sum_of(file.bytes) != file.crc)
      return fail(ErrorCode::kCorrupt, "{} does not come out as it was packed", file.path);
  }
  return files;
}

}  // namespace saccade::test
