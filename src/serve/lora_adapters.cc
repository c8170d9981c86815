#include "serve/lora_adapters.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace saccade::serve {
namespace {

constexpr std::size_t kMaxName = 256;  // bytes

// With links followed, as far as it exists, and without a slash at its end; empty where it cannot
// be told.
std::filesystem::path resolved(const std::string& path) {
  std::error_code error;
  std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
  if (error) return {};
  return found.has_filename() ? found : found.parent_path();
}

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [end, at] = std::ranges::mismatch(folder, path);
  return !folder.empty() && end == folder.end();
}

}  // namespace

LoraAdapters::LoraAdapters(const ServeSettings& settings, const Network& network)
    : settings_(settings), network_(network) {}

Result<void> LoraAdapters::add_all() {
  for (const LoraModule& module : settings_.lora.modules) {
    auto added = add(module, false);
    if (!added)
      return fail_within(fmt::format("--lora-modules {}", module.name), std::move(added).error());
  }
  return {};
}

Result<void> LoraAdapters::check(const LoraModule& module) const {
  if (module.name.empty() || module.path.empty())
    return fail(ErrorCode::kInvalid, "Both 'lora_name' and 'lora_path' must be provided.");
  if (module.name.size() > kMaxName)
    return fail(ErrorCode::kInvalid, "the adapter's name has {} bytes, the limit is {}",
                module.name.size(), kMaxName);
  if (std::ranges::any_of(module.name, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    return fail(ErrorCode::kInvalid, "the adapter's name has control characters");
  if (std::ranges::find(settings_.served_model_name, module.name) !=
      settings_.served_model_name.end())
    return fail(ErrorCode::kInvalid, "'{}' is the name of the model itself", module.name);
  // Where a path is a C string it ends there, and another folder would be read.
  if (module.path.find('\0') != std::string::npos)
    return fail(ErrorCode::kInvalid, "the adapter's path has a NUL behind '{}'",
                module.path.substr(0, std::min(kMaxName, module.path.find('\0'))));
  if (!module.base_model_name.empty() &&
      std::ranges::find(settings_.served_model_name, module.base_model_name) ==
          settings_.served_model_name.end())
    return fail(ErrorCode::kInvalid, "base_model_name '{}' is none of this server's models",
                module.base_model_name.substr(0, kMaxName));
  return {};
}

Result<std::shared_ptr<const LoraAdapter>> LoraAdapters::load(const LoraModule& module,
                                                              std::int64_t number) const {
  const std::filesystem::path path = resolved(module.path);
  const auto& allowed = settings_.lora.allowed_paths;
  const bool inside = allowed.empty() || std::ranges::any_of(allowed, [&](const auto& folder) {
                        return lies_in(path, resolved(folder));
                      });
  if (path.empty() || !inside)
    return fail(ErrorCode::kDenied, "{} is not in a folder of --allowed-lora-paths",
                module.path.substr(0, kMaxName));
  return LoraAdapter::load({module.name, path.string(), number, settings_.engine.max_lora_rank},
                           network_.lora_targets());
}

std::list<LoraAdapters::Entry>::iterator LoraAdapters::place_of(const std::string& name) {
  return std::ranges::find_if(entries_,
                              [&](const Entry& entry) { return entry.module.name == name; });
}

Result<void> LoraAdapters::add(const LoraModule& module, bool in_place) {
  TRY_DO(check(module));
  const auto there = [&] {
    return fail(ErrorCode::kInvalid,
                "The lora adapter '{}' has already been loaded. If you want to load the adapter in "
                "place, set 'load_inplace' to True.",
                module.name);
  };
  if (!in_place && has(module.name)) return there();
  Entry made{module, wall_clock_now() / kSecond, ++last_number_, nullptr};
  // Without a lock: what a stranger's files take is nobody else's time.
  TRY(made.adapter, load(module, made.number));
  log::info("adapter '{}': {} matrices of rank up to {}, {} MiB, from {}", module.name,
            made.adapter->entries().size(), made.adapter->max_rank(), made.adapter->bytes() >> 20,
            module.path);
  const std::lock_guard lock(mutex_);
  const auto old = place_of(module.name);
  if (old != entries_.end()) {
    if (!in_place) return there();  // another has just been quicker
    entries_.erase(old);
  }
  entries_.push_front(std::move(made));
  keep_within_limit();
  return {};
}

Result<void> LoraAdapters::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto place = place_of(name);
  if (place == entries_.end())
    return fail(ErrorCode::kNotFound, "The lora adapter '{}' cannot be found.",
                name.substr(0, kMaxName));
  entries_.erase(place);
  return {};
}

bool LoraAdapters::has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_,
                             [&](const Entry& entry) { return entry.module.name == name; });
}

Result<std::shared_ptr<const LoraAdapter>> LoraAdapters::find(const std::string& name) {
  const auto in_memory = [&](Entry& into) -> std::shared_ptr<const LoraAdapter> {
    const std::lock_guard lock(mutex_);
    const auto place = place_of(name);
    if (place == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, place);
    into = *place;
    return place->adapter;
  };
  Entry entry;
  if (auto adapter = in_memory(entry)) return adapter;
  if (entry.number == 0) return nullptr;
  const std::lock_guard one(reading_);
  entry = {};
  if (auto adapter = in_memory(entry)) return adapter;  // another has just read it
  if (entry.number == 0) return nullptr;
  auto loaded = load(entry.module, entry.number);
  if (!loaded)
    return fail(ErrorCode::kInternal, "adapter '{}' cannot be read again: {}", name,
                loaded.error().message);
  const std::lock_guard lock(mutex_);
  const auto place = place_of(name);
  if (place != entries_.end() && place->number == entry.number) {
    place->adapter = *loaded;
    keep_within_limit();
  }
  return loaded;
}

// Those that have not been used for longest leave memory; what requests hold stays until they end.
void LoraAdapters::keep_within_limit() {
  const std::int64_t most = std::max(settings_.lora.max_in_memory, settings_.engine.max_loras);
  std::int64_t held = 0;
  for (Entry& entry : entries_)
    if (entry.adapter != nullptr && ++held > most) entry.adapter.reset();
}

std::vector<api::ModelCard> LoraAdapters::cards(const api::ModelCard& like) const {
  std::vector<api::ModelCard> cards;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    api::ModelCard& card = cards.emplace_back(like);
    card.id = entry.module.name;
    card.root = entry.module.path;
    card.created = entry.created;
    card.parent = entry.module.base_model_name.empty() ? like.id : entry.module.base_model_name;
  }
  std::ranges::sort(cards, {}, &api::ModelCard::id);
  return cards;
}

}  // namespace saccade::serve
