// --help: an option's default stands behind its description, as manual pages have it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace saccade {

// For the root, before its commands are added: they take it from there.
class HelpFormatter : public CLI::Formatter {
 public:
  // "--ui,--no-ui", without the value that the second one stands for.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  // Without "=DEFAULT".
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace saccade
