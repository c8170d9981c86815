#include "cluster/grpc/encoder_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "cluster/grpc/credentials.h"
#include "cluster/grpc/encode_call.h"
#include "embedding_exchange.grpc.pb.h"

namespace saccade::cluster {
namespace {

constexpr Nanos kReportEvery = 250 * kMillisecond;
constexpr Nanos kSilence = 5 * kSecond;  // that a new call may begin with
constexpr std::size_t kMaxWatchers = 1024;
constexpr int kMaxServerMessage = (1 << 20) + (64 << 10);
constexpr std::size_t kMaxMemory = std::size_t{512} << 20;  // of gRPC's own buffers
constexpr std::size_t kMaxNode = 256;

class GrpcEncoderServer;

// Tells one requester again and again how busy the encoder is.
class WatchCall final : public grpc::ServerWriteReactor<v1::ReportMessage> {
 public:
  // `taken`: not OK ends it at once.
  WatchCall(GrpcEncoderServer& server, std::string node, const grpc::Status& taken);
  void send(const Report& report);
  const std::string& node() const { return node_; }

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  GrpcEncoderServer& server_;
  const std::string node_;
  v1::ReportMessage message_;
  std::mutex mutex_;
  bool writing_ = false;   // guarded by mutex_
  bool finished_ = false;  // guarded by mutex_
};

class GrpcEncoderServer final : public EncoderServer,
                                public CallHost,
                                public v1::Encoder::CallbackService {
 public:
  GrpcEncoderServer(const EncoderServerSettings& settings, EventThread& thread)
      : settings_(settings), thread_(thread), nonce_(random_bytes(32)) {}
  ~GrpcEncoderServer() override { stop(0); }

  Result<void> listen(EncoderDesk& desk) override;
  void stop(Nanos limit) override;
  std::vector<std::string> addresses() const override { return bound_; }

  // RequesterLink, on the desk's thread.
  void accepted(CallId call, const Accepted& said) override {
    with(call, [&](EncodeCall& to) { to.accepted(said); });
  }
  void refused(CallId call, Refusal refusal, Nanos after, const std::string& text) override {
    with(call, [&](EncodeCall& to) { to.refused(refusal, after, text); });
  }
  void send(CallId call, std::shared_ptr<const MadeRows> rows, const RowsEnd& end) override {
    with(call, [&](EncodeCall& to) { to.send(std::move(rows), end); });
  }

  // CallHost.
  bool proven(const v1::Ask& ask) const override {
    return equal_proofs(ask.proof(),
                        proof(settings_.access.key,
                              {"ask", nonce_, ask.node(), bytes_of(ask.stream()), ask.key()}));
  }
  std::string rows_proof(const Digest& key, std::uint64_t stream,
                         std::string_view digest) const override {
    return proof(settings_.access.key, {"rows", text_of(key), bytes_of(stream), digest});
  }
  std::uint64_t epoch() const override { return settings_.self.epoch; }
  void post(std::function<void(EncoderDesk&)> job) override {
    thread_.post([this, job = std::move(job)] { job(*desk_); });
  }
  void ended(CallId id) override {
    const std::lock_guard lock(mutex_);
    calls_.erase(id);
    idle_.notify_all();
  }
  void ended(WatchCall* call) {
    const std::lock_guard lock(mutex_);
    watchers_.erase(call);
    idle_.notify_all();
  }

 private:
  grpc::ServerUnaryReactor* Hello(grpc::CallbackServerContext* context,
                                  const v1::HelloRequest* request, v1::HelloReply* reply) override;
  grpc::ServerWriteReactor<v1::ReportMessage>* Watch(grpc::CallbackServerContext* context,
                                                     const v1::WatchRequest* request) override;
  grpc::ServerBidiReactor<v1::EncodeRequest, v1::EncodeReply>* Encode(
      grpc::CallbackServerContext* context) override;

  template <typename Act>
  void with(CallId id, const Act& act) {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(id);
    if (found != calls_.end()) act(*found->second);
  }
  void report();

  const EncoderServerSettings settings_;
  EventThread& thread_;
  const std::string nonce_;
  EncoderDesk* desk_ = nullptr;
  std::vector<std::string> bound_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<CallId, EncodeCall*> calls_;  // guarded by mutex_
  std::set<WatchCall*> watchers_;        // guarded by mutex_
  CallId last_call_ = 0;                 // guarded by mutex_
};

// --- watching ---

WatchCall::WatchCall(GrpcEncoderServer& server, std::string node, const grpc::Status& taken)
    : server_(server), node_(std::move(node)) {
  if (taken.ok()) return;
  finished_ = true;
  Finish(taken);
}

void WatchCall::send(const Report& report) {
  const std::lock_guard lock(mutex_);
  if (writing_ || finished_) return;  // a slow reader gets the latest, not all
  message_.set_backlog_ms(report.backlog_ms);
  message_.set_cost_a(report.cost.a);
  message_.set_cost_b(report.cost.b);
  message_.set_cost_c(report.cost.c);
  message_.set_last_seen(report.last_seen);
  message_.set_images(report.images);
  message_.set_draining(report.draining);
  writing_ = true;
  StartWrite(&message_);
}

void WatchCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (!ok && !std::exchange(finished_, true)) Finish(grpc::Status::CANCELLED);
}

void WatchCall::OnCancel() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(finished_, true)) Finish(grpc::Status::CANCELLED);
}

void WatchCall::OnDone() {
  server_.ended(this);
  delete this;
}

// --- calls ---

grpc::ServerUnaryReactor* GrpcEncoderServer::Hello(grpc::CallbackServerContext* context,
                                                   const v1::HelloRequest* request,
                                                   v1::HelloReply* reply) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const Greeting& self = settings_.self;
  reply->set_protocol(self.protocol);
  reply->set_node(self.node);
  reply->set_epoch(self.epoch);
  reply->set_fingerprint(self.fingerprint);
  reply->set_numerics(self.numerics);
  reply->set_row_bytes(self.row_bytes);
  reply->set_nonce(nonce_);
  if (request->nonce().size() > kMaxNode) {
    reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT, "the nonce is too long"});
    return reactor;
  }
  reply->set_proof(
      proof(settings_.access.key,
            {"hello", request->nonce(), nonce_, bytes_of(self.protocol), self.node,
             bytes_of(self.epoch), self.fingerprint, self.numerics, bytes_of(self.row_bytes)}));
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<v1::ReportMessage>* GrpcEncoderServer::Watch(
    grpc::CallbackServerContext*, const v1::WatchRequest* request) {
  const bool known = request->node().size() <= kMaxNode &&
                     equal_proofs(request->proof(),
                                  proof(settings_.access.key, {"watch", nonce_, request->node()}));
  const std::lock_guard lock(mutex_);
  grpc::Status taken;
  if (!known) {
    taken = {grpc::StatusCode::UNAUTHENTICATED, "the requester does not know the key"};
  } else if (watchers_.size() >= kMaxWatchers) {
    taken = {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many requesters watch this encoder"};
  }
  auto* const call = new WatchCall(*this, request->node().substr(0, kMaxNode), taken);
  watchers_.insert(call);
  return call;
}

grpc::ServerBidiReactor<v1::EncodeRequest, v1::EncodeReply>* GrpcEncoderServer::Encode(
    grpc::CallbackServerContext*) {
  const std::lock_guard lock(mutex_);
  const CallId id = ++last_call_;
  auto* const call = new EncodeCall(*this, id);
  calls_[id] = call;
  const bool full = calls_.size() > settings_.max_calls;
  thread_.post([this, id, full] {
    if (full)
      return refused(id, Refusal::kOverloaded, kSecond, "too many calls are open at this encoder");
    thread_.timers().start(steady_now() + kSilence, [this, id] {
      with(id, [](EncodeCall& silent) { silent.end_if_silent(); });
    });
  });
  return call;
}

void GrpcEncoderServer::report() {
  {
    const std::lock_guard lock(mutex_);
    for (WatchCall* const watcher : watchers_) watcher->send(desk_->report(watcher->node()));
  }
  thread_.timers().start(steady_now() + kReportEvery, [this] { report(); });
}

// --- life ---

Result<void> GrpcEncoderServer::listen(EncoderDesk& desk) {
  desk_ = &desk;
  grpc::ServerBuilder builder;
  builder.RegisterService(static_cast<v1::Encoder::CallbackService*>(this));
  builder.SetMaxReceiveMessageSize(kMaxServerMessage);
  builder.SetMaxSendMessageSize(kMaxServerMessage);
  grpc::ResourceQuota quota("saccade cluster");
  quota.Resize(kMaxMemory);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Who connects and does not speak HTTP/2 is let go.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 2'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1'024);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 2'000);
  std::vector<int> ports(settings_.addresses.size());
  for (std::size_t i = 0; i < ports.size(); ++i)
    builder.AddListeningPort(settings_.addresses[i],
                             server_credentials(settings_.access, settings_.addresses[i]),
                             &ports[i]);
  server_ = builder.BuildAndStart();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string& address = settings_.addresses[i];
    if (!server_ || ports[i] == 0)
      return fail(ErrorCode::kUnavailable, "--cluster-listen {}: cannot be listened on", address);
    bound_.push_back(is_unix(address)
                         ? address
                         : address.substr(0, address.rfind(':') + 1) + std::to_string(ports[i]));
  }
  thread_.post([this] { report(); });
  return {};
}

void GrpcEncoderServer::stop(Nanos limit) {
  if (!server_) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::nanoseconds(limit));
  server_->Wait();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return calls_.empty() && watchers_.empty(); });
  lock.unlock();
  server_.reset();
}

}  // namespace

Result<std::unique_ptr<EncoderServer>> EncoderServer::create(const EncoderServerSettings& settings,
                                                             EventThread& thread) {
  for (const std::string& address : settings.addresses) {
    TRY_DO(check_address(address));
    if (!is_local_address(address) && settings.access.key.empty() && !settings.access.tls())
      return fail(ErrorCode::kDenied,
                  "--cluster-listen {}: others than this machine reach it, so --cluster-key-file "
                  "or --cluster-tls-cert is required",
                  address);
  }
  return std::unique_ptr<EncoderServer>(std::make_unique<GrpcEncoderServer>(settings, thread));
}

}  // namespace saccade::cluster
