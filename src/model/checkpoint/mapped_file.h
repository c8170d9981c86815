// A file's bytes, mapped read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace saccade {

// Move-only. The file must not shrink while it is mapped.
class MappedFile {
 public:
  // kNotFound or kInvalid with the path and the system's reason.
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // The pages of this part of bytes() leave the process; reading them again fetches them again.
  void release(std::span<const std::byte> part) const;
  // The part will be read soon, front to back.
  void prefetch(std::span<const std::byte> part) const;

 private:
  MappedFile(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace saccade
