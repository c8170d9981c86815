#include "benchmarks/model/teacher_forced.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/json.h"
#include "image/pixels.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/mapped_file.h"
#include "ops/readback.h"

namespace saccade {
namespace {

json::array messages_of(const Passage& passage) {
  json::array messages;
  for (std::size_t i = 0; i < passage.turns.size(); ++i) {
    const LabelledPicture& turn = passage.turns[i];
    json::array parts;
    if (passage.sees) parts.push_back(json::object{{"type", "image"}});
    parts.push_back(json::object{{"type", "text"}, {"text", turn.question}});
    messages.push_back(json::object{{"role", "user"}, {"content", std::move(parts)}});
    if (i + 1 < passage.turns.size())
      messages.push_back(json::object{{"role", "assistant"}, {"content", turn.answer}});
  }
  return messages;
}

}  // namespace

Result<std::vector<LabelledPicture>> read_pictures(const std::string& folder) {
  const std::string path = folder + "/answers.jsonl";
  std::ifstream lines(path);
  if (!lines) return fail(ErrorCode::kNotFound, "{} cannot be read", path);
  std::vector<LabelledPicture> all;
  for (std::string line; std::getline(lines, line);) {
    TRY(const json::value row, json::parse(line));
    all.push_back({folder + "/" + std::string(row.at("image_files").as_array().at(0).as_string()),
                   std::string(row.at("prompt").as_string()),
                   std::string(row.at("reference").as_string()),
                   row.at("output_tokens").to_number<std::int64_t>()});
  }
  return all;
}

Result<std::unique_ptr<TeacherForced>> TeacherForced::load(const std::string& directory,
                                                           Device& device,
                                                           const LoadOptions& options) {
  std::unique_ptr<TeacherForced> made(new TeacherForced(device));
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  TRY(Model model, load_model(checkpoint, device, options));
  made->model_ = std::make_unique<Model>(std::move(model));
  TRY(made->tokenizer_, load_tokenizer(checkpoint.files));
  TRY(LoadedChatTemplate loaded, load_chat_template(checkpoint.files));
  TRY(ChatTemplate parsed, ChatTemplate::parse(loaded.source));
  made->template_ = std::make_unique<ChatTemplate>(std::move(parsed));
  made->render_.variables = std::move(loaded.variables);
  return made;
}

Result<std::unique_ptr<SoloRun>> TeacherForced::run(const Passage& passage, const std::string& said,
                                                    std::int64_t new_tokens) {
  const Processor& processor = *model_->processor;
  std::vector<ImageLayout> layouts;
  std::vector<PreparedImage> images;
  for (const LabelledPicture& turn : passage.turns) {
    if (!passage.sees) continue;
    TRY(const MappedFile file, MappedFile::open(turn.path));
    TRY(const Pixels pixels, decode_image(file.bytes()));
    TRY(const ImageLayout layout, processor.image_layout(pixels.width, pixels.height, {}));
    layouts.push_back(layout);
    TRY(PreparedImage image, processor.prepare_image(pixels, layout, {}));
    images.push_back(std::move(image));
  }
  TRY(const std::string text, template_->render(messages_of(passage), render_));
  TRY(Prompt prompt, processor.build_prompt(*tokenizer_, text + said, layouts, false));
  ids_ = prompt.ids;
  return SoloRun::create(*model_->network, device_, std::move(prompt), images, new_tokens);
}

Result<View> TeacherForced::logits(const Passage& passage) {
  const std::string said = passage.sees ? passage.turns.back().answer : "";
  TRY(run_, run(passage, said, 1));
  const std::int64_t places = passage.sees
                                  ? static_cast<std::int64_t>(tokenizer_->encode(said).size()) + 1
                                  : std::ssize(ids_);
  next_.assign(ids_.end() - (places - 1), ids_.end());
  return readable(device_.lane(Lane::kStep), run_->prefill(0, places), staging_);
}

Result<std::string> TeacherForced::answer(const Passage& passage) {
  TRY(run_, run(passage, "", passage.turns.back().longest));
  run_->prefill();
  std::vector<TokenId> ids = run_->greedy(passage.turns.back().longest);
  ids.erase(std::ranges::find_first_of(ids, shape().eos), ids.end());
  return tokenizer_->decode(ids, true);
}

}  // namespace saccade
