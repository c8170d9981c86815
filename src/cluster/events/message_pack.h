// Writing MessagePack (github.com/msgpack/msgpack/blob/master/spec.md), as far as events need it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace saccade::cluster {

class MessagePack {
 public:
  void nil() { out_ += '\xc0'; }
  void number(double value) {
    out_ += '\xcb';
    big_endian(std::bit_cast<std::uint64_t>(value));
  }
  void number(std::uint64_t value) {
    if (value < 0x80) return byte(value);
    if (value <= 0xff) return (out_ += '\xcc', byte(value));
    if (value <= 0xffff) return (out_ += '\xcd', big_endian(static_cast<std::uint16_t>(value)));
    if (value <= 0xffffffff) return (out_ += '\xce', big_endian(static_cast<std::uint32_t>(value)));
    out_ += '\xcf';
    big_endian(value);
  }
  void text(std::string_view value) {
    if (value.size() < 32) {
      byte(0xa0 | value.size());
    } else if (value.size() <= 0xff) {
      out_ += '\xd9';
      byte(value.size());
    } else {
      out_ += '\xdb';
      big_endian(static_cast<std::uint32_t>(value.size()));
    }
    out_ += value;
  }
  // So many values follow.
  void list(std::size_t size) { header(size, 0x90, '\xdc', '\xdd'); }
  // So many names and values follow.
  void map(std::size_t size) { header(size, 0x80, '\xde', '\xdf'); }

  std::string take() { return std::move(out_); }

 private:
  void byte(std::uint64_t value) { out_ += static_cast<char>(value); }
  template <typename Word>
  void big_endian(Word value) {
    static_assert(std::is_unsigned_v<Word>);
    for (int shift = static_cast<int>(sizeof value) * 8 - 8; shift >= 0; shift -= 8)
      byte(static_cast<std::uint64_t>(value) >> shift & 0xff);
  }
  void header(std::size_t size, unsigned few, char word, char more) {
    if (size < 16) return byte(few | size);
    if (size <= 0xffff) return (out_ += word, big_endian(static_cast<std::uint16_t>(size)));
    out_ += more;
    big_endian(static_cast<std::uint32_t>(size));
  }

  std::string out_;
};

}  // namespace saccade::cluster
