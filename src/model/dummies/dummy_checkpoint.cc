#include "model/dummies/dummy_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "base/threads/thread_pool.h"
#include "model/checkpoint/shard_files.h"
#include "model/dummies/dummy_sizes.h"
#include "model/dummies/random_weights.h"
#include "model/families.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

class DummyWriter {
 public:
  DummyWriter(const DummyOptions& options, ShardFiles& files)
      : options_(options),
        files_(files),
        pool_(static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))) {
    buffer_.resize(kRandomBlock * static_cast<std::size_t>(pool_.size()) * 8);
  }

  Result<void> tensor(const TensorSpec& spec) {
    const std::size_t count = element_count(spec);
    for (std::size_t done = 0; done < count; done += buffer_.size()) {
      const std::size_t part = std::min(buffer_.size(), count - done);
      pool_.parallel_each(
          static_cast<std::int64_t>((part + kRandomBlock - 1) / kRandomBlock),
          [&](std::int64_t index, int) {
            const std::size_t begin = static_cast<std::size_t>(index) * kRandomBlock;
            fill_random(spec, options_.seed, (done + begin) / kRandomBlock,
                        std::span(buffer_).subspan(begin, std::min(kRandomBlock, part - begin)));
          });
      TRY_DO(files_.write(std::as_bytes(std::span(buffer_).first(part))));
    }
    if (options_.progress) options_.progress(files_.written(), files_.bytes());
    return {};
  }

 private:
  const DummyOptions& options_;
  ShardFiles& files_;
  ThreadPool pool_;
  std::vector<std::uint16_t> buffer_;
};

Result<void> write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return fail(ErrorCode::kInvalid, "{}: cannot be written", path);
  return {};
}

std::string tokenizer_config_file(const DummyCheckpoint& dummy) {
  std::string text;
  json::JsonWriter w(text);
  w.begin_object();
  w.member("add_prefix_space", false);
  w.key("added_tokens_decoder");
  w.begin_object();
  for (const SpecialTokenAt& token : dummy.special_tokens) {
    w.key(fmt::format("{}", token.id));
    w.begin_object();
    w.member("content", std::string_view(token.text));
    for (const char* off : {"lstrip", "normalized", "rstrip", "single_word"}) w.member(off, false);
    w.member("special", token.special);
    w.end_object();
  }
  w.end_object();
  if (!dummy.chat_template.empty())
    w.member("chat_template", std::string_view(dummy.chat_template));
  w.member("eos_token", std::string_view(dummy.end_token));
  w.member("pad_token", std::string_view(dummy.pad_token));
  if (!dummy.tokenizer_options.begin.empty())
    w.member("bos_token", std::string_view(dummy.tokenizer_options.begin));
  w.member("model_max_length", 32768);
  w.member("tokenizer_class", std::string_view(dummy.tokenizer_class));
  w.end_object();
  return text;
}

Result<void> write_small_files(const DummyCheckpoint& dummy, const std::string& directory) {
  for (const DummyFile& file : dummy.files) {
    const fs::path path = fs::path(directory) / file.name;
    std::error_code ignored;  // the file says it
    fs::create_directories(path.parent_path(), ignored);
    TRY_DO(write_text(path, file.text));
  }
  if (!dummy.chat_template.empty()) {
    std::string text = "{\"chat_template\": ";
    json::append_quoted(text, dummy.chat_template);
    TRY_DO(write_text(directory + "/chat_template.json", text + "}"));
  }
  if (dummy.tokenizer_pieces == 0) return {};
  TRY_DO(write_text(directory + "/tokenizer_config.json", tokenizer_config_file(dummy)));
  return write_text(
      directory + "/tokenizer.json",
      make_byte_level_tokenizer_json(dummy.tokenizer_pieces, dummy.special_tokens,
                                     dummy.tokenizer_pattern, dummy.tokenizer_options));
}

// Weights of an earlier run, which would be read instead.
void remove_weights(const std::string& directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("model") &&
        (name.ends_with(".safetensors") || name.ends_with(".index.json")))
      fs::remove(entry.path(), ignored);
  }
}

Result<std::vector<TensorSpec>> tensors_of(const Family& family, const Checkpoint& checkpoint) {
  if (family.create_encoder != nullptr) {
    TRY(const auto encoder, create_encoder(checkpoint));
    return encoder->weight_table().specs();
  }
  TRY(const UnloadedModel model, create_model(checkpoint));
  return model.network->weight_table().specs();
}

}  // namespace

Result<void> write_dummy_checkpoint(const Family& family, std::string_view size,
                                    const DummyOptions& options) {
  const std::vector<std::string_view> sizes = dummy_sizes(family.name);
  if (std::ranges::find(sizes, size) == sizes.end())
    return fail(ErrorCode::kInvalid, "{} has no size \"{}\"; there are {}", family.name, size,
                fmt::join(sizes, ", "));
  const DummyCheckpoint dummy = make_dummy(family.name, size);
  std::error_code error;
  fs::create_directories(options.directory, error);
  if (error) return fail(ErrorCode::kInvalid, "{}: {}", options.directory, error.message());
  remove_weights(options.directory);
  TRY_DO(write_small_files(dummy, options.directory));
  TRY(const Checkpoint checkpoint, open_checkpoint(options.directory));
  TRY(const std::vector<TensorSpec> specs, tensors_of(family, checkpoint));
  if (options.config_only) return {};

  const auto total = static_cast<std::size_t>(parameter_count(specs)) * 2;
  const fs::space_info disk = fs::space(options.directory, error);
  if (!error && disk.available < total + (std::size_t{64} << 20))
    return fail(ErrorCode::kExhausted, "{}: {:.1f} GB of weights, {:.1f} GB are free",
                options.directory, static_cast<double>(total) / 1e9,
                static_cast<double>(disk.available) / 1e9);
  std::vector<SafetensorsEntry> tensors;
  for (const TensorSpec& spec : specs)
    tensors.push_back({spec.name, "BF16", spec.shape, 0, element_count(spec) * 2});
  ShardFiles files(options.directory, tensors, options.shard_bytes);
  DummyWriter writer(options, files);
  for (const TensorSpec& spec : specs) TRY_DO(writer.tensor(spec));
  return files.finish();
}

}  // namespace saccade
