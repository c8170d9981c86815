// One sequence through a model without an engine: contiguous cache, greedy choice. For golden tests
// and `saccade model compare`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/adapters/lora_adapter.h"
#include "model/blocks/batch_lists.h"
#include "model/blocks/cross_images.h"
#include "model/network.h"
#include "model/prompts/prompt.h"
#include "ops/device.h"

namespace saccade {

struct SoloOptions {
  Tap tap = {};  // of the images' tower
  const LoraAdapter* adapter = nullptr;
};

// One thread.
class SoloRun {
 public:
  // Reserves the network, encodes the images (tapped) and lays out a cache for the prompt and
  // `new_tokens` more.
  static Result<std::unique_ptr<SoloRun>> create(Network& network, Device& device, Prompt prompt,
                                                 std::span<const PreparedImage> images,
                                                 std::int64_t new_tokens,
                                                 const SoloOptions& options = {});

  // Runs the prompt in chunks of `chunk` tokens (0: whole). Logits of its last `rows` tokens,
  // [rows, vocab] on the device; with several chunks only the last token's can be asked for.
  View prefill(std::int64_t chunk = 0, std::int64_t rows = 1, const Tap& tap = {});
  // After prefill(), once: the most likely token, the next after it, ... Where the sequence grows
  // longer than ModelShape::short_length, all of it is computed again.
  std::vector<TokenId> greedy(std::int64_t count);

 private:
  SoloRun(Network& network, Device& device, Prompt prompt)
      : network_(network), device_(device), prompt_(std::move(prompt)) {}
  Result<void> allocate(std::span<const PreparedImage> images, std::int64_t new_tokens);
  Result<void> encode(std::span<const PreparedImage> images, const Tap& tap);
  Result<void> order_rows(Stream& stream);
  TokenId most_likely(View logits);
  // Rows of ordered_ (of embeddings_, where they are attended to) that take the places of tokens
  // [begin, end), or whose keys are made with them. In both cases they are neighbours.
  View image_rows(std::int64_t begin, std::int64_t end, BatchLists& lists) const;
  // One forward over tokens [begin, end) of ids_; logits of its last `rows`.
  View step(std::int64_t begin, std::int64_t end, std::int64_t rows, const Tap& tap);

  static constexpr std::int64_t kBlock = 16;

  Network& network_;
  Device& device_;
  Prompt prompt_;
  std::vector<TokenId> ids_;  // prompt and what came after
  std::vector<KvBinding> layers_;
  std::vector<std::int32_t> blocks_;
  std::optional<PackedLora> lora_;
  std::vector<CrossImage> cross_images_;
  std::vector<std::int32_t> cross_blocks_;
  Buffer cache_;
  Buffer embeddings_;
  Buffer ordered_;                // rows of them as the prompt's tokens take them
  std::vector<View> image_rows_;  // of embeddings_, one view an image
  Buffer logits_;
  Buffer stats_;
  Buffer readback_;
  View last_;  // the last token's row of them
};

}  // namespace saccade
