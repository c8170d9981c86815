#include "cluster/grpc/encoder_link.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "cluster/grpc/credentials.h"
#include "cluster/grpc/encode_attempt.h"
#include "embedding_exchange.grpc.pb.h"

namespace saccade::cluster {
namespace {

constexpr int kMaxMessage = (1 << 20) + (64 << 10);
constexpr std::size_t kMaxLinkText = 1024;

std::chrono::system_clock::time_point after(Nanos duration) {
  return std::chrono::system_clock::now() + std::chrono::nanoseconds(duration);
}

class GrpcLink;

// Hears of one encoder for as long as the connection stands.
class WatchReader final : public grpc::ClientReadReactor<v1::ReportMessage> {
 public:
  WatchReader(GrpcLink& link, int encoder) : link_(link), encoder_(encoder) {}
  void begin(v1::Encoder::Stub& stub, v1::WatchRequest request) {
    request_ = std::move(request);
    stub.async()->Watch(&context_, &request_, this);
    StartRead(&report_);
    StartCall();
  }
  void cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  // Only OnReadInitialMetadataDone wants to know, which is not heard here. gRPC's own answer is an
  // assertion, in Debian's build too, that fails where a head goes wrong behind its first header.
  bool InternalTrailersOnly(const grpc_call*) const override { return false; }

  GrpcLink& link_;
  const int encoder_;
  grpc::ClientContext context_;
  v1::WatchRequest request_;
  v1::ReportMessage report_;
};

// One encoder of the list.
struct Peer {
  std::string address;
  std::unique_ptr<v1::Encoder::Stub> stub;
  std::string nonce;  // of its boot
  Nanos retry = 0;
  bool said = false;  // that it cannot be reached
  WatchReader* watch = nullptr;
  std::uint64_t life = 0;  // counted up when it is removed; what comes for an older one is dropped
};

// A greeting on its way.
struct HelloCall {
  grpc::ClientContext context;
  v1::HelloRequest request;
  v1::HelloReply reply;
};

class GrpcLink final : public RunningLink, public AttemptHost {
 public:
  GrpcLink(const GrpcLinkSettings& settings, const Clock& clock, EventThread& thread,
           std::function<ItemTable&()> table);
  ~GrpcLink() override { stop(); }

  // The exchange's thread.
  void ask(const AttemptId& attempt, const Order& order, Nanos left) override;
  void receive(const AttemptId& attempt, std::shared_ptr<RowPages> into) override;
  void cancel(const AttemptId& attempt) override;
  void add(int encoder, const std::string& address) override;
  void remove(int encoder) override;
  void stop() override;

  // gRPC's threads.
  void post(std::function<void(ItemTable&)> news) override {
    thread_.post([this, news = std::move(news)] { news(table_()); });
  }
  std::string rows_proof(const Digest& key, std::uint64_t stream,
                         std::string_view digest) const override {
    return proof(settings_.access.key, {"rows", text_of(key), bytes_of(stream), digest});
  }
  RowFormat format() const override { return settings_.format; }
  void ended(const AttemptId& id) override;
  void leave() override;
  void watch_ended(int encoder, const grpc::Status& status);

 private:
  std::unique_ptr<v1::Encoder::Stub> stub_for(const std::string& address) const;
  void connect(int encoder, std::uint64_t life);
  void greeted(int encoder, const grpc::Status& status, const HelloCall& call);
  void retry(int encoder, const std::string& why);

  const GrpcLinkSettings settings_;
  const Clock& clock_;
  EventThread& thread_;
  const std::function<ItemTable&()> table_;
  // The exchange's thread; `watch`, and that there is another, are guarded by mutex_.
  std::deque<Peer> peers_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<AttemptId, EncodeAttempt*> attempts_;  // guarded by mutex_
  std::map<HelloCall*, int> greetings_;           // guarded by mutex_
  int under_way_ = 0;                             // guarded by mutex_: calls of all kinds
  bool stopping_ = false;                         // guarded by mutex_
};

void WatchReader::OnReadDone(bool ok) {
  if (!ok) return;
  const auto plain = [](double number) {
    return std::isfinite(number) && number > 0 ? std::min(number, 1e9) : 0.0;
  };
  Report report;
  report.backlog_ms = plain(report_.backlog_ms());
  report.cost = {plain(report_.cost_a()), plain(report_.cost_b()), plain(report_.cost_c())};
  report.last_seen = report_.last_seen();
  report.images = report_.images();
  report.draining = report_.draining();
  link_.post([encoder = encoder_, report](ItemTable& table) { table.reported(encoder, report); });
  StartRead(&report_);
}

void WatchReader::OnDone(const grpc::Status& status) {
  GrpcLink& link = link_;
  link.watch_ended(encoder_, status);
  delete this;
  link.leave();
}

GrpcLink::GrpcLink(const GrpcLinkSettings& settings, const Clock& clock, EventThread& thread,
                   std::function<ItemTable&()> table)
    : settings_(settings), clock_(clock), thread_(thread), table_(std::move(table)) {
  for (const std::string& address : settings_.encoders) {
    Peer& peer = peers_.emplace_back();
    peer.address = address;
    peer.stub = stub_for(address);
    peer.retry = settings_.least_retry;
  }
  // After the table has been made.
  thread_.post([this] {
    for (int i = 0; i < static_cast<int>(settings_.encoders.size()); ++i) connect(i, 0);
  });
}

std::unique_ptr<v1::Encoder::Stub> GrpcLink::stub_for(const std::string& address) const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // The link tries again by itself. gRPC's own retries end the program where an answer ends
  // without grpc-status (grpc/grpc issue 34683).
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Each of several lists has connections of its own.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::Encoder::NewStub(grpc::CreateCustomChannel(
      address, channel_credentials(settings_.access, address), arguments));
}

void GrpcLink::add(int encoder, const std::string& address) {
  const auto at = static_cast<std::size_t>(encoder);
  std::uint64_t life = 0;
  {
    const std::lock_guard lock(mutex_);
    if (peers_.size() <= at) peers_.resize(at + 1);
    Peer& peer = peers_[at];
    life = peer.life + 1;
    peer = {};
    peer.life = life;
    peer.address = address;
    peer.retry = settings_.least_retry;
  }
  peers_[at].stub = stub_for(address);
  connect(encoder, life);
}

void GrpcLink::remove(int encoder) { ++peers_[static_cast<std::size_t>(encoder)].life; }

// --- knowing encoders ---

void GrpcLink::connect(int encoder, std::uint64_t life) {
  Peer& peer = peers_[static_cast<std::size_t>(encoder)];
  if (peer.life != life) return;
  auto* const call = new HelloCall;
  call->context.set_deadline(after(settings_.connect_time));
  call->request.set_protocol(kProtocol);
  call->request.set_node(settings_.self.node);
  call->request.set_nonce(random_bytes(32));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      delete call;
      return;
    }
    ++under_way_;
    greetings_[call] = encoder;
  }
  peer.stub->async()->Hello(
      &call->context, &call->request, &call->reply,
      [this, encoder, life, call](const grpc::Status& status) {
        {
          const std::lock_guard lock(mutex_);
          greetings_.erase(call);
        }
        thread_.post([this, encoder, life, status, held = std::shared_ptr<HelloCall>(call)] {
          if (peers_[static_cast<std::size_t>(encoder)].life == life)
            greeted(encoder, status, *held);
        });
        leave();
      });
}

void GrpcLink::greeted(int encoder, const grpc::Status& status, const HelloCall& call) {
  Peer& peer = peers_[static_cast<std::size_t>(encoder)];
  if (!status.ok()) return retry(encoder, status.error_message());
  const v1::HelloReply& said = call.reply;
  if (said.node().size() > kMaxLinkText || said.fingerprint().size() > kMaxLinkText ||
      said.numerics().size() > kMaxLinkText || said.nonce().size() > kMaxLinkText)
    return retry(encoder, "its greeting is longer than a greeting is");
  const std::string expected = proof(
      settings_.access.key,
      {"hello", call.request.nonce(), said.nonce(), bytes_of(said.protocol()), said.node(),
       bytes_of(said.epoch()), said.fingerprint(), said.numerics(), bytes_of(said.row_bytes())});
  if (!settings_.access.key.empty() && !equal_proofs(said.proof(), expected))
    return retry(encoder, "it does not know the key (--cluster-key-file)");
  peer.nonce = said.nonce();
  peer.retry = settings_.least_retry;
  peer.said = false;
  Greeting greeting;
  greeting.protocol = said.protocol();
  greeting.node = said.node();
  greeting.epoch = said.epoch();
  greeting.fingerprint = said.fingerprint();
  greeting.numerics = said.numerics();
  greeting.row_bytes = said.row_bytes();
  auto* const watch = new WatchReader(*this, encoder);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      delete watch;
      return;
    }
    ++under_way_;
    peer.watch = watch;
  }
  table_().connected(encoder, greeting);
  v1::WatchRequest request;
  request.set_node(settings_.self.node);
  request.set_epoch(greeting.epoch);
  request.set_proof(proof(settings_.access.key, {"watch", peer.nonce, settings_.self.node}));
  watch->begin(*peer.stub, std::move(request));
}

void GrpcLink::watch_ended(int encoder, const grpc::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    peers_[static_cast<std::size_t>(encoder)].watch = nullptr;
  }
  thread_.post([this, encoder, why = status.ok() ? "it ended the watch" : status.error_message()] {
    table_().disconnected(encoder, why);
    retry(encoder, why);
  });
}

void GrpcLink::retry(int encoder, const std::string& why) {
  Peer& peer = peers_[static_cast<std::size_t>(encoder)];
  if (!std::exchange(peer.said, true))
    log::warning("encoder {} cannot be used: {}; tried again and again", peer.address, why);
  thread_.timers().start(clock_.now() + peer.retry,
                         [this, encoder, life = peer.life] { connect(encoder, life); });
  peer.retry = std::min(2 * peer.retry, settings_.max_retry);
}

// --- attempts ---

void GrpcLink::ask(const AttemptId& id, const Order& order, Nanos left) {
  Peer& peer = peers_[static_cast<std::size_t>(id.encoder)];
  v1::Ask ask;
  ask.set_node(settings_.self.node);
  ask.set_epoch(id.epoch);
  ask.set_stream(id.stream);
  ask.set_fingerprint(settings_.self.fingerprint);
  ask.set_numerics(settings_.self.numerics);
  ask.set_any_numerics(settings_.any_numerics);
  ask.set_key(text_of(order.name).data(), order.name.size());
  ask.set_recipe(order.recipe);
  ask.set_layout_key(order.layout_key);
  ask.set_rows(order.rows);
  for (const std::string_view file : order.media.files) ask.add_file_bytes(file.size());
  ask.set_left_ms(static_cast<std::uint32_t>(
      std::min<Nanos>((left + kMillisecond - 1) / kMillisecond, 0xffff'ffff)));
  ask.set_proof(proof(settings_.access.key, {"ask", peer.nonce, settings_.self.node,
                                             bytes_of(id.stream), text_of(order.name)}));
  auto* const attempt =
      new EncodeAttempt(*this, id, std::move(ask), order.media, order.bytes(), order.name);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      delete attempt;
      return;
    }
    ++under_way_;
    attempts_[id] = attempt;
  }
  if (left > 0) attempt->context().set_deadline(after(left));
  attempt->begin(*peer.stub);
}

void GrpcLink::receive(const AttemptId& id, std::shared_ptr<RowPages> into) {
  const std::lock_guard lock(mutex_);
  const auto found = attempts_.find(id);
  if (found != attempts_.end()) found->second->receive(std::move(into));
}

void GrpcLink::cancel(const AttemptId& id) {
  const std::lock_guard lock(mutex_);
  const auto found = attempts_.find(id);
  if (found != attempts_.end()) found->second->cancel();
}

void GrpcLink::ended(const AttemptId& id) {
  const std::lock_guard lock(mutex_);
  attempts_.erase(id);
}

void GrpcLink::leave() {
  const std::lock_guard lock(mutex_);
  if (--under_way_ == 0) idle_.notify_all();
}

void GrpcLink::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (const auto& [id, attempt] : attempts_) attempt->cancel();
  for (const auto& [call, encoder] : greetings_) call->context.TryCancel();
  for (Peer& peer : peers_)
    if (peer.watch != nullptr) peer.watch->cancel();
  idle_.wait(lock, [&] { return under_way_ == 0; });
}

}  // namespace

Result<void> check_grpc() { return {}; }

std::unique_ptr<RunningLink> make_grpc_link(const GrpcLinkSettings& settings, const Clock& clock,
                                            EventThread& thread,
                                            std::function<ItemTable&()> table) {
  return std::make_unique<GrpcLink>(settings, clock, thread, std::move(table));
}

}  // namespace saccade::cluster
