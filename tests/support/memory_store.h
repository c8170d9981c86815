// A key-value server in this process and in virtual time: what the store's rules are tested
// against. Knows the commands they use; fails as it is told to.
#pragma once

#include <charconv>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "cluster/store/store_link.h"
#include "cluster/timers.h"

namespace saccade::cluster::test {

class MemoryStore {
 public:
  explicit MemoryStore(const Clock& clock) : clock_(clock) {}

  StoreReply run(const StoreCommand& command) {
    std::vector<std::string> words = command.words;
    if (!command.value.empty())
      words.emplace_back(reinterpret_cast<const char*>(command.value.data()), command.value.size());
    const std::string& name = words.at(0);
    ++commands[name];
    if (name == "SET") return put(words.at(1), words.at(2), std::stoll(words.at(4)));
    if (name == "PSETEX") return put(words.at(1), words.at(3), std::stoll(words.at(2)));
    if (name == "GET") return get(words.at(1));
    if (name == "EXISTS") return number(get(words.at(1)).kind == StoreReply::Kind::kText);
    StoreReply reply;
    if (name == "MGET") {
      reply.kind = StoreReply::Kind::kList;
      for (std::size_t i = 1; i < words.size(); ++i) reply.list.push_back(get(words[i]));
    } else if (name == "DEL") {
      std::int64_t count = 0;
      for (std::size_t i = 1; i < words.size(); ++i)
        count += static_cast<std::int64_t>(texts.erase(words[i]));
      reply = number(count);
    } else if (name == "SADD") {
      reply = number(sets[words.at(1)].insert(words.at(2)).second);
    } else if (name == "SREM") {
      for (std::size_t i = 2; i < words.size(); ++i) sets[words.at(1)].erase(words[i]);
      reply = number(1);
    } else if (name == "SRANDMEMBER") {
      reply.kind = StoreReply::Kind::kList;
      for (const std::string& each : sets[words.at(1)]) {
        if (reply.list.size() < std::stoull(words.at(2))) reply.list.push_back(text(each));
      }
    } else {
      reply = {StoreReply::Kind::kError, "ERR unknown command " + name, 0, {}};
    }
    return reply;
  }

  static StoreReply text(std::string said) {
    return {StoreReply::Kind::kText, std::move(said), 0, {}};
  }
  static StoreReply number(std::int64_t said) { return {StoreReply::Kind::kNumber, {}, said, {}}; }

  std::map<std::string, std::pair<std::string, Nanos>> texts;  // with when they end
  std::map<std::string, std::set<std::string>> sets;
  std::map<std::string, int> commands;  // how many of each have been done

 private:
  StoreReply put(const std::string& key, const std::string& value, std::int64_t milliseconds_left) {
    texts[key] = {value, clock_.now() + milliseconds_left * kMillisecond};
    return text("OK");
  }
  StoreReply get(const std::string& key) {
    const auto found = texts.find(key);
    if (found == texts.end() || found->second.second <= clock_.now()) return {};
    return text(found->second.first);
  }

  const Clock& clock_;
};

// A connection to it.
class MemoryLink final : public StoreLink {
 public:
  MemoryLink(const Clock& clock, Timers& timers, MemoryStore& store)
      : clock_(clock), timers_(timers), store_(store) {}

  void run(StoreBatch batch, Done done) override {
    ++batches;
    if (silent) return;  // whoever asks has limits of its own
    if (!reachable)
      return answer(kMillisecond, std::move(done), fail(ErrorCode::kUnavailable, "refused"));
    if (delay > batch.limit)
      return answer(batch.limit, std::move(done), fail(ErrorCode::kTimeout, "no answer in time"));
    std::vector<StoreReply> replies;
    for (const StoreCommand& command : batch.commands)
      replies.push_back(error.empty() ? store_.run(command)
                                      : StoreReply{StoreReply::Kind::kError, error, 0, {}});
    answer(delay, std::move(done), std::move(replies));
  }
  void stop() override {}

  Nanos delay = kMillisecond / 2;
  bool reachable = true;
  bool silent = false;
  std::string error;  // to every command
  int batches = 0;

 private:
  void answer(Nanos after, Done done, Result<std::vector<StoreReply>> replies) {
    timers_.start(clock_.now() + after,
                  [done = std::move(done), replies = std::move(replies)] { done(replies); });
  }

  const Clock& clock_;
  Timers& timers_;
  MemoryStore& store_;
};

}  // namespace saccade::cluster::test
