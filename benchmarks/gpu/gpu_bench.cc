// What the CUDA device does on this machine, part by part:
//
//   gpu_bench roofs|ops|invariance|agreement [--figures FILE] [--seconds N]
//             [--sizes full|rehearsal]
//   gpu_bench model --model FOLDER --name NAME [--load-format auto|dummy] [...]
//   gpu_bench step --step decode-N|prefill|image --model FOLDER --name NAME [...]
//
// Figures are added to FILE, an object a line. The same program on the emulator (a build without
// CUDA) is there to rehearse: --sizes rehearsal, and its times mean nothing. Exit code 77: no GPU;
// 78: something of the part is not supported by this GPU or build.
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
      {"--model", &arguments.model.checkpoint}, {"--name", &arguments.model.name},
      {"--step", &arguments.model.step}};
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
  const bool step = arguments.part == "step";
  if ((step || arguments.part == "model") && arguments.model.checkpoint.empty())
    return fail(ErrorCode::kInvalid, "{} wants --model FOLDER", arguments.part);
  if (step && arguments.model.step.empty())
    return fail(ErrorCode::kInvalid, "step wants --step decode-N, prefill or image");
  arguments.model.random_weights = arguments.load_format == "dummy";
  return arguments;
}

// `begun`: there is a GPU, and what fails from then on is the part's.
Result<void> run(const Arguments& arguments, Figures& figures, bool& begun) {
  const bool rehearsal = arguments.sizes == "rehearsal";
  if (arguments.part == "roofs") return measure_roofs(figures, rehearsal);
  // As a server has it; rows in company by what holds whatever the company.
  const CudaSettings settings = {.libraries = {},
                                 .batch_invariant = arguments.part == "invariance"};
  TRY(std::unique_ptr<Device> device, cuda::make_device_under_test(DType::kBf16, 1, settings));
  begun = true;
  figures.add("device", arguments.part, {}, device->description());
  if (arguments.part == "model")
    return measure_model(std::move(device), figures, arguments.model, rehearsal);
  if (arguments.part == "step")
    return measure_step(std::move(device), figures, arguments.model, rehearsal);
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
  return fail(ErrorCode::kInvalid,
              "part '{}': want roofs, ops, invariance, agreement, model or step", arguments.part);
}

int code_of(const Error& error, bool begun) {
  std::fprintf(stderr, "gpu_bench: %s\n", error.message.c_str());
  constexpr int kNoGpu = 77;
  constexpr int kNotSupported = 78;
  if (error.code != ErrorCode::kUnsupported) return 1;
  return begun ? kNotSupported : kNoGpu;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  const auto arguments = saccade::parse(argc, argv);
  if (!arguments) return saccade::code_of(arguments.error(), false);
  auto figures = saccade::Figures::append_to(arguments->figures);
  if (!figures) return saccade::code_of(figures.error(), false);
  bool begun = false;
  const auto done = saccade::run(*arguments, *figures, begun);
  return done ? 0 : saccade::code_of(done.error(), begun);
}
