#include "chat/conversation.h"

#include "bench/datasets/image_source.h"

namespace saccade::chat {
namespace {

bool is_url(std::string_view text) {
  return text.starts_with("http://") || text.starts_with("https://") ||
         text.starts_with("file://") || text.starts_with("data:");
}

}  // namespace

Result<bench::SharedImage> Conversation::add_image(const std::string& path_or_url) {
  bench::SharedImage image;
  if (is_url(path_or_url)) {
    auto named = std::make_shared<bench::EncodedImage>();
    named->url = path_or_url;
    image = std::move(named);
  } else {
    TRY(image, bench::file_image(path_or_url, false));
  }
  waiting_.push_back(image);
  return image;
}

std::size_t Conversation::drop_images() {
  const std::size_t count = waiting_.size();
  waiting_.clear();
  return count;
}

void Conversation::set_field(const std::string& name, const std::string& text) {
  if (text.empty()) {
    settings_.extra.erase(name);
    return;
  }
  auto value = json::parse(text);
  settings_.extra[name] = value ? *std::move(value) : json::value(json::string(text));
}

void Conversation::ask(std::string text) {
  bench::ChatMessage message;
  for (bench::SharedImage& image : waiting_) message.parts.push_back({{}, std::move(image)});
  waiting_.clear();
  if (!text.empty() || message.parts.empty()) message.parts.push_back({std::move(text), nullptr});
  messages_.push_back(std::move(message));
}

void Conversation::answered(std::string text) {
  if (text.empty()) {
    undo();
    return;
  }
  messages_.push_back({"assistant", {{std::move(text), nullptr}}});
}

bool Conversation::retry() {
  if (messages_.empty()) return false;
  if (!is_asking()) messages_.pop_back();
  return true;
}

bool Conversation::undo() {
  if (!retry()) return false;
  messages_.pop_back();
  return true;
}

void Conversation::clear() {
  messages_.clear();
  waiting_.clear();
}

bool Conversation::is_asking() const {
  return !messages_.empty() && messages_.back().role == "user";
}

bench::BodyPieces Conversation::body() const {
  bench::Prompt prompt;
  if (!system_.empty()) prompt.messages.push_back({"system", {{system_, nullptr}}});
  prompt.messages.insert(prompt.messages.end(), messages_.begin(), messages_.end());
  return bench::encode_body(settings_, prompt);
}

}  // namespace saccade::chat
