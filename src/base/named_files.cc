#include "base/named_files.h"

#include <filesystem>

#include "base/regular_file.h"

namespace saccade {

bool NamedFiles::has(std::string_view name) const {
  if (texts_ != nullptr) return texts_->contains(name);
  std::error_code code;
  return !place_.empty() && std::filesystem::exists(path(name), code);
}

Result<std::string> NamedFiles::read(std::string_view name, std::size_t most) const {
  if (texts_ == nullptr) return read_regular_file(path(name), most);
  const auto found = texts_->find(name);
  if (found == texts_->end()) return fail(ErrorCode::kNotFound, "{}: there is none", path(name));
  if (found->second.size() > most)
    return fail(ErrorCode::kTooLarge, "{} has {} bytes, limit {}", path(name), found->second.size(),
                most);
  return found->second;
}

Result<json::value> NamedFiles::parse(std::string_view name) const {
  if (texts_ == nullptr) return json::parse_file(path(name));
  const auto found = texts_->find(name);
  if (found == texts_->end()) return fail(ErrorCode::kNotFound, "{}: there is none", path(name));
  auto parsed = json::parse(found->second);
  if (!parsed) return fail_within(path(name), std::move(parsed).error());
  return parsed;
}

}  // namespace saccade
