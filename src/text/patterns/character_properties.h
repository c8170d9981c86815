// Members of PCRE2 classes by Unicode property, as tokenizer.json's patterns name them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace saccade {

// \x{...}
std::string code_escape(char32_t code);

// Members of a class, without its brackets.
struct CharacterProperties {
  bool newer = false;  // also what Unicode 15 and 16 brought, which PCRE2 may not know

  // Characters of categories that begin with `prefix` and came with Unicode 15 or 16; empty unless
  // `newer`.
  std::string newer_characters(std::string_view prefix) const;
  // A general category: "L", "Lu", "L&", ...
  std::string category(std::string_view name) const;
  // The same by a name in lower case without blanks: "lu", "uppercaseletter"; nothing for others.
  std::optional<std::string> named_category(std::string_view folded) const;
  std::string alphabetic() const;
  std::string word() const;
};

}  // namespace saccade
