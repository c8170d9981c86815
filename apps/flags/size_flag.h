// Counts and bytes as people write them: 1k, 25.6k, 1K, 4GiB.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade {

// vLLM's form: digits, or digits with k, m, g or t (powers of 1000, where fractions are possible)
// or K, M, G or T (powers of 1024, where they are not). kInvalid says what is wrong.
Result<std::int64_t> parse_count(std::string_view text);

// Turn what is typed into digits. as_bytes() takes that form and B, KiB, MB and so on, all powers
// of 1024.
CLI::Validator as_count();
CLI::Validator as_bytes();

// As as_bytes() takes them: "256MiB", "1000".
std::string bytes_text(std::size_t bytes);

// An option of as_bytes() whose default is `value`.
CLI::Option* add_bytes(CLI::App& cmd, const std::string& names, std::size_t& value,
                       const std::string& description);

}  // namespace saccade
