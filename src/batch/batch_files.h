// The two files of a batch: lines that are asked, lines that answer them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade::batch {

// Closes itself. Move only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// Where a line stands, without its newline.
struct LinePlace {
  std::int64_t number = 0;  // from 1
  std::int64_t offset = 0;  // bytes
  std::int64_t length = 0;  // bytes
};

// The lines of a regular file one after another, found through a buffer of fixed size however long
// they are. One thread.
class LineScanner {
 public:
  static Result<LineScanner> open(const std::string& path);

  // Lines that are empty, or blanks alone, are passed over, and counted. Absent at the end.
  Result<std::optional<LinePlace>> next();
  // How many next() will give, from the file's begin.
  Result<std::int64_t> count();
  // What stands there.
  Result<std::string> text(const LinePlace& place) const;
  // Whether the line is followed by a newline: the last one may not be.
  bool ended(const LinePlace& place) const { return place.offset + place.length < end_; }

  const std::string& path() const { return path_; }
  int descriptor() const { return file_.get(); }

 private:
  LineScanner(std::string path, Descriptor file, std::int64_t size);
  Result<bool> fill();

  std::string path_;
  Descriptor file_;
  std::int64_t end_ = 0;      // bytes of the file, as it was opened
  std::vector<char> buffer_;  // of bytes from base_ on
  std::int64_t base_ = 0;
  std::size_t at_ = 0;  // in buffer_
  std::size_t filled_ = 0;
  std::int64_t lines_ = 0;
};

// Appends whole lines. One process at a time: the file is locked.
class OutputFile {
 public:
  // Makes the file, or goes on with it: `known` hears of every line, and what follows the last
  // newline is cut off, as a process that was killed leaves it. Errors name the path and the line:
  // nothing is written into, or cut off, a file that is something else, or `input` itself.
  static Result<OutputFile> open(const std::string& path, const LineScanner& input,
                                 const std::function<Result<void>(std::string_view line)>& known);

  Result<void> append(std::string_view line);
  // Until all of it is on the disk.
  Result<void> sync();

 private:
  OutputFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Descriptor file_;
};

}  // namespace saccade::batch
