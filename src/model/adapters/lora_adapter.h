// Low-rank adapters (LoRA, arXiv:2106.09685): y = W x + scale * B (A x) for some of a decoder's
// matrices, as PEFT saves them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "model/checkpoint/weight_table.h"
#include "ops/device.h"

namespace saccade {

// A matrix that adapters may be added to, as its checkpoint names it.
struct LoraTarget {
  std::string module;              // lora_module_name() of it
  const Linear* linear = nullptr;  // that it is, or is stacked into
  std::int64_t in = 0;
  std::int64_t out = 0;        // rows of B
  std::int64_t out_begin = 0;  // the first of the linear's outputs that are its own
  // How its outputs follow each other there; empty: as the checkpoint has them.
  std::vector<WeightTable::Range> order = {};
};

// The part of a module's full name that all forms of a checkpoint agree on, from "layers." on:
// "model.language_model.layers.0.mlp.up_proj" is "layers.0.mlp.up_proj". Nothing for a module that
// is not in a language model's layers.
std::optional<std::string_view> lora_module_name(std::string_view full);

// The matrices of the text's layers in `table` that `takes` says yes to.
std::vector<LoraTarget> lora_targets_of(const WeightTable& table,
                                        const std::function<bool(const Linear*)>& takes);

// An adapter in host memory, for one network. Immutable; any thread.
class LoraAdapter {
 public:
  // Both matrices of one target, as they were stored: not aligned.
  struct Entry {
    const LoraTarget* target = nullptr;
    View down;  // A: [rank, in]
    View up;    // B: [out, rank]
    float scale = 1;
    std::int64_t rank() const { return down.rows(); }
  };
  struct Source {
    std::string name;           // as requests name it
    std::string directory;      // adapter_config.json, adapter_model.safetensors
    std::int64_t number = 0;    // of this loading, from 1; as KV events tell it
    std::int64_t max_rank = 0;  // over it kInvalid
  };

  // `targets`: Network::lora_targets(), of which it keeps addresses. kNotFound: there is no adapter
  // in the folder. Otherwise errors name the file and what in it: the member, the tensor, the
  // module, the limit.
  static Result<std::shared_ptr<const LoraAdapter>> load(Source source,
                                                         std::span<const LoraTarget> targets);

  const std::string& name() const { return source_.name; }
  std::int64_t number() const { return source_.number; }
  // SHA-256 over both files, in hex: what keys and values made with it follow from besides the
  // tokens. Equal for equal files, whatever their names.
  const std::string& identity() const { return identity_; }
  std::span<const Entry> entries() const { return entries_; }
  std::int64_t max_rank() const;
  std::size_t bytes() const { return file_.bytes(); }

 private:
  explicit LoraAdapter(Source source) : source_(std::move(source)) {}
  Result<void> read(std::span<const LoraTarget> targets);

  Source source_;
  std::string identity_;
  Buffer file_;  // the safetensors, whole
  std::vector<Entry> entries_;
};

// An adapter on a device, by the linears that it is added to. Made on the engine thread.
class PackedLora {
 public:
  // B of one module, with its scale: to columns [out_begin, ..) of y from columns [rank_begin, ..)
  // of A x.
  struct Block {
    std::unique_ptr<PackedWeight> up;
    std::int64_t rank_begin = 0;
    std::int64_t out_begin = 0;
  };
  struct Part {
    const Linear* linear = nullptr;
    std::unique_ptr<PackedWeight> down;  // A of all its modules, stacked
    std::vector<Block> blocks;
  };

  PackedLora(const LoraAdapter& adapter, Device& device, DType compute);

  const Part* find(const Linear& linear) const;  // null: nothing is added to it
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<Part> parts_;  // by address of the linear
  std::size_t bytes_ = 0;
};

// Most bytes that a packed adapter of ranks up to `rank` takes.
std::int64_t packed_lora_bytes(std::span<const LoraTarget> targets, std::int64_t rank,
                               DType compute);

}  // namespace saccade
