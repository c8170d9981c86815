#include "model/quantization/quantize_checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "model/checkpoint/tensor_names.h"
#include "model/families.h"
#include "model/quantization/byte_rounding.h"
#include "model/quantization/code_rounding.h"
#include "model/quantization/compressed_config.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRoom = std::size_t{64} << 20;  // left on the disk
constexpr std::size_t kPiece = std::size_t{16} << 20;

// The tensors of the source, by the names that its family has for them.
class SourceTensors {
 public:
  static Result<SourceTensors> open(const std::string& directory, const Family& family) {
    TRY(const WeightFiles found, find_weight_files(directory));
    SourceTensors source;
    for (const std::string& path : found.paths) {
      TRY(SafetensorsFile file, SafetensorsFile::open(path));
      source.files_.push_back(std::move(file));
    }
    for (const SafetensorsFile& file : source.files_) {
      for (const SafetensorsEntry& entry : file.tensors()) {
        const bool is_new =
            source.tensors_
                .emplace(canonical_name(entry.name, family.aliases), Place{&file, &entry})
                .second;
        if (!is_new)
          return fail(ErrorCode::kCorrupt, "{}: tensor \"{}\" is there twice", file.path(),
                      entry.name);
      }
    }
    return source;
  }
  SourceTensors(SourceTensors&&) = default;

  struct Place {
    const SafetensorsFile* file = nullptr;
    const SafetensorsEntry* entry = nullptr;

    std::span<const std::byte> bytes() const { return file->bytes(*entry); }
    std::size_t size() const { return entry->end - entry->begin; }
  };
  const std::map<std::string, Place>& all() const { return tensors_; }
  const Place* find(const std::string& name) const {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : &at->second;
  }

 private:
  SourceTensors() = default;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> tensors_;
};
using Place = SourceTensors::Place;

// A matrix to round, by the family's name.
struct ToRound {
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t group = 0;  // 0: the whole row
};

// What is written of a tensor of the source.
struct Step {
  Place from;
  bool rounded = false;
  std::int64_t group = 0;
};

struct Plan {
  std::vector<Step> steps;
  std::vector<SafetensorsEntry> tensors;  // of all steps, in their order; offsets from 0
  std::vector<CompressedModule> modules;  // that are rounded
  std::vector<std::string> left;          // modules of matrices that are not
  std::size_t text_left = 0;              // of them, of the text's layers
  std::size_t bytes_before = 0;
};

constexpr std::string_view kWeightEnding = ".weight";

SafetensorsEntry sized(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                       std::size_t element) {
  std::size_t bytes = element;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return {std::move(name), std::move(dtype), std::move(shape), 0, bytes};
}

// The tensors that a matrix of numbers becomes, in the order in which they are written.
void add_rounded(Plan& plan, const std::string& module, int bits, const ToRound& matrix) {
  const auto [out, in, group] = matrix;
  if (bits == 8) {
    plan.tensors.push_back(sized(module + ".weight", "I8", {out, in}, 1));
    plan.tensors.push_back(sized(module + ".weight_scale", "F32", {out, 1}, sizeof(float)));
    return;
  }
  plan.tensors.push_back(
      sized(module + ".weight_packed", "I32", {out, in / 8}, sizeof(std::int32_t)));
  plan.tensors.push_back(sized(module + ".weight_scale", "BF16", {out, in / group}, sizeof(Bf16)));
  plan.tensors.push_back(sized(module + ".weight_shape", "I64", {2}, sizeof(std::int64_t)));
}

// The head, where it is a matrix of its own: then the embedding is none.
Result<TensorSpec> own_head(const std::vector<TensorSpec>& specs, const ModelShape& shape) {
  const auto is_head = [&](const TensorSpec& spec) {
    return spec.kind == TensorKind::kMatrix &&
           spec.shape == std::vector<std::int64_t>{shape.vocab, shape.hidden} &&
           spec.name.find("embed") == std::string::npos;
  };
  const auto found = std::ranges::find_if(specs, is_head);
  if (found == specs.end())
    return fail(ErrorCode::kUnsupported,
                "the head is the embedding, whose rows are read as numbers; `serve --quantization "
                "int8 --quantize-head` of what is written without it rounds it");
  return *found;
}

// The matrices of the text's layers, and the head where it is asked for. `left`: how many keep
// their numbers.
Result<std::map<std::string, ToRound>> matrices_of(const UnloadedModel& model,
                                                   const WeightTable& table,
                                                   const QuantizeOptions& options,
                                                   std::size_t& left) {
  if (options.head && options.bits != 8)
    return fail(ErrorCode::kUnsupported,
                "a head in bytes beside layers of four bits is not written; `serve --quantization "
                "int4 --quantize-head` of what is written without it rounds it");
  const std::vector<TensorSpec> specs = table.specs();
  for (const TensorSpec& spec : specs) {
    if (spec.kind == TensorKind::kExperts)
      return fail(ErrorCode::kUnsupported,
                  "\"{}\" has the matrices of all experts in one tensor, which compressed-tensors "
                  "has no form for; `serve --quantization` rounds them while they are loaded",
                  spec.name);
  }
  std::map<std::string, ToRound> found;
  for (const WeightTable::TextMatrix& matrix : table.text_matrices()) {
    const std::int64_t group = options.bits == 8 ? 0 : group_of_inputs(matrix.in, options.group);
    for (const WeightTable::Part& part : matrix.parts) {
      if (options.bits == 8 || group > 0)
        found.emplace(part.name + std::string(kWeightEnding), ToRound{part.out, matrix.in, group});
      else
        ++left;
    }
  }
  if (found.empty())
    return fail(ErrorCode::kUnsupported, "{}",
                left == 0 ? "there are no text layers to quantise"
                          : "no matrix of the text's layers has a multiple of 32 inputs");
  if (!options.head) return found;
  TRY(const TensorSpec head, own_head(specs, model.shape()));
  found.emplace(head.name, ToRound{head.shape[0], head.shape[1], 0});
  return found;
}

Result<void> expect_numbers(const Place& place, const ToRound& matrix) {
  const SafetensorsEntry& entry = *place.entry;
  if (entry.shape != std::vector<std::int64_t>{matrix.out, matrix.in})
    return fail(ErrorCode::kInvalid, "tensor \"{}\" is {}, the configuration makes it {} x {}",
                entry.name, shape_text(entry.shape), matrix.out, matrix.in);
  if (entry.dtype != "BF16" && entry.dtype != "F16" && entry.dtype != "F32")
    return fail(ErrorCode::kUnsupported, "tensor \"{}\" is {}; BF16, F16 and F32 are read",
                entry.name, entry.dtype);
  if (!entry.name.ends_with(kWeightEnding))
    return fail(ErrorCode::kUnsupported, "\"{}\" is no module's weight", entry.name);
  return {};
}

std::string module_of(std::string_view name) {
  return std::string(
      name.ends_with(kWeightEnding) ? name.substr(0, name.size() - kWeightEnding.size()) : name);
}

Result<Plan> make_plan(const UnloadedModel& model, const SourceTensors& source,
                       const QuantizeOptions& options) {
  Plan plan;
  const WeightTable table = model.network->weight_table();
  TRY(const auto rounded, matrices_of(model, table, options, plan.text_left));
  for (const auto& [name, matrix] : rounded) {
    const Place* const place = source.find(name);
    if (place == nullptr)
      return fail(ErrorCode::kInvalid, "the checkpoint lacks tensor \"{}\"", name);
    TRY_DO(expect_numbers(*place, matrix));
  }
  for (const auto& [name, place] : source.all()) {
    plan.bytes_before += place.size();
    const auto at = rounded.find(name);
    if (at == rounded.end()) {
      plan.tensors.push_back(
          {place.entry->name, place.entry->dtype, place.entry->shape, 0, place.size()});
      plan.steps.push_back({place, false, 0});
      continue;
    }
    plan.modules.push_back({module_of(place.entry->name), at->second.group});
    add_rounded(plan, plan.modules.back().name, options.bits, at->second);
    plan.steps.push_back({place, true, at->second.group});
  }
  for (const TensorSpec& spec : table.specs()) {
    const Place* const place = source.find(spec.name);
    if (spec.kind == TensorKind::kMatrix && !rounded.contains(spec.name) && place != nullptr)
      plan.left.push_back(module_of(place->entry->name));
  }
  if (!options.head && std::ranges::find(plan.left, "lm_head") == plan.left.end())
    plan.left.emplace_back("lm_head");
  return plan;
}

// A folder under a name of its own until it is complete.
class PartialFolder {
 public:
  static Result<PartialFolder> make(const std::string& directory) {
    std::error_code error;
    std::string place = fs::weakly_canonical(directory, error).string();
    while (place.size() > 1 && place.ends_with('/')) place.pop_back();
    if (fs::exists(place, error) && !(fs::is_directory(place, error) && fs::is_empty(place, error)))
      return fail(ErrorCode::kInvalid,
                  "{}: is there and not empty; give a folder that is not there yet", place);
    PartialFolder folder;
    folder.path_ = place + ".partial-XXXXXX";
    folder.place_ = std::move(place);
    if (::mkdtemp(folder.path_.data()) == nullptr) {
      folder.path_.clear();
      return fail(ErrorCode::kInvalid, "{}: cannot be made: {}", folder.place_,
                  std::strerror(errno));
    }
    return folder;
  }
  PartialFolder(PartialFolder&& other) noexcept
      : place_(std::move(other.place_)), path_(std::exchange(other.path_, {})) {}
  PartialFolder& operator=(PartialFolder&&) = delete;
  ~PartialFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

  Result<void> commit() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::chmod(path_.c_str(), 0777 & ~mask) != 0 || ::rename(path_.c_str(), place_.c_str()) != 0)
      return fail(ErrorCode::kInvalid, "{}: cannot be put there: {}", place_, std::strerror(errno));
    path_.clear();
    return {};
  }

 private:
  PartialFolder() = default;
  std::string place_;
  std::string path_;  // empty: there is nothing to remove
};

bool is_weight_file(const fs::path& path) {
  constexpr std::array<std::string_view, 11> kKinds = {
      ".safetensors", ".bin",  ".pt", ".pth",     ".gguf", ".onnx",
      ".onnx_data",   ".ckpt", ".h5", ".msgpack", ".ot"};
  return path.filename().string().ends_with(".index.json") ||
         std::ranges::find(kKinds, path.extension().string()) != kKinds.end();
}

// Everything but weights, config.json and hidden entries; links become what they point to.
Result<void> copy_files(const fs::path& from, const fs::path& to, bool top) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || (top && name == "config.json")) continue;
    const fs::path target = to / name;
    if (entry.is_directory(error)) {
      fs::create_directory(target, error);
      if (!error) TRY_DO(copy_files(entry.path(), target, false));
    } else if (entry.is_regular_file(error) && !is_weight_file(name)) {
      fs::copy_file(entry.path(), target, error);
    }
    if (error)
      return fail(ErrorCode::kInvalid, "{}: cannot be copied to {}: {}", entry.path().string(),
                  target.string(), error.message());
  }
  if (error) return fail(ErrorCode::kInvalid, "{}: {}", from.string(), error.message());
  return {};
}

Result<void> write_config(const std::string& from, const std::string& to,
                          const std::string& section) {
  std::ifstream in(from + "/config.json", std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  TRY(const std::string config, with_quantization_config(text.str(), section));
  std::ofstream out(to + "/config.json", std::ios::binary);
  out << config;
  out.close();
  if (!out) return fail(ErrorCode::kInvalid, "{}/config.json: cannot be written", to);
  return {};
}

StoredMatrix whole_weights(const Place& place) {
  StoredMatrix matrix;
  matrix.codes = {safetensors_dtype(place.entry->dtype).value_or(DType::kU8), place.bytes()};
  matrix.stored_out = matrix.out_end = place.entry->shape[0];
  matrix.stored_in = matrix.in_end = matrix.stride = place.entry->shape[1];
  return matrix;
}

Result<void> write_rounded(const Step& step, int bits, ShardFiles& files, ThreadPool& pool) {
  const StoredMatrix weights = whole_weights(step.from);
  if (bits == 8) {
    const RoundedBytes rounded(weights, pool);
    TRY_DO(files.write(std::as_bytes(rounded.codes())));
    return files.write(std::as_bytes(rounded.scales()));
  }
  const RoundedMatrix rounded(weights, {.bits = 4, .group = step.group}, pool);
  const std::array<std::int64_t, 2> shape = {weights.out(), weights.in()};
  TRY_DO(files.write(std::as_bytes(rounded.words())));
  TRY_DO(files.write(rounded.scales()));
  return files.write(std::as_bytes(std::span(shape)));
}

// In pieces, so that not more of it than that is ever in memory twice.
Result<void> write_copied(std::span<const std::byte> bytes, ShardFiles& files) {
  for (std::size_t at = 0; at < bytes.size(); at += kPiece)
    TRY_DO(files.write(bytes.subspan(at, std::min(kPiece, bytes.size() - at))));
  return {};
}

Result<void> write_tensors(const Plan& plan, const QuantizeOptions& options, ShardFiles& files,
                           ThreadPool& pool) {
  std::size_t done = 0;
  for (const Step& step : plan.steps) {
    if (options.stopped && options.stopped()) return fail(ErrorCode::kCancelled, "interrupted");
    step.from.file->prefetch(*step.from.entry);
    if (step.rounded)
      TRY_DO(write_rounded(step, options.bits, files, pool));
    else
      TRY_DO(write_copied(step.from.bytes(), files));
    step.from.file->release(*step.from.entry);
    done += step.from.size();
    if (options.progress) options.progress(done, plan.bytes_before);
  }
  return files.finish();
}

// A folder inside the source would be copied into itself.
bool is_inside(const std::string& directory, const std::string& source) {
  std::error_code error;
  const fs::path place = fs::weakly_canonical(directory, error);
  const fs::path root = fs::weakly_canonical(source, error);
  return std::mismatch(root.begin(), root.end(), place.begin(), place.end()).first == root.end();
}

}  // namespace

Result<QuantizeOutcome> quantize_checkpoint(const Checkpoint& source,
                                            const QuantizeOptions& options, ThreadPool& pool) {
  TRY(const Family* family, family_of(source.config));
  TRY(const auto quantization, parse_quantization(source.config));
  if (quantization)
    return fail(ErrorCode::kUnsupported, "{} is quantised already: {}", source.directory,
                describe(*quantization));
  if (is_inside(options.directory, source.directory))
    return fail(ErrorCode::kInvalid, "{} is inside the checkpoint {}", options.directory,
                source.directory);
  TRY(const UnloadedModel model, create_model(source));
  TRY(const SourceTensors tensors, SourceTensors::open(source.directory, *family));
  auto planned = make_plan(model, tensors, options);
  if (!planned) return fail_within(source.directory, std::move(planned).error());
  const Plan& plan = *planned;

  TRY(PartialFolder folder, PartialFolder::make(options.directory));
  ShardFiles files(folder.path(), plan.tensors, options.shard_bytes);
  std::error_code error;
  const fs::space_info disk = fs::space(folder.path(), error);
  if (!error && disk.available < files.bytes() + kRoom)
    return fail(ErrorCode::kExhausted, "{}: {:.1f} GB of weights, {:.1f} GB are free",
                options.directory, static_cast<double>(files.bytes()) / 1e9,
                static_cast<double>(disk.available) / 1e9);
  TRY_DO(copy_files(source.directory, folder.path(), true));
  TRY_DO(write_config(source.directory, folder.path(),
                      compressed_config(options.bits, plan.modules, plan.left)));
  TRY_DO(write_tensors(plan, options, files, pool));
  TRY_DO(folder.commit());
  return QuantizeOutcome{plan.modules.size(), plan.text_left, plan.bytes_before, files.bytes()};
}

}  // namespace saccade
