// The adapters that requests may name: which there are, and their matrices in host memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/answers/responses.h"
#include "base/result.h"
#include "model/adapters/lora_adapter.h"
#include "model/network.h"
#include "serve/settings.h"

namespace saccade::serve {

// Any thread. An adapter is read when it is added, and again when a request names it after others
// have taken its place in memory; whoever has one keeps it, unloaded or not.
class LoraAdapters {
 public:
  // Both outlive this.
  LoraAdapters(const ServeSettings& settings, const Network& network);

  // Those of --lora-modules. Errors name the adapter.
  Result<void> add_all();
  // vLLM's errors: kInvalid of a name that is taken, unless `in_place`: the new one takes its
  // place. kNotFound of a folder without an adapter.
  Result<void> add(const LoraModule& module, bool in_place);
  // kNotFound.
  Result<void> remove(const std::string& name);

  bool has(const std::string& name) const;
  // Null of a name that is no adapter's. Reads its files where it is not in memory.
  Result<std::shared_ptr<const LoraAdapter>> find(const std::string& name);
  // What /v1/models says of each: `like` with its name, root and parent.
  std::vector<api::ModelCard> cards(const api::ModelCard& like) const;

 private:
  struct Entry {
    LoraModule module;
    std::int64_t created = 0;                    // Unix seconds
    std::int64_t number = 0;                     // of this loading
    std::shared_ptr<const LoraAdapter> adapter;  // null: not in memory
  };
  Result<void> check(const LoraModule& module) const;
  Result<std::shared_ptr<const LoraAdapter>> load(const LoraModule& module,
                                                  std::int64_t number) const;
  std::list<Entry>::iterator place_of(const std::string& name);
  void keep_within_limit();

  const ServeSettings& settings_;
  const Network& network_;
  mutable std::mutex mutex_;
  std::mutex reading_;        // what is no longer in memory, one at a time; before mutex_
  std::list<Entry> entries_;  // the last used first; guarded by mutex_
  std::atomic<std::int64_t> last_number_ = 0;
};

}  // namespace saccade::serve
