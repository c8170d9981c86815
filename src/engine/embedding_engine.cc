#include "engine/embedding_engine.h"

#include <algorithm>
#include <utility>

#include "ops/readback.h"

namespace saccade {

Result<std::unique_ptr<EmbeddingEngine>> EmbeddingEngine::create(EmbeddingSettings settings,
                                                                 SentenceEncoder& encoder,
                                                                 Device& device) {
  const std::int64_t most = encoder.shape().max_tokens;
  settings.max_tokens = settings.max_tokens == 0 ? most : std::min(settings.max_tokens, most);
  if (settings.max_batched_tokens < settings.max_tokens)
    return fail(ErrorCode::kInvalid,
                "max_num_batched_tokens is {}; the model's longest sequence is {} tokens",
                settings.max_batched_tokens, settings.max_tokens);
  if (settings.max_sequences < 1)
    return fail(ErrorCode::kInvalid, "max_num_seqs is {}, at least 1 is required",
                settings.max_sequences);
  settings.max_sequences = std::min(settings.max_sequences, settings.max_batched_tokens);
  TRY_DO(encoder.reserve(device, settings.max_batched_tokens, settings.max_sequences));
  std::unique_ptr<EmbeddingEngine> engine(new EmbeddingEngine(settings, encoder, device));
  TRY(engine->out_, device.allocate(static_cast<std::size_t>(settings.max_sequences *
                                                             encoder.shape().dimensions) *
                                    sizeof(float)));
  return engine;
}

Result<void> EmbeddingEngine::validate(const std::vector<std::vector<TokenId>>& inputs) const {
  const EncoderShape& shape = encoder_.shape();
  for (const auto& ids : inputs) {
    const auto count = static_cast<std::int64_t>(ids.size());
    if (count == 0)
      return fail(
          Error{ErrorCode::kInvalid, "an input has no tokens, at least 1 is required", "input"});
    if (count > settings_.max_tokens) {
      return fail(Error{
          ErrorCode::kInvalid,
          fmt::format("This model's maximum context length is {} tokens. However, you requested {} "
                      "tokens in the input for embedding generation. Please reduce the length of "
                      "the input, or set truncate_prompt_tokens.",
                      settings_.max_tokens, count),
          "input"});
    }
    for (const TokenId id : ids) {
      if (id < 0 || id >= shape.vocab)
        return fail(Error{
            ErrorCode::kInvalid,
            fmt::format("token id {} is outside the vocabulary of {}", id, shape.vocab), "input"});
    }
  }
  return {};
}

// Requests are counted, not texts: one of many texts must not shut the door on the next. Tokens
// bound what they hold; a request that finds none of them waiting always fits.
Result<void> EmbeddingEngine::find_room(std::int64_t tokens) {
  if (stats_.requests >= settings_.max_waiting) {
    ++stats_.rejections;
    return fail(ErrorCode::kExhausted, "{} requests are waiting, the limit is {}", stats_.requests,
                settings_.max_waiting);
  }
  if (stats_.requests > 0 && stats_.request_tokens + tokens > settings_.max_waiting_tokens) {
    ++stats_.rejections;
    return fail(ErrorCode::kExhausted,
                "requests with {} tokens are waiting, {} more go over the limit of {}",
                stats_.request_tokens, tokens, settings_.max_waiting_tokens);
  }
  return {};
}

Result<RequestId> EmbeddingEngine::submit(std::vector<std::vector<TokenId>> inputs, Sink sink) {
  TRY_DO(validate(inputs));
  auto job = std::make_unique<Job>();
  for (const auto& ids : inputs) job->tokens += static_cast<std::int64_t>(ids.size());
  job->inputs = std::move(inputs);
  job->sink = std::move(sink);
  const std::lock_guard lock(mutex_);
  if (stopping_) return fail(ErrorCode::kUnavailable, "the engine has stopped");
  TRY_DO(find_room(job->tokens));
  job->id = next_id_++;
  const RequestId id = job->id;
  ++stats_.requests;
  stats_.request_tokens += job->tokens;
  stats_.waiting += static_cast<std::int64_t>(job->inputs.size());
  arrivals_.push_back(std::move(job));
  wake_.notify_one();
  return id;
}

void EmbeddingEngine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  cancellations_.push_back(id);
  wake_.notify_one();
}

EmbeddingStats EmbeddingEngine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// Under mutex_.
void EmbeddingEngine::leave(const Job& job) {
  --stats_.requests;
  stats_.request_tokens -= job.tokens;
}

void EmbeddingEngine::drain() {
  const std::lock_guard lock(mutex_);
  std::ranges::move(arrivals_, std::back_inserter(jobs_));
  arrivals_.clear();
  for (const RequestId id : std::exchange(cancellations_, {})) {
    const auto job = std::ranges::find(jobs_, id, [](const auto& each) { return each->id; });
    if (job == jobs_.end()) continue;  // it has been delivered
    stats_.waiting -= static_cast<std::int64_t>((*job)->inputs.size() - (*job)->taken);
    leave(**job);
    jobs_.erase(job);
  }
}

std::vector<EmbeddingEngine::Part> EmbeddingEngine::next_batch() {
  std::vector<Part> batch;
  std::int64_t rows = 0;
  for (const auto& job : jobs_) {
    while (job->taken < job->inputs.size()) {
      const auto count = static_cast<std::int64_t>(job->inputs[job->taken].size());
      if (rows + count > settings_.max_batched_tokens ||
          static_cast<std::int64_t>(batch.size()) == settings_.max_sequences)
        return batch;
      batch.push_back({job.get(), job->taken++});
      rows += count;
    }
  }
  return batch;
}

void EmbeddingEngine::compute(const std::vector<Part>& batch) {
  const std::int64_t width = encoder_.shape().dimensions;
  const auto count = static_cast<std::int64_t>(batch.size());
  ids_.clear();
  begins_.assign(1, 0);
  for (const Part& part : batch) {
    const auto& input = part.job->inputs[part.input];
    ids_.insert(ids_.end(), input.begin(), input.end());
    begins_.push_back(static_cast<std::int32_t>(ids_.size()));
  }
  const View out = out_.view(DType::kF32, count, width);
  encoder_.forward(stream_, ids_, begins_, out);
  stream_.retire();
  const auto read = readable(stream_, out, readback_);
  CHECK(read.has_value(), "reading embeddings: {}", read.error().message);
  for (std::int64_t i = 0; i < count; ++i) {
    auto& rows = batch[static_cast<std::size_t>(i)].job->rows;
    rows.insert(rows.end(), read->row<float>(i), read->row<float>(i) + width);
  }
}

void EmbeddingEngine::deliver() {
  while (!jobs_.empty() && jobs_.front()->taken == jobs_.front()->inputs.size()) {
    const std::unique_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    {
      const std::lock_guard lock(mutex_);
      leave(*job);
    }
    job->sink(std::move(job->rows));
  }
}

bool EmbeddingEngine::step() {
  drain();
  const std::vector<Part> batch = next_batch();
  const auto count = static_cast<std::int64_t>(batch.size());
  {
    const std::lock_guard lock(mutex_);
    stats_.running = count;
    stats_.waiting -= count;
  }
  if (batch.empty()) return false;
  compute(batch);
  {
    const std::lock_guard lock(mutex_);
    stats_.running = 0;
    stats_.sequences += static_cast<std::uint64_t>(count);
    stats_.prompt_tokens += ids_.size();
    ++stats_.steps;
  }
  deliver();
  return true;
}

void EmbeddingEngine::run() {
  try {
    run_until_stopped();
  } catch (...) {
    // With the jobs go their sinks: who waits hears that nothing will come. Not under the lock.
    std::vector<std::unique_ptr<Job>> arrivals;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      arrivals.swap(arrivals_);
    }
    jobs_.clear();
    throw;
  }
}

void EmbeddingEngine::run_until_stopped() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] {
        return stopping_ || !jobs_.empty() || !arrivals_.empty() || !cancellations_.empty();
      });
      if (stopping_) return;
    }
    step();
  }
}

void EmbeddingEngine::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  wake_.notify_one();
}

}  // namespace saccade
