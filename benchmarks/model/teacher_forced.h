// Labelled pictures as texts that a model is shown word by word: what it would have said at each
// place, whatever it says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/families.h"
#include "model/solo_run.h"
#include "text/templates/chat_template.h"
#include "text/tokenizer.h"

namespace saccade {

struct LabelledPicture {
  std::string path;
  std::string question;
  std::string answer;
  std::int64_t longest = 0;  // tokens of what is said
};

// Of a folder's answers.jsonl (data/glimpse/README.md).
Result<std::vector<LabelledPicture>> read_pictures(const std::string& folder);

// A question, after other questions and their answers; and what is to be said to it.
struct Passage {
  std::vector<LabelledPicture> turns;  // the last one's answer is what is looked at
  bool sees = true;                    // false: without the pictures, and every token is looked at
};

// One checkpoint in one form on one device.
class TeacherForced {
 public:
  static Result<std::unique_ptr<TeacherForced>> load(const std::string& directory, Device& device,
                                                     const LoadOptions& options);

  // Logits [places, vocab] f32 of the host, good until the next call: at every token of a passage
  // that does not see; else at those that the answer's tokens and its end come after.
  Result<View> logits(const Passage& passage);
  // Of the last call: the token that came after each place; one fewer than places.
  const std::vector<TokenId>& next_tokens() const { return next_; }
  // What it says by itself to the passage's last question.
  Result<std::string> answer(const Passage& passage);
  const ModelShape& shape() const { return model_->shape(); }

 private:
  explicit TeacherForced(Device& device) : device_(device) {}
  // `said`: of the last answer.
  Result<std::unique_ptr<SoloRun>> run(const Passage& passage, const std::string& said,
                                       std::int64_t new_tokens);

  Device& device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> template_;
  ChatTemplateOptions render_;
  std::unique_ptr<SoloRun> run_;
  std::vector<TokenId> ids_;  // of run_
  std::vector<TokenId> next_;
  Buffer staging_;
};

}  // namespace saccade
