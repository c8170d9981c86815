#include "model/checkpoint/packed_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/ops/four_bit_cases.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::byte>;

// What a model packs: matrices with what they are to become.
struct Wanted {
  std::vector<StoredMatrix> parts;
  DType compute = DType::kF32;
};

// Numbers, words of four bits in every order, and bytes; stacked, windows of larger ones, turned.
class Matrices {
 public:
  explicit Matrices(std::uint64_t seed) : rng_(seed) {
    const auto size = [&](std::uint64_t unit) {
      return static_cast<std::int64_t>(unit * (1 + rng_.below(160 / unit)));
    };
    for (const DType compute : {DType::kF32, DType::kBf16, DType::kI8}) {
      const std::int64_t in = size(1);
      StoredMatrix first = numbers(size(1), in, DType::kF32);
      const StoredMatrix second = numbers(size(1) + 2, in, DType::kBf16);
      wanted_.push_back({{first, second.outputs(1, second.out())}, compute});
      wanted_.push_back({{numbers(in, size(1), DType::kF32).transposed()}, compute});
      const StoredMatrix wide = numbers(size(1), 3 + size(1), DType::kF16);
      wanted_.push_back({{wide.inputs(2, wide.in())}, compute});
    }
    const SuperBlocks& blocks = blocks_.emplace_back(37, 768, seed);
    wanted_.push_back({{blocks.matrix(), blocks.matrix().outputs(3, 20)}, DType::kF32});
    wanted_.push_back({{blocks.matrix().inputs(256, 768)}, DType::kBf16});
    for (const bool ordered : {false, true}) {
      for (const DType scales : {DType::kF16, DType::kF32}) {
        const auto format = ordered ? StoredMatrix::Format::kGptq : StoredMatrix::Format::kPacked;
        const CodesShape shape{size(8), size(32), 32, format, scales, ordered};
        const Codes& codes = codes_.emplace_back(shape, rng_());
        for (const bool int8_activations : {false, true}) {
          StoredMatrix matrix = codes.matrix();
          matrix.rounds_activations = int8_activations;
          wanted_.push_back({{matrix}, DType::kF32});
          wanted_.push_back({{matrix}, DType::kBf16});
          wanted_.push_back({{matrix}, DType::kI8});
        }
      }
    }
  }

  std::span<const Wanted> wanted() const { return wanted_; }

 private:
  StoredMatrix numbers(std::int64_t out, std::int64_t in, DType type) {
    Matrix& matrix = matrices_.emplace_back(out, in, type);
    for (std::int64_t row = 0; row < out; ++row)
      for (std::int64_t col = 0; col < in; ++col)
        matrix.set(row, col, static_cast<float>(rng_.uniform()) - 0.5F);
    return matrix.view();
  }

  Rng rng_;
  std::deque<Matrix> matrices_;
  std::deque<Codes> codes_;
  std::deque<SuperBlocks> blocks_;
  std::vector<Wanted> wanted_;
};

Bytes packed_bytes(const Device& device, const PackedWeight& weight) {
  const PackedForm form = dynamic_cast<const RestoresPacked&>(device).form_of(weight);
  Bytes all;
  const auto add = [&](std::span<const std::byte> more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  const std::array head = {form.out, form.in, static_cast<std::int64_t>(weight.bytes()),
                           static_cast<std::int64_t>(weight.operand_dtype())};
  add(std::as_bytes(std::span(head)));
  add(std::as_bytes(std::span(form.layout)));
  for (const auto piece : form.pieces) add(piece);
  return all;
}

// Every weight, packed by `by`, as the bytes that `device` says it has.
std::vector<Bytes> packed(std::span<const Wanted> wanted, Device& device, Device& by) {
  std::vector<Bytes> all;
  for (const Wanted& one : wanted)
    all.push_back(packed_bytes(device, *by.pack(one.parts, one.compute)));
  return all;
}

class PackedCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("saccade_packed_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    device_ = make_cpu_device(1).value();
    want_ = packed(matrices_.wanted(), *device_, *device_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<PackedCache> open(std::string_view key = "key") {
    return PackedCache::open(folder_.string(), key, *device_);
  }
  // A start of the program. Whether it was given what the file held.
  bool load(std::string_view key = "key") {
    auto cache = open(key);
    const bool held = cache->holds();
    EXPECT_EQ(packed(matrices_.wanted(), *device_, cache->device()), want_);
    EXPECT_TRUE(cache->finish());
    return held;
  }
  std::string only_file() {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1U) << ::testing::PrintToString(files);
    return files.empty() ? "" : files.front();
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // As if it had been written so.
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  // In a process of its own, which may be another user's; its exit status.
  template <typename Body>
  static int in_child(Body&& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  fs::path folder_;
  std::unique_ptr<Device> device_;
  Matrices matrices_{1};
  std::vector<Bytes> want_;
};

TEST(PackedForms, AreEqualToTheBitOnEveryInstructionSet) {
  const fs::path folder = fs::path(::testing::TempDir()) / "saccade_packed_forms";
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Matrices matrices(seed);
    for (const std::string& isa : isas_here()) {
      SCOPED_TRACE(fmt::format("{} seed {}", isa, seed));
      fs::remove_all(folder);
      const auto device = make_cpu_device(2, isa).value();
      const auto want = packed(matrices.wanted(), *device, *device);
      for (const bool held : {false, true}) {
        auto cache = PackedCache::open(folder.string(), "key", *device);
        ASSERT_EQ(cache->holds(), held);
        EXPECT_EQ(packed(matrices.wanted(), *device, cache->device()), want);
        EXPECT_TRUE(cache->finish());
      }
    }
  }
  fs::remove_all(folder);
}

// A file of an earlier build is read as if this one had written it: what pack() makes may change
// only together with kVersion in packed_cache.cc.
TEST(PackedForms, AreThoseOfTheVersionThatFilesSay) {
  const std::map<std::string, std::string> digests = {
      {"portable", "430a92e771fe0d1c"}, {"avx2", "98a0d0dc1e33b439"},
      {"avxvnni", "17849fdc25b2ddce"},  {"avx512", "ce322af168930a1b"},
      {"vnni", "d2d168009683e9f7"},     {"bf16", "fa121ab860ca1035"},
      {"amx", "56a0d13a4e68212a"}};
  const Matrices matrices(1);
  for (const std::string& isa : isas_here()) {
    const auto device = make_cpu_device(1, isa).value();
    Sha256 digest;
    for (const Bytes& weight : packed(matrices.wanted(), *device, *device))
      digest.update(std::as_bytes(std::span(weight)));
    const auto known = digests.find(isa);
    if (known == digests.end()) continue;  // ARM's have not been written down
    EXPECT_EQ(to_hex(digest.finish()).substr(0, 16), known->second) << isa;
  }
}

TEST_F(PackedCacheTest, WeightsMultiplyAfterTheCacheIsGone) {
  load();
  auto cache = open();
  ASSERT_TRUE(cache->holds());
  std::vector<std::unique_ptr<PackedWeight>> weights;
  for (const Wanted& one : matrices_.wanted())
    weights.push_back(cache->device().pack(one.parts, one.compute));
  EXPECT_TRUE(cache->finish());
  cache.reset();
  Rng rng(3);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Wanted& one = matrices_.wanted()[i];
    const auto made = device_->pack(one.parts, one.compute);
    Matrix x(5, weights[i]->in());
    for (std::int64_t row = 0; row < 5; ++row)
      for (std::int64_t col = 0; col < weights[i]->in(); ++col)
        x.set(row, col, static_cast<float>(rng.uniform()) - 0.5F);
    const Matrix got = product(*device_, *weights[i], x.view());
    const Matrix want = product(*device_, *made, x.view());
    for (std::int64_t row = 0; row < 5; ++row)
      for (std::int64_t col = 0; col < weights[i]->out(); ++col)
        ASSERT_EQ(got.at(row, col), want.at(row, col)) << i;
  }
}

TEST_F(PackedCacheTest, ASecondStartHasWhatTheFirstMade) {
  EXPECT_FALSE(load());
  EXPECT_TRUE(load());
  EXPECT_FALSE(load("another key"));
  EXPECT_TRUE(load("another key"));
  EXPECT_TRUE(load());
}

TEST_F(PackedCacheTest, AnotherInstructionSetHasAFileOfItsOwn) {
  load();
  const std::vector<std::string> isas = isas_here();
  for (const std::string& isa : isas) {
    const auto device = make_cpu_device(1, isa).value();
    const bool same = device->description() == device_->description();
    EXPECT_EQ(PackedCache::open(folder_.string(), "key", *device)->holds(), same) << isa;
  }
}

TEST_F(PackedCacheTest, FilesAreTheOwnersAlone) {
  load();
  struct stat status{};
  ASSERT_EQ(::stat(only_file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  fs::permissions(only_file(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(load());
  EXPECT_TRUE(load());
}

TEST_F(PackedCacheTest, DamageAnywhereIsFoundAndMadeGood) {
  load();
  const std::string path = only_file();
  const std::string whole = read(path);
  const auto is_made_again = [&](const std::string& text, const std::string& what) {
    write(path, text);
    EXPECT_FALSE(load()) << what;
    EXPECT_EQ(read(only_file()), whole) << what;
    EXPECT_TRUE(load()) << what;
  };
  for (std::size_t at = 0; at < 128; at += 4) {  // the header, each of its fields
    std::string text = whole;
    text[at] = static_cast<char>(text[at] ^ 0x10);
    is_made_again(text, fmt::format("byte {}", at));
  }
  std::uint64_t table = 0;
  std::memcpy(&table, whole.data() + 56, sizeof(table));
  ASSERT_LT(table, whole.size());
  for (const std::size_t at : {std::size_t{4096}, static_cast<std::size_t>(table) / 2 + 2048,
                               std::size_t{table}, std::size_t{table} + 33, whole.size() - 1}) {
    std::string text = whole;
    text[at] = static_cast<char>(text[at] ^ 1);
    is_made_again(text, fmt::format("byte {}", at));
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{127}, std::size_t{128}, std::size_t{4095},
        std::size_t{4096}, std::size_t{table} / 2, std::size_t{table}, whole.size() - 1})
    is_made_again(whole.substr(0, size), fmt::format("{} bytes", size));
  is_made_again(whole + "x", "a byte more");
  is_made_again(std::string(whole.size(), '\0'), "zeros");
  is_made_again(std::string(100000, 'x'), "a foreign file");
}

TEST_F(PackedCacheTest, AFileOfAnotherKeyUnderItsNameIsNotTaken) {
  load();
  const std::string ours = only_file();
  const std::string key = open("another key")->path();
  fs::copy_file(ours, key);
  EXPECT_FALSE(load("another key"));
  EXPECT_TRUE(load("another key"));
}

// What a program packs that stacks the same tensors in another way.
TEST_F(PackedCacheTest, WeightsOfAnotherMakingAreNotTaken) {
  load();
  std::vector<Wanted> others(matrices_.wanted().begin(), matrices_.wanted().end());
  std::ranges::reverse(others.front().parts);
  const auto want = packed(others, *device_, *device_);
  const auto differs = [&](std::span<const Wanted> wanted, std::string_view row) {
    auto cache = open();
    if (!cache->holds()) return false;
    cache->begin_row(row);
    for (const Wanted& one : wanted) cache->device().pack(one.parts, one.compute);
    if (cache->finish()) return false;
    EXPECT_FALSE(cache->holds());
    cache->begin_row(row);
    EXPECT_EQ(packed(wanted, *device_, cache->device()), packed(wanted, *device_, *device_));
    EXPECT_TRUE(cache->finish());
    return true;
  };
  EXPECT_TRUE(differs(others, ""));
  EXPECT_FALSE(differs(others, ""));
  EXPECT_TRUE(differs(others, "model.layers.0.q_proj"));
  EXPECT_TRUE(differs(std::span(others).first(3), "model.layers.0.q_proj"));
  EXPECT_TRUE(differs(others, "model.layers.0.q_proj"));
}

TEST_F(PackedCacheTest, KeepsTheTowersDigest) {
  const Digest tower = sha256("tower");
  EXPECT_FALSE(open()->tower());
  auto cache = open();
  packed(matrices_.wanted(), *device_, cache->device());
  cache->put_tower(tower);
  EXPECT_TRUE(cache->finish());
  EXPECT_EQ(open()->tower(), tower);
}

TEST_F(PackedCacheTest, TwoProcessesAtOnceLeaveAWholeFile) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int round = 0; round < 5; ++round) load();
      ::_exit(HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_TRUE(load());
  only_file();
}

TEST_F(PackedCacheTest, WhatAKilledProcessLeftGoes) {
  const std::string path = open()->path();
  const std::string abandoned = path + ".part.abcdef";
  const std::string busy = path + ".part.ghijkl";
  write(abandoned, "x");
  write(busy, "x");
  const int file = ::open(busy.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  load();
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(busy));
  ::close(file);
}

TEST_F(PackedCacheTest, AFolderThatTakesNothingCostsAWarningAlone) {
  load();
  const std::string path = only_file();
  fs::permissions(folder_, static_cast<fs::perms>(0555));
  fs::permissions(path, static_cast<fs::perms>(0444));
  // Who is root writes everywhere.
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::seteuid(65534) != 0) return 9;
              return (load() ? 0 : 1) + (load("another key") ? 2 : 0) + (HasFailure() ? 4 : 0);
            }),
            0);
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(only_file(), path);
  folder_ = path;  // no folder at all
  EXPECT_FALSE(load("another key"));
  folder_ = fs::path(path).parent_path();
}

TEST_F(PackedCacheTest, ADiskWithoutRoomCostsAWarningAlone) {
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{20000, 20000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 9;
              return (load() ? 1 : 0) + (HasFailure() ? 4 : 0);
            }),
            0);
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_FALSE(load());
}

TEST(PackedCacheOfOtherDevices, IsNone) {
  const auto device = make_reference_device();
  EXPECT_EQ(PackedCache::open(::testing::TempDir() + "/saccade_packed_none", "key", *device),
            nullptr);
  EXPECT_FALSE(fs::exists(::testing::TempDir() + "/saccade_packed_none"));
}

}  // namespace
}  // namespace saccade
