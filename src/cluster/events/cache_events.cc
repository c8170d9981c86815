#include "cluster/events/cache_events.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "cluster/events/message_pack.h"

namespace saccade::cluster {
namespace {

constexpr std::string_view kFlag = "--kv-events-config";

Result<std::int64_t> count_of(const json::value& value, std::string_view name, std::int64_t most) {
  const auto* number = value.if_int64();
  if (number == nullptr || *number < 1 || *number > most)
    return fail(ErrorCode::kInvalid, "{}: {} is no number from 1 to {}", kFlag, name, most);
  return *number;
}

Result<std::string> event_text(const json::value& value, std::string_view name) {
  const auto* text = value.if_string();
  if (text == nullptr) return fail(ErrorCode::kInvalid, "{}: {} is no string", kFlag, name);
  return std::string(*text);
}

Result<void> check_endpoint(std::string_view endpoint, std::string_view name) {
  for (const std::string_view scheme : {"tcp://", "ipc://"}) {
    if (endpoint.starts_with(scheme) && endpoint.size() > scheme.size()) return {};
  }
  return fail(ErrorCode::kInvalid, "{}: {} is '{}'; tcp://HOST:PORT and ipc://PATH are known",
              kFlag, name, endpoint);
}

Result<void> read_member(std::string_view name, const json::value& value,
                         CacheEventSettings& settings) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (name == "enable_kv_cache_events") {
    const auto* on = value.if_bool();
    if (on == nullptr) return fail(ErrorCode::kInvalid, "{}: {} is no boolean", kFlag, name);
    settings.enabled = *on;
  } else if (name == "publisher") {
    TRY(const std::string publisher, event_text(value, name));
    if (publisher != "zmq" && publisher != "null")
      return fail(ErrorCode::kInvalid, "{}: publisher is '{}'; zmq and null are known", kFlag,
                  publisher);
    if (publisher == "null") settings.enabled = false;
  } else if (name == "endpoint") {
    TRY(settings.endpoint, event_text(value, name));
    TRY_DO(check_endpoint(settings.endpoint, name));
  } else if (name == "replay_endpoint") {
    if (value.is_null()) return {};
    TRY(settings.replay_endpoint, event_text(value, name));
    TRY_DO(check_endpoint(settings.replay_endpoint, name));
  } else if (name == "buffer_steps") {
    TRY(const std::int64_t steps, count_of(value, name, kMost));
    settings.buffer_steps = static_cast<std::size_t>(steps);
  } else if (name == "hwm") {
    TRY(const std::int64_t mark, count_of(value, name, kMost));
    settings.high_water_mark = static_cast<int>(mark);
  } else if (name == "max_queue_size") {
    TRY(const std::int64_t events, count_of(value, name, kMost));
    settings.max_queue_size = static_cast<std::size_t>(events);
  } else if (name == "topic") {
    TRY(settings.topic, event_text(value, name));
  } else {
    return fail(ErrorCode::kInvalid,
                "{}: {} is not known; enable_kv_cache_events, publisher, endpoint, "
                "replay_endpoint, buffer_steps, hwm, max_queue_size and topic are",
                kFlag, name);
  }
  return {};
}

// As vLLM names what its layers keep.
std::string_view spec_of(CacheKind kind) {
  return kind == CacheKind::kSlidingWindow ? "sliding_window" : "full_attention";
}

void pack_names(MessagePack& out, const CacheEvent& event) {
  out.text("block_hashes");
  out.list(event.names.size());
  for (const std::uint64_t name : event.names) out.number(name);
}

// vLLM's name of the cache that a model computes from, on any device; "CPU" is a second one, which
// blocks would have to be fetched from, and counts for less (Dynamo's indexer) or not at all.
constexpr std::string_view kMedium = "GPU";

void pack_stored(MessagePack& out, const CacheEvent& event) {
  const bool windowed = event.layers == CacheKind::kSlidingWindow;
  out.map(windowed ? 12 : 11);
  out.text("type");
  out.text("BlockStored");
  pack_names(out, event);
  out.text("parent_block_hash");
  event.parent ? out.number(*event.parent) : out.nil();
  out.text("token_ids");
  out.list(event.tokens.size());
  for (const std::int32_t token : event.tokens) out.number(static_cast<std::uint64_t>(token));
  out.text("block_size");
  out.number(std::uint64_t{event.tokens.size() / event.names.size()});
  out.text("lora_id");
  event.lora_name.empty() ? out.nil() : out.number(static_cast<std::uint64_t>(event.lora_id));
  out.text("medium");
  out.text(kMedium);
  out.text("lora_name");
  event.lora_name.empty() ? out.nil() : out.text(event.lora_name);
  out.text("extra_keys");
  out.list(event.images.size());
  for (const std::vector<std::string>& images : event.images) {
    if (images.empty()) {
      out.nil();
      continue;
    }
    out.list(images.size());
    for (const std::string& image : images) out.text(image);
  }
  out.text("group_idx");
  out.number(static_cast<std::uint64_t>(event.group));
  out.text("kv_cache_spec_kind");
  out.text(spec_of(event.layers));
  if (!windowed) return;
  out.text("kv_cache_spec_sliding_window");
  out.number(static_cast<std::uint64_t>(event.window));
}

void pack_removed(MessagePack& out, const CacheEvent& event) {
  out.map(4);
  out.text("type");
  out.text("BlockRemoved");
  pack_names(out, event);
  out.text("medium");
  out.text(kMedium);
  out.text("group_idx");
  out.number(static_cast<std::uint64_t>(event.group));
}

}  // namespace

Result<CacheEventSettings> parse_cache_event_settings(std::string_view json) {
  CacheEventSettings settings;
  if (json.empty()) return settings;
  auto tree = json::parse(json);
  if (!tree) return fail_within(kFlag, std::move(tree).error());
  if (!tree->is_object()) return fail(ErrorCode::kInvalid, "{} is no JSON object", kFlag);
  // vLLM's publisher null comes before what switches events on, wherever it stands.
  for (const auto& [name, value] : tree->get_object())
    if (name != "publisher") TRY_DO(read_member(name, value, settings));
  if (const json::value* publisher = tree->get_object().if_contains("publisher"))
    TRY_DO(read_member("publisher", *publisher, settings));
  return settings;
}

bool is_bound(std::string_view endpoint) {
  if (endpoint.starts_with("ipc://")) return true;
  for (const std::string_view host : {"*", "0.0.0.0", "[::", "127.", "localhost"})
    if (endpoint.substr(std::string_view("tcp://").size()).starts_with(host)) return true;
  return false;
}

// --- collecting ---

CacheEvent* CacheEventLog::next(CacheEvent::Kind kind) {
  if (events_.size() >= most_) {
    dropped_ += events_.size();
    events_.clear();
    events_.emplace_back();  // cleared
  }
  CacheEvent& event = events_.emplace_back();
  event.kind = kind;
  return &event;
}

// `add` is told the last event that waits, null where none does.
template <typename Add>
void CacheEventLog::change(Add add) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = events_.empty();
    add(first ? nullptr : &events_.back());
  }
  if (first) wake_();
}

void CacheEventLog::stored(const StoredBlock& block) {
  change([&](CacheEvent* event) {
    // Blocks one after another in a prompt are one event.
    const bool goes_on = event != nullptr && event->kind == CacheEvent::Kind::kStored &&
                         event->group == block.group && block.parent == event->names.back() &&
                         event->lora_name == block.adapter.name;
    if (!goes_on) {
      event = next(CacheEvent::Kind::kStored);
      event->group = block.group;
      event->layers = block.kind;
      event->window = block.window;
      event->parent = block.parent;
      event->lora_name = block.adapter.name;
      event->lora_id = block.adapter.number;
    }
    event->names.push_back(block.name);
    event->tokens.insert(event->tokens.end(), block.tokens.begin(), block.tokens.end());
    std::vector<std::string>& images = event->images.emplace_back();
    for (const BlockContent::Mark& mark : block.images) images.push_back(to_hex(mark.identity));
  });
}

void CacheEventLog::removed(int group, std::uint64_t name) {
  change([&](CacheEvent* event) {
    if (event == nullptr || event->kind != CacheEvent::Kind::kRemoved || event->group != group) {
      event = next(CacheEvent::Kind::kRemoved);
      event->group = group;
    }
    event->names.push_back(name);
  });
}

void CacheEventLog::cleared() {
  change([&](CacheEvent*) { next(CacheEvent::Kind::kCleared); });
}

std::vector<CacheEvent> CacheEventLog::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

std::uint64_t CacheEventLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::string packed(const std::vector<CacheEvent>& events, double time) {
  MessagePack out;
  out.list(3);
  out.number(time);
  out.list(events.size());
  for (const CacheEvent& event : events) {
    switch (event.kind) {
      case CacheEvent::Kind::kStored:
        pack_stored(out, event);
        break;
      case CacheEvent::Kind::kRemoved:
        pack_removed(out, event);
        break;
      case CacheEvent::Kind::kCleared:
        out.map(1);
        out.text("type");
        out.text("AllBlocksCleared");
        break;
    }
  }
  out.number(std::uint64_t{0});  // data_parallel_rank
  return out.take();
}

}  // namespace saccade::cluster
