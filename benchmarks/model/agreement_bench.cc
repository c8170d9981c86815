// What weights and keys and values in fewer bits change in what a checkpoint says, and what they
// save. Each form is held against the first one at the same places of the same texts, which both
// are shown word by word: KL(first || form), the most likely token, the log-probability of what
// stands there; and by what it says by itself to labelled pictures.
//   agreement_bench --model DIR [--forms bf16,bf16+kv-int8,...] [--pictures DIR] [--every N]
//                   [--turns N] [--prompt N] [--runs N] [--threads N] [--isa NAME]
//                   [--random-weights yes]
// A form is parts joined by +: bf16 or f32; int8, int4 (the text's layers), a8 (activations before
// int4), blocks (as a GGUF is served), head, tower (in bytes); kv-int8, kv-fp8, kv-bf16, kv-f32.
// Without --pictures, or with random weights, which say nothing, it measures memory and speed
// alone: a prompt of --prompt tokens, then 32 tokens after it, the first form and another in turns.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "benchmarks/model/harness.h"
#include "benchmarks/model/teacher_forced.h"
#include "engine/admission/kv_pool.h"
#include "tests/support/logit_agreement.h"

namespace saccade {
namespace {

struct Arguments {
  std::string model;
  std::string forms =
      "bf16,bf16+kv-int8,bf16+kv-fp8,int8+bf16,int4+bf16,int8+bf16+kv-int8,int4+bf16+kv-int8,"
      "int4+bf16+kv-fp8";
  std::string pictures;
  std::string isa;
  std::string random_weights;
  int every = 1;
  int turns = 6;
  int prompt = 512;
  int runs = 3;
  int threads = 0;
};

struct Form {
  std::string name;
  LoadOptions options;
};

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == by)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

Result<Form> parse_form(const std::string& name) {
  Form form{name, {}};
  LoadOptions& options = form.options;
  for (const std::string& part : split(name, '+')) {
    if (part == "bf16")
      options.compute = DType::kBf16;
    else if (part == "f32")
      options.compute = DType::kF32;
    else if (part == "int8")
      options.text_layers = DType::kI8;
    else if (part == "int4")
      options.four_bit_text = true;
    else if (part == "a8")
      options.int8_rows = Int8Rows::kBeforeFourBits;
    else if (part == "blocks")
      options.int8_rows = Int8Rows::kBeforeBlocks;
    else if (part == "tower")
      options.tower_layers = DType::kI8;
    else if (part == "head")
      options.head = DType::kI8;
    else if (part == "kv-int8")
      options.kv = DType::kI8;
    else if (part == "kv-fp8")
      options.kv = DType::kE4m3;
    else if (part == "kv-bf16")
      options.kv = DType::kBf16;
    else if (part == "kv-f32")
      options.kv = DType::kF32;
    else
      return fail(ErrorCode::kInvalid, "form {}: {} is not known", name, part);
  }
  return form;
}

// Of one kind of text.
struct Held {
  LogitAgreement agreement;
  double log_probability = 0;  // of what stands there, summed, in the form; and in the first one
  double first_log_probability = 0;
  std::int64_t tokens = 0;
};

double log_probability(const float* logits, std::int64_t vocab, TokenId token) {
  const double most = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - most);
  return logits[token] - most - std::log(sum);
}

Result<void> hold(TeacherForced& first, TeacherForced& form, const Passage& passage, Held& held) {
  TRY(const View wanted, first.logits(passage));
  TRY(const View got, form.logits(passage));
  held.agreement.add(wanted, got);
  const std::vector<TokenId>& next = form.next_tokens();
  for (std::size_t i = 0; i < next.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    held.log_probability += log_probability(got.row<float>(row), got.cols(), next[i]);
    held.first_log_probability += log_probability(wanted.row<float>(row), wanted.cols(), next[i]);
    ++held.tokens;
  }
  return {};
}

void print(const char* texts, const std::string& form, const Held& held) {
  const LogitAgreement& of = held.agreement;
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, held.tokens));
  std::printf("%-14s %-22s KL mean %.2e p99 %.2e, top-1 %lld of %lld, nats a token %.5f (%+.1e)\n",
              texts, form.c_str(), of.mean_divergence(), of.divergence_of(0.99),
              static_cast<long long>(of.same), static_cast<long long>(of.positions),
              -held.log_probability / tokens,
              (held.first_log_probability - held.log_probability) / tokens);
  std::fflush(stdout);
}

// The passages of a folder: each picture alone, each question without, and each picture after those
// before it.
struct Passages {
  std::vector<Passage> answers;
  std::vector<Passage> questions;
  std::vector<Passage> conversations;
};

Result<Passages> passages_of(const Arguments& arguments) {
  TRY(const auto pictures, read_pictures(arguments.pictures));
  Passages all;
  const auto turns = static_cast<std::size_t>(std::max(1, arguments.turns));
  for (std::size_t i = 0; i < pictures.size(); i += static_cast<std::size_t>(arguments.every)) {
    all.answers.push_back({{pictures[i]}, true});
    all.questions.push_back({{pictures[i]}, false});
    if (i + 1 < turns) continue;
    const auto end = pictures.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    all.conversations.push_back({{end - static_cast<std::ptrdiff_t>(turns), end}, true});
  }
  return all;
}

Result<void> compare(const Arguments& arguments, Device& device, const std::vector<Form>& forms) {
  TRY(const Passages passages, passages_of(arguments));
  TRY(const auto first, TeacherForced::load(arguments.model, device, forms.front().options));
  std::vector<std::string> said;
  for (const Form& form : forms) {
    TRY(const auto other, TeacherForced::load(arguments.model, device, form.options));
    if (&form != &forms.front()) {
      for (const auto& [texts, list] : {std::pair("answers", &passages.answers),
                                        std::pair("conversations", &passages.conversations),
                                        std::pair("questions", &passages.questions)}) {
        Held held;
        for (const Passage& passage : *list) TRY_DO(hold(*first, *other, passage, held));
        print(texts, form.name, held);
      }
    }
    int right = 0;
    int same = 0;
    for (std::size_t i = 0; i < passages.answers.size(); ++i) {
      TRY(const std::string answer, other->answer(passages.answers[i]));
      right += answer == passages.answers[i].turns.back().answer;
      if (&form == &forms.front()) said.push_back(answer);
      same += answer == said[i];
    }
    std::printf("%-14s %-22s %d right, %d as %s, of %zu\n", "says", form.name.c_str(), right, same,
                forms.front().name.c_str(), said.size());
  }
  return {};
}

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

struct Speeds {
  std::vector<double> prefill;  // tokens a second
  std::vector<double> decode;
};

void take(Harness& harness, const Arguments& arguments, Speeds& into) {
  into.prefill.push_back(arguments.prompt / harness.prefill().seconds);
  into.decode.push_back(1 / harness.decode(1).seconds);
}

Result<void> measure(const Arguments& arguments, const std::shared_ptr<Device>& device,
                     const std::vector<Form>& forms) {
  const HarnessSizes sizes = {.prompt = arguments.prompt, .sequences = 1, .image_side = 224};
  TRY(const auto first, Harness::create(arguments.model, device, forms.front().options, sizes));
  for (const Form& form : forms) {
    TRY(const auto other, Harness::create(arguments.model, device, form.options, sizes));
    std::int64_t token_bytes = 0;
    for (const LayerSpec& layer : layer_specs(other->shape())) token_bytes += layer.token_bytes();
    Speeds of_first;
    Speeds of_other;
    for (int run = 0; run < arguments.runs; ++run) {
      // The order turned round each time.
      if (run % 2 == 0) take(*first, arguments, of_first);
      take(*other, arguments, of_other);
      if (run % 2 == 1) take(*first, arguments, of_first);
    }
    std::printf(
        "%-14s %-22s %.2f MB of weights, %lld bytes a token; prompt of %d: %.1f tokens/s (%s "
        "beside "
        "%.1f); then %.2f tokens/s (%.2f)\n",
        "memory, speed", form.name.c_str(), static_cast<double>(other->shape().weight_bytes) / 1e6,
        static_cast<long long>(token_bytes), arguments.prompt, median(of_other.prefill),
        forms.front().name.c_str(), median(of_first.prefill), median(of_other.decode),
        median(of_first.decode));
    std::fflush(stdout);
  }
  return {};
}

Result<void> run(const Arguments& arguments) {
  std::vector<Form> forms;
  for (const std::string& name : split(arguments.forms, ',')) {
    TRY(Form form, parse_form(name));
    form.options.random_weights = !arguments.random_weights.empty();
    forms.push_back(std::move(form));
  }
  TRY(auto made, make_cpu_device(arguments.threads, arguments.isa));
  const std::shared_ptr<Device> device = std::move(made);
  std::printf("%s on %s\n", arguments.model.c_str(), device->description().c_str());
  if (!arguments.pictures.empty() && arguments.random_weights.empty())
    TRY_DO(compare(arguments, *device, forms));
  return measure(arguments, device, forms);
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  saccade::Arguments arguments;
  saccade::log::set_level(saccade::log::Level::kError);
  const std::map<std::string, std::string*> texts = {
      {"--model", &arguments.model},
      {"--forms", &arguments.forms},
      {"--pictures", &arguments.pictures},
      {"--isa", &arguments.isa},
      {"--random-weights", &arguments.random_weights}};
  const std::map<std::string, int*> counts = {{"--every", &arguments.every},
                                              {"--turns", &arguments.turns},
                                              {"--prompt", &arguments.prompt},
                                              {"--runs", &arguments.runs},
                                              {"--threads", &arguments.threads}};
  for (int i = 1; i < argc; i += 2) {
    const auto text = texts.find(argv[i]);
    const auto count = counts.find(argv[i]);
    if (i + 1 == argc || (text == texts.end() && count == counts.end())) {
      std::fprintf(stderr, "agreement_bench: %s is not known, or has no value\n", argv[i]);
      return 2;
    }
    if (text != texts.end())
      *text->second = argv[i + 1];
    else
      *count->second = std::max(count->first == "--threads" ? 0 : 1, std::atoi(argv[i + 1]));
  }
  if (arguments.model.empty()) {
    std::fprintf(stderr, "agreement_bench: --model DIR is required\n");
    return 2;
  }
  const auto done = saccade::run(arguments);
  if (!done) std::fprintf(stderr, "agreement_bench: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
