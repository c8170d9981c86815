// Any bytes as a chat request, all the way to what the engine takes: template (also one that the
// request brings), media in data URLs, tokenizer, layout, positions, sampling. A complete prompt
// that keeps its promises, or an error that is the client's.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/pages/error_table.h"
#include "api/requests/chat_request.h"
#include "api/requests/completion_request.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/checkpoint/checkpoint.h"
#include "model/families.h"
#include "serve/requests/request_builder.h"

namespace {

using namespace saccade;

constexpr std::int64_t kMaxLength = 2048;

// The small Qwen2-VL of the golden tests, without its weights.
struct World {
  serve::ServeSettings settings;
  SteadyClock clock;
  std::unique_ptr<Processor> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<serve::RequestBuilder> builder;

  World() {
    log::set_level(log::Level::kError);
    const std::string directory =
        std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/odd_heads";
    settings.trust_request_chat_template = true;
    settings.max_image_pixels = 1 << 20;
    const Checkpoint checkpoint = open_checkpoint(directory).value();
    model = Processor::open(checkpoint).value();
    tokenizer = load_tokenizer(directory).value();
    builder = std::make_unique<serve::RequestBuilder>(settings, *model, tokenizer,
                                                      load_chat_template(directory).value(),
                                                      serve::SamplingDefaults{}, clock);
    CHECK(builder->compile_template(), "the checkpoint's template");
  }
};

void check_error(const Error& error) {
  const api::ErrorKind kind = api::kind_of(error.code);
  CHECK(kind.status >= 400 && kind.status < 500, "{}: {}", kind.status, error.message);
  CHECK(!error.message.empty() && error.message.size() < 4096, "a message of {} bytes",
        error.message.size());
}

void check_prompt(const World& world, const serve::BuiltPrompt& built) {
  const Prompt& prompt = built.prompt;
  const ModelShape& shape = world.model->shape();
  for (const TokenId id : prompt.ids)
    CHECK(id >= 0 && id < shape.vocab + shape.placeholders, "token {}", id);
  CHECK(prompt.positions.size() == static_cast<std::size_t>(shape.position_axes), "axes");
  for (const auto& axis : prompt.positions)
    CHECK(axis.size() == prompt.ids.size(), "{} positions", axis.size());
  std::int64_t end = 0;
  for (const ImageSpan& span : prompt.images) {
    CHECK(span.begin >= end && span.tokens > 0, "span at {} after {}", span.begin, end);
    end = span.begin + span.tokens;
    CHECK(span.index >= 0 && static_cast<std::size_t>(span.index) < built.images.size(), "image");
    const auto pixels = built.images[static_cast<std::size_t>(span.index)].source->load({});
    if (!pixels) check_error(pixels.error());
  }
  CHECK(end <= static_cast<std::int64_t>(prompt.ids.size()), "span past the end");
}

void chat(const World& world, std::string_view body) {
  const auto request = api::parse_chat_request(body);
  if (!request) return check_error(request.error());
  const auto remote = world.builder->media().remote(*request);
  if (!remote) return check_error(remote.error());
  if (!remote->empty()) return;  // nothing is fetched here
  const std::atomic<bool> cancelled = false;
  RequestTimes times;
  const auto built =
      world.builder->chat(*request, {.cancelled = cancelled, .times = times}, kMaxLength);
  if (!built) return check_error(built.error());
  check_prompt(world, *built);
  const auto count = static_cast<std::int64_t>(built->prompt.ids.size());
  const auto most = world.builder->max_tokens(request->sampling, count, kMaxLength, std::nullopt);
  if (!most) return check_error(most.error());
  CHECK(count + *most <= kMaxLength && *most > 0, "{} + {} tokens", count, *most);
  const auto sampling = world.builder->sampling(request->sampling, request->top_logprobs,
                                                request->sampling.prompt_logprobs);
  if (!sampling) check_error(sampling.error());
}

void completion(const World& world, std::string_view body) {
  const auto request = api::parse_completion_request(body);
  if (!request) return check_error(request.error());
  const std::atomic<bool> cancelled = false;
  for (const auto& prompt : request->prompts) {
    const auto built = world.builder->completion(prompt, *request, kMaxLength, cancelled);
    if (!built) return check_error(built.error());
    check_prompt(world, *built);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const World world;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  chat(world, body);
  completion(world, body);
  return 0;
}
