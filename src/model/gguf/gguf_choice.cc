#include "model/gguf/gguf_choice.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <ranges>
#include <utility>

#include "base/text/ascii.h"
#include "model/gguf/gguf_paths.h"

namespace saccade {
namespace {

// What repositories hold in any case, and what llama.cpp takes where nothing is said.
constexpr std::string_view kUsual = "Q4_K_M";
// By what is lost: published towers are in bfloat16, and F32 is that in twice the bytes.
constexpr std::array<std::string_view, 3> kProjectorTypes = {"bf16", "f16", "f32"};

std::string_view folder_of(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : file.substr(0, slash);
}

std::string_view base_of(std::string_view file) { return file.substr(file.rfind('/') + 1); }

// In lower case, without .gguf and the number of a part.
std::string stem_of(std::string_view file) {
  std::string stem = ascii::lower(file);
  if (gguf_parts(stem) > 1) return stem.substr(0, stem.size() - kGgufPartEnding.size());
  if (stem.ends_with(kGgufEnding)) stem.resize(stem.size() - kGgufEnding.size());
  return stem;
}

bool is_one_of(std::string_view characters, char c) {
  return characters.find(c) != std::string_view::npos;
}

// `part` stands in `text` between two that end a word: Q4_K is no part of Q4_K_M.
bool has_part(std::string_view text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    const bool begins = at == 0 || is_one_of("-._/", text[at - 1]);
    const bool ends = end == text.size() || is_one_of("-./", text[end]);
    if (begins && ends) return true;
  }
  return false;
}

// Those of `files` that fit: by their whole names where one does.
std::vector<std::string> fitting(const std::vector<std::string>& files, std::string_view pattern) {
  const std::string wanted = stem_of(pattern);
  std::vector<std::string> whole;
  std::vector<std::string> part;
  for (const std::string& file : files) {
    const std::string stem = stem_of(file);
    const std::string base(base_of(stem));
    const bool is_form = ::fnmatch(wanted.c_str(), base.c_str(), 0) == 0 ||
                         ::fnmatch(wanted.c_str(), stem.c_str(), 0) == 0;
    if (stem == wanted || base == wanted) {
      whole.push_back(file);
    } else if (is_form || has_part(stem, wanted)) {
      part.push_back(file);
    }
  }
  return whole.empty() ? part : whole;
}

Result<std::string> only_fitting(const std::vector<std::string>& files, std::string_view pattern,
                                 std::string_view what) {
  std::vector<std::string> found = fitting(files, pattern);
  if (found.size() == 1) return std::move(found.front());
  if (found.empty())
    return fail(ErrorCode::kNotFound, "no {} in GGUF fits \"{}\"; there {}", what, pattern,
                files.empty() ? "is none" : fmt::format("are {}", fmt::join(files, ", ")));
  return fail(ErrorCode::kInvalid, "\"{}\" fits {} {}s in GGUF; name one of {}", pattern,
              found.size(), what, fmt::join(found, ", "));
}

Result<std::string> choose_model(const std::vector<std::string>& models,
                                 const std::string& pattern) {
  if (!pattern.empty()) return only_fitting(models, pattern, "model");
  if (models.size() == 1) return models.front();
  if (models.empty()) return fail(ErrorCode::kNotFound, "there is no model in GGUF");
  std::vector<std::string> usual = fitting(models, kUsual);
  if (usual.size() == 1) return std::move(usual.front());
  return fail(ErrorCode::kInvalid, "there are {} models in GGUF and not one {}; name one of {}",
              models.size(), kUsual, fmt::join(models, ", "));
}

// The first part of a model and those after it.
Result<std::vector<std::string>> all_parts_of(const std::string& first,
                                              const std::vector<std::string>& files) {
  const std::int64_t count = gguf_parts(first);
  if (count == 1) return std::vector<std::string>{first};
  TRY(std::vector<std::string> parts, gguf_shards(first, count));
  for (const std::string& part : parts) {
    if (std::ranges::find(files, part) == files.end())
      return fail(ErrorCode::kNotFound, "{} is the first of {} files, and {} is missing", first,
                  count, part);
  }
  return parts;
}

std::size_t loss_of(const std::string& projector) {
  const std::string stem = stem_of(projector);
  for (std::size_t i = 0; i < kProjectorTypes.size(); ++i) {
    if (has_part(stem, kProjectorTypes[i])) return i;
  }
  // A name that says nothing is a converter's, which quantises only when told to.
  const bool quantised = stem.find("q4") != std::string::npos ||
                         stem.find("q5") != std::string::npos ||
                         stem.find("q6") != std::string::npos;
  const bool bytes = stem.find("q8") != std::string::npos;
  return kProjectorTypes.size() + (quantised ? 2 : bytes ? 1 : 0);
}

Result<std::string> choose_projector(std::vector<std::string> projectors, const std::string& model,
                                     const std::string& pattern) {
  if (!pattern.empty()) return only_fitting(projectors, pattern, "projector");
  const auto beside = [&](const std::string& projector) {
    return folder_of(projector) == folder_of(model);
  };
  if (std::ranges::any_of(projectors, beside)) std::erase_if(projectors, std::not_fn(beside));
  if (projectors.empty()) return std::string();
  const std::size_t least = std::ranges::min(projectors | std::views::transform(loss_of));
  std::erase_if(projectors,
                [&](const std::string& projector) { return loss_of(projector) > least; });
  if (projectors.size() == 1) return std::move(projectors.front());
  return fail(ErrorCode::kInvalid, "there are {} projectors in GGUF; name one of {} as --mmproj",
              projectors.size(), fmt::join(projectors, ", "));
}

}  // namespace

Result<GgufChoice> choose_gguf(const std::vector<std::string>& files, const GgufWanted& wanted) {
  std::vector<std::string> models;
  std::vector<std::string> projectors;
  for (const std::string& file : files) {
    if (!file.ends_with(kGgufEnding) || is_later_gguf_part(file)) continue;
    (names_gguf_projector(base_of(file)) ? projectors : models).push_back(file);
  }
  std::ranges::sort(models);
  std::ranges::sort(projectors);
  TRY(const std::string first, choose_model(models, wanted.model));
  GgufChoice choice;
  TRY(choice.model, all_parts_of(first, files));
  if (wanted.text_alone) return choice;
  TRY(choice.projector, choose_projector(projectors, first, wanted.projector));
  if (!wanted.projector.empty()) return choice;
  std::erase(projectors, choice.projector);
  choice.other_projectors = std::move(projectors);
  return choice;
}

std::string gguf_place(const std::string& folder, const GgufChoice& choice) {
  GgufPaths paths{folder + "/" + choice.model.front(), ""};
  if (!choice.projector.empty()) paths.projector = folder + "/" + choice.projector;
  return gguf_place(paths);
}

std::string line_of(const GgufChoice& choice) {
  std::string line = choice.model.front();
  if (choice.model.size() > 1) line += fmt::format(" and the {} after it", choice.model.size() - 1);
  if (choice.projector.empty()) return line + ", text alone";
  line += ", with " + choice.projector;
  if (!choice.other_projectors.empty())
    line += fmt::format(" (not {}: BF16 goes before F16, F32 and others)",
                        fmt::join(choice.other_projectors, ", "));
  return line;
}

}  // namespace saccade
