// What a part of gpu_bench measured: an object a line of a JSON Lines file, written at once, so
// that a part that is stopped keeps what it had. The same on the standard output for people.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace saccade {

class Figures {
 public:
  using Numbers = std::initializer_list<std::pair<std::string_view, double>>;

  // Adds to what is there. kInvalid when the file cannot be written; "": printed only.
  static Result<Figures> append_to(const std::string& path);

  // The part's name, the row's, and numbers by name: "seconds", "bytes" and "flops" of one call;
  // others as the row's reader knows them.
  void add(std::string_view part, std::string_view name, Numbers numbers,
           std::string_view note = {});

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace saccade
