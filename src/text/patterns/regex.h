// A compiled pattern over UTF-8 text, by PCRE2 with its JIT and bounded effort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace saccade {

// Immutable after compile; any thread.
class Regex {
 public:
  struct Program;  // PCRE2's

  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool operator==(const Span&) const = default;
  };

  // In Oniguruma's Ruby syntax (oniguruma.h).
  static Result<Regex> compile(std::string_view oniguruma_pattern);
  // The same for short texts, of a pattern that nobody vouches for: matches_at_start() alone.
  static Result<Regex> compile_for_names(std::string_view oniguruma_pattern);
  // Matches `text` itself.
  static Result<Regex> literal(std::string_view text);

  // No match has fewer characters. May be less than the least that can match.
  std::size_t shortest_match() const;

  // Whether a match begins where `text` does, found within `max_steps`, of some 20 ns each, and
  // however they are spent: the JIT, which compile_for_names() leaves out, counts few of them, and
  // anew for each place where a match may begin. kTooLarge: it would take more.
  Result<bool> matches_at_start(std::string_view text, std::uint32_t max_steps) const;

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Walks over the matches of one text, left to right. An empty match directly after another match
  // is passed over. A match that would cost too much effort ends the walk. One thread.
  class Matches {
   public:
    // `text` must be valid UTF-8 and outlive this.
    Matches(const Regex& regex, std::string_view text);
    ~Matches();
    Matches(const Matches&) = delete;
    Matches& operator=(const Matches&) = delete;
    std::optional<Span> next();

   private:
    struct Workspace;
    const Program& program_;
    std::string_view text_;
    std::size_t at_ = 0;
    std::optional<std::size_t> last_end_;
    std::unique_ptr<Workspace> workspace_;
  };

 private:
  static Result<std::unique_ptr<Program>> compile_pcre2(std::string_view pattern,
                                                        std::uint32_t options, bool jit);
  static Result<Regex> compile_either(std::string_view oniguruma_pattern, bool jit);
  Regex(std::unique_ptr<Program> program, std::unique_ptr<Program> newer);
  std::unique_ptr<Program> program_;
  // For text with characters that this PCRE2 is too old to know; null when there are none.
  std::unique_ptr<Program> newer_;
};

// How many times longer a text may become when `content` replaces each match, at most.
double replacement_growth(const Regex& pattern, std::string_view content);

}  // namespace saccade
