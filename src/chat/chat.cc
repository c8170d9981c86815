#include "chat/chat.h"

#include <algorithm>
#include <fstream>

#include "base/text/base64.h"
#include "chat/answer_stream.h"
#include "chat/chat_line.h"
#include "chat/conversation.h"
#include "chat/terminal.h"

namespace saccade::chat {
namespace {

constexpr int kPreviewSide = 240;  // pixels
constexpr std::string_view kPrompt = "> ";

class Chat {
 public:
  Chat(const ChatSettings& settings, bench::ServerTarget target, bench::ServerProbe probe,
       std::unique_ptr<net::HttpClient> client)
      : settings_(settings),
        target_(std::move(target)),
        probe_(std::move(probe)),
        client_(std::move(client)) {}

  Result<bool> run(Terminal& terminal) {
    terminal_ = &terminal;
    conversation_.set_system(settings_.system);
    for (const auto& [name, value] : settings_.fields) conversation_.set_field(name, value);
    TRY_DO(greet());
    for (const std::string& image : settings_.images) TRY_DO(add_image(image));
    while (!leaving_) {
      const auto line = terminal_->read_line(std::string(kPrompt));
      if (!line) break;
      const auto done = obey(*line);
      if (!done) trouble(done.error().message);
    }
    return terminal.interactive() || !failed_;
  }

 private:
  void trouble(std::string_view message) {
    failed_ = true;
    terminal_->trouble(message);
  }

  Result<void> greet() {
    TRY(const bench::ServerDescription server, probe_.describe());
    if (server.models.empty() && settings_.model.empty())
      return fail(ErrorCode::kUnavailable,
                  "{} names no model: is it the right address, and is --api-key given?",
                  target_.base_url);
    conversation_.set_model(settings_.model.empty() ? server.models.front().id : settings_.model);
    if (terminal_->interactive())
      terminal_->note(fmt::format("{} at {}; /help says what else there is, Ctrl-D leaves",
                                  conversation_.model(), target_.base_url));
    return {};
  }

  Result<void> obey(const std::string& text) {
    TRY(const ChatLine line, parse_chat_line(text));
    const std::string& word = line.command;
    if (word.empty()) {
      if (line.text.empty()) return {};
      conversation_.ask(line.text);
      return answer();
    }
    if (word == "image") return add_image(line.text);
    if (word == "set") return set(line.text);
    if (word == "model") return choose_model(line.text);
    if (word == "save") return save(line.text);
    if (word == "retry") {
      if (!conversation_.retry()) return fail(ErrorCode::kInvalid, "nothing has been asked yet");
      return answer();
    }
    if (word == "undo" && !conversation_.undo())
      return fail(ErrorCode::kInvalid, "nothing has been asked yet");
    if (word == "clear") conversation_.clear();
    if (word == "system") conversation_.set_system(line.text);
    if (word == "drop") terminal_->note(fmt::format("{} taken away", conversation_.drop_images()));
    if (word == "help") terminal_->write(command_help());
    leaving_ = word == "quit";
    return {};
  }

  Result<void> add_image(const std::string& path) {
    if (path.empty()) return fail(ErrorCode::kInvalid, "/image: a file or a URL is required");
    TRY(const bench::SharedImage image, conversation_.add_image(path));
    if (!terminal_->interactive()) return {};
    if (image->base64 == nullptr) {
      terminal_->note(fmt::format("{}: the server fetches it", path));
      return {};
    }
    if (settings_.previews && terminal_->preview_kind() != PreviewKind::kNone) {
      TRY(const std::string bytes, base64_decode(*image->base64));
      TRY(const Pixels pixels, decode_image(std::as_bytes(std::span(bytes))));
      terminal_->write(preview(terminal_->preview_kind(), pixels, kPreviewSide));
    }
    terminal_->note(
        fmt::format("{}: {} x {}, {} bytes", path, image->width, image->height, image->bytes));
    return {};
  }

  Result<void> set(const std::string& text) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0)
      conversation_.set_field(text.substr(0, end), text.substr(std::min(end + 1, text.size())));
    for (const auto& field : conversation_.fields()) {
      std::string value;
      json::JsonWriter(value).value(field.value());
      terminal_->note(fmt::format("{} {}", std::string_view(field.key()), value));
    }
    return {};
  }

  Result<void> choose_model(const std::string& name) {
    TRY(const bench::ServerDescription server, probe_.describe());
    for (const bench::ServedModel& model : server.models) {
      if (name.empty())
        terminal_->note(
            fmt::format("{} {}", model.id == conversation_.model() ? "*" : " ", model.id));
      if (model.id != name) continue;
      conversation_.set_model(name);
      return {};
    }
    if (name.empty()) return {};
    return fail(ErrorCode::kNotFound, "{} has no model '{}': /model lists those it has",
                target_.base_url, name);
  }

  Result<void> save(const std::string& path) {
    if (path.empty()) return fail(ErrorCode::kInvalid, "/save: a file is required");
    std::ofstream file(path, std::ios::binary);
    file << bench::join(conversation_.body()) << '\n';
    file.close();
    if (!file) return fail(ErrorCode::kInvalid, "/save: {} cannot be written", path);
    return {};
  }

  Result<void> answer() {
    bool thinking = false;
    AnswerEnd end =
        stream_answer(*client_, target_, conversation_.body(), [&](const AnswerPiece& piece) {
          if (thinking && !piece.is_thought) terminal_->write("\n\n");
          thinking = piece.is_thought;
          if (piece.is_thought)
            terminal_->thought(piece.text);
          else
            terminal_->write(printable(piece.text));
        });
    if (!end.text.empty() && !end.text.ends_with('\n')) terminal_->write("\n");
    if (terminal_->interactive() && !facts_of(end).empty()) terminal_->note(facts_of(end));
    const std::string error = end.error;
    conversation_.answered(std::move(end.text));
    if (!error.empty()) trouble(error);
    return {};
  }

  const ChatSettings& settings_;
  bench::ServerTarget target_;
  bench::ServerProbe probe_;
  std::unique_ptr<net::HttpClient> client_;
  Conversation conversation_;
  Terminal* terminal_ = nullptr;
  bool leaving_ = false;
  bool failed_ = false;
};

}  // namespace

bool names_server(std::string_view given) {
  if (given.find("://") != std::string_view::npos || given == "localhost") return true;
  const std::size_t colon = given.rfind(':');
  return colon != std::string_view::npos && colon > 0 && colon + 1 < given.size() &&
         given.find('/') == std::string_view::npos &&
         std::ranges::all_of(given.substr(colon + 1), [](char c) { return c >= '0' && c <= '9'; });
}

Result<bool> run_chat(const ChatSettings& settings) {
  Terminal terminal;  // first: it blocks SIGINT, and threads inherit that
  bench::ServerTarget target;
  target.base_url = settings.base_url;
  if (!settings.api_key.empty())
    target.headers.emplace_back("Authorization", "Bearer " + settings.api_key);
  target.client.verify_tls = settings.verify_tls;
  target.client.ca_file = settings.ca_file;
  TRY(bench::ServerProbe probe, bench::ServerProbe::create(target));
  TRY(std::unique_ptr<net::HttpClient> client, net::HttpClient::create(target.client));
  return Chat(settings, std::move(target), std::move(probe), std::move(client)).run(terminal);
}

}  // namespace saccade::chat
