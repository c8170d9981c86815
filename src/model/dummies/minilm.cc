// Checkpoints of random weights of MiniLM.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, vocab, max_tokens;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 64, 128, 2, 4, 1024, 64},
    DummySize{"l6", 384, 1536, 6, 12, 30522, 256},
    DummySize{"l12", 384, 1536, 12, 12, 30522, 128},
};
constexpr std::array<std::string_view, 3> kDummyNames = {"tiny", "l6", "l12"};

std::string dummy_config(const DummySize& s) {
  return fmt::format(
      R"({{"architectures": ["BertModel"], "model_type": "bert", "attention_probs_dropout_prob": 0.1,
 "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": {}, "initializer_range": 0.02,
 "intermediate_size": {}, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
 "num_attention_heads": {}, "num_hidden_layers": {}, "pad_token_id": 0,
 "position_embedding_type": "absolute", "torch_dtype": "bfloat16", "type_vocab_size": 2,
 "use_cache": true, "vocab_size": {}}}
)",
      s.hidden, s.intermediate, s.heads, s.layers, s.vocab);
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"modules.json",
       R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
 {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
)"},
      {"1_Pooling/config.json",
       fmt::format(R"({{"word_embedding_dimension": {}, "pooling_mode_mean_tokens": true}})",
                   found->hidden)},
      {"sentence_bert_config.json",
       fmt::format(R"({{"max_seq_length": {}, "do_lower_case": false}})", found->max_tokens)},
      {"tokenizer_config.json",
       R"({"cls_token": "[CLS]", "do_lower_case": true, "mask_token": "[MASK]", "model_max_length": 512,
 "pad_token": "[PAD]", "sep_token": "[SEP]", "tokenizer_class": "BertTokenizer", "unk_token": "[UNK]"}
)"},
      {"tokenizer.json", make_word_piece_tokenizer_json(found->vocab)}};
  return checkpoint;
}

}  // namespace

extern const DummySizes kMiniLmDummies;
const DummySizes kMiniLmDummies = {kDummyNames, dummy};

}  // namespace saccade
