// One safetensors file: a header of names, types and offsets, checked field by field, and mapped
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "model/checkpoint/mapped_file.h"
#include "tensor/tensor.h"

namespace saccade {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                // as written: "BF16"
  std::vector<std::int64_t> shape;  // outermost first
  std::size_t begin = 0;            // bytes from the start of the data
  std::size_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;        // by offset
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Longest header that is read; the largest published ones are under 10 MiB.
constexpr std::size_t kMaxSafetensorsHeader = std::size_t{32} << 20;

// `text` is the header's JSON, `data_bytes` what follows it in the file. kCorrupt names the tensor
// whose type, shape or offsets are wrong: the tensors must fill the data without gap or overlap.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::size_t data_bytes);

// The same from a whole file's bytes; `data` becomes where offsets count from.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file,
                                            std::span<const std::byte>* data);

// The DType of a header's type name; nothing for those that no model here uses.
std::optional<DType> safetensors_dtype(std::string_view name);
// The header's name of a DType.
std::string_view safetensors_name(DType type);

std::string shape_text(std::span<const std::int64_t> shape);  // "[2, 3]"

// Where weights are: one safetensors file, or what is read as one. Entries are those of tensors().
class WeightFile {
 public:
  virtual ~WeightFile() = default;
  virtual const std::string& path() const = 0;
  // Of all files that it is: that one and others.
  virtual std::vector<std::string> paths() const { return {path()}; }
  virtual const std::vector<SafetensorsEntry>& tensors() const = 0;
  // Good until release().
  virtual std::span<const std::byte> bytes(const SafetensorsEntry& entry) const = 0;
  virtual void prefetch(const SafetensorsEntry& entry) const = 0;
  virtual void release(const SafetensorsEntry& entry) const = 0;
  // What makes up the tensor, into a digest; its pages leave the process. Any thread, also beside
  // the others.
  virtual void digest(const SafetensorsEntry& entry, Sha256& into) const = 0;
};

// Immutable; any thread.
class SafetensorsFile final : public WeightFile {
 public:
  // Errors name the path.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const override { return path_; }
  const std::vector<SafetensorsEntry>& tensors() const override { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const SafetensorsEntry* find(std::string_view name) const;  // null when absent
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const override;
  void prefetch(const SafetensorsEntry& entry) const override { file_.prefetch(bytes(entry)); }
  void release(const SafetensorsEntry& entry) const override { file_.release(bytes(entry)); }
  void digest(const SafetensorsEntry& entry, Sha256& into) const override {
    into.update(bytes(entry));
    release(entry);
  }

 private:
  SafetensorsFile(std::string path, MappedFile file)
      : path_(std::move(path)), file_(std::move(file)) {}
  std::string path_;
  MappedFile file_;
  std::span<const std::byte> data_;
  SafetensorsHeader header_;
};

// A tensor to write: `bytes` are produced by the caller after the header.
struct SafetensorsPlan {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
};

// Length prefix and header of a file that holds `tensors` in this order, padded so that the data
// begin at a multiple of 64 bytes.
std::string make_safetensors_header(std::span<const SafetensorsPlan> tensors,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace saccade
