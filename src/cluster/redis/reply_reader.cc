#include "cluster/redis/reply_reader.h"

#include <hiredis/hiredis.h>

#include <utility>

namespace saccade::cluster {
namespace {

constexpr std::size_t kBytesOfItem = sizeof(StoreReply);
// More than one read of a socket brings, and than the line before a text.
constexpr std::size_t kSlack = std::size_t{64} << 10;

struct Bounds {
  std::size_t left = 0;
  bool passed = false;

  bool take(std::size_t bytes) {
    if (bytes > left) passed = true;
    if (!passed) left -= bytes;
    return !passed;
  }
};

// hiredis calls these as it reads; null ends the reading. An element's place is in its parent,
// whose list has its final size from the beginning.
StoreReply* place(const redisReadTask* task) {
  if (task->parent == nullptr || task->parent->obj == nullptr) return new StoreReply;
  auto* const parent = static_cast<StoreReply*>(task->parent->obj);
  return &parent->list[static_cast<std::size_t>(task->idx)];
}

Bounds& bounds_of(const redisReadTask* task) { return *static_cast<Bounds*>(task->privdata); }

void* make_text(const redisReadTask* task, char* text, std::size_t length) {
  const bool error = task->type == REDIS_REPLY_ERROR;
  if (!error && task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS)
    return nullptr;
  if (!bounds_of(task).take(length + kBytesOfItem)) return nullptr;
  StoreReply* const reply = place(task);
  reply->kind = error ? StoreReply::Kind::kError : StoreReply::Kind::kText;
  reply->text.assign(text, length);
  return reply;
}

template <typename Count>
void* make_list(const redisReadTask* task, Count count) {
  if (task->type != REDIS_REPLY_ARRAY) return nullptr;
  const auto elements = static_cast<std::size_t>(count);
  if (elements > bounds_of(task).left / kBytesOfItem) {
    bounds_of(task).passed = true;
    return nullptr;
  }
  if (!bounds_of(task).take((elements + 1) * kBytesOfItem)) return nullptr;
  StoreReply* const reply = place(task);
  reply->kind = StoreReply::Kind::kList;
  reply->list.resize(elements);
  return reply;
}

void* make_number(const redisReadTask* task, long long number) {
  if (!bounds_of(task).take(kBytesOfItem)) return nullptr;
  StoreReply* const reply = place(task);
  reply->kind = StoreReply::Kind::kNumber;
  reply->number = number;
  return reply;
}

void* make_nothing(const redisReadTask* task) {
  if (!bounds_of(task).take(kBytesOfItem)) return nullptr;
  return place(task);
}

void free_root(void* reply) { delete static_cast<StoreReply*>(reply); }

#if HIREDIS_MAJOR >= 1
// Of a later protocol, that nobody has asked for.
void* make_double(const redisReadTask*, double, char*, std::size_t) { return nullptr; }
void* make_bool(const redisReadTask*, int) { return nullptr; }
#endif

redisReplyObjectFunctions functions() {
  redisReplyObjectFunctions made{};
  made.createString = make_text;
#if HIREDIS_MAJOR >= 1
  made.createArray = make_list<std::size_t>;
  made.createDouble = make_double;
  made.createBool = make_bool;
#else
  made.createArray = make_list<int>;
#endif
  made.createInteger = make_number;
  made.createNil = make_nothing;
  made.freeObject = free_root;
  return made;
}

}  // namespace

struct ReplyReader::State {
  redisReplyObjectFunctions functions = cluster::functions();
  Bounds bounds;
  redisReader* reader = redisReaderCreateWithFunctions(&functions);

  ~State() { redisReaderFree(reader); }
};

ReplyReader::ReplyReader() : state_(std::make_unique<State>()) {
  state_->reader->privdata = &state_->bounds;
}

ReplyReader::~ReplyReader() = default;

void ReplyReader::allow(std::size_t bytes) { state_->bounds = {bytes, state_->bounds.passed}; }

Result<void> ReplyReader::feed(std::string_view bytes) {
  const redisReader& reader = *state_->reader;
  const std::size_t waiting = reader.len - reader.pos;
  if (state_->bounds.passed || waiting + bytes.size() > state_->bounds.left + kSlack)
    return fail(ErrorCode::kTooLarge, "it answers more than was asked for");
  if (redisReaderFeed(state_->reader, bytes.data(), bytes.size()) != REDIS_OK)
    return fail(ErrorCode::kCorrupt, "{}", reader.errstr);
  return {};
}

Result<std::optional<StoreReply>> ReplyReader::next() {
  void* made = nullptr;
  const int status = redisReaderGetReply(state_->reader, &made);
  const std::unique_ptr<StoreReply> reply(static_cast<StoreReply*>(made));
  if (state_->bounds.passed)
    return fail(ErrorCode::kTooLarge, "it answers more than was asked for");
  if (status != REDIS_OK) return fail(ErrorCode::kCorrupt, "{}", state_->reader->errstr);
  if (!reply) return std::optional<StoreReply>();
  return std::optional(std::move(*reply));
}

}  // namespace saccade::cluster
