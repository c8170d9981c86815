// Rows in a store: what their keys are, and what is written beside them to know them by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"

namespace saccade::cluster {

constexpr std::size_t kStoreChunk = std::size_t{1} << 20;  // most of rows under one key
constexpr std::size_t kMaxManifestBytes = 1024;

// Of whom rows are, and in which bits: part of every key, so that others' are never found.
struct RowClass {
  std::string fingerprint;  // of the tower
  std::string numerics;
  std::uint64_t row_bytes = 0;
};

struct RowManifest {
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
  Digest digest{};    // SHA-256 of the rows
  std::string maker;  // node id of who made them
};

// "saccade:rows:{TOWER.NUMERICS.NAME}": what is in braces is one slot of a Redis cluster.
std::string row_key(const RowClass& of, const Digest& name);
inline std::string manifest_key(const std::string& key) { return key + ":m"; }
inline std::string chunk_key(const std::string& key, std::size_t chunk) {
  return key + ":c:" + std::to_string(chunk);
}
inline std::size_t chunks_of(std::size_t bytes) { return (bytes + kStoreChunk - 1) / kStoreChunk; }

// JSON. `access_key`: the cluster's, empty without one. Whoever does not know it cannot write rows
// that are taken.
std::string write_manifest(const RowManifest& manifest, const std::string& key,
                           std::string_view access_key);
// kCorrupt: it is none; kDenied: its writer does not know the key.
Result<RowManifest> read_manifest(std::string_view text, const std::string& key,
                                  std::string_view access_key);

}  // namespace saccade::cluster
