#include "cluster/redis/redis_connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace saccade::cluster {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr std::size_t kSignInBytes = std::size_t{4} << 10;
constexpr std::size_t kMaxReads = 16;  // before writing goes on

// As RESP has it.
Result<void> append(std::string& to, const StoreCommand& command) {
  std::vector<const char*> words;
  std::vector<std::size_t> lengths;
  for (const std::string& word : command.words) {
    words.push_back(word.data());
    lengths.push_back(word.size());
  }
  if (!command.value.empty()) {
    words.push_back(reinterpret_cast<const char*>(command.value.data()));
    lengths.push_back(command.value.size());
  }
  char* text = nullptr;
  const auto length =
      redisFormatCommandArgv(&text, static_cast<int>(words.size()), words.data(), lengths.data());
  if (length < 0) return fail(ErrorCode::kInternal, "a command that cannot be written");
  to.append(text, static_cast<std::size_t>(length));
  redisFreeCommand(text);
  return {};
}

}  // namespace

void RedisConnection::Free::operator()(redisContext* context) const { redisFree(context); }

RedisConnection::RedisConnection(StoreAddress address, const Clock& clock, int wake)
    : address_(std::move(address)), clock_(clock), wake_(wake) {}

RedisConnection::~RedisConnection() = default;

Result<std::vector<StoreReply>> RedisConnection::run(const StoreBatch& batch, Nanos until) {
  const auto all = [&]() -> Result<std::vector<StoreReply>> {
    if (!context_) TRY_DO(connect(until));
    return exchange(batch.commands, batch.max_bytes, until);
  };
  auto replies = all();
  // Replies that come later would be taken for those of other commands.
  if (!replies) context_.reset();
  return replies;
}

Result<void> RedisConnection::connect(Nanos until) {
  context_.reset(address_.path.empty() ? redisConnectNonBlock(address_.host.c_str(), address_.port)
                                       : redisConnectUnixNonBlock(address_.path.c_str()));
  reader_ = std::make_unique<ReplyReader>();
  if (!context_ || context_->err != 0)
    return fail(ErrorCode::kUnavailable, "{}: {}", address_.display(),
                context_ ? context_->errstr : "no memory");
  TRY_DO(wait(POLLOUT, until));
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0)
    return fail(ErrorCode::kUnavailable, "{}: {}", address_.display(), std::strerror(error));
  return sign_in(until);
}

Result<void> RedisConnection::sign_in(Nanos until) {
  std::vector<StoreCommand> commands;
  if (!address_.password.empty()) {
    StoreCommand auth{{"AUTH"}, {}};
    if (!address_.user.empty()) auth.words.push_back(address_.user);
    auth.words.push_back(address_.password);
    commands.push_back(std::move(auth));
  }
  if (address_.database != 0)
    commands.push_back({{"SELECT", std::to_string(address_.database)}, {}});
  if (commands.empty()) return {};
  TRY(const auto replies, exchange(commands, kSignInBytes, until));
  for (const StoreReply& reply : replies) {
    if (reply.kind == StoreReply::Kind::kError)
      return fail(ErrorCode::kDenied, "{}: {:.200}", address_.display(), reply.text);
  }
  return {};
}

Result<std::vector<StoreReply>> RedisConnection::exchange(const std::vector<StoreCommand>& commands,
                                                          std::size_t max_bytes, Nanos until) {
  std::string out;
  for (const StoreCommand& command : commands) TRY_DO(append(out, command));
  std::vector<StoreReply> replies;
  reader_->allow(max_bytes + commands.size() * sizeof(StoreReply));
  std::array<char, kReadAtOnce> in;
  std::size_t sent = 0;
  while (replies.size() < commands.size()) {
    TRY_DO(wait(static_cast<short>(POLLIN | (sent < out.size() ? POLLOUT : 0)), until));
    if (sent < out.size()) {
      const ssize_t count =
          send(context_->fd, &out[sent], out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN && errno != EINTR)
        return fail(ErrorCode::kUnavailable, "{}: {}", address_.display(), std::strerror(errno));
      sent += static_cast<std::size_t>(std::max<ssize_t>(0, count));
    }
    for (std::size_t reads = 0; reads < kMaxReads && replies.size() < commands.size(); ++reads) {
      const ssize_t count = recv(context_->fd, in.data(), in.size(), MSG_DONTWAIT);
      if (count == 0)
        return fail(ErrorCode::kUnavailable, "{}: it closed the connection", address_.display());
      if (count < 0 && errno != EAGAIN && errno != EINTR)
        return fail(ErrorCode::kUnavailable, "{}: {}", address_.display(), std::strerror(errno));
      if (count < 0) break;
      auto fed = reader_->feed({in.data(), static_cast<std::size_t>(count)});
      if (!fed) return fail(ErrorCode::kCorrupt, "{}: {}", address_.display(), fed.error().message);
      while (replies.size() < commands.size()) {
        auto next = reader_->next();
        if (!next)
          return fail(ErrorCode::kCorrupt, "{}: {}", address_.display(), next.error().message);
        if (!*next) break;
        replies.push_back(**std::move(next));
      }
    }
  }
  // One that says more than it was asked would be misunderstood from here on.
  auto more = reader_->next();
  if (!more || *more)
    return fail(ErrorCode::kCorrupt, "{}: a reply that nobody waits for", address_.display());
  return replies;
}

Result<void> RedisConnection::wait(short events, Nanos until) {
  while (true) {
    const Nanos left = until - clock_.now();
    if (left <= 0) return fail(ErrorCode::kTimeout, "{}: no answer in time", address_.display());
    std::array<pollfd, 2> on = {pollfd{context_->fd, events, 0}, pollfd{wake_, POLLIN, 0}};
    const int milliseconds_left =
        static_cast<int>(std::min<Nanos>((left + kMillisecond - 1) / kMillisecond, 60'000));
    const int ready = poll(on.data(), on.size(), milliseconds_left);
    if (ready < 0 && errno != EINTR)
      return fail(ErrorCode::kInternal, "poll: {}", std::strerror(errno));
    if (ready > 0 && on[1].revents != 0) return fail(ErrorCode::kCancelled, "it is ending");
    if (ready > 0 && on[0].revents != 0) return {};
  }
}

}  // namespace saccade::cluster
