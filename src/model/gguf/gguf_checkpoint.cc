#include "model/gguf/gguf_checkpoint.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "base/log.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_family.h"
#include "model/gguf/gguf_model.h"
#include "model/gguf/gguf_tokenizer.h"

namespace saccade {
namespace {

Result<Checkpoint> translate(const GgufModel& model) {
  TRY(const GgufFamily* family, gguf_family_of(model));
  TRY(GgufConfig read, read_gguf_config(model, *family));
  Checkpoint checkpoint;
  TRY(checkpoint.generation, read_gguf_generation(model));
  auto tokenizer = read_gguf_tokenizer(model.metadata());
  if (!tokenizer && tokenizer.error().code != ErrorCode::kUnsupported)
    return fail(std::move(tokenizer).error());
  // Whoever needs a tokenizer and gives none of their own is told that there is none.
  if (!tokenizer) log::warning("{}: {}", model.files().front().path, tokenizer.error().message);
  NamedFiles::Texts texts = std::move(tokenizer).value_or(NamedFiles::Texts());
  checkpoint.config = std::move(read.config);
  checkpoint.preprocessor = std::move(read.preprocessor);
  texts["config.json"] = boost::json::serialize(checkpoint.config);
  if (!checkpoint.generation.empty())
    texts["generation_config.json"] = boost::json::serialize(checkpoint.generation);
  if (!checkpoint.preprocessor.empty())
    texts["preprocessor_config.json"] = boost::json::serialize(checkpoint.preprocessor);
  checkpoint.files = NamedFiles(model.files().front().path, std::move(texts));
  return checkpoint;
}

}  // namespace

Result<Checkpoint> open_gguf_checkpoint(const GgufPaths& paths) {
  TRY(const GgufModel model, GgufModel::open(paths));
  auto checkpoint = translate(model);
  if (!checkpoint) {
    if (checkpoint.error().message.starts_with(paths.model)) return checkpoint;
    return fail_within(gguf_place(paths), std::move(checkpoint).error());
  }
  checkpoint->directory = gguf_place(paths);
  return checkpoint;
}

}  // namespace saccade
