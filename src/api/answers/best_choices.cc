#include "api/answers/best_choices.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace saccade::api {
namespace {

class Best final : public AnswerWriter {
 public:
  Best(BestChoices form, std::unique_ptr<AnswerWriter> writer)
      : form_(form), writer_(std::move(writer)), choices_(form.prompts * form.made) {}

  std::string add(AnswerPiece&& piece, const Usage*) override {
    Choice& choice = choices_[static_cast<std::size_t>(piece.rest.index)];
    if (piece.rest.logprobs) {
      for (const LogprobEntry& entry : *piece.rest.logprobs) {
        if (entry.echoed) continue;
        choice.logprob += entry.logprob;
        ++choice.tokens;
      }
    }
    if (!form_.logprobs) piece.rest.logprobs.reset();
    choice.pieces.push_back(std::move(piece));
    return {};
  }

  std::string finish(const Usage& usage, const StageTimes* times) override {
    for (std::size_t prompt = 0; prompt < form_.prompts; ++prompt) {
      std::vector<std::size_t> order(form_.made);
      std::iota(order.begin(), order.end(), prompt * form_.made);
      std::ranges::stable_sort(order, std::greater<>(),
                               [&](std::size_t choice) { return choices_[choice].mean(); });
      for (std::size_t place = 0; place < form_.given; ++place) {
        for (AnswerPiece& piece : choices_[order[place]].pieces) {
          piece.rest.index = static_cast<int>(prompt * form_.given + place);
          writer_->add(std::move(piece), nullptr);
        }
      }
    }
    return writer_->finish(usage, times);
  }

  std::string fail(const Error& error) override { return writer_->fail(error); }

 private:
  struct Choice {
    std::vector<AnswerPiece> pieces;
    double logprob = 0;  // of all its tokens
    std::int64_t tokens = 0;
    double mean() const { return tokens > 0 ? logprob / static_cast<double>(tokens) : 0; }
  };

  const BestChoices form_;
  const std::unique_ptr<AnswerWriter> writer_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> best_choices(BestChoices form, std::unique_ptr<AnswerWriter> writer) {
  return std::make_unique<Best>(form, std::move(writer));
}

}  // namespace saccade::api
