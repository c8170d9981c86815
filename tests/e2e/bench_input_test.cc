// What servers and files should not give `saccade bench`: each ends with a message that names the
// thing, an exit code that says whose fault it is (2: the command or a file, 1: the server or the
// run), and what was measured until then on disk.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/certificate.h"
#include "tests/support/command.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

Words input_words(std::uint16_t port, const Words& more) {
  return bench_serve_words(port, 16, more);
}

TEST(BenchInput, UnknownFlagsAndBadValues) {
  const CommandOutcome flag = run_command(SACCADE_BINARY, input_words(1, {"--num-promts", "3"}));
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_THAT(flag.err, HasSubstr("num-promts"));
  for (const Words& bad : {Words{"--request-rate", "fast"},
                           Words{"--goodput", "tfft:100"},
                           Words{"--compat", "x"},
                           Words{"--dataset-name", "nothing"},
                           Words{"--extra-body", "[1]"},
                           Words{"--header", "x"},
                           Words{"--percentile-metrics", "speed"},
                           Words{"--request-rate-sweep", "2:1:0"},
                           Words{"--num-concurrency", "0"},
                           Words{"--repeat", "0"},
                           Words{"--num-prompts", "-1"},
                           Words{"--image-encoding", "gif"},
                           Words{"--header", "A: b=c"},
                           Words{"--header", "A=b\r\nHost: x"},
                           Words{"--drain-limit", "inf"},
                           Words{"--request-timeout", "0"},
                           Words{"--duration", "nan"},
                           Words{"--prefix-hit-rate", "nan"},
                           Words{"--lora-modules", ""},
                           Words{"--csv", "/proc/none/a.csv"},
                           Words{"--dataset-path", "/dev/zero", "--dataset-name", "custom"}}) {
    MockProcess mock(SACCADE_BINARY);
    const CommandOutcome run = run_command(SACCADE_BINARY, input_words(mock.port(), bad));
    EXPECT_EQ(run.exit_code, 2) << bad[0] << " " << bad[1] << run.err;
    EXPECT_FALSE(run.err.empty());
    EXPECT_THAT(mock.stop(), HasSubstr("\n0 requests")) << bad[0];
  }
}

TEST(BenchInput, NobodyListens) {
  const std::uint16_t port = free_port();
  const CommandOutcome run = run_command(SACCADE_BINARY, input_words(port, {}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(run.err, HasSubstr("not ready"));
}

TEST(BenchInput, TheServerDiesInTheMiddle) {
  MockProcess mock(SACCADE_BINARY, {"--ttft", "10", "--itl", "2"});
  TemporaryDirectory work;
  Command bench(SACCADE_BINARY, input_words(mock.port(), {"--num-prompts", "400", "--request-rate",
                                                          "100", "--log", work / "run.jsonl"}));
  mock.await_requests(100);
  mock.signal(SIGKILL);
  const CommandOutcome run = bench.wait();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("requests failed"));
  EXPECT_THAT(run.out, HasSubstr("connect"));
  // All of it is in the log, and the figures come out of it again.
  const CommandOutcome report =
      run_command(SACCADE_BINARY, {"bench", "report", work / "run.jsonl"});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_THAT(report.out, Not(HasSubstr("Successful requests:                     0 ")));
}

TEST(BenchInput, HtmlInsteadOfJson) {
  // From the first request on: nothing is measured.
  MockProcess always(SACCADE_BINARY, {"--html", "1"});
  const CommandOutcome none = run_command(SACCADE_BINARY, input_words(always.port(), {}));
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("the first request to"));
  // Now and then: those requests fail, the others count.
  MockProcess sometimes(SACCADE_BINARY, {"--html", "0.3", "--seed", "3"});
  const CommandOutcome some = run_command(
      SACCADE_BINARY, input_words(sometimes.port(), {"--num-prompts", "40", "--num-warmups", "0"}));
  EXPECT_EQ(some.exit_code, 1);
  EXPECT_THAT(some.err, HasSubstr("of 40 requests failed"));
  EXPECT_THAT(some.out, HasSubstr("malformed"));
}

TEST(BenchInput, FailuresUpToTheLimitAreNoError) {
  MockProcess mock(SACCADE_BINARY, {"--http-errors", "0.2", "--seed", "1"});
  const Words words = input_words(mock.port(), {"--num-prompts", "50", "--num-warmups", "0"});
  EXPECT_EQ(run_command(SACCADE_BINARY, words).exit_code, 1);
  Words lenient = words;
  lenient.insert(lenient.end(), {"--max-failures", "0.9"});
  EXPECT_EQ(run_command(SACCADE_BINARY, lenient).exit_code, 0);
}

TEST(BenchInput, AStreamWithoutAnEnd) {
  MockProcess mock(SACCADE_BINARY, {"--endless", "1", "--itl", "1"});
  TemporaryDirectory work;
  const CommandOutcome run = run_command(
      SACCADE_BINARY,
      input_words(mock.port(), {"--num-prompts", "3", "--num-warmups", "0", "--request-timeout",
                                "1", "--log", work / "run.jsonl"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("3 of 3 requests failed"));
  EXPECT_THAT(read_file(work / "run.jsonl"), HasSubstr(R"("failure":"timeout")"));
}

// A TLS server with a certificate that nobody signed; it answers every request with 503.
class TlsServer {
 public:
  explicit TlsServer(const Certificate& certificate) : context_(SSL_CTX_new(TLS_server_method())) {
    SSL_CTX_use_certificate_file(context_, certificate.certificate_path.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context_, certificate.key_path.c_str(), SSL_FILETYPE_PEM);
    thread_ = std::thread([this] { run(); });
  }
  ~TlsServer() {
    stopping_ = true;
    thread_.join();
    SSL_CTX_free(context_);
  }
  std::uint16_t port() const { return listener_.port(); }

 private:
  void run() {
    while (!stopping_) {
      const TcpSocket peer = listener_.accept(50);
      if (!peer.valid()) continue;
      SSL* const tls = SSL_new(context_);
      SSL_set_fd(tls, peer.fd());
      char bytes[4096];
      if (SSL_accept(tls) == 1 && SSL_read(tls, bytes, sizeof bytes) > 0) {
        const std::string_view answer =
            "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        SSL_write(tls, answer.data(), static_cast<int>(answer.size()));
      }
      SSL_free(tls);
    }
  }

  TcpListener listener_;
  SSL_CTX* context_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

TEST(BenchInput, SelfSignedCertificate) {
  std::signal(SIGPIPE, SIG_IGN);
  TemporaryDirectory work;
  const Certificate certificate = make_certificate(work.path(), "own", "IP:127.0.0.1");
  TlsServer server(certificate);
  const Words words = {"bench", "serve", "--base-url",
                       "https://127.0.0.1:" + std::to_string(server.port())};
  const CommandOutcome refused = run_command(SACCADE_BINARY, words);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("certificate"));
  EXPECT_THAT(refused.err, Not(HasSubstr("answers 503")));
  // Trusted by name, or by carelessness, it gets as far as the answer.
  for (const Words& more :
       {Words{"--ca-file", certificate.certificate_path}, Words{"--insecure"}}) {
    Words trusting = words;
    trusting.insert(trusting.end(), more.begin(), more.end());
    EXPECT_THAT(run_command(SACCADE_BINARY, trusting).err, HasSubstr("answers 503")) << more[0];
  }
}

TEST(BenchInput, MalformedRowsAreNamed) {
  MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  write_file(work / "rows.jsonl", "{\"prompt\":\"one\"}\n{\"prompt\":2}\n");
  write_file(work / "cut.jsonl", "{\"prompt\":\"one\"}\n{\"prompt\":\"tw\n");
  write_file(work / "gaps.txt", "0.5\nsoon\n");
  write_file(work / "azure.csv",
             "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
             "2023-11-16 18:15:50.9951690,many,109\n");
  write_file(work / "ids.jsonl", "[1,2,3]\n[1,\"two\"]\n");
  struct Case {
    Words words;
    std::string file;
    std::string line;
  };
  for (const Case& bad :
       {Case{
            {"--dataset-name", "custom", "--dataset-path", work / "rows.jsonl"}, "rows.jsonl", "2"},
        Case{{"--dataset-name", "custom", "--dataset-path", work / "cut.jsonl"}, "cut.jsonl", "2"},
        Case{{"--dataset-name", "tokens", "--dataset-path", work / "ids.jsonl"}, "ids.jsonl", "2"},
        Case{{"--trace", work / "gaps.txt"}, "gaps.txt", "2"},
        Case{{"--trace", work / "azure.csv"}, "azure.csv", "3"},
        Case{{"--dataset-name", "custom", "--dataset-path", work / "none.jsonl"},
             "none.jsonl",
             ""}}) {
    const CommandOutcome run = run_command(SACCADE_BINARY, input_words(mock.port(), bad.words));
    EXPECT_EQ(run.exit_code, 2) << bad.file << run.err;
    const std::size_t at = run.err.find(bad.file);
    ASSERT_NE(at, std::string::npos) << run.err;
    EXPECT_NE(run.err.find(bad.line, at + bad.file.size()), std::string::npos) << run.err;
  }
  EXPECT_THAT(mock.stop(), HasSubstr("\n0 requests"));
}

TEST(BenchInput, PicklesWithCodeAreRefused) {
  MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  const std::string mark = work / "executed";
  write_file(work / "evil.pkl", "cos\nsystem\n(S'touch " + mark + "'\ntR.");
  const CommandOutcome run = run_command(
      SACCADE_BINARY,
      input_words(mock.port(), {"--dataset-name", "tokens", "--dataset-path", work / "evil.pkl"}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("evil.pkl"));
  EXPECT_THAT(run.err, HasSubstr("class or function"));
  EXPECT_TRUE(read_file(mark).empty());
}

// Nothing is measured yet: there is nothing to keep, and nobody looks whether it was told to end.
class BenchSignals : public testing::TestWithParam<int> {};

TEST_P(BenchSignals, TheFirstEndsWhatWaitsForAPipe) {
  const MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  const std::string pipe = work / "rows.jsonl";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const Words& words : {Words{"bench", "report", pipe}, Words{"bench", "trace", "stat", pipe},
                             input_words(mock.port(), {"--dataset-name", "custom", "--dataset-path",
                                                       pipe, "--log", work / "run.jsonl"})}) {
    Command bench(SACCADE_BINARY, words);
    const int writer = ::open(pipe.c_str(), O_WRONLY);  // returns when it waits for rows
    ASSERT_GE(writer, 0);
    bench.signal(GetParam());
    EXPECT_EQ(bench.wait().exit_code, 128 + GetParam()) << words[1];
    ::close(writer);
  }
}

TEST_P(BenchSignals, TheFirstEndsAServerThatIsNotReadyToo) {
  TemporaryDirectory work;
  const std::string started = work / "started";
  Command bench(SACCADE_BINARY,
                input_words(free_port(), {"--ready-check-timeout-sec", "600", "--server-log",
                                          work / "server.log", "--server-cmd",
                                          "echo $$ > " + started + ".part; mv " + started +
                                              ".part " + started + "; exec sleep 600"}));
  while (!std::filesystem::exists(started))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const pid_t server = std::stoi(read_file(started));
  bench.signal(GetParam());
  EXPECT_EQ(bench.wait().exit_code, 128 + GetParam());
  while (::kill(server, 0) == 0 && !read_file(fmt::format("/proc/{}/cmdline", server)).empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST_P(BenchSignals, ARunThatMeasuresIsReported) {
  MockProcess mock(SACCADE_BINARY, {"--ttft", "10", "--itl", "2"});
  TemporaryDirectory work;
  Command bench(SACCADE_BINARY, input_words(mock.port(), {"--num-prompts", "4000", "--request-rate",
                                                          "50", "--log", work / "run.jsonl"}));
  mock.await_requests(30);
  bench.signal(GetParam());
  const CommandOutcome run = bench.wait();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("Successful requests"));
  EXPECT_EQ(run_command(SACCADE_BINARY, {"bench", "report", work / "run.jsonl"}).exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(TerminateAndInterrupt, BenchSignals, testing::Values(SIGTERM, SIGINT));

TEST(BenchInput, FilesWithoutAnEnd) {
  TemporaryDirectory work;
  const std::string sparse = work / "sparse.jsonl";
  std::ofstream(sparse).close();
  std::filesystem::resize_file(sparse, std::uintmax_t{1} << 40);
  const std::string pipe = work / "pipe.parquet";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const MockProcess mock(SACCADE_BINARY);
  for (const auto& [words, named] :
       {std::pair(Words{"bench", "report", "/dev/zero"}, std::string("/dev/zero")),
        std::pair(Words{"bench", "report", sparse}, std::string("limit 4294967296")),
        std::pair(Words{"bench", "compare", sparse, sparse}, sparse),
        std::pair(Words{"bench", "trace", "stat", sparse}, sparse),
        std::pair(input_words(mock.port(), {"--dataset-name", "tokens", "--dataset-path", pipe}),
                  pipe),
        std::pair(Words{"bench", "profile-ttft", "--base-url", mock.url(), "--file", pipe},
                  pipe)}) {
    const CommandOutcome run = run_command(SACCADE_BINARY, words);
    EXPECT_EQ(run.exit_code, 2) << words[1] << run.err;
    EXPECT_THAT(run.err, HasSubstr(named));
  }
}

TEST(BenchInput, ReportsOfWhatIsNoRunLog) {
  TemporaryDirectory work;
  write_file(work / "none.jsonl", "{\"hello\":1}\n");
  const CommandOutcome run = run_command(SACCADE_BINARY, {"bench", "report", work / "none.jsonl"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("none.jsonl"));
}

}  // namespace
}  // namespace saccade::test
