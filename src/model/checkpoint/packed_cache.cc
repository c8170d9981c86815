#include "model/checkpoint/packed_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "ops/forwarding_device.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic = {'s', 'a', 'c', 'p', 'a', 'c', 'k', '\n'};
// Counts up with the file's form, and with what pack() of any device makes of the same matrix.
constexpr std::uint32_t kVersion = 2;  // PackedForms.AreThoseOfTheVersionThatFilesSay
constexpr std::size_t kHeaderRoom = 4096;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kBlock = std::size_t{4} << 20;  // of one checksum
constexpr std::size_t kMaxTable = std::size_t{1} << 30;
constexpr std::size_t kMaxPieces = 8;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t header_bytes = sizeof(Header);
  Digest key{};
  std::uint64_t file_bytes = 0;
  std::uint64_t table_at = 0;  // behind the weights
  std::uint64_t table_bytes = 0;
  std::uint64_t table_sum = 0;
  Digest tower{};
  std::uint64_t has_tower = 0;
  std::uint64_t sum = 0;  // of all before
};
static_assert(sizeof(Header) == 128);  // no room between members

// Of damage, not of malice: the file is its owner's alone.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::size_t kLanes = 8;
  std::array<std::uint64_t, kLanes> state{};
  for (std::size_t i = 0; i < kLanes; ++i) state[i] = mix64(i + 1);
  const std::size_t whole = bytes.size() / (kLanes * 8) * (kLanes * 8);
  for (std::size_t at = 0; at < whole; at += kLanes * 8) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at + i * 8, 8);
      state[i] = (state[i] ^ word) * 0x9e3779b97f4a7c15ULL;
      state[i] ^= state[i] >> 29;
    }
  }
  std::uint64_t sum = bytes.size();
  for (const std::uint64_t lane : state) sum = hash_combine(sum, lane);
  const std::span<const std::byte> tail = bytes.subspan(whole);
  return hash64({reinterpret_cast<const char*>(tail.data()), tail.size()}, sum);
}

std::uint64_t header_sum(const Header& header) {
  return checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, sum)));
}

std::size_t aligned_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string reason() { return std::strerror(errno); }

// All of it, or what the system says.
Result<void> read_at(int file, std::span<std::byte> into, std::size_t at) {
  while (!into.empty()) {
    const ssize_t some = ::pread(file, into.data(), into.size(), static_cast<off_t>(at));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return fail(ErrorCode::kCorrupt, "cannot be read: {}", reason());
    if (some == 0) return fail(ErrorCode::kCorrupt, "ends at byte {}", at);
    into = into.subspan(static_cast<std::size_t>(some));
    at += static_cast<std::size_t>(some);
  }
  return {};
}

Result<void> write_at(int file, std::span<const std::byte> from, std::size_t at) {
  while (!from.empty()) {
    const ssize_t some = ::pwrite(file, from.data(), from.size(), static_cast<off_t>(at));
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return fail(ErrorCode::kExhausted, "{}", reason());
    from = from.subspan(static_cast<std::size_t>(some));
    at += static_cast<std::size_t>(some);
  }
  return {};
}

class Descriptor {
 public:
  explicit Descriptor(int file) : file_(file) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }

 private:
  int file_;
};

// What a weight is made of: everything that tells it from another of the same key, but the numbers.
Digest recipe_of(std::string_view row, std::span<const StoredMatrix> parts, DType compute) {
  Sha256 digest;
  digest.update(fmt::format("{}\n{}\n", row, name_of(compute)));
  for (const StoredMatrix& m : parts)
    digest.update(fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(m.format),
        m.out_begin, m.out_end, m.in_begin, m.in_end, m.stored_out, m.stored_in, m.stride, m.turned,
        m.bits, m.group, m.block_out, m.block_in, static_cast<int>(m.block), m.dequantize,
        m.rounds_activations, m.output_scale.cols(), static_cast<int>(m.codes.dtype)));
  return digest.finish();
}

// Stands where a weight would, until it is known that all have to be made.
class NoWeight final : public PackedWeight {
 public:
  using PackedWeight::PackedWeight;
  std::size_t bytes() const override { return 0; }
  DType operand_dtype() const override { return DType::kF32; }
};

// Files of processes that ended before theirs was complete: nobody has them locked.
void remove_abandoned(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".part.";
  std::error_code error;
  for (fs::directory_iterator at(path.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    if (!at->path().filename().string().starts_with(prefix)) continue;
    const Descriptor file(::open(at->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0)
      ::unlink(at->path().c_str());
  }
}

// The table as words of 64 bits.
class Words {
 public:
  explicit Words(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // 0 behind the end, and then !good().
  std::uint64_t next() {
    std::uint64_t word = 0;
    if (bytes_.size() < sizeof(word)) {
      good_ = false;
      return 0;
    }
    std::memcpy(&word, bytes_.data(), sizeof(word));
    bytes_ = bytes_.subspan(sizeof(word));
    return word;
  }
  bool good() const { return good_; }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool good_ = true;
};

void put_digest(const Digest& digest, std::vector<std::uint64_t>& words) {
  std::array<std::uint64_t, 4> four{};
  std::memcpy(four.data(), digest.data(), digest.size());
  words.insert(words.end(), four.begin(), four.end());
}

Digest get_digest(Words& words) {
  std::array<std::uint64_t, 4> four{};
  for (std::uint64_t& word : four) word = words.next();
  Digest digest;
  std::memcpy(digest.data(), four.data(), digest.size());
  return digest;
}

}  // namespace

// One weight of the file.
struct PackedCache::Entry {
  Digest recipe{};
  PackedForm form;  // its pieces are where they are in memory
};

struct PackedCache::Held {
  Header header;
  std::shared_ptr<const Buffer> memory;  // what is between the header and the table
  std::vector<Entry> entries;
  Nanos spent = 0;  // on reading it
};

// A file that is written beside its name, and gone unless it is complete.
class PackedCache::Output {
 public:
  static Result<std::unique_ptr<Output>> open(const std::string& path);
  Output(std::string part, int file) : part_(std::move(part)), file_(file) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (!done_) ::unlink(part_.c_str());
  }

  Result<void> put(const Digest& recipe, const PackedForm& form);
  void put_tower(const Digest& digest) {
    header_.tower = digest;
    header_.has_tower = 1;
  }
  // The file has its name from here on; its bytes.
  Result<std::size_t> finish(const std::string& path, const Digest& key);

  Nanos spent = 0;

 private:
  std::string part_;
  Descriptor file_;
  Header header_;
  std::size_t at_ = kHeaderRoom;
  std::vector<std::uint64_t> table_;
  bool done_ = false;
};

Result<std::unique_ptr<PackedCache::Output>> PackedCache::Output::open(const std::string& path) {
  remove_abandoned(path);
  std::string part = path + ".part.XXXXXX";
  const int file = ::mkostemp(part.data(), O_CLOEXEC);  // 0600
  if (file < 0) return fail(ErrorCode::kExhausted, "{}", reason());
  ::flock(file, LOCK_EX | LOCK_NB);
  return std::make_unique<Output>(std::move(part), file);
}

Result<void> PackedCache::Output::put(const Digest& recipe, const PackedForm& form) {
  put_digest(recipe, table_);
  table_.push_back(static_cast<std::uint64_t>(form.out));
  table_.push_back(static_cast<std::uint64_t>(form.in));
  for (const std::int64_t word : form.layout) table_.push_back(static_cast<std::uint64_t>(word));
  table_.push_back(form.pieces.size());
  for (std::span<const std::byte> piece : form.pieces) {
    at_ = aligned_up(at_, kAlignment);
    table_.push_back(at_);
    table_.push_back(piece.size());
    while (!piece.empty()) {
      const auto block = piece.first(std::min(kBlock, piece.size()));
      table_.push_back(checksum(block));
      TRY_DO(write_at(file_.get(), block, at_));
      at_ += block.size();
      piece = piece.subspan(block.size());
    }
  }
  return {};
}

Result<std::size_t> PackedCache::Output::finish(const std::string& path, const Digest& key) {
  at_ = aligned_up(at_, kAlignment);
  const auto table = std::as_bytes(std::span(table_));
  header_.key = key;
  header_.table_at = at_;
  header_.table_bytes = table.size();
  header_.table_sum = checksum(table);
  header_.file_bytes = at_ + table.size();
  header_.sum = header_sum(header_);
  TRY_DO(write_at(file_.get(), table, at_));
  TRY_DO(write_at(file_.get(), std::as_bytes(std::span(&header_, 1)), 0));
  if (::rename(part_.c_str(), path.c_str()) != 0)
    return fail(ErrorCode::kExhausted, "{}", reason());
  done_ = true;
  return header_.file_bytes;
}

class PackedCache::Packer final : public ForwardingDevice {
 public:
  explicit Packer(PackedCache& cache) : ForwardingDevice(cache.inner_), cache_(cache) {}

  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute) override {
    return cache_.pack(parts, compute);
  }

 private:
  PackedCache& cache_;
};

PackedCache::PackedCache(std::string path, const Digest& key, Device& device,
                         RestoresPacked& restores)
    : path_(std::move(path)), key_(key), inner_(device), restores_(restores) {
  packer_ = std::make_unique<Packer>(*this);
}

PackedCache::~PackedCache() = default;

std::unique_ptr<PackedCache> PackedCache::open(const std::string& folder, std::string_view key,
                                               Device& device) {
  auto* const restores = dynamic_cast<RestoresPacked*>(&device);
  if (restores == nullptr) {
    log::info("packed cache: not used, which is for weights packed by a CPU; this is {}",
              device.description());
    return nullptr;
  }
  const Digest digest = sha256(fmt::format("{}\n{}", restores->packing(), key));
  std::unique_ptr<PackedCache> cache(
      new PackedCache(fmt::format("{}/{}.packed", folder, to_hex(digest).substr(0, 32)), digest,
                      device, *restores));
  auto held = cache->read();
  if (held) {
    cache->held_ = *std::move(held);
    return cache;
  }
  if (held.error().code != ErrorCode::kNotFound)
    log::warning("packed cache: {} is made again: {}", cache->path_, held.error().message);
  cache->begin_output();
  return cache;
}

void PackedCache::begin_output() {
  std::error_code error;
  const fs::path folder = fs::path(path_).parent_path();
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  auto output = Output::open(path_);
  if (output)
    output_ = *std::move(output);
  else
    log::warning("packed cache: {} cannot be written: {}", path_, output.error().message);
}

Result<std::unique_ptr<PackedCache::Held>> PackedCache::read() const {
  TRY(const OpenedFile opened, open_regular_file(path_));
  const Descriptor file(opened.descriptor);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || (status.st_uid != ::geteuid() && status.st_uid != 0) ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail(ErrorCode::kDenied, "others may write to it");
  const SteadyClock clock;
  const Nanos start = clock.now();
  auto held = std::make_unique<Held>();
  Header& header = held->header;
  if (opened.bytes < kHeaderRoom) return fail(ErrorCode::kCorrupt, "ends at byte {}", opened.bytes);
  TRY_DO(read_at(file.get(), std::as_writable_bytes(std::span(&header, 1)), 0));
  if (header.magic != kMagic) return fail(ErrorCode::kCorrupt, "is no such file");
  if (header.version != kVersion)
    return fail(ErrorCode::kCorrupt, "is of version {}, {} is read", header.version, kVersion);
  if (header.header_bytes != sizeof(Header) || header.sum != header_sum(header))
    return fail(ErrorCode::kCorrupt, "its header is damaged");
  if (header.key != key_) return fail(ErrorCode::kCorrupt, "is of another model or other options");
  if (header.file_bytes != opened.bytes)
    return fail(ErrorCode::kCorrupt, "has {} bytes of {}", opened.bytes, header.file_bytes);
  if (header.table_at < kHeaderRoom || header.table_at > header.file_bytes ||
      header.table_bytes != header.file_bytes - header.table_at || header.table_bytes > kMaxTable)
    return fail(ErrorCode::kCorrupt, "its table is misplaced");
  std::vector<std::byte> table(header.table_bytes);
  TRY_DO(read_at(file.get(), table, header.table_at));
  if (checksum(table) != header.table_sum) return fail(ErrorCode::kCorrupt, "its table is damaged");

  TRY(Buffer memory, allocate_host(header.table_at - kHeaderRoom));
  const std::span<std::byte> payload(memory.data(), memory.bytes());
  struct Block {
    std::size_t at;
    std::size_t bytes;
    std::uint64_t sum;
  };
  std::vector<Block> blocks;
  for (Words words(table); !words.at_end();) {
    Entry& entry = held->entries.emplace_back();
    entry.recipe = get_digest(words);
    entry.form.out = static_cast<std::int64_t>(words.next());
    entry.form.in = static_cast<std::int64_t>(words.next());
    for (std::int64_t& word : entry.form.layout) word = static_cast<std::int64_t>(words.next());
    const std::uint64_t pieces = words.next();
    if (!words.good() || pieces > kMaxPieces)
      return fail(ErrorCode::kCorrupt, "its table contradicts itself");
    for (std::uint64_t i = 0; i < pieces; ++i) {
      const std::uint64_t at = words.next();
      const std::uint64_t bytes = words.next();
      if (!words.good() || at < kHeaderRoom || at > header.table_at ||
          bytes > header.table_at - at || at % kAlignment != 0)
        return fail(ErrorCode::kCorrupt, "its table contradicts itself");
      entry.form.pieces.push_back(payload.subspan(at - kHeaderRoom, bytes));
      for (std::size_t done = 0; done < bytes; done += kBlock)
        blocks.push_back({at + done, std::min(kBlock, bytes - done), words.next()});
    }
    if (!words.good()) return fail(ErrorCode::kCorrupt, "its table contradicts itself");
  }
  // By the threads that will multiply: memory lies where it is first written from.
  std::atomic<std::size_t> damaged = 0;  // a byte of it
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  inner_.pool().parallel_each(std::ssize(blocks), [&](std::int64_t index, int) {
    const Block& block = blocks[static_cast<std::size_t>(index)];
    const auto into = payload.subspan(block.at - kHeaderRoom, block.bytes);
    if (damaged != 0) return;
    if (!read_at(file.get(), into, block.at) || checksum(into) != block.sum) damaged = block.at;
  });
  if (damaged != 0) return fail(ErrorCode::kCorrupt, "is damaged behind byte {}", damaged.load());
  held->memory = std::make_shared<const Buffer>(std::move(memory));
  held->spent = clock.now() - start;
  return held;
}

Device& PackedCache::device() { return *packer_; }

void PackedCache::begin_row(std::string_view names) { row_ = names; }

std::optional<Digest> PackedCache::tower() const {
  if (!held_ || held_->header.has_tower == 0) return std::nullopt;
  return held_->header.tower;
}

void PackedCache::put_tower(const Digest& digest) {
  if (output_) output_->put_tower(digest);
}

std::unique_ptr<PackedWeight> PackedCache::take(std::span<const StoredMatrix> parts,
                                                const Digest& recipe) {
  std::int64_t out = 0;
  for (const StoredMatrix& part : parts) out += part.out();
  const std::int64_t in = parts.front().in();
  if (wrong_.empty() && next_ < held_->entries.size()) {
    const Entry& entry = held_->entries[next_++];
    if (entry.recipe == recipe && entry.form.out == out && entry.form.in == in) {
      if (auto weight = restores_.restore(entry.form, held_->memory)) return weight;
    }
  }
  if (wrong_.empty()) wrong_ = fmt::format("it has something else for {}", row_);
  return std::make_unique<NoWeight>(out, in);
}

std::unique_ptr<PackedWeight> PackedCache::pack(std::span<const StoredMatrix> parts,
                                                DType compute) {
  const Digest recipe = recipe_of(row_, parts, compute);
  if (held_) return take(parts, recipe);
  std::unique_ptr<PackedWeight> weight = inner_.pack(parts, compute);
  if (!output_) return weight;
  const SteadyClock clock;
  const Nanos start = clock.now();
  if (const auto put = output_->put(recipe, restores_.form_of(*weight)); !put) {
    log::warning("packed cache: {} cannot be written: {}", path_, put.error().message);
    output_.reset();
    return weight;
  }
  output_->spent += clock.now() - start;
  return weight;
}

bool PackedCache::finish() {
  if (held_) {
    if (wrong_.empty() && next_ < held_->entries.size()) wrong_ = "it has more weights";
    if (wrong_.empty()) {
      log::info("packed cache: read {}: {:.2f} GB in {:.1f} s", path_,
                static_cast<double>(held_->header.file_bytes) / 1e9, seconds(held_->spent));
      return true;
    }
    log::warning("packed cache: {} is made again: {}", path_, wrong_);
    held_.reset();
    wrong_.clear();
    begin_output();
    return false;
  }
  if (!output_) return true;
  const Nanos spent = output_->spent;
  const auto written = output_->finish(path_, key_);
  output_.reset();
  if (written)
    log::info("packed cache: {} written: {:.2f} GB in {:.1f} s", path_,
              static_cast<double>(*written) / 1e9, seconds(spent));
  else
    log::warning("packed cache: {} cannot be written: {}", path_, written.error().message);
  return true;
}

}  // namespace saccade
