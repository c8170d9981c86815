// The requester's side of gRPC in this process, against an encoder in another: links that begin and
// end while they hear, again and again. The last link to go ends gRPC's own threads, which must not
// be what lets it go.
#include <atomic>
#include <thread>

#include "cluster/embedding_exchange.h"
#include "cluster/grpc/encoder_link.h"
#include "tests/e2e/cluster_setup.h"

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

TEST(ClusterLink, EndsWhileItHears) {
  EncoderRole encoder;
  const Load load(2 * std::thread::hardware_concurrency());
  const SteadyClock clock;
  cluster::GrpcLinkSettings link;
  link.encoders = {encoder.address()};
  link.self.node = "a test";
  cluster::ExchangeSettings settings;
  settings.encoders = link.encoders;
  settings.self = link.self;
  for (int i = 0; i < 150; ++i) {
    cluster::EmbeddingExchange exchange(
        clock, settings, [&](cluster::EventThread& thread, cluster::EmbeddingExchange& self) {
          return make_grpc_link(link, clock, thread,
                                [&self]() -> cluster::ItemTable& { return self.table(); });
        });
    // At any moment: before it is greeted, when it has been, later.
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 40));
    EXPECT_EQ(exchange.stats().open, 0u);
  }
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
}

}  // namespace
}  // namespace saccade::test
