// What the CUDA device does on this machine, part by part:
//
//   gpu_bench roofs|ops|invariance|agreement [--figures FILE] [--seconds N] [--sizes
//   full|rehearsal] gpu_bench model --model FOLDER --name NAME [--load-format auto|dummy] [...]
//
// Figures are added to FILE, an object a line. The same program on the emulator (a build without
// CUDA) is there to rehearse: --sizes rehearsal, and its times mean nothing. Exit code 77: no GPU.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "benchmarks/gpu/parts.h"
#include "ops/cuda/device_under_test.h"

namespace saccade {
namespace {

struct Arguments {
  std::string part;
  std::string figures;
  std::string sizes = "full";
  std::string seconds = "600";
  std::string load_format = "auto";
  ModelFigures model;
};

Result<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  const std::map<std::string, std::string*> texts = {
      {"--figures", &arguments.figures},        {"--sizes", &arguments.sizes},
      {"--seconds", &arguments.seconds},        {"--load-format", &arguments.load_format},
      {"--model", &arguments.model.checkpoint}, {"--name", &arguments.model.name}};
  if (argc > 1) arguments.part = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const auto found = texts.find(argv[i]);
    if (found == texts.end()) return fail(ErrorCode::kInvalid, "{} is not known", argv[i]);
    if (i + 1 == argc) return fail(ErrorCode::kInvalid, "{} wants a value", argv[i]);
    *found->second = argv[i + 1];
  }
  if (arguments.sizes != "full" && arguments.sizes != "rehearsal")
    return fail(ErrorCode::kInvalid, "--sizes {}: want full or rehearsal", arguments.sizes);
  if (arguments.load_format != "auto" && arguments.load_format != "dummy")
    return fail(ErrorCode::kInvalid, "--load-format {}: want auto or dummy", arguments.load_format);
  if (arguments.part == "model" && arguments.model.checkpoint.empty())
    return fail(ErrorCode::kInvalid, "model wants --model FOLDER");
  arguments.model.random_weights = arguments.load_format == "dummy";
  return arguments;
}

Result<void> run(const Arguments& arguments, Figures& figures) {
  const bool rehearsal = arguments.sizes == "rehearsal";
  if (arguments.part == "roofs") return measure_roofs(figures, rehearsal);
  // As a server has it; rows in company by what holds whatever the company.
  const CudaSettings settings = {.libraries = {},
                                 .batch_invariant = arguments.part == "invariance"};
  TRY(std::unique_ptr<Device> device, cuda::make_device_under_test(DType::kBf16, 1, settings));
  if (arguments.part == "model")
    return measure_model(std::move(device), figures, arguments.model, rehearsal);
  const double seconds = std::atof(arguments.seconds.c_str());
  DeviceBench bench(std::move(device), figures, seconds, rehearsal);
  if (arguments.part == "ops" || arguments.part == "agreement") {
    CudaSettings by_own = settings;
    by_own.attention = AttentionBackend::kOwn;
    if (arguments.part == "agreement") by_own.libraries = "none";
    TRY(std::unique_ptr<Device> own, cuda::make_device_under_test(DType::kBf16, 1, by_own));
    DeviceBench beside(std::move(own), figures, seconds, rehearsal);
    return arguments.part == "ops" ? measure_ops(bench, beside) : measure_agreement(bench, beside);
  }
  if (arguments.part == "invariance") return probe_batch_invariance(bench);
  return fail(ErrorCode::kInvalid, "part '{}': want roofs, ops, invariance, agreement or model",
              arguments.part);
}

int code_of(const Error& error) {
  std::fprintf(stderr, "gpu_bench: %s\n", error.message.c_str());
  constexpr int kNoGpu = 77;
  return error.code == ErrorCode::kUnsupported ? kNoGpu : 1;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  const auto arguments = saccade::parse(argc, argv);
  if (!arguments) return saccade::code_of(arguments.error());
  auto figures = saccade::Figures::append_to(arguments->figures);
  if (!figures) return saccade::code_of(figures.error());
  const auto done = saccade::run(*arguments, *figures);
  return done ? 0 : saccade::code_of(done.error());
}
