// The requester's side of gRPC in this process, against an encoder in another: links that begin and
// end while they hear, again and again, and links to what is no encoder. The last link to go ends
// gRPC's own threads, which must not be what lets it go.
#include <atomic>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "cluster/embedding_exchange.h"
#include "cluster/grpc/encoder_link.h"
#include "embedding_exchange.pb.h"
#include "tests/e2e/cluster_setup.h"
#include "tests/support/eventually.h"
#include "tests/support/http2_peer.h"
#include "tests/support/portable_file.h"

namespace saccade::test {
namespace {

namespace v1 = cluster::v1;

constexpr std::int64_t kRows = 4;
constexpr std::uint64_t kRowBytes = 8;

// Threads that leave no core idle: between two statements of another anything may happen.
class Load {
 public:
  explicit Load(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i)
      threads_.emplace_back([this] {
        while (!done_) {
        }
      });
  }
  ~Load() {
    done_ = true;
    for (auto& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

// A process that serves, of which there is the exchange alone.
class Requester {
 public:
  explicit Requester(const std::vector<std::string>& encoders) {
    cluster::GrpcLinkSettings link;
    link.encoders = encoders;
    link.self.node = "a test";
    link.self.row_bytes = kRowBytes;
    link.least_retry = link.max_retry = 10 * kMillisecond;
    cluster::ExchangeSettings settings;
    settings.encoders = link.encoders;
    settings.self = link.self;
    settings.encoders_first = true;
    settings.items.accept_time = 50 * kMillisecond;  // nobody answers slowly here
    settings.items.progress_time = settings.items.least_patience = 200 * kMillisecond;
    settings.items.abandon_time = 200 * kMillisecond;
    exchange_ = std::make_unique<cluster::EmbeddingExchange>(
        clock_, settings, [&](cluster::EventThread& thread, cluster::EmbeddingExchange& self) {
          return make_grpc_link(link, clock_, thread,
                                [&self]() -> cluster::ItemTable& { return self.table(); });
        });
  }
  cluster::ExchangeStats stats() { return exchange_->stats(); }

  // Asks for images until so many are on their way, and makes here what no encoder does.
  void want(std::size_t most) {
    for (const ImageNews& news : exchange_->take()) {
      if (news.kind == ImageNews::Kind::kEncodeHere)
        exchange_->made_here(news.key, news.ticket, {});
      open_.erase(news.ticket);
    }
    while (open_.size() < most) {
      const Digest image = sha256(std::to_string(++ticket_));
      open_[ticket_] = image;
      exchange_->want(
          {image, ticket_, image, kRows, "layout", std::make_shared<const PortableFile>()});
    }
  }
  void unwant_all() {
    for (const auto& [ticket, image] : open_) exchange_->unwant(image, ticket);
    open_.clear();
  }

 private:
  const SteadyClock clock_;
  std::unique_ptr<cluster::EmbeddingExchange> exchange_;
  std::uint64_t ticket_ = 0;
  std::map<std::uint64_t, Digest> open_;  // by ticket
};

TEST(ClusterLink, EndsWhileItHears) {
  EncoderRole encoder;
  const Load load(2 * std::thread::hardware_concurrency());
  for (int i = 0; i < 150; ++i) {
    Requester requester({encoder.address()});
    // At any moment: before it is greeted, when it has been, later.
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 40));
    EXPECT_EQ(requester.stats().open, 0u);
  }
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
}

std::string head(std::uint32_t stream) {
  return frame(Http2Frame::kHeaders, kEndHeaders, stream, grpc_head());
}
std::string data(std::uint32_t stream, const google::protobuf::MessageLite& message) {
  return frame(Http2Frame::kData, 0, stream, grpc_message(message.SerializeAsString()));
}
std::string trailers(std::uint32_t stream, const std::string& status = "0") {
  return frame(Http2Frame::kHeaders, kEndHeaders | kEndStream, stream,
               header("grpc-status", status));
}

v1::HelloReply greeting(std::uint64_t epoch) {
  v1::HelloReply reply;
  reply.set_protocol(cluster::kProtocol);
  reply.set_node("peer");
  reply.set_epoch(epoch);
  reply.set_row_bytes(kRowBytes);
  return reply;
}

double any_double(Rng& rng) { return std::bit_cast<double>(rng()); }

v1::ReportMessage busy_report(Rng& rng) {
  v1::ReportMessage report;
  report.set_backlog_ms(any_double(rng));
  report.set_cost_a(any_double(rng));
  report.set_cost_b(any_double(rng));
  report.set_cost_c(any_double(rng));
  return report;
}

// Whole answers, parts of some, and what has a bit wrong. `message`: bytes of one that is whole.
std::string any_frames(Rng& rng, std::uint32_t stream,
                       const std::function<std::string()>& message) {
  std::string answer = rng.below(4) > 0 ? head(stream) : std::string();
  for (std::uint64_t left = rng.below(4); left > 0; --left) {
    const int ends = rng.below(4) == 0 ? kEndStream : 0;
    switch (rng.below(8)) {
      case 0:
      case 1:
      case 2:
        answer += frame(Http2Frame::kData, ends, stream, grpc_message(message()));
        break;
      case 3:
        answer += frame(Http2Frame::kData, ends, stream, any_bytes(rng, 40));
        break;
      case 4:
      case 5:
      case 6:
        answer += any_control(rng, stream);
        break;
      default:
        answer += frame(Http2Frame::kContinuation, kEndHeaders, stream, any_bytes(rng, 20));
    }
  }
  switch (rng.below(9)) {
    case 0:
    case 1:
    case 2:
      break;
    case 3:
    case 4:
      answer += frame(Http2Frame::kHeaders, kEndHeaders | kEndStream, stream, header("x-a", "b"));
      break;
    default:
      answer += trailers(stream, std::to_string(rng.below(20)));
  }
  if (rng.below(4) == 0) flip_a_bit(rng, answer);
  return answer;
}

// Of a stream's first (Hello) every other is what an encoder says, so that there is a second
// (Watch).
std::string any_answer(Rng& rng, std::uint32_t stream) {
  if (rng.below(2) == 0) return head(stream) + data(stream, greeting(rng())) + trailers(stream);
  return any_frames(rng, stream, [&] {
    return rng.below(3) == 0 ? greeting(rng()).SerializeAsString()
                             : busy_report(rng).SerializeAsString();
  });
}

// gRPC reads what comes before this program does, and where it stops, the program does.
TEST(ClusterLink, OutlivesAnyAnswer) {
  constexpr int kAnswers = 1'500;
  constexpr std::size_t kPeers = 24;  // gRPC leaves an address alone for a while once it has failed
  std::vector<std::atomic<std::uint64_t>> seeds(kPeers);
  std::vector<std::unique_ptr<Http2Peer>> peers;
  std::vector<std::string> addresses;
  for (std::size_t p = 0; p < kPeers; ++p) {
    const auto answer = [&seeds, p](std::uint32_t stream, std::string_view) {
      Rng rng(seeds[p]++ * kPeers + p);
      return any_answer(rng, stream);
    };
    // Hello and Watch on one connection, or on two. (One that is left open and silent stays so.)
    peers.push_back(std::make_unique<Http2Peer>(answer, 1 + static_cast<int>(p % 2)));
    addresses.push_back(peers.back()->address());
  }
  Requester requester(addresses);
  const auto answered = [&] {
    return std::accumulate(peers.begin(), peers.end(), 0,
                           [](int sum, const auto& peer) { return sum + peer->answered(); });
  };
  bool greeted = false;  // by one at least, whose watch then had its answers
  EXPECT_TRUE(eventually([&] {
    for (const auto& encoder : requester.stats().encoders) greeted |= encoder.state != "absent";
    return greeted && answered() >= kAnswers;
  })) << answered();
  EXPECT_TRUE(greeted);
  EXPECT_EQ(requester.stats().open, 0u);
}

// An encoder that is one until it is asked: then half of what it says is wrong in any way that a
// message or a frame can be.
class WrongEncoder {
 public:
  explicit WrongEncoder(std::uint64_t seed)
      : rng_(seed),
        peer_([this](std::uint32_t stream,
                     std::string_view message) { return answer(stream, message); },
              kMessages, kIdleMs) {}
  std::string address() const { return peer_.address(); }
  int asked() const { return asked_count_; }

 private:
  // Then it is another, which is asked as if nothing had been.
  static constexpr int kMessages = 50;
  static constexpr int kIdleMs = 100;

  std::string answer(std::uint32_t stream, std::string_view message) {
    const std::lock_guard lock(mutex_);
    constexpr char kFirstOfHello = '\x08';  // the field of its protocol, which comes first
    if (message.starts_with(kFirstOfHello))
      return head(stream) + data(stream, greeting(++epoch_)) + trailers(stream);
    v1::EncodeRequest request;
    if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      watch_ = stream;
      return head(stream) + data(stream, v1::ReportMessage());
    }
    switch (request.message_case()) {
      case v1::EncodeRequest::kAsk:
        return asked(stream, request.ask());
      case v1::EncodeRequest::kCredit:
        return credited(stream);
      default:
        return {};
    }
  }

  std::string asked(std::uint32_t stream, const v1::Ask& ask) {
    ++asked_count_;
    v1::EncodeReply reply;
    reply.set_epoch(ask.epoch());
    reply.set_stream(ask.stream());
    replies_[stream] = reply;
    // One that says nothing for long is not asked.
    const std::string report = data(watch_, v1::ReportMessage());
    if (rng_.below(2) == 0) return report + any_frames(stream, reply);
    reply.mutable_accepted()->set_cached(rng_.below(2) == 0);
    std::string answer = report + head(stream) + data(stream, reply);
    reply.set_offered(kRows * kRowBytes);
    return answer + data(stream, reply);
  }

  std::string credited(std::uint32_t stream) {
    v1::EncodeReply reply = replies_[stream];
    if (rng_.below(2) == 0) return any_frames(stream, reply);
    const std::string rows(kRows * kRowBytes, '\0');
    reply.mutable_rows()->set_bytes(rows);
    std::string answer = data(stream, reply);
    const Digest digest = sha256(rows);
    reply.mutable_end()->set_digest(digest.data(), digest.size());
    return answer + data(stream, reply) + trailers(stream);
  }

  std::string any_frames(std::uint32_t stream, const v1::EncodeReply& reply) {
    return test::any_frames(rng_, stream, [&] { return any_reply(reply).SerializeAsString(); });
  }

  v1::EncodeReply any_reply(v1::EncodeReply reply) {
    if (rng_.below(16) == 0) reply.set_epoch(rng_());
    if (rng_.below(16) == 0) reply.set_stream(rng_());
    switch (rng_.below(6)) {
      case 0:
        reply.mutable_accepted()->set_backlog_ms(any_double(rng_));
        reply.mutable_accepted()->set_predicted_ms(any_double(rng_));
        reply.mutable_accepted()->set_cached(rng_.below(2) == 0);
        break;
      case 1:
        reply.mutable_refused()->set_code(static_cast<std::uint32_t>(rng_.below(12)));
        reply.mutable_refused()->set_retry_after_ms(static_cast<std::uint32_t>(rng_.below(100)));
        reply.mutable_refused()->set_text("no\x01\x7f");
        break;
      case 2:
        reply.set_offered(rng_.below(2) == 0 ? rng_() : kRows * kRowBytes);
        break;
      case 3:
        reply.mutable_rows()->set_bytes(any_bytes(rng_, rng_.below(2 * kRows * kRowBytes)));
        break;
      case 4:
        reply.mutable_end()->set_digest(any_bytes(rng_, rng_.below(2) == 0 ? sizeof(Digest) : 7));
        reply.mutable_end()->set_queued_us(static_cast<std::int64_t>(rng_()));
        reply.mutable_end()->set_encoded_us(static_cast<std::int64_t>(rng_()));
        break;
      default:
        break;
    }
    return reply;
  }

  std::mutex mutex_;  // guards what follows, but for the count
  Rng rng_;
  std::uint64_t epoch_ = 0;
  std::uint32_t watch_ = 1;
  std::map<std::uint32_t, v1::EncodeReply> replies_;  // who is answered, by its stream
  std::atomic<int> asked_count_{0};
  Http2Peer peer_;  // last: its threads use all above
};

TEST(ClusterLink, OutlivesAnyRows) {
  constexpr int kAskings = 1'000;
  constexpr std::size_t kOpen = 64;
  std::vector<std::unique_ptr<WrongEncoder>> encoders;
  std::vector<std::string> addresses;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    encoders.push_back(std::make_unique<WrongEncoder>(seed));
    addresses.push_back(encoders.back()->address());
  }
  Requester requester(addresses);
  const auto asked = [&] {
    return std::accumulate(encoders.begin(), encoders.end(), 0,
                           [](int sum, const auto& each) { return sum + each->asked(); });
  };
  EXPECT_TRUE(eventually([&] {
    requester.want(kOpen);
    return asked() >= kAskings;
  })) << asked();
  requester.unwant_all();
  EXPECT_TRUE(eventually([&] { return requester.stats().open == 0; }));
  const cluster::ItemStats items = requester.stats().items;
  EXPECT_GT(items.items[static_cast<std::size_t>(cluster::Source::kRemote)], 0u);
  EXPECT_GT(items.failures[static_cast<std::size_t>(cluster::Failure::kLost)], 0u);
  // Rows that came meanwhile are news until they are taken.
  EXPECT_TRUE(eventually([&] {
    requester.want(0);
    return requester.stats().receiving_bytes == 0;
  }));
}

}  // namespace
}  // namespace saccade::test
