// What processes that exchange embeddings tell each other, as plain values. How they travel is a
// transport's business (cluster/grpc/); nothing here knows of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_budget.h"
#include "base/hash.h"
#include "engine/images/encode_cost.h"

namespace saccade::cluster {

// Both sides' own number: a process of another is told so, not guessed at.
constexpr std::uint32_t kProtocol = 1;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;  // most of media or rows in one message

// Who a process is. Rows of two processes are equal, bit for bit, when `fingerprint` and `numerics`
// are.
struct Greeting {
  std::uint32_t protocol = kProtocol;
  std::string node;         // a name for logs
  std::uint64_t epoch = 0;  // drawn at start: another one is another process, whatever its address
  std::string fingerprint;  // ModelShape::tower_fingerprint
  std::string numerics;     // backend, instruction set, revision of the kernels
  std::uint64_t row_bytes = 0;  // of one embedding row
};

// What an encoder says of itself again and again.
struct Report {
  double backlog_ms = 0;  // until a new image would begin
  EncodeCost cost;
  std::uint64_t last_seen = 0;  // of the streams of whom it tells
  std::int64_t images = 0;      // queued and running
  bool draining = false;
};

// An image's bytes as they came: one file, or the files of a group of a video's frames.
struct Media {
  std::vector<std::string_view> files;
  std::shared_ptr<const void> owner;  // keeps what `files` points at

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::string_view file : files) sum += file.size();
    return sum;
  }
};

// What is to be encoded.
struct Order {
  Digest key{};            // the requester's own, of the item
  Digest name{};           // of the rows, the same in all processes: embedding_key()
  Digest content{};        // of the bytes: chooses among encoders, so that equal images meet
  std::string recipe;      // how the layout follows from the bytes: engine/images/image_recipe.h
  std::string layout_key;  // what it is: ImageLayout::key
  std::int64_t rows = 0;
  std::uint64_t row_bytes = 0;
  Media media;

  std::size_t bytes() const { return static_cast<std::size_t>(rows) * row_bytes; }
};

// One attempt: an encode that one encoder is asked for. All three are in every message; an answer
// that differs in one is from another time.
struct AttemptId {
  int encoder = 0;           // of the requester's list
  std::uint64_t epoch = 0;   // of the encoder asked
  std::uint64_t stream = 0;  // of the requester, never used twice
  friend auto operator<=>(const AttemptId&, const AttemptId&) = default;
};

struct Accepted {
  double backlog_ms = 0;
  double predicted_ms = 0;  // of the encode
  bool cached = false;      // the rows are there; no media needed
};

// Why an encoder does not do it.
enum class Refusal : std::uint8_t {
  kOverloaded,    // no room now: not a fault
  kIncompatible,  // other weights, numerics, protocol or layout
  kTooLarge,
  kBadMedia,  // the image cannot be decoded: to be confirmed by the requester
  kDeadline,
  kDraining,
  kCorrupt,  // what came is not what was announced
  kInternal,
};
std::string_view name_of(Refusal refusal);

struct RowsEnd {
  Digest digest{};  // SHA-256 of the rows
  Nanos queued = 0;
  Nanos encoded = 0;
};

// Memory for rows, reserved before they move. Filled by one writer, then read by many.
struct RowPages {
  std::vector<std::byte> bytes;
  ByteReservation reserved;
};
using Rows = std::shared_ptr<const RowPages>;

}  // namespace saccade::cluster
