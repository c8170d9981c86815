// What a download says of itself: a bar a file on a terminal, a line every few seconds elsewhere.
#pragma once

#include <fmt/format.h>

#include <optional>

#include "base/progress.h"
#include "hub/model_pull.h"

namespace saccade {

// One thread at a time.
class PullReport {
 public:
  void show(const hub::PullProgress& of) {
    if (!progress_ || of.index != index_) {
      progress_.reset();  // the last file's bar goes first
      progress_.emplace(fmt::format("downloading {}/{} {}", of.index + 1, of.files, of.file));
      index_ = of.index;
    }
    progress_->show(of.size == 0 ? 1 : static_cast<double>(of.done) / static_cast<double>(of.size),
                    of.done, "");
  }
  void end() { progress_.reset(); }

 private:
  std::optional<Progress> progress_;
  std::size_t index_ = 0;
};

}  // namespace saccade
