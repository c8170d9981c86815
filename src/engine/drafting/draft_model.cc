#include "engine/drafting/draft_model.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "engine/admission/memory_budget.h"

namespace saccade {
namespace {

constexpr std::int64_t kShareOfFree = 8;               // its pool is at most one part of so many
constexpr std::int64_t kFree = std::int64_t{1} << 30;  // bytes, assumed when it cannot be told
// Rows of a sequence that is up to date: the last token, and the last draft token before it.
constexpr std::int64_t kUpToDate = 2;

std::int64_t size_of_text(std::span<const TokenId> tokens) { return std::ssize(tokens); }

}  // namespace

// Draft tokens that came have been read; the last token's row is computed always.
std::int64_t DraftReader::unread(std::span<const TokenId> tokens) const {
  const std::int64_t last = size_of_text(tokens) - 1;
  std::int64_t read = std::min(read_, last);
  for (const TokenId token : ahead_) {
    if (read >= last || tokens[static_cast<std::size_t>(read)] != token) break;
    ++read;
  }
  return last + 1 - read;
}

DraftModel::DraftModel(const DraftPlan& plan, Network& network, Device& device, const Clock& clock)
    : network_(network),
      device_(device),
      clock_(clock),
      max_drafted_(plan.max_drafted),
      vocab_(plan.vocab),
      block_tokens_(plan.block_tokens),
      length_(plan.length) {
  lists_.positions.resize(static_cast<std::size_t>(network.shape().position_axes));
}

Result<std::unique_ptr<DraftModel>> DraftModel::create(const DraftPlan& plan,
                                                       const DraftSettings& settings,
                                                       Network& network, Device& device,
                                                       const Clock& clock) {
  const ModelShape& shape = network.shape();
  if (auto takes = check_shape(shape); !takes)
    return fail_within("draft model", std::move(takes).error());
  std::unique_ptr<DraftModel> made(new DraftModel(plan, network, device, clock));
  std::int64_t& length = made->length_;
  length = std::min(length, shape.max_position);
  // Keys of longer texts are others, for all of their tokens.
  if (shape.short_length > 0) length = std::min(length, shape.short_length);
  if (settings.max_model_len > 0) length = std::min(length, settings.max_model_len);
  auto allocated = made->allocate(settings, plan);
  if (!allocated) return fail_within("draft model", std::move(allocated).error());
  log::info(
      "draft model: {}, {:.2f} GiB of weights, {:.2f} GiB of keys and values, which hold {} "
      "tokens; "
      "texts of up to {} get drafts",
      shape.family, gibibytes(static_cast<std::int64_t>(shape.weight_bytes)),
      gibibytes(made->pool_bytes_), made->pages_ * made->block_tokens_, length);
  return made;
}

Result<void> DraftModel::allocate(const DraftSettings& settings, const DraftPlan& plan) {
  const ModelShape& shape = network_.shape();
  const std::int64_t logit_rows = max_drafted_ + kMaxCompared;
  TRY_DO(network_.reserve(device_, {.rows = kMaxRows,
                                    .sequences = std::min(plan.max_sequences, kMaxRows),
                                    .logit_rows = logit_rows,
                                    .length = length_}));
  // Nothing is let go of before the text ends: windows too may have to go back.
  PagePlanSettings paged;
  paged.policy = KvPolicy::kPaged;
  paged.block_tokens = block_tokens_;
  TRY(const PagePlan pages, make_page_plan(layer_specs(shape), paged));
  CHECK(pages.tables == 1, "{} tables", pages.tables);
  const std::int64_t page_bytes = pages.groups.front().page_bytes;
  const std::int64_t free = std::max(device_.free_bytes(), std::int64_t{0});
  const std::int64_t each = (length_ + block_tokens_ - 1) / block_tokens_;
  pages_ = settings.kv_cache_bytes / page_bytes;
  if (settings.kv_cache_bytes == 0)
    pages_ =
        std::min(plan.max_sequences * each, (free > 0 ? free : kFree) / kShareOfFree / page_bytes);
  if (pages_ == 0)
    return fail(ErrorCode::kTooLarge, "kv_cache_bytes {}: a page of {} tokens takes {}",
                settings.kv_cache_bytes, block_tokens_, page_bytes);
  pool_bytes_ = pages_ * page_bytes;
  TRY(pool_, KvPool::create(device_, shape, pages, pool_bytes_));
  const std::int64_t logit_bytes = logit_rows * shape.vocab * std::int64_t{sizeof(float)};
  TRY(logits_, device_.allocate(static_cast<std::size_t>(logit_bytes)));
  TRY(sampling_, SamplingLane::create(device_, logit_rows, 0, static_cast<int>(plan.max_tokens)));
  free_pages_.resize(static_cast<std::size_t>(pages_));
  std::iota(free_pages_.rbegin(), free_pages_.rend(), 0);
  bytes_ = pool_bytes_ + logit_bytes + static_cast<std::int64_t>(network_.scratch_bytes());
  return {};
}

Result<void> DraftModel::check_shape(const ModelShape& shape) {
  if (shape.keeps_state())
    return fail(ErrorCode::kUnsupported,
                "{} keeps a state, and what rejected tokens wrote into it cannot be taken back",
                shape.family);
  if (shape.cross_attends())
    return fail(ErrorCode::kUnsupported,
                "{} attends to images across, and a draft model reads text alone", shape.family);
  return {};
}

double DraftModel::usage() const {
  return static_cast<double>(tokens_held()) / static_cast<double>(pages_ * block_tokens_);
}

double DraftModel::step_seconds(std::int64_t sequences) const {
  if (step_time_.observations() < StepTimeModel::kTrusted) return 0;
  StepLoad load;
  load.decode_rows = sequences;
  return step_time_.predict(load);
}

double DraftModel::reading_seconds(std::int64_t tokens) const {
  if (step_time_.observations() < StepTimeModel::kTrusted) return 0;
  StepLoad load;
  load.prefill_tokens = std::min(tokens, kMaxRows);
  const double steps = static_cast<double>(tokens) / static_cast<double>(load.prefill_tokens);
  return step_time_.predict(load) * steps;
}

void DraftModel::release(DraftReader& reader) {
  free_pages_.insert(free_pages_.end(), reader.pages_.begin(), reader.pages_.end());
  reader = {};
}

// All of its pages or none, lest many hold a part each and none is read to its end.
bool DraftModel::make_room(Ask& ask) {
  std::vector<std::int32_t>& pages = ask.reader->pages_;
  const std::int64_t tokens = size_of_text(ask.tokens) + ask.count;
  CHECK(tokens <= length_, "{} tokens, {} are read at most", tokens, length_);
  const std::int64_t lacking = (tokens + block_tokens_ - 1) / block_tokens_ - std::ssize(pages);
  if (lacking > std::ssize(free_pages_)) {
    release(*ask.reader);
    return false;
  }
  for (std::int64_t i = 0; i < lacking; ++i) {
    pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
  return true;
}

void DraftModel::propose(std::span<Ask> asks) {
  steps_.clear();
  plan_reading(asks);
  if (parts_.empty()) return;
  stream().record().synchronize();  // the times are of what follows
  const Nanos begun = clock_.now();
  read_tokens();
  const auto drafts_more = [&](const Part& part) {
    return part.slot >= 0 && part.ask->count > std::ssize(steps_);
  };
  while (std::ranges::any_of(parts_, drafts_more)) read_drafts(std::ssize(steps_));
  settle(begun);
}

void DraftModel::plan_reading(std::span<Ask> asks) {
  parts_.clear();
  std::vector<std::pair<std::int64_t, Ask*>> order;
  for (Ask& ask : asks) order.emplace_back(ask.reader->unread(ask.tokens), &ask);
  std::ranges::stable_sort(order, {}, &std::pair<std::int64_t, Ask*>::first);
  std::int64_t room = kMaxRows;
  std::int64_t comparing = kMaxCompared;
  std::int32_t slots = 0;
  for (const auto& [unread, ask] : order) {
    if (room == 0) return;
    if (!make_room(*ask)) continue;
    DraftReader& reader = *ask->reader;
    const std::int64_t size = size_of_text(ask->tokens);
    Part& part = parts_.emplace_back();
    part.ask = ask;
    part.begin = size - reader.unread(ask->tokens);
    part.rows = std::min(size - part.begin, room);
    const std::int64_t end = part.begin + part.rows;
    room -= part.rows;
    reader.read_ = end;
    reader.ahead_.clear();
    ask->read = end == size;
    // The row of a token proposes the next.
    part.compare_end = std::min(end + 1, size);
    part.compare_begin =
        std::max({ask->compare_from, part.begin + 1, part.compare_end - comparing});
    part.compare_begin = std::min(part.compare_begin, part.compare_end);
    comparing -= part.compare_end - part.compare_begin;
    if (ask->read && ask->count > 0 && slots < max_drafted_) part.slot = slots++;
  }
}

void DraftModel::begin_step() {
  lists_.clear();
  spans_.clear();
  rows_.clear();
  steps_.emplace_back();
}

// The next `count` rows of the step: of a text's tokens from `begin` on. Ids are the caller's.
void DraftModel::add_span(const DraftReader& reader, std::int64_t begin, std::int64_t count) {
  const std::int64_t first = spans_.empty() ? 0 : spans_.back().row_begin + spans_.back().row_count;
  spans_.push_back({.row_begin = first,
                    .row_count = count,
                    .context = begin,
                    .prefix = 0,
                    .blocks = reader.pages_});
  for (std::vector<std::int32_t>& axis : lists_.positions) {
    for (std::int64_t token = begin; token < begin + count; ++token)
      axis.push_back(static_cast<std::int32_t>(token));
  }
  StepLoad& load = steps_.back().load;
  load.context_tokens += begin;
  if (count <= kUpToDate) {
    load.decode_rows += count;
  } else {
    load.prefill_tokens += count;
    load.prefill_context +=
        static_cast<double>(count) * (static_cast<double>(begin) + static_cast<double>(count) / 2);
  }
}

// slot: where the row's token is left for the next step; -1: nowhere.
void DraftModel::add_logit_row(std::int64_t row, std::int32_t slot) {
  lists_.logit_rows.push_back(static_cast<std::int32_t>(row));
  rows_.push_back({.row = std::ssize(rows_), .slot = slot});
}

void DraftModel::read_tokens() {
  begin_step();
  for (const Part& part : parts_) {
    add_span(*part.ask->reader, part.begin, part.rows);
    const std::int64_t first = spans_.back().row_begin;
    for (std::int64_t token = part.begin; token < part.begin + part.rows; ++token) {
      const TokenId id = part.ask->tokens[static_cast<std::size_t>(token)];
      // Of tokens that it has no row for, as those of images may be, any will do.
      lists_.ids.push_back(id < network_.shape().vocab ? id : 0);
    }
    for (std::int64_t token = part.compare_begin; token < part.compare_end; ++token)
      add_logit_row(first + token - 1 - part.begin, -1);
    if (part.slot >= 0) add_logit_row(first + part.rows - 1, part.slot);
    tokens_read_ += static_cast<std::uint64_t>(part.rows);
  }
  launch();
}

// The token that each has been given last, `before` of which there are: nobody knows it yet.
void DraftModel::read_drafts(std::int64_t before) {
  begin_step();
  for (const Part& part : parts_) {
    if (part.slot < 0 || part.ask->count <= before) continue;
    lists_.ids.push_back(-1 - part.slot);
    add_span(*part.ask->reader, size_of_text(part.ask->tokens) + before - 1, 1);
    add_logit_row(spans_.back().row_begin, part.slot);
  }
  launch();
}

void DraftModel::launch() {
  const std::array<std::span<const SequenceSpan>, 1> groups = {spans_};
  Batch batch;
  batch.last_tokens = sampling_->last_tokens();
  batch.spans = groups;
  batch.kv = pool_->bindings();
  batch.logits = logits_.view(DType::kF32, std::ssize(rows_), network_.shape().vocab);
  lists_.upload(stream(), batch);
  network_.forward(stream(), batch);
  Step& step = steps_.back();
  step.ticket = sampling_->launch(stream(), batch.logits, rows_);
  stream().retire();
  if (step.ticket.done.passed()) step.done = clock_.now();
}

void DraftModel::settle(Nanos begun) {
  for (std::size_t before = 0; before < steps_.size(); ++before) {
    Step& step = steps_[before];
    const std::vector<Sampled> sampled = sampling_->read(step.ticket);
    if (step.done == 0) step.done = clock_.now();
    const double took = seconds(step.done - begun);
    begun = step.done;
    busy_seconds_ += took;
    step_time_.observe(step.load, took);
    std::size_t next = 0;
    for (Part& part : parts_) {
      if (before == 0) {
        for (std::int64_t token = part.compare_begin; token < part.compare_end; ++token) {
          const Sampled& at = sampled[next++];
          part.ask->hits.push_back(!at.failed &&
                                   at.token == part.ask->tokens[static_cast<std::size_t>(token)]);
        }
      }
      if (part.slot < 0 || part.ask->count <= static_cast<std::int64_t>(before)) continue;
      const Sampled& at = sampled[next++];
      // A token that the model does not have ends the draft.
      part.cut = part.cut || at.failed || at.token >= vocab_;
      if (!part.cut) part.ask->draft.push_back(at.token);
    }
  }
  for (const Part& part : parts_) {
    if (part.slot < 0) continue;
    std::vector<TokenId>& ahead = part.ask->reader->ahead_;
    ahead = part.ask->draft;
    if (std::ssize(ahead) == part.ask->count) ahead.pop_back();  // its row was not computed
  }
}

}  // namespace saccade
