// What a GGUF checkpoint is a checkpoint of: one row for each pair of a text architecture and a
// projector, and how its tensors become those of the class in transformers that a family here
// reads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model/gguf/gguf_model.h"

namespace saccade {

// How stored tensors become one of transformers.
enum class GgufChange : std::uint8_t {
  kNone,
  kNorm,     // less one, where GgufFamily::norms_plus_one
  kLessOne,  // whoever wrote the file added one
  kQuery,    // rows of each head put back in order, where GgufFamily::heads_interleaved
  kKey,
  kTowerHeads,  // the same of the tower's heads, always
  kStacked,     // one after another along their rows
  kFrames,      // [out, c, p, p] of two frames to [out, c, 2, p, p]
  kTokens,      // extents of 1 in front, up to three
  kNumbers,     // dequantised to F32: a matrix that is read the other way round
  kEachExpert,  // [experts, out, in] to a tensor an expert; `to` has a second {} for its number
  kGateUp,      // [experts, out, in] of gates and ups to [experts, 2 out, in]
  // Of a gated delta net: value heads put back beside those that they share a key head with.
  kValueRows,
  kValueTail,     // of rows whose first are queries and keys
  kValueTaps,     // the same, [rows, taps] to [rows, 1, taps]
  kValueColumns,  // of every row
  kValueDecay,    // kValueRows of -exp(x)
};

// Names without .weight and .bias; {} is the layer. `from` that are not stacked have one.
struct GgufRow {
  std::array<std::string_view, 3> from;
  std::string_view to;
  GgufChange change = GgufChange::kNone;
  bool bare = false;  // both are whole names
};

struct GgufFamily {
  std::string_view architecture;  // general.architecture
  std::string_view projector;     // clip.projector_type; empty: text alone
  std::string_view class_name;    // config.json's architectures
  std::string_view model_type;
  std::string_view text_type;    // of text_config; empty: the text's members stand at the top
  std::string_view text_prefix;  // before embed_tokens, layers and norm
  std::string_view head;         // the head's name
  bool heads_interleaved = false;
  bool norms_plus_one = false;
  bool stacked_experts = false;
  std::span<const GgufRow> layers = {};  // besides the rows of all texts
  std::string_view siglip_prefix = {};   // of a tower with gguf_siglip_rows(); empty: of none
  std::span<const GgufRow> tower = {};   // all others of the tower, by their whole names
  // What only this family has in config.json and preprocessor_config.json. `text` is inside
  // `config`, or it is `config`.
  Result<void> (*add_text)(const GgufModel& model, json::object& text) = nullptr;
  Result<void> (*add_tower)(const GgufModel& model, json::object& config,
                            json::object& preprocessor) = nullptr;
};

// kUnsupported names the architecture or the projector that is not read, and those that are.
Result<const GgufFamily*> gguf_family_of(const GgufModel& model);

// Rows of every text, and of every SigLIP tower, without the prefix.
std::span<const GgufRow> gguf_text_rows();
std::span<const GgufRow> gguf_siglip_rows();

}  // namespace saccade
