#include "batch/batch_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "batch/batch_line.h"

namespace saccade::batch {
namespace {

constexpr std::size_t kBufferBytes = 1u << 20;

auto failed(std::string_view doing, const std::string& path) {
  return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInvalid, "{} {}: {}", path,
              doing, std::strerror(errno));
}

Result<struct stat> regular_file(int fd, const std::string& path) {
  struct stat facts{};
  if (fstat(fd, &facts) != 0) return failed("cannot be looked at", path);
  if (!S_ISREG(facts.st_mode))
    return fail(ErrorCode::kInvalid,
                "{} is no regular file: lines are read again where they have to be asked again",
                path);
  return facts;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

LineScanner::LineScanner(std::string path, Descriptor file, std::int64_t size)
    : path_(std::move(path)), file_(std::move(file)), end_(size), buffer_(kBufferBytes) {}

Result<LineScanner> LineScanner::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return failed("cannot be opened", path);
  TRY(const struct stat facts, regular_file(file.get(), path));
  return LineScanner(path, std::move(file), facts.st_size);
}

// False at the end.
Result<bool> LineScanner::fill() {
  if (at_ < filled_) return true;
  base_ += static_cast<std::int64_t>(filled_);
  at_ = filled_ = 0;
  const auto want = std::min<std::int64_t>(static_cast<std::int64_t>(buffer_.size()), end_ - base_);
  if (want <= 0) return false;
  const ssize_t got = pread(file_.get(), buffer_.data(), static_cast<std::size_t>(want), base_);
  if (got < 0) return failed("cannot be read", path_);
  filled_ = static_cast<std::size_t>(got);
  if (got == 0) end_ = base_;  // the file has become shorter
  return got > 0;
}

Result<std::optional<LinePlace>> LineScanner::next() {
  for (;;) {
    TRY(const bool more, fill());
    if (!more) return std::nullopt;
    LinePlace place;
    place.number = ++lines_;
    place.offset = base_ + static_cast<std::int64_t>(at_);
    bool has_text = false;
    for (bool ended = false; !ended;) {
      TRY(const bool some, fill());
      if (!some) break;
      const char* const begin = buffer_.data() + at_;
      const char* const limit = buffer_.data() + filled_;
      const char* const newline = std::find(begin, limit, '\n');
      ended = newline != limit;
      has_text = has_text || !std::all_of(begin, newline, is_blank);
      place.length += newline - begin;
      at_ += static_cast<std::size_t>(newline - begin) + (ended ? 1 : 0);
    }
    if (has_text) return place;
  }
}

Result<std::int64_t> LineScanner::count() {
  std::int64_t found = 0;
  for (;;) {
    TRY(const std::optional<LinePlace> place, next());
    if (!place) break;
    ++found;
  }
  base_ = lines_ = 0;
  at_ = filled_ = 0;
  return found;
}

Result<std::string> LineScanner::text(const LinePlace& place) const {
  std::string text(static_cast<std::size_t>(place.length), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = pread(file_.get(), text.data() + done, text.size() - done,
                              place.offset + static_cast<std::int64_t>(done));
    if (got < 0) return failed("cannot be read", path_);
    if (got == 0)
      return fail(ErrorCode::kInvalid, "{} has become shorter while it was read", path_);
    done += static_cast<std::size_t>(got);
  }
  return text;
}

Result<OutputFile> OutputFile::open(
    const std::string& path, const LineScanner& input,
    const std::function<Result<void>(std::string_view line)>& known) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.get() < 0) return failed("cannot be opened", path);
  TRY(const struct stat facts, regular_file(file.get(), path));
  TRY(const struct stat asked, regular_file(input.descriptor(), input.path()));
  if (facts.st_dev == asked.st_dev && facts.st_ino == asked.st_ino)
    return fail(ErrorCode::kInvalid, "{} is the input", path);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::kInvalid, "{} is being written by another run", path);

  TRY(LineScanner lines, LineScanner::open(path));
  for (;;) {
    TRY(const std::optional<LinePlace> place, lines.next());
    if (!place) break;
    TRY(const std::string line, lines.text(*place));
    if (!lines.ended(*place) && may_begin_answer(line)) {
      if (ftruncate(file.get(), place->offset) != 0) return failed("cannot be cut", path);
      break;
    }
    if (const auto heard = known(line); !heard)
      return fail(ErrorCode::kInvalid,
                  "{} line {} is no answer of a batch ({}): move the file away, or name another",
                  path, place->number, heard.error().message);
  }
  return OutputFile(path, std::move(file));
}

Result<void> OutputFile::append(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(file_.get(), line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("cannot be written", path_);
    line.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> OutputFile::sync() {
  if (fsync(file_.get()) != 0 && errno != EINVAL) return failed("cannot be written", path_);
  return {};
}

}  // namespace saccade::batch
