// `saccade model compare`: how far a checkpoint here is from golden files of the reference.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/flags/choice_flag.h"
#include "apps/model/model_commands.h"
#include "model/families.h"
#include "model/golden.h"

namespace saccade {
namespace {

struct CompareFlags {
  std::string model;
  std::string golden;
  std::string backend = "cpu";
  DType dtype = DType::kF32;
  double tolerance = 1e-4;
  int threads = 0;
};

Result<std::vector<std::string>> golden_files(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  std::ranges::sort(files);
  if (files.empty()) return fail(ErrorCode::kNotFound, "{}: no golden files", path);
  return files;
}

void print(const Golden& golden, const GoldenReport& outcome, double tolerance) {
  std::printf("\n%s (transformers %s, torch %s)\n", golden.path.c_str(),
              golden.notes.at("transformers").c_str(), golden.notes.at("torch").c_str());
  std::printf("  %-22s %12s %10s\n", "stage", "error", "worst row");
  for (const StageResult& stage : outcome.stages) {
    if (stage.exact) {
      std::printf("  %-22s %12s", stage.name.c_str(),
                  stage.error == 0 ? "equal" : fmt::format("{:.0f} differ", stage.error).c_str());
    } else {
      std::printf("  %-22s %12.2e %10lld", stage.name.c_str(), stage.error,
                  static_cast<long long>(stage.worst_row));
    }
    std::printf("%s%s\n", stage.note.empty() ? "" : "  ", stage.note.c_str());
  }
  const StageResult* first = outcome.first_divergence(tolerance);
  if (first == nullptr)
    std::printf("  agrees within %.0e\n", tolerance);
  else
    std::printf("  FIRST DIVERGENCE: %s\n", first->name.c_str());
}

Result<bool> compare(const CompareFlags& flags) {
  TRY(const std::string directory, resolve_checkpoint(flags.model));
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  TRY(const std::vector<std::string> files, golden_files(flags.golden));
  TRY(const auto tokenizer, load_tokenizer(checkpoint.files));
  std::unique_ptr<Device> device;
  if (flags.backend == "reference") {
    device = make_reference_device();
  } else {
    TRY(device, make_cpu_device(flags.threads, flags.backend == "cpu" ? "" : flags.backend));
  }
  LoadOptions options;
  options.compute = flags.dtype;
  TRY(const auto model, load_model(checkpoint, *device, options));
  std::printf("%s, %s\n", device->description().c_str(), std::string(name_of(flags.dtype)).c_str());
  bool agrees = true;
  for (const std::string& file : files) {
    TRY(const Golden golden, read_golden(file));
    TRY(const GoldenReport outcome, compare_with_golden(model, *device, *tokenizer, golden));
    print(golden, outcome, flags.tolerance);
    agrees = agrees && outcome.first_divergence(flags.tolerance) == nullptr;
  }
  return agrees;
}

}  // namespace

void add_model_compare(CLI::App& model, int& exit_code) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* const command = model.add_subcommand(
      "compare", "Compare every stage of a model with what the reference computed");
  command->add_option("model", flags->model, "checkpoint: a folder, or ORG/NAME in HF_HOME")
      ->required();
  command
      ->add_option("--golden", flags->golden, "golden file of tools/goldens, or a folder of them")
      ->required();
  command->add_option("--backend", flags->backend, "cpu, one of its instruction sets, or reference")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "reference", "portable", "neon", "dotprod", "avx2", "avxvnni",
                             "avx512", "vnni", "bf16", "amx"}));
  constexpr std::array<Named<DType>, 2> kDtypes{
      {{"float32", DType::kF32}, {"bfloat16", DType::kBf16}}};
  add_choice(*command, "--dtype", flags->dtype, kDtypes, "of computing: bfloat16 or float32")
      ->capture_default_str();
  command
      ->add_option("--tolerance", flags->tolerance,
                   "largest difference over a row's largest magnitude")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "0: one a core")->check(CLI::Range(0, 1024));
  command->callback([flags, &exit_code] {
    const auto agrees = compare(*flags);
    exit_code = agrees ? (*agrees ? 0 : 1) : report(tl::unexpected<Error>(agrees.error()));
  });
}

}  // namespace saccade
