#include "grammar/schema/string_formats.h"

#include <array>
#include <utility>

namespace saccade::grammar {
namespace {

// RFC 3339. Days by month; February 29 and leap seconds are left out, since not every year or
// minute has them.
#define SACCADE_YEAR "[0-9]{4}"
#define SACCADE_DATE                                                                  \
  "(?:(?:" SACCADE_YEAR                                                               \
  "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-" \
  "9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))))"
#define SACCADE_TIME                                            \
  "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?" \
  "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))"
#define SACCADE_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define SACCADE_IPV4 SACCADE_OCTET "(?:\\." SACCADE_OCTET "){3}"
#define SACCADE_H16 "[0-9A-Fa-f]{1,4}"
#define SACCADE_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define SACCADE_HOST SACCADE_LABEL "(?:\\." SACCADE_LABEL ")*"
#define SACCADE_ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define SACCADE_PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
#define SACCADE_EMAIL SACCADE_ATEXT "(?:\\." SACCADE_ATEXT ")*@" SACCADE_HOST
#define SACCADE_URI \
  "[A-Za-z][A-Za-z0-9+.-]*:" SACCADE_PCHAR "(?:\\?" SACCADE_PCHAR ")?(?:#" SACCADE_PCHAR ")?"
#define SACCADE_POINTER "(?:/(?:[A-Za-z0-9._!$&'()*+,;=:@ -]|~[01])*)*"

constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kFormats = {{
    {"date-time", SACCADE_DATE "T" SACCADE_TIME},
    {"date", SACCADE_DATE},
    {"time", SACCADE_TIME},
    {"duration",
     "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
     "(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?"
     "|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))"},
    {"email", SACCADE_EMAIL},
    {"hostname", SACCADE_HOST},
    {"ipv4", SACCADE_IPV4},
    {"ipv6", "(?:(?:" SACCADE_H16 ":){7}" SACCADE_H16 "|(?:" SACCADE_H16 ":){1,7}:|(?:" SACCADE_H16
             ":){1,6}:" SACCADE_H16 "|(?:" SACCADE_H16 ":){1,5}(?::" SACCADE_H16
             "){1,2}|(?:" SACCADE_H16 ":){1,4}(?::" SACCADE_H16 "){1,3}|(?:" SACCADE_H16
             ":){1,3}(?::" SACCADE_H16 "){1,4}|(?:" SACCADE_H16 ":){1,2}(?::" SACCADE_H16
             "){1,5}|" SACCADE_H16 ":(?::" SACCADE_H16 "){1,6}|:(?::" SACCADE_H16 "){1,7}|::)"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"uri", SACCADE_URI},
    {"json-pointer", SACCADE_POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" SACCADE_POINTER ")"},
    // What these allow besides is left out: every email is an idn-email, every uri is an iri, a
    // reference and, as it has no braces, a template.
    {"idn-email", SACCADE_EMAIL},
    {"idn-hostname", SACCADE_HOST},
    {"iri", SACCADE_URI},
    {"uri-reference", SACCADE_URI},
    {"iri-reference", SACCADE_URI},
    {"uri-template", SACCADE_URI},
}};

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return std::string(pattern);
  }
  return std::nullopt;
}

bool is_standard_format(std::string_view format) {
  return format == "regex" || format_pattern(format);
}

std::string known_formats() {
  std::string names;
  for (const auto& [name, pattern] : kFormats) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace saccade::grammar
