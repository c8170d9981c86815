#include "text/patterns/character_properties.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "text/unicode/unicode_tables.h"

namespace saccade {
namespace {

using Name = std::pair<std::string_view, std::string_view>;  // folded; general category

constexpr std::array<Name, 35> kCategoryNames = {{
    {"letter", "L"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"control", "Cc"},
    {"format", "Cf"},
}};

// The two-letter general categories (and their one-letter unions) are spelt alike in both.
bool is_category(std::string_view folded) {
  constexpr std::string_view kSecond[] = {"ultmo", "nce", "dlo", "cdseifo", "mcko", "slp", "cfosn"};
  constexpr std::string_view kFirst = "lmnpszc";
  if (folded.empty() || folded.size() > 2) return false;
  const std::size_t row = kFirst.find(folded[0]);
  if (row == std::string_view::npos) return false;
  return folded.size() == 1 || kSecond[row].find(folded[1]) != std::string_view::npos;
}

}  // namespace

std::string code_escape(char32_t code) {
  return fmt::format("\\x{{{:X}}}", static_cast<unsigned>(code));
}

std::string CharacterProperties::newer_characters(std::string_view prefix) const {
  std::string members;
  if (!newer) return members;
  for (const CategoryRange& range : kUnicodeTables.since_15) {
    if (!range.category.starts_with(prefix)) continue;
    members += code_escape(range.first);
    if (range.last > range.first) members += "-" + code_escape(range.last);
  }
  return members;
}

std::string CharacterProperties::category(std::string_view name) const {
  std::string members = fmt::format("\\p{{{}}}", name);
  if (name != "L&") return members + newer_characters(name);
  return members + newer_characters("Lu") + newer_characters("Ll") + newer_characters("Lt");
}

std::optional<std::string> CharacterProperties::named_category(std::string_view folded) const {
  if (is_category(folded)) {
    std::string name(folded);
    name[0] = static_cast<char>(name[0] & ~0x20);
    return name[0] == 'C' ? "\\p{" + name + "}" : category(name);
  }
  for (const Name& known : kCategoryNames) {
    if (known.first == folded) return category(known.second);
  }
  return std::nullopt;
}

std::string CharacterProperties::alphabetic() const {
  return R"(\p{Alphabetic})" + newer_characters("L");
}

std::string CharacterProperties::word() const {
  std::string members = alphabetic();
  for (const std::string_view name : {"L", "M", "Nd", "Nl", "Pc"}) members += category(name);
  return members;
}

}  // namespace saccade
