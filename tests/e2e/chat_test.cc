// `saccade chat` as a person has it, on a terminal (a pty that answers as one would), and in a
// pipe; against a real server of models/glimpse.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "base/json.h"
#include "tests/support/command.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

using Arguments = std::vector<std::string>;

const std::string kPicture = "data/glimpse/000-read.png";  // "190"

// A program on a terminal of its own.
class PtyProcess {
 public:
  PtyProcess(const std::string& binary, Arguments arguments) {
    arguments.insert(arguments.begin(), binary);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    winsize size{24, 100, 0, 0};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      setenv("TERM", "xterm-256color", 1);
      unsetenv("SACCADE_API_KEY");
      unsetenv("OPENAI_API_KEY");
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~PtyProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(terminal_);
  }
  PtyProcess(const PtyProcess&) = delete;
  PtyProcess& operator=(const PtyProcess&) = delete;

  void type(const std::string& keys) const {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // Reads until `words` have come behind what was awaited before; false after five minutes, or at
  // the end.
  testing::AssertionResult await(const std::string& words) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    for (;;) {
      const std::size_t found = seen_.find(words, at_);
      if (found != std::string::npos) {
        at_ = found + words.size();
        return testing::AssertionSuccess();
      }
      if (std::chrono::steady_clock::now() > until || !read_more())
        return testing::AssertionFailure() << "no '" << words << "' in: " << seen_.substr(at_);
    }
  }

  // The exit status, when all that it wrote has been read; of one that does not end, SIGKILL's.
  int wait() {
    while (read_more()) {
    }
    int status = 0;
    for (int i = 0; i < 1200 && waitpid(pid_, &status, WNOHANG) == 0; ++i) poll(nullptr, 0, 100);
    if (kill(pid_, SIGKILL) == 0) waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const std::string& seen() const { return seen_; }

 private:
  bool read_more() {
    pollfd in{terminal_, POLLIN, 0};
    if (poll(&in, 1, 120'000) <= 0) return false;
    char bytes[4096];
    const ssize_t got = read(terminal_, bytes, sizeof(bytes));
    if (got <= 0) return false;
    seen_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string seen_;
  std::size_t at_ = 0;
};

class ChatTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<ServerProcess>(
        SACCADE_BINARY,
        Arguments{"serve", "--model", std::string(SACCADE_SOURCE_DIR) + "/models/glimpse",
                  "--served-model-name", "glimpse", "--kv-cache-bytes", "64MiB"});
  }
  static void TearDownTestSuite() { server_.reset(); }

  static std::string url() { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  static PtyProcess chat(const Arguments& more = {}) {
    Arguments arguments{"chat", url()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return {SACCADE_BINARY, arguments};
  }
  // Requests that the server still works at.
  static std::string running() {
    const std::string page = exchange(server_->port(), "GET", "/metrics", "").body;
    const std::size_t line = page.find("\nvllm:num_requests_running{");
    const std::size_t value = page.find("} ", line) + 2;
    return page.substr(value, page.find('\n', value) - value);
  }

  static std::unique_ptr<ServerProcess> server_;
};
std::unique_ptr<ServerProcess> ChatTest::server_;

TEST_F(ChatTest, AnImageAnAnswerAndTheEnd) {
  PtyProcess chat = this->chat();
  ASSERT_TRUE(chat.await("glimpse at " + url()));
  ASSERT_TRUE(chat.await("> "));
  chat.type("/image " + kPicture + "\r");
  ASSERT_TRUE(chat.await("\x1b[c"));  // asked what it can show
  chat.type("\x1b[?1;2c");            // nothing
  ASSERT_TRUE(chat.await(kPicture + ": 224 x 112"));
  EXPECT_EQ(chat.seen().find("\x1bP"), std::string::npos);
  chat.type("What does it sag\x7fy?\r");  // a key taken back
  ASSERT_TRUE(chat.await("190"));
  ASSERT_TRUE(chat.await("(32 of images)"));
  chat.type("\x1b[A");  // what was typed before
  ASSERT_TRUE(chat.await("What does it say?"));
  chat.type("\x03");  // at the prompt: the line is gone, and nothing else
  ASSERT_TRUE(chat.await("^C"));
  chat.type("/sing\r");
  ASSERT_TRUE(chat.await("there is no /sing"));
  chat.type("/image nowhere.png\r");
  ASSERT_TRUE(chat.await("nowhere.png"));
  chat.type("\x04");
  EXPECT_EQ(chat.wait(), 0) << chat.seen();
}

TEST_F(ChatTest, PicturesWhereTheTerminalSaysSo) {
  for (const auto& [answer, picture] :
       {std::pair{"\x1b[?62;4c", "\x1bPq\"1;1;224;112"},
        std::pair{"\x1b_Gi=31;OK\x1b\\\x1b[?62;4c", "\x1b_Ga=T,f=24,s=224,v=112"}}) {
    PtyProcess chat = this->chat({"--image", kPicture});
    ASSERT_TRUE(chat.await("\x1b[c"));
    chat.type(answer);
    ASSERT_TRUE(chat.await(picture));
    ASSERT_TRUE(chat.await("224 x 112"));
    ASSERT_TRUE(chat.await("> "));
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0);
  }
  PtyProcess chat = this->chat({"--image", kPicture, "--no-preview"});
  ASSERT_TRUE(chat.await("224 x 112"));
  EXPECT_EQ(chat.seen().find("\x1b[c"), std::string::npos) << "nobody asks";
}

TEST_F(ChatTest, ControlCStopsAnAnswer) {
  // A long answer, whatever the model thinks of it.
  PtyProcess chat =
      this->chat({"--set", "guided_regex=begun [0-9]{900}", "--set", "max_tokens=950"});
  ASSERT_TRUE(chat.await("> "));
  chat.type("What does it say?\r");
  ASSERT_TRUE(chat.await("begun"));
  chat.type("\x03");
  ASSERT_TRUE(chat.await("stopped"));
  ASSERT_TRUE(chat.await("> "));
  for (int i = 0; i < 100 && running() != "0"; ++i) poll(nullptr, 0, 50);
  EXPECT_EQ(running(), "0") << "the server has stopped too";
  chat.type("/quit\r");
  EXPECT_EQ(chat.wait(), 0) << chat.seen();
}

TEST_F(ChatTest, WhatWasSaidIsKeptAndSaved) {
  const TemporaryDirectory folder;
  const std::string path = folder / "said.json";
  PtyProcess chat = this->chat({"--system", "be brief", "--image", kPicture, "--no-preview"});
  ASSERT_TRUE(chat.await("> "));
  chat.type("What does it say?\r");
  ASSERT_TRUE(chat.await("out"));
  chat.type("/set temperature 0\r");
  ASSERT_TRUE(chat.await("temperature 0"));
  chat.type("And again?\r");
  ASSERT_TRUE(chat.await("out"));
  chat.type("/set top_p 7\r");
  ASSERT_TRUE(chat.await("top_p 7"));
  chat.type("Fails\r");
  ASSERT_TRUE(chat.await("400: 'top_p' is 7"));
  chat.type("/save " + path + "\r/quit\r");
  EXPECT_EQ(chat.wait(), 0) << chat.seen();
  const auto body = json::parse_file(path);
  ASSERT_TRUE(body) << body.error().message;
  std::string roles;
  for (const json::value& message : body->at("messages").as_array())
    roles += message.at("role").as_string()[0];
  EXPECT_EQ(roles, "suaua") << "the question that failed is not kept";
  EXPECT_EQ(body->at("temperature").as_int64(), 0);
}

TEST_F(ChatTest, FromAPipeAnswersAlone) {
  const auto piped = [&](const std::string& lines, const std::string& flags) {
    const std::string line = "printf '" + lines + "' | " + SACCADE_BINARY + " chat " + flags;
    return run_command("/bin/sh", {"-c", line});
  };
  const CommandOutcome read =
      piped("What does it say?\\n", url() + " --set temperature=0 --image " + kPicture);
  EXPECT_EQ(read.out, "190\n") << read.err;
  EXPECT_EQ(read.exit_code, 0);
  // The last line may lack its end; one that fails shows in the exit status.
  const CommandOutcome wrong = piped("What?", url() + " --set temperature=-1");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.out.find("'temperature' is -1"), std::string::npos) << wrong.out;
  const CommandOutcome nobody = piped("What?\\n", "http://127.0.0.1:9");
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_NE(nobody.err.find("127.0.0.1:9"), std::string::npos) << nobody.err;
  const CommandOutcome missing = piped("What?\\n", url() + " --image nowhere.png");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.err.find("nowhere.png"), std::string::npos) << missing.err;
}

}  // namespace
}  // namespace saccade::test
