// Who is let in: mutual TLS and the shared key between a server and its encoders, and TLS from
// clients to a proxy and on to servers. Each refusal is one of a real process; nobody else notices.
#include <unistd.h>

#include <fstream>
#include <future>

#include "cluster/embedding_exchange.h"
#include "cluster/grpc/encoder_link.h"
#include "net/client/http_client.h"
#include "tests/e2e/cluster_setup.h"
#include "tests/support/authority.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

class Tls : public testing::Test {
 protected:
  Tls() : ours(folder(), "ours"), theirs(folder(), "theirs") {}
  ~Tls() override { fs::remove_all(folder()); }
  static fs::path folder() {
    return fs::temp_directory_path() / ("saccade-cluster-tls-" + std::to_string(getpid()));
  }
  static Flags with(const Certificate& own, const std::string& authority) {
    return {"--cluster-tls-cert", own.certificate_path, "--cluster-tls-key",
            own.key_path,         "--cluster-tls-ca",   authority};
  }
  static cluster::Access access(const Certificate& own, const std::string& authority) {
    cluster::Access made;
    made.certificate = read_file(own.certificate_path);
    made.private_key = read_file(own.key_path);
    made.authority = read_file(authority);
    return made;
  }
  // Whether a requester in this process with these papers hears the encoder: within a minute where
  // it is to, and else within a time in which one with good papers does, several times over.
  static bool hears(const std::string& address, const cluster::Access& access, bool is_to = true) {
    const SteadyClock clock;
    cluster::GrpcLinkSettings link;
    link.encoders = {address};
    link.access = access;
    link.self.node = "a test";
    link.connect_time = kSecond;
    cluster::ExchangeSettings settings;
    settings.encoders = link.encoders;
    settings.self = link.self;
    cluster::EmbeddingExchange exchange(
        clock, settings, [&](cluster::EventThread& thread, cluster::EmbeddingExchange& self) {
          return make_grpc_link(link, clock, thread,
                                [&self]() -> cluster::ItemTable& { return self.table(); });
        });
    for (int i = 0; i < (is_to ? 1200 : 30); ++i) {
      // It is greeted and found to have another tower: it has been heard.
      if (exchange.stats().encoders.at(0).state != "absent") return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  Authority ours;
  Authority theirs;
  const std::string here = "DNS:localhost,IP:127.0.0.1";
};

TEST_F(Tls, ServersAndEncodersKnowEachOther) {
  const Certificate of_encoder = ours.sign("encoder", here);
  const Certificate of_server = ours.sign("server", here);
  EncoderRole encoder(kCheckpoint, with(of_encoder, ours.path()));
  ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  ServerProcess server(
      SACCADE_BINARY,
      serve(kCheckpoint, pd(encoder.address(), EncoderRole::join({"--encoder-fallback", "refuse"},
                                                                 with(of_server, ours.path())))));
  wait_until_connected(server);
  const std::string body = chat({noise(1), noise(2, 64, 200)});
  EXPECT_EQ(ask(server, body), ask(solo, body));
  EXPECT_EQ(images_from(server, "remote"), 2);

  EXPECT_TRUE(hears(encoder.address(), access(of_server, ours.path())));
  // The encoder's certificate is none that this side believes.
  EXPECT_FALSE(hears(encoder.address(), access(of_server, theirs.path()), false));
  // This side's is none that the encoder believes, or its time is over.
  EXPECT_FALSE(hears(encoder.address(), access(theirs.sign("stranger", here), ours.path()), false));
  EXPECT_FALSE(hears(encoder.address(), access(ours.sign("late", here, -60), ours.path()), false));
  // It shows none at all, because it speaks no TLS.
  EXPECT_FALSE(hears(encoder.address(), {}, false));
  // And those who were there before go on.
  const std::string next = chat({noise(3)});
  EXPECT_EQ(ask(server, next), ask(solo, next));
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST_F(Tls, AnEncoderWhoseCertificateIsNotGoodIsNotAsked) {
  const Certificate good = ours.sign("server", here);
  {
    EncoderRole late(kCheckpoint, with(ours.sign("late", here, -60), ours.path()));
    EXPECT_FALSE(hears(late.address(), access(good, ours.path()), false));
  }
  {
    EncoderRole elsewhere(kCheckpoint,
                          with(ours.sign("elsewhere", "DNS:elsewhere.example"), ours.path()));
    EXPECT_FALSE(hears(elsewhere.address(), access(good, ours.path()), false));
  }
  // One without TLS where TLS is wanted: its server encodes for itself meanwhile.
  EncoderRole plain;
  EXPECT_FALSE(hears(plain.address(), access(good, ours.path()), false));
  ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(plain.address(), with(good, ours.path()))));
  EXPECT_EQ(ask(server, chat({noise(4)})), ask(solo, chat({noise(4)})));
  EXPECT_EQ(images_from(server, "local"), 1);
  EXPECT_TRUE(eventually([&] { return server.log().find("cannot be used") != std::string::npos; }));
}

TEST_F(Tls, AWrongKeyIsNoKey) {
  const std::string right = "the key of this cluster";
  const std::string path = folder() / "key";
  std::ofstream(path) << right << "\n";
  EncoderRole encoder(kCheckpoint, {"--cluster-key-file", path});
  cluster::Access access;
  access.key = right;
  EXPECT_TRUE(hears(encoder.address(), access));
  access.key = "the key of that cluster";
  EXPECT_FALSE(hears(encoder.address(), access, false));
  // Without a key one may hear of an encoder that has one; what it would encode is refused.
  ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  ServerProcess server(SACCADE_BINARY, serve(kCheckpoint, pd(encoder.address())));
  EXPECT_EQ(ask(server, chat({noise(5)})), ask(solo, chat({noise(5)})));
  EXPECT_EQ(images_from(server, "local"), 1);
  EXPECT_EQ(metric(encoder.process(), "saccade:lent_made_total"), 0);
}

// --- clients, proxies, servers ---

net::ClientResponse get(std::uint16_t port, const std::string& path, const std::string& ca_file,
                        const std::string& host = "127.0.0.1") {
  net::HttpClientSettings settings;
  settings.ca_file = ca_file;
  const auto client = net::HttpClient::create(settings).value();
  net::ClientRequest request;
  request.method = "GET";
  request.url = net::parse_url("https://" + host + ":" + std::to_string(port) + path).value();
  request.deadline = steady_now() + 60 * kSecond;
  std::promise<net::ClientResponse> promise;
  net::ClientHandlers handlers;
  handlers.on_done = [&](net::ClientResponse response) { promise.set_value(std::move(response)); };
  client->start(std::move(request), std::move(handlers));
  return promise.get_future().get();
}

TEST_F(Tls, FromTheClientThroughAProxyToTheServer) {
  const auto tls = [](const Certificate& own) {
    return Flags{"--ssl-certfile", own.certificate_path, "--ssl-keyfile", own.key_path};
  };
  ServerProcess good(SACCADE_BINARY, serve(kCheckpoint, tls(ours.sign("server", here))));
  ServerProcess late(SACCADE_BINARY, serve(kCheckpoint, tls(ours.sign("late", here, -60))));
  ServerProcess elsewhere(SACCADE_BINARY,
                          serve(kCheckpoint, tls(ours.sign("else", "DNS:elsewhere.example"))));
  EXPECT_EQ(get(good.port(), "/v1/models", ours.path()).status, 200);
  EXPECT_EQ(get(good.port(), "/v1/models", theirs.path()).failure, net::ClientFailure::kTls);
  EXPECT_EQ(get(late.port(), "/v1/models", ours.path()).failure, net::ClientFailure::kTls);
  EXPECT_EQ(get(elsewhere.port(), "/v1/models", ours.path()).failure, net::ClientFailure::kTls);
  // Who speaks no TLS is let go.
  EXPECT_NE(exchange(good.port(), "GET", "/v1/models", "").status, 200);

  const auto through = [&](std::uint16_t pd, const std::string& authority) {
    Flags flags = {"proxy",        "--pd",    "https://127.0.0.1:" + std::to_string(pd),
                   "--pd-ca-file", authority, "--probe-period",
                   "200ms"};
    const Flags own = tls(ours.sign("proxy", here));
    flags.insert(flags.end(), own.begin(), own.end());
    ServerProcess proxy(SACCADE_BINARY, flags);
    const net::ClientResponse response = get(proxy.port(), "/v1/models", ours.path());
    EXPECT_EQ(response.failure, net::ClientFailure::kNone) << response.error;
    EXPECT_EQ(get(proxy.port(), "/v1/models", theirs.path()).failure, net::ClientFailure::kTls);
    EXPECT_EQ(proxy.stop(), 0) << proxy.log();
    return response.status;
  };
  const auto refused = [](int status) { return status == 502 || status == 503; };
  EXPECT_EQ(through(good.port(), ours.path()), 200);
  EXPECT_TRUE(refused(through(good.port(), theirs.path())));
  EXPECT_TRUE(refused(through(late.port(), ours.path())));
  EXPECT_TRUE(refused(through(elsewhere.port(), ours.path())));
}

}  // namespace
}  // namespace saccade::test
