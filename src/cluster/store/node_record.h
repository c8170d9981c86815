// What a process says of itself in the registry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::cluster {

// Records are of whoever can write to the store: everything in one has been checked for its form,
// nothing for its truth unless there is a key.
struct NodeRecord {
  std::string id;           // of one boot of a process
  std::string role;         // encoder | pd | all
  std::uint64_t epoch = 0;  // Greeting::epoch, of one that encodes for others
  std::string encodes_at;   // where it does: HOST:PORT or unix:PATH; empty: it does not
  std::string url;          // where it answers the API; empty: it does not
  std::string fingerprint;  // of its tower
  std::string numerics;     // of its rows
  std::uint64_t row_bytes = 0;

  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};

constexpr std::size_t kMaxRecordBytes = 4096;

// A name that may be a part of a key: 1 to 64 letters, digits, - and _.
bool is_node_id(std::string_view id);

// JSON. `key`: the cluster's, empty without one.
std::string write_record(const NodeRecord& record, std::string_view key);
// kCorrupt: it is none; kDenied: its writer does not know the key. `id`: whose it has to be.
Result<NodeRecord> read_record(std::string_view text, std::string_view id, std::string_view key);

}  // namespace saccade::cluster
