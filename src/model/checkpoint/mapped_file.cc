#include "model/checkpoint/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/regular_file.h"

namespace saccade {
namespace {

// madvise takes whole pages: those that lie entirely inside `part`, or that it touches.
struct PageRange {
  std::byte* begin;
  std::size_t bytes;
};

PageRange pages(std::span<const std::byte> part, bool touched) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t last = first + part.size();
  const std::uintptr_t begin = touched ? first / page * page : (first + page - 1) / page * page;
  const std::uintptr_t end = touched ? (last + page - 1) / page * page : last / page * page;
  return {reinterpret_cast<std::byte*>(begin), end > begin ? end - begin : 0};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  TRY(const OpenedFile opened, open_regular_file(path));
  const int file = opened.descriptor;
  const std::size_t size = opened.bytes;
  if (size == 0) {
    ::close(file);
    return MappedFile(nullptr, 0);
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int reason = errno;
  ::close(file);
  if (data == MAP_FAILED)
    return fail(ErrorCode::kExhausted, "{}: cannot map {} bytes: {}", path, size,
                std::strerror(reason));
  return MappedFile(static_cast<std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  const PageRange range = pages(part, false);
  if (range.bytes > 0) ::madvise(range.begin, range.bytes, MADV_DONTNEED);
}

void MappedFile::prefetch(std::span<const std::byte> part) const {
  const PageRange range = pages(part, true);
  if (range.bytes > 0) ::madvise(range.begin, range.bytes, MADV_WILLNEED);
}

}  // namespace saccade
