#include "hub/model_pull.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/log.h"
#include "hub/hub_client.h"
#include "model/checkpoint/checkpoint.h"
#include "model/gguf/gguf_paths.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;

// What a checkpoint is read from. Pickles, other frameworks' weights and code are left.
constexpr std::array<std::string_view, 5> kWanted = {".safetensors", ".json", ".jinja", ".model",
                                                     ".txt"};

bool is_wanted(const std::string& name) {
  return name.find('/') == std::string::npos &&
         std::ranges::any_of(kWanted,
                             [&](std::string_view suffix) { return name.ends_with(suffix); });
}

// What is fetched, in this order, and what of it is the checkpoint: a model in GGUF, or none for
// the whole folder.
struct Wanted {
  std::vector<std::string> files;
  GgufChoice gguf;
};

// The projector first: what finds a model in the cache then finds its projector, too.
Result<Wanted> gguf_to_pull(const PullSettings& settings, const std::vector<std::string>& files) {
  auto chosen = choose_gguf(files, settings.gguf);
  if (!chosen) return fail_within(settings.repository, std::move(chosen).error());
  log::info("{}: {}", settings.repository, line_of(*chosen));
  Wanted wanted;
  if (!chosen->projector.empty()) wanted.files.push_back(chosen->projector);
  wanted.files.insert(wanted.files.end(), chosen->model.begin(), chosen->model.end());
  wanted.gguf = *std::move(chosen);
  return wanted;
}

Result<Wanted> files_to_pull(const PullSettings& settings, const HubClient::Revision& revision) {
  if (!settings.gguf.model.empty()) return gguf_to_pull(settings, revision.files);
  Wanted wanted;
  std::string instead;
  bool has_gguf = false;
  for (const std::string& name : revision.files) {
    if (is_wanted(name)) wanted.files.push_back(name);
    if (name.ends_with(".bin")) instead = name;
    has_gguf = has_gguf || name.ends_with(kGgufEnding);
  }
  const auto is_weight = [](const std::string& name) { return name.ends_with(".safetensors"); };
  if (std::ranges::none_of(wanted.files, is_weight)) {
    if (has_gguf) return gguf_to_pull(settings, revision.files);
    return fail(
        ErrorCode::kUnsupported,
        "{} has no safetensors and no GGUF{}; look for the repository it was converted from",
        settings.repository, instead.empty() ? "" : ", but " + instead + ", which is not read");
  }
  // Small files first: a wrong repository shows early.
  std::ranges::stable_partition(wanted.files, std::not_fn(is_weight));
  return wanted;
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// A download on its way: bytes that are there already count, and are hashed again.
class PartialFile {
 public:
  static Result<PartialFile> open(std::string path) {
    PartialFile partial;
    partial.path_ = std::move(path);
    partial.file_.reset(std::fopen(partial.path_.c_str(), "a+b"));
    if (partial.file_ == nullptr)
      return fail(ErrorCode::kInvalid, "{}: {}", partial.path_, std::strerror(errno));
    std::vector<char> bytes(std::size_t{1} << 20);
    std::rewind(partial.file_.get());
    while (const std::size_t count =
               std::fread(bytes.data(), 1, bytes.size(), partial.file_.get())) {
      partial.hash_.update(std::string_view(bytes.data(), count));
      partial.size_ += count;
    }
    return partial;
  }

  std::uint64_t size() const { return size_; }

  bool restart() {
    size_ = 0;
    hash_ = Sha256();
    return std::fflush(file_.get()) == 0 && ::ftruncate(::fileno(file_.get()), 0) == 0;
  }
  bool append(std::string_view bytes) {
    hash_.update(bytes);
    size_ += bytes.size();
    return std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  }
  // Complete: everything on disk, and the digest. The object is spent.
  std::optional<std::string> finish() {
    if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0) return std::nullopt;
    return to_hex(hash_.finish());
  }
  const std::string& path() const { return path_; }

 private:
  PartialFile() = default;
  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  Sha256 hash_;
  std::uint64_t size_ = 0;
};

bool worth_another_try(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout;
}

class Pull {
 public:
  Pull(const PullSettings& settings, HubClient& hub)
      : settings_(settings),
        hub_(hub),
        folder_(fs::path(settings.cache_directory) / hub_folder(settings.repository)) {}

  Result<std::string> run() {
    TRY(const HubClient::Revision revision, hub_.list(settings_.repository, settings_.revision));
    TRY(const Wanted wanted, files_to_pull(settings_, revision));
    snapshot_ = folder_ / "snapshots" / revision.commit;
    std::error_code error;
    fs::create_directories(folder_ / "blobs", error);
    fs::create_directories(snapshot_, error);
    fs::create_directories(folder_ / "refs", error);
    if (error) return fail(ErrorCode::kInvalid, "{}: {}", folder_.string(), error.message());
    progress_.files = wanted.files.size();
    for (const std::string& file : wanted.files) {
      progress_.file = file;
      TRY_DO(pull_file(revision.commit, file));
      ++progress_.index;
    }
    // Last: who follows the reference finds everything.
    std::ofstream reference(folder_ / "refs" / settings_.revision, std::ios::trunc);
    reference << revision.commit;
    reference.close();
    if (!reference)
      return fail(ErrorCode::kInvalid, "{}: cannot be written",
                  (folder_ / "refs" / settings_.revision).string());
    return wanted.gguf.model.empty() ? snapshot_.string()
                                     : gguf_place(snapshot_.string(), wanted.gguf);
  }

 private:
  Result<void> pull_file(const std::string& commit, const std::string& name) {
    const fs::path link = snapshot_ / name;
    std::error_code error;
    if (fs::exists(link, error)) return {};
    TRY(const HubFile file, hub_.look_up(settings_.repository, commit, name));
    progress_.size = file.size;
    const fs::path blob = folder_ / "blobs" / file.etag;
    if (!fs::exists(blob, error)) TRY_DO(download(commit, name, file, blob));
    fs::remove(link, error);
    fs::create_directories(link.parent_path(), error);
    fs::create_symlink(blob.lexically_relative(link.parent_path()), link, error);
    if (error) return fail(ErrorCode::kInvalid, "{}: {}", link.string(), error.message());
    return {};
  }

  Result<void> download(const std::string& commit, const std::string& name, HubFile file,
                        const fs::path& blob) {
    TRY(PartialFile partial, PartialFile::open(blob.string() + ".incomplete"));
    TRY_DO(check_room(blob, file.size, partial.size()));
    Nanos delay = settings_.retry_delay;
    for (int attempt = 1;; ++attempt, delay *= 2) {
      auto fetched = fetch_rest(file, partial);
      if (fetched) break;
      if (attempt >= settings_.attempts || !worth_another_try(fetched.error().code)) return fetched;
      log::warning("{}; trying again", fetched.error().message);
      std::this_thread::sleep_for(std::chrono::nanoseconds(delay));
      TRY(file, hub_.look_up(settings_.repository, commit,
                             name));  // a link to the bytes may have run out
    }
    const std::string path = partial.path();
    const auto digest = partial.finish();
    if (!digest) return fail(ErrorCode::kExhausted, "{}: writing failed; is the disk full?", path);
    std::error_code error;
    if (file.etag_is_sha256() && *digest != file.etag) {
      fs::remove(path, error);
      return fail(ErrorCode::kCorrupt,
                  "{}: SHA-256 is {}, the hub says {}; the download is discarded", name, *digest,
                  file.etag);
    }
    fs::rename(path, blob, error);
    if (error) return fail(ErrorCode::kInvalid, "{}: {}", blob.string(), error.message());
    return {};
  }

  Result<void> fetch_rest(const HubFile& file, PartialFile& partial) {
    if (partial.size() > file.size && !partial.restart())
      return fail(ErrorCode::kInvalid, "{}: cannot be truncated", partial.path());
    if (partial.size() == file.size) return {};
    bool written = true;
    auto fetched = hub_.fetch(
        file, partial.size(),
        [&](bool resumed) {
          if (!resumed && partial.size() > 0) written = partial.restart();
        },
        [&](std::string_view bytes) {
          written = written && partial.size() + bytes.size() <= file.size && partial.append(bytes);
          progress_.done = partial.size();
          if (settings_.progress) settings_.progress(progress_);
          return written;
        });
    if (!written)
      return fail(ErrorCode::kExhausted,
                  "{}: writing failed, or the server sent more than {} bytes", partial.path(),
                  file.size);
    TRY_DO(fetched);
    if (partial.size() != file.size)
      return fail(ErrorCode::kUnavailable, "{}: {} of {} bytes came", partial.path(),
                  partial.size(), file.size);
    return {};
  }

  static Result<void> check_room(const fs::path& blob, std::uint64_t size, std::uint64_t there) {
    std::error_code error;
    const fs::space_info disk = fs::space(blob.parent_path(), error);
    if (!error && size > there && disk.available < size - there)
      return fail(ErrorCode::kExhausted, "{}: {:.1f} GB are needed, {:.1f} GB are free",
                  blob.parent_path().string(), static_cast<double>(size - there) / 1e9,
                  static_cast<double>(disk.available) / 1e9);
    return {};
  }

  const PullSettings& settings_;
  HubClient& hub_;
  fs::path folder_;
  fs::path snapshot_;
  PullProgress progress_;
};

std::string environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

}  // namespace

PullSettings pull_settings_from_environment() {
  PullSettings settings;
  settings.endpoint = environment("HF_ENDPOINT", "https://huggingface.co");
  settings.token = environment("HF_TOKEN", "");
  settings.cache_directory = hub_cache_directory();
  return settings;
}

Result<std::string> pull_model(const PullSettings& settings) {
  if (!is_repository_name(settings.repository))
    return fail(ErrorCode::kInvalid, "\"{}\" is not ORG/NAME", settings.repository);
  if (!is_revision_name(settings.revision))
    return fail(ErrorCode::kInvalid, "revision \"{}\" is not the name of a branch, tag or commit",
                settings.revision);
  TRY(HubClient hub, HubClient::create(settings.endpoint, settings.token, settings.ca_file,
                                       settings.stall_timeout));
  return Pull(settings, hub).run();
}

}  // namespace saccade::hub
