// What was said so far, and what goes with the next question.
#pragma once

#include <string>
#include <vector>

#include "bench/datasets/prompt.h"
#include "bench/load/request_body.h"

namespace saccade::chat {

// One thread.
class Conversation {
 public:
  // A file's bytes as they are, or a URL that the server is to fetch.
  Result<bench::SharedImage> add_image(const std::string& path_or_url);
  std::size_t drop_images();  // how many waited

  void set_system(std::string text) { system_ = std::move(text); }
  // A field of the request; text that is no JSON is a string. Empty text: not sent.
  void set_field(const std::string& name, const std::string& text);
  const json::object& fields() const { return settings_.extra; }
  void set_model(std::string model) { settings_.model = std::move(model); }
  const std::string& model() const { return settings_.model; }

  // The images that wait go before the text. Until answered() it is the last of the messages.
  void ask(std::string text);
  // An empty answer takes the question back: what comes next would be asked without one.
  void answered(std::string text);
  bool retry();  // forgets the last answer; false: nothing was asked
  bool undo();   // forgets the last question and its answer
  void clear();  // all but fields and system message

  bool is_asking() const;  // the last message is a question
  bench::BodyPieces body() const;

 private:
  std::vector<bench::ChatMessage> messages_;
  std::vector<bench::SharedImage> waiting_;
  std::string system_;
  bench::BodySettings settings_;
};

}  // namespace saccade::chat
