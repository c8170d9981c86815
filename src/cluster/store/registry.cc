#include "cluster/store/registry.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace saccade::cluster {
namespace {

const std::string kNodes = "saccade:nodes";
// A command's own words, and a server's that answers more than was asked.
constexpr std::size_t kReplyRoom = std::size_t{64} << 10;

}  // namespace

std::string node_key(const std::string& id) { return "saccade:node:" + id; }

Registry::Registry(const Clock& clock, Timers& timers, Rng& rng, StoreLink& link,
                   RegistrySettings settings, Heard heard)
    : clock_(clock),
      timers_(timers),
      rng_(rng),
      link_(link),
      settings_(std::move(settings)),
      heard_(std::move(heard)),
      retry_(settings_.least_retry) {}

Registry::~Registry() { timers_.cancel(timer_); }

void Registry::begin() { poll(); }

void Registry::announce(NodeRecord record) {
  self_ = std::move(record);
  renew_at_ = 0;  // with the next poll
}

void Registry::withdraw(std::function<void()> done) {
  if (!self_) return done();
  const std::string id = std::exchange(self_, std::nullopt)->id;
  link_.run({.commands = {{{"DEL", node_key(id)}, {}}, {{"SREM", kNodes, id}, {}}},
             .held = {},
             .limit = settings_.limit,
             .max_bytes = kReplyRoom},
            [done = std::move(done)](const auto&) { done(); });
}

void Registry::poll() {
  StoreBatch batch;
  const bool renew = self_ && clock_.now() >= renew_at_;
  if (renew) {
    batch.commands.push_back({{"SET", node_key(self_->id), write_record(*self_, settings_.key),
                               "PX", std::to_string(settings_.lease / kMillisecond)},
                              {}});
    batch.commands.push_back({{"SADD", kNodes, self_->id}, {}});
  }
  // All of them, where there are not more.
  batch.commands.push_back({{"SRANDMEMBER", kNodes, std::to_string(settings_.max_nodes)}, {}});
  batch.limit = settings_.limit;
  batch.max_bytes = kReplyRoom + settings_.max_nodes * 128;
  link_.run(std::move(batch), [this, renew](Result<std::vector<StoreReply>> replies) {
    hear_ids(std::move(replies), renew);
  });
}

void Registry::hear_ids(Result<std::vector<StoreReply>> replies, bool renewed) {
  if (const auto failed = failure_of(replies)) return went_wrong(failed->why, failed->reason);
  if (renewed) {
    ++stats_.renewals;
    renew_at_ = clock_.now() + settings_.renew;
  }
  const StoreReply& said = replies->back();
  if (said.kind != StoreReply::Kind::kList) return went_wrong("saccade:nodes is no set", "other");
  std::vector<std::string> ids;
  for (const StoreReply& each : said.list) {
    const bool good = each.kind == StoreReply::Kind::kText && is_node_id(each.text);
    if (!good) ++stats_.refused_records;
    if (good && (!self_ || each.text != self_->id) && ids.size() < settings_.max_nodes)
      ids.push_back(each.text);
  }
  if (ids.empty()) {
    stats_.nodes.clear();
    went_well();
    return heard_(stats_.nodes);
  }
  StoreCommand get{{"MGET"}, {}};
  for (const std::string& id : ids) get.words.push_back(node_key(id));
  link_.run({.commands = {std::move(get)},
             .held = {},
             .limit = settings_.limit,
             .max_bytes = kReplyRoom + ids.size() * (kMaxRecordBytes + 64)},
            [this, ids](Result<std::vector<StoreReply>> records) {
              hear_records(ids, std::move(records));
            });
}

void Registry::hear_records(const std::vector<std::string>& ids,
                            Result<std::vector<StoreReply>> replies) {
  if (const auto failed = failure_of(replies)) return went_wrong(failed->why, failed->reason);
  const std::vector<StoreReply>& list = replies->front().list;
  if (list.size() != ids.size())
    return went_wrong("it answers another number of records than was asked for", "other");
  std::vector<NodeRecord> nodes;
  StoreCommand forget{{"SREM", kNodes}, {}};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (list[i].kind == StoreReply::Kind::kNothing) {
      forget.words.push_back(ids[i]);
      continue;
    }
    auto record = read_record(list[i].text, ids[i], settings_.key);
    if (record) {
      nodes.push_back(*std::move(record));
    } else {
      ++stats_.refused_records;
      log::debug("registry: {} is not believed: {}", ids[i], record.error().message);
    }
  }
  if (forget.words.size() > 2) {
    // One who is late with a lease comes back with the next.
    link_.run({.commands = {std::move(forget)},
               .held = {},
               .limit = settings_.limit,
               .max_bytes = kReplyRoom},
              [](const auto&) {});
  }
  std::ranges::sort(nodes, {}, &NodeRecord::id);
  stats_.nodes = std::move(nodes);
  went_well();
  heard_(stats_.nodes);
}

void Registry::went_well() {
  if (!stats_.up && std::exchange(said_, false)) log::info("registry: it answers again");
  stats_.up = true;
  retry_ = settings_.least_retry;
  next(settings_.poll);
}

void Registry::went_wrong(const std::string& why, const std::string& reason) {
  ++stats_.failures;
  stats_.up = false;
  renew_at_ = 0;  // the lease may have ended meanwhile
  if (!std::exchange(said_, true))
    log::warning("registry: {} ({:.200}); what is known of {} others stays, tried again and again",
                 reason, why, stats_.nodes.size());
  // Not all processes at once when it is back.
  next(retry_ / 2 + static_cast<Nanos>(rng_.below(static_cast<std::uint64_t>(retry_))));
  retry_ = std::min(2 * retry_, settings_.max_retry);
}

void Registry::next(Nanos after) {
  timers_.cancel(timer_);
  timer_ = timers_.start(clock_.now() + after, [this] {
    timer_ = 0;
    poll();
  });
}

}  // namespace saccade::cluster
