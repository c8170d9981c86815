// A connection to a Redis or Valkey, made when it is needed and dropped at the first doubt. Waits
// for no longer than it is told to, but for a name's resolution: give it a thread of its own.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "cluster/redis/reply_reader.h"
#include "cluster/store/store_address.h"
#include "cluster/store/store_link.h"

struct redisContext;

namespace saccade::cluster {

// One thread.
class RedisConnection {
 public:
  // `wake`: a descriptor; when it can be read, what waits ends with kCancelled.
  RedisConnection(StoreAddress address, const Clock& clock, int wake);
  ~RedisConnection();

  // A reply for each command, by `until`. After an error there is no connection.
  Result<std::vector<StoreReply>> run(const StoreBatch& batch, Nanos until);

 private:
  Result<void> connect(Nanos until);
  Result<void> sign_in(Nanos until);
  Result<std::vector<StoreReply>> exchange(const std::vector<StoreCommand>& commands,
                                           std::size_t max_bytes, Nanos until);
  Result<void> wait(short events, Nanos until);

  struct Free {
    void operator()(redisContext* context) const;
  };
  const StoreAddress address_;
  const Clock& clock_;
  const int wake_;
  std::unique_ptr<redisContext, Free> context_;  // its socket alone; absent: not connected
  std::unique_ptr<ReplyReader> reader_;
};

}  // namespace saccade::cluster
