// Any bytes as the body of every request kind: a struct that keeps its promises, or an error that
// can be sent.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "api/answers/response_writer.h"
#include "api/pages/error_table.h"
#include "api/requests/chat_request.h"
#include "api/requests/completion_request.h"
#include "api/requests/embeddings.h"
#include "api/requests/messages_request.h"
#include "api/requests/response_input.h"
#include "api/requests/response_request.h"
#include "api/requests/similarity.h"
#include "api/requests/tokenize_request.h"
#include "base/check.h"

namespace {

template <typename T>
void check_error(const saccade::Result<T>& request) {
  if (request) return;
  CHECK(!request.error().message.empty(), "an error without a message");
  CHECK(saccade::json::parse(saccade::api::error_body(request.error())), "error body");
}

void check_sampling(const saccade::api::SamplingFields& sampling) {
  for (const auto& number :
       {sampling.temperature, sampling.top_p, sampling.min_p, sampling.repetition_penalty}) {
    CHECK(!number || (std::isfinite(*number) && *number >= 0), "{}", *number);
  }
  for (const auto& [id, bias] : sampling.logit_bias) CHECK(std::fabs(bias) <= 100, "{}", bias);
  for (const auto& stop : sampling.stop) CHECK(!stop.empty(), "an empty stop string");
  CHECK(sampling.n >= 1 && sampling.n <= 128, "n {}", sampling.n);
  CHECK(!sampling.max_tokens || *sampling.max_tokens >= 1, "max_tokens {}", *sampling.max_tokens);
}

void check_parts(const saccade::api::ChatRequest& chat) {
  for (const auto& message : chat.messages) {
    for (const auto& part : message.content) {
      using Kind = saccade::api::ContentPart::Kind;
      const std::size_t count = part.kind == Kind::kImage   ? chat.images.size()
                                : part.kind == Kind::kVideo ? chat.videos.size()
                                                            : part.index + 1;
      CHECK(part.index < count, "medium {} of {}", part.index, count);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto chat = saccade::api::parse_chat_request(body);
  check_error(chat);
  if (chat) {
    check_sampling(chat->sampling);
    check_parts(*chat);
    for (const auto& video : chat->videos) {
      CHECK(video.file.empty() != video.frames.empty() && video.frames.size() <= 4096,
            "a file of {} characters and {} frames", video.file.size(), video.frames.size());
      CHECK(!video.fps || (std::isfinite(*video.fps) && *video.fps > 0), "fps {}", *video.fps);
      for (const auto& frame : video.frames) CHECK(!frame.empty(), "a frame without a URL");
    }
    const auto keep = [](std::string_view text) { return std::string(text); };
    CHECK(saccade::api::template_messages(*chat, keep).size() == chat->messages.size(), "messages");
  }
  const auto completion = saccade::api::parse_completion_request(body);
  check_error(completion);
  if (completion) {
    check_sampling(completion->sampling);
    CHECK(!completion->prompts.empty(), "no prompt");
  }
  const auto embedding = saccade::api::parse_embedding_request(body);
  check_error(embedding);
  if (embedding) {
    CHECK(!embedding->inputs.empty() && embedding->inputs.size() <= 2048, "inputs");
    CHECK(!embedding->dimensions || *embedding->dimensions >= 1, "dimensions");
  }
  auto response = saccade::api::parse_response_request(body);
  check_error(response);
  if (response) {
    check_sampling(response->chat.sampling);
    CHECK(saccade::json::parse("{" + saccade::api::response_settings(*response) + "}"), "settings");
    const saccade::api::ItemText shown[] = {response->input};
    const auto items = saccade::api::input_items(shown, "resp_1", {});
    check_error(items);
    CHECK(!items || saccade::json::parse(*items), "input items");
    const auto added = saccade::api::add_conversation(*response, {});
    check_error(added);
    if (added) {
      // What this answer keeps is what the next request reads.
      const std::size_t messages = response->chat.messages.size();
      saccade::api::ResponseRequest next;
      next.input = response->input;
      const auto again = saccade::api::add_conversation(next, {response->input});
      CHECK(again || messages * 2 > 1000, "the same items are refused the second time");
    }
  }
  const auto messages = saccade::api::parse_messages_request(body);
  check_error(messages);
  if (messages) {
    check_sampling(messages->sampling);
    check_parts(*messages);
    CHECK(!messages->messages.empty() && messages->sampling.max_tokens, "messages");
    const auto keep = [](std::string_view text) { return std::string(text); };
    CHECK(saccade::api::template_messages(*messages, keep).size() == messages->messages.size(),
          "messages");
    // What may be answered may be counted.
    CHECK(saccade::api::parse_count_tokens_request(body), "count_tokens");
  }
  const auto page = saccade::api::parse_item_page(body);
  check_error(page);
  CHECK(!page || (page->limit >= 1 && page->limit <= 100), "limit {}", page->limit);
  const auto score = saccade::api::parse_score_request(body);
  check_error(score);
  if (score)
    CHECK(!score->second.empty() &&
              (score->first.size() == 1 || score->first.size() == score->second.size()),
          "{} texts and {}", score->first.size(), score->second.size());
  const auto rerank = saccade::api::parse_rerank_request(body);
  check_error(rerank);
  if (rerank) {
    const std::vector<double> scores(rerank->texts.second.size());
    CHECK(saccade::json::parse(saccade::api::rerank_response({}, *rerank, scores, 1)), "rerank");
  }
  check_error(saccade::api::parse_tokenize_request(body));
  check_error(saccade::api::parse_detokenize_request(body));
  return 0;
}
