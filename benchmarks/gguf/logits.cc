// How far the logits of a GGUF are from those of the checkpoint with its dequantised weights:
//   gguf_logits --model GGUF[,MMPROJ] --checkpoint DIR --text GOLDEN [--image GOLDEN] [--threads N]
// GOLDEN of the text has the reference's logits of every token as its one tap; those of an image's
// prompt are DIR's in float32. The GGUF is computed dequantised in float32, and as it is served.
// Prints a line of JSON: of each prompt and form the largest and the root mean square difference,
// the largest logit, KL(reference || GGUF) a token, and equal most likely tokens.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "model/families.h"
#include "model/golden.h"
#include "model/solo_run.h"
#include "ops/readback.h"
#include "tests/support/logit_agreement.h"

namespace saccade {
namespace {

struct Logits {
  std::vector<TokenId> ids;
  std::vector<float> values;  // [ids, cols]
  std::int64_t cols = 0;

  View view() { return {values.data(), DType::kF32, static_cast<std::int64_t>(ids.size()), cols}; }
};

Result<Logits> logits_of(const Model& model, const Tokenizer& tokenizer, Device& device,
                         const Golden& golden) {
  TRY(const GoldenMedia media, prepare_golden_media(*model.processor, golden));
  TRY(Prompt prompt,
      model.processor->build_prompt(tokenizer, golden.rendered, media.layouts, false));
  Logits logits{prompt.ids, {}, 0};
  const auto rows = static_cast<std::int64_t>(prompt.ids.size());
  TRY(const auto run,
      SoloRun::create(*model.network, device, std::move(prompt), media.prepared, 1));
  Buffer staging;
  TRY(const View made, readable(device.lane(Lane::kStep), run->prefill(0, rows), staging));
  logits.cols = made.cols();
  for (std::int64_t row = 0; row < rows; ++row)
    logits.values.insert(logits.values.end(), made.row<float>(row),
                         made.row<float>(row) + made.cols());
  return logits;
}

Result<void> print(const char* name, Logits& reference, Logits& given) {
  if (reference.ids != given.ids || reference.cols != given.cols)
    return fail(ErrorCode::kInvalid, "{}: {} tokens of {} logits, the reference has {} of {}", name,
                given.ids.size(), given.cols, reference.ids.size(), reference.cols);
  double most = 0;
  double squares = 0;
  double largest = 0;
  for (std::size_t i = 0; i < reference.values.size(); ++i) {
    const double wanted = reference.values[i];
    const double difference = std::abs(wanted - given.values[i]);
    // Not std::max, which leaves out what is no number.
    if (!(difference <= most)) most = difference;
    squares += difference * difference;
    largest = std::max(largest, std::abs(wanted));
  }
  LogitAgreement agreement;
  agreement.add(reference.view(), given.view());
  std::printf(
      R"("%s": {"max": %.3e, "rms": %.3e, "largest": %.3e, "kl": %.3e, "same": %lld, "of": %lld})",
      name, most, std::sqrt(squares / static_cast<double>(reference.values.size())), largest,
      agreement.mean_divergence(), static_cast<long long>(agreement.same),
      static_cast<long long>(agreement.positions));
  return {};
}

// Of the text as of the golden, of an image as of the checkpoint.
struct References {
  Golden text;
  Logits text_logits;
  std::optional<Golden> image;
  Logits image_logits;
};

Result<References> references(const std::map<std::string, std::string>& given, Device& device) {
  References made;
  TRY(made.text, read_golden(given.at("--text")));
  if (made.text.taps.size() != 1 || made.text.taps[0].rows.size() != made.text.ids.size())
    return fail(ErrorCode::kInvalid, "{} has not the logits of its {} tokens alone",
                given.at("--text"), made.text.ids.size());
  made.text_logits = {made.text.ids, made.text.taps[0].values, made.text.taps[0].cols};
  if (!given.contains("--image")) return made;
  TRY(made.image, read_golden(given.at("--image")));
  TRY(const Checkpoint checkpoint, open_checkpoint(given.at("--checkpoint")));
  TRY(const auto tokenizer, load_tokenizer(checkpoint.files));
  TRY(const auto model, load_model(checkpoint, device, {.compute = DType::kF32, .kv = {}}));
  TRY(made.image_logits, logits_of(model, *tokenizer, device, *made.image));
  return made;
}

Result<void> run(const std::map<std::string, std::string>& given) {
  const int threads = given.contains("--threads") ? std::atoi(given.at("--threads").c_str()) : 0;
  TRY(const auto device, make_cpu_device(threads, ""));
  TRY(References reference, references(given, *device));
  TRY(const Checkpoint checkpoint, open_checkpoint(given.at("--model")));
  TRY(const auto tokenizer, load_tokenizer(checkpoint.files));
  LoadOptions numbers{.compute = DType::kF32, .kv = {}};
  numbers.dequantize = true;
  LoadOptions served;
  served.int8_rows = Int8Rows::kBeforeBlocks;
  const char* before = "{";
  for (const auto& [name, options] :
       {std::pair("float32", &numbers), std::pair("served", &served)}) {
    TRY(const auto model, load_model(checkpoint, *device, *options));
    TRY(Logits text, logits_of(model, *tokenizer, *device, reference.text));
    std::printf("%s\"%s\": {", before, name);
    TRY_DO(print("text", reference.text_logits, text));
    before = ", ";
    if (reference.image) {
      TRY(Logits image, logits_of(model, *tokenizer, *device, *reference.image));
      std::printf(", ");
      TRY_DO(print("image", reference.image_logits, image));
    }
    std::printf("}");
  }
  std::printf("}\n");
  return {};
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  saccade::log::set_level(saccade::log::Level::kError);
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  for (const auto& [name, value] : given) {
    if (name == "--model" || name == "--checkpoint" || name == "--text" || name == "--image" ||
        name == "--threads")
      continue;
    std::fprintf(stderr, "gguf_logits: %s is not known\n", name.c_str());
    return 2;
  }
  for (const char* const name : {"--model", "--checkpoint", "--text"}) {
    if (given.contains(name)) continue;
    std::fprintf(stderr, "gguf_logits: %s is required\n", name);
    return 2;
  }
  const auto done = saccade::run(given);
  if (!done) std::fprintf(stderr, "gguf_logits: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
