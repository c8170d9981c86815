#include "benchmarks/gpu/figures.h"

#include <cerrno>
#include <cstring>

#include "base/json.h"

namespace saccade {

Result<Figures> Figures::append_to(const std::string& path) {
  Figures figures;
  if (path.empty()) return figures;
  figures.file_.reset(std::fopen(path.c_str(), "a"));
  if (figures.file_ == nullptr)
    return fail(ErrorCode::kInvalid, "{} cannot be written: {}", path, std::strerror(errno));
  return figures;
}

void Figures::add(std::string_view part, std::string_view name, Numbers numbers,
                  std::string_view note) {
  std::string line;
  json::JsonWriter w(line);
  w.begin_object();
  w.member("part", part);
  w.member("name", name);
  for (const auto& [key, number] : numbers) w.member(key, number);
  if (!note.empty()) w.member("note", note);
  w.end_object();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  if (file_ == nullptr) return;
  std::fprintf(file_.get(), "%s\n", line.c_str());
  std::fflush(file_.get());
}

}  // namespace saccade
