// --device, checked where it is written.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "serve/assembly/device_choice.h"

namespace saccade {

inline CLI::Validator device_name() {
  return {[](std::string& text) {
            const auto choice = serve::parse_device(text);
            return choice ? std::string() : choice.error().message;
          },
          ""};
}

}  // namespace saccade
