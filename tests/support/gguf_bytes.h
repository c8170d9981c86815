// A GGUF file in memory, field by field, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

class TestGguf {
 public:
  void text(std::string_view key, std::string_view value) {
    begin(key, 8);
    append(metadata_, value);
    ++values_;
  }
  // `type` is the format's number of T.
  template <typename T>
  void number(std::string_view key, std::uint32_t type, T value) {
    begin(key, type);
    raw(metadata_, value);
    ++values_;
  }
  void texts(std::string_view key, const std::vector<std::string_view>& values) {
    begin(key, 9);
    raw<std::uint32_t>(metadata_, 8);
    raw<std::uint64_t>(metadata_, values.size());
    for (const std::string_view value : values) append(metadata_, value);
    ++values_;
  }
  template <typename T>
  void numbers(std::string_view key, std::uint32_t type, const std::vector<T>& values) {
    begin(key, 9);
    raw(metadata_, type);
    raw<std::uint64_t>(metadata_, values.size());
    for (const T value : values) raw(metadata_, value);
    ++values_;
  }
  // `shape` outermost first.
  void tensor(std::string_view name, const std::vector<std::int64_t>& shape, std::uint32_t type,
              std::string_view data) {
    append(tensors_, name);
    raw(tensors_, static_cast<std::uint32_t>(shape.size()));
    for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) raw(tensors_, *extent);
    raw(tensors_, type);
    raw<std::uint64_t>(tensors_, data_.size());
    data_ += data;
    data_.append((32 - data_.size() % 32) % 32, '\0');
    last_ = data.size() % 32;
    ++count_;
  }

  // Ends with the last tensor's last byte.
  std::string bytes() const {
    std::string file = "GGUF";
    raw<std::uint32_t>(file, 3);
    raw<std::uint64_t>(file, count_);
    raw<std::uint64_t>(file, values_);
    file += metadata_;
    file += tensors_;
    file.append((32 - file.size() % 32) % 32, '\0');
    const std::size_t padding = last_ == 0 ? 0 : 32 - last_;
    return file + data_.substr(0, data_.size() - padding);
  }

 private:
  template <typename T>
  static void raw(std::string& into, T value) {
    into.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void append(std::string& into, std::string_view text) {
    raw<std::uint64_t>(into, text.size());
    into += text;
  }
  void begin(std::string_view key, std::uint32_t type) {
    append(metadata_, key);
    raw(metadata_, type);
  }

  std::string metadata_;
  std::string tensors_;
  std::string data_;
  std::uint64_t values_ = 0;
  std::uint64_t count_ = 0;
  std::size_t last_ = 0;
};

}  // namespace saccade
