#include "bench/datasets/conversation.h"

#include "base/check.h"

namespace saccade::bench {

std::vector<ChatMessage> conversation_messages(std::span<const Prompt> turns,
                                               std::span<const std::string> answers,
                                               TurnImages images) {
  CHECK(answers.size() + 1 == turns.size(), "{} answers for {} turns", answers.size(),
        turns.size());
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    for (const ChatMessage& own : turns[i].messages) messages.push_back(own);
    if (i < answers.size())
      messages.push_back({.role = "assistant", .parts = {{.text = answers[i]}}});
  }
  if (images == TurnImages::kOwnMessage || messages.empty()) return messages;
  for (ChatMessage& message : messages)
    std::erase_if(message.parts, [](const ContentPart& part) { return part.image != nullptr; });
  for (const ChatMessage& own : turns.back().messages)
    for (const ContentPart& part : own.parts)
      if (part.image != nullptr) messages.front().parts.push_back(part);
  return messages;
}

Conversations::Conversations(std::vector<Prompt> prompts, BodySettings body, TurnImages images)
    : prompts_(std::move(prompts)), body_(std::move(body)), images_(images) {
  for (std::size_t i = 0; i < prompts_.size(); ++i)
    if (i == 0 || prompts_[i].conversation != prompts_[i - 1].conversation) begin_.push_back(i);
  begin_.push_back(prompts_.size());
  answers_.resize(count());
}

LoadRequest Conversations::request(std::size_t conversation, std::size_t turn,
                                   std::span<const std::string> answers) const {
  const std::span<const Prompt> turns = std::span(prompts_).subspan(begin_[conversation], turn + 1);
  Prompt asked;
  asked.max_tokens = turns.back().max_tokens;
  LoadRequest request;
  request.body =
      encode_body(body_, conversation_messages(turns, answers, images_), asked, conversation);
  request.prompt = static_cast<std::uint32_t>(begin_[conversation] + turn);
  request.max_tokens = asked.max_tokens;
  request.conversation = static_cast<std::int32_t>(conversation);
  request.turn = static_cast<std::int32_t>(turn);
  return request;
}

std::vector<LoadRequest> Conversations::first_turns() const {
  std::vector<LoadRequest> requests;
  for (std::size_t c = 0; c < count(); ++c) requests.push_back(request(c, 0, {}));
  return requests;
}

std::optional<FollowUp> Conversations::next(const RequestRecord& ended, const std::string& answer) {
  const auto conversation = static_cast<std::size_t>(ended.conversation);
  const auto turn = static_cast<std::size_t>(ended.turn) + 1;
  if (begin_[conversation] + turn >= begin_[conversation + 1]) return std::nullopt;
  std::vector<std::string> answers;
  {
    const std::lock_guard lock(mutex_);
    answers_[conversation].push_back(answer);
    answers = answers_[conversation];
  }
  return FollowUp{.request = request(conversation, turn, answers), .delay = 0};
}

}  // namespace saccade::bench
