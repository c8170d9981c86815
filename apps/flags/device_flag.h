// --device, checked where it is written.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "serve/assembly/device_choice.h"

namespace saccade {

// Fills `device` but for what it says of CUDA. `device` is the CPU.
inline CLI::Option* add_device_flag(CLI::App& cmd, serve::DeviceChoice& device) {
  const CLI::Validator known{[](std::string& text) {
                               const auto choice = serve::parse_device(text);
                               return choice ? std::string() : choice.error().message;
                             },
                             ""};
  return cmd
      .add_option_function<std::string>(
          "--device",
          [&device](const std::string& text) {
            const auto choice = serve::parse_device(text);
            if (!choice) return;  // `known` said so
            device.kind = choice->kind;
            device.index = choice->index;
          },
          "cpu, cuda (the first GPU), cuda:N, or auto: a GPU if there is one")
      ->default_str("cpu")
      ->check(known);
}

}  // namespace saccade
