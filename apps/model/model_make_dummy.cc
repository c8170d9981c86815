// `saccade model make-dummy`: a checkpoint of true shape with random weights.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/model/model_commands.h"
#include "base/progress.h"
#include "model/dummies/dummy_checkpoint.h"
#include "model/dummies/dummy_sizes.h"
#include "model/families.h"

namespace saccade {
namespace {

struct DummyFlags {
  std::string family;
  std::string size = "tiny";
  DummyOptions options;
};

std::string known_families() {
  std::string text = "one of:";
  for (const Family* family : families()) {
    text += " " + std::string(family->name) + " (";
    const std::vector<std::string_view> sizes = dummy_sizes(family->name);
    for (const std::string_view size : sizes)
      text += std::string(size) + (size == sizes.back() ? ")" : ", ");
  }
  return text;
}

Result<void> make_dummy(DummyFlags& flags) {
  TRY(const Family* family, find_family(flags.family));
  Progress progress("writing");
  flags.options.progress = [&](std::size_t written, std::size_t total) {
    progress.show(static_cast<double>(written) / static_cast<double>(total), written, "");
  };
  const auto written = write_dummy_checkpoint(*family, flags.size, flags.options);
  progress.end();
  TRY_DO(written);
  std::printf("%s: %s %s with random weights%s\n", flags.options.directory.c_str(),
              flags.family.c_str(), flags.size.c_str(),
              flags.options.config_only ? " (left out: --config-only)" : "");
  return {};
}

}  // namespace

void add_model_make_dummy(CLI::App& model, int& exit_code) {
  auto flags = std::make_shared<DummyFlags>();
  CLI::App* const command = model.add_subcommand(
      "make-dummy", "Write a checkpoint of true shape with random weights, to measure speed");
  command->add_option("--family", flags->family, known_families())->required();
  command->add_option("--size", flags->size, "of the model")->capture_default_str();
  command->add_option("--out", flags->options.directory, "folder to write")->required();
  command->add_option("--seed", flags->options.seed, "of the random weights")
      ->capture_default_str();
  command->add_flag("--config-only", flags->options.config_only,
                    "configuration, tokenizer and preprocessor files, no weights");
  command->callback([flags, &exit_code] { exit_code = report(make_dummy(*flags)); });
}

}  // namespace saccade
