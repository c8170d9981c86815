// The requester's side of gRPC in this process, against an encoder in another: links that begin and
// end while they hear, again and again, and links to what is no encoder. The last link to go ends
// gRPC's own threads, which must not be what lets it go.
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "cluster/embedding_exchange.h"
#include "cluster/grpc/encoder_link.h"
#include "tests/e2e/cluster_setup.h"
#include "tests/support/eventually.h"
#include "tests/support/http2_peer.h"

namespace saccade::test {
namespace {

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
    link.least_retry = link.max_retry = 10 * kMillisecond;
    cluster::ExchangeSettings settings;
    settings.encoders = link.encoders;
    settings.self = link.self;
    exchange_ = std::make_unique<cluster::EmbeddingExchange>(
        clock_, settings, [&](cluster::EventThread& thread, cluster::EmbeddingExchange& self) {
          return make_grpc_link(link, clock_, thread,
                                [&self]() -> cluster::ItemTable& { return self.table(); });
        });
  }
  cluster::ExchangeStats stats() { return exchange_->stats(); }

 private:
  const SteadyClock clock_;
  std::unique_ptr<cluster::EmbeddingExchange> exchange_;
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

// The first fields of a HelloReply: protocol 1, a node and an epoch.
std::string greeting(Rng& rng) {
  return "\x08\x01\x12\x04peer\x19" + any_bytes(rng, sizeof(std::uint64_t));
}

// A ReportMessage whose four numbers are any bits at all.
std::string busy_report(Rng& rng) {
  std::string text;
  for (const char* const field : {"\x09", "\x11", "\x19", "\x21"})
    text += field + any_bytes(rng, sizeof(double));
  return text;
}

// Whole answers, parts of some, and what has a bit wrong. Of a stream's first (Hello) every other
// is what an encoder says, so that there is a second (Watch).
std::string any_answer(Rng& rng, std::uint32_t stream) {
  const auto trailers = [&] {
    const bool with_status = rng.below(3) > 0;
    return frame(
        Http2Frame::kHeaders, kEndHeaders | kEndStream, stream,
        with_status ? header("grpc-status", std::to_string(rng.below(20))) : header("x-a", "b"));
  };
  const std::string head = frame(Http2Frame::kHeaders, kEndHeaders, stream, grpc_head());
  if (rng.below(2) == 0)
    return head + frame(Http2Frame::kData, 0, stream, grpc_message(greeting(rng))) +
           frame(Http2Frame::kHeaders, kEndHeaders | kEndStream, stream,
                 header("grpc-status", "0"));
  std::string answer = rng.below(4) > 0 ? head : "";
  for (std::uint64_t left = rng.below(4); left > 0; --left) {
    const int ends = rng.below(4) == 0 ? kEndStream : 0;
    switch (rng.below(8)) {
      case 0:
        answer += frame(Http2Frame::kData, ends, stream, grpc_message(greeting(rng)));
        break;
      case 1:
      case 2:
        answer += frame(Http2Frame::kData, ends, stream, grpc_message(busy_report(rng)));
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
  if (rng.below(3) > 0) answer += trailers();
  if (rng.below(4) == 0) flip_a_bit(rng, answer);
  return answer;
}

// gRPC reads what comes before this program does, and where it stops, the program does.
TEST(ClusterLink, OutlivesAnyAnswer) {
  constexpr int kAnswers = 1'500;
  constexpr std::size_t kPeers = 24;  // gRPC leaves an address alone for a while once it has failed
  std::vector<std::atomic<std::uint64_t>> seeds(kPeers);
  std::vector<std::unique_ptr<Http2Peer>> peers;
  std::vector<std::string> addresses;
  for (std::size_t p = 0; p < kPeers; ++p) {
    const auto answer = [&seeds, p](std::uint32_t stream) {
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

}  // namespace
}  // namespace saccade::test
