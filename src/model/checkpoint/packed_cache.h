// Packed weights in a file, so that the next start reads what this one made of a checkpoint:
// --packed-cache.
//
// A file holds the weights of one key. It is read into memory of the process's own rather than
// mapped: huge pages on every kernel, on the memory node of the thread that reads, counted as
// taken when the KV pool is sized, and beyond the reach of whoever cuts the file off meanwhile.
// It begins with a header that says its own length, where the table is, and checksums of both;
// the table says where each weight lies, what it was made of, and the checksum of every few MiB:
// files are not synchronised with the disk, which a start would wait for, so that one which a
// crash of the machine tore is found by these. What is not as it should be is made again.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "ops/device.h"
#include "ops/formats/packed_form.h"
#include "ops/formats/stored_matrix.h"

namespace saccade {

// One thread; other processes may use the folder meanwhile. Weights keep the memory that they are
// in, and may outlive this.
class PackedCache {
 public:
  // Of a device that RestoresPacked; null: of others. `key`: of everything that the packed bytes
  // follow from, but for the device, which is added. `folder` is made where it is not there. What
  // goes wrong is a line of the log, and then weights are made as without a cache.
  static std::unique_ptr<PackedCache> open(const std::string& folder, std::string_view key,
                                           Device& device);
  ~PackedCache();
  PackedCache(const PackedCache&) = delete;
  PackedCache& operator=(const PackedCache&) = delete;

  const std::string& path() const { return path_; }
  // Whether weights come from the file: nothing of the matrices is read then.
  bool holds() const { return held_ != nullptr; }

  // The device, but that pack() takes weights from the file, or makes them and puts them there.
  Device& device();
  // The tensors that what is packed next is made of.
  void begin_row(std::string_view names);

  // ModelShape::tower_fingerprint's share of the checkpoint, which would read the whole tower.
  std::optional<Digest> tower() const;
  void put_tower(const Digest& digest);

  // After all weights of a load. False: what the file holds is not what was asked for; the weights
  // are not to be used, and from now on holds() is false: load once more. Otherwise the file is
  // there, or a warning was given.
  bool finish();

 private:
  class Packer;
  struct Entry;
  struct Held;
  class Output;

  PackedCache(std::string path, const Digest& key, Device& device, RestoresPacked& restores);
  Result<std::unique_ptr<Held>> read() const;
  std::unique_ptr<PackedWeight> take(std::span<const StoredMatrix> parts, const Digest& recipe);
  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute);
  void begin_output();

  std::string path_;
  Digest key_;
  Device& inner_;
  RestoresPacked& restores_;
  std::unique_ptr<Packer> packer_;
  std::unique_ptr<Held> held_;
  std::unique_ptr<Output> output_;  // null: nothing is written
  std::string row_;
  std::size_t next_ = 0;  // of the entries that are held
  std::string wrong_;     // why they are not what was asked for; empty: they are
};

}  // namespace saccade
