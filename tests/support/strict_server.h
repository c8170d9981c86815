// An OpenAI-shaped server that refuses what any real server may refuse, and remembers why it did. A
// client that gets through here without an objection is one that vLLM, llama-server, a router or a
// proxy has no reason to turn away.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tcp_socket.h"

namespace saccade::test {

class StrictServer {
 public:
  // Answers every completion with `tokens` tokens, streamed or not as asked.
  explicit StrictServer(int tokens = 3);
  ~StrictServer();

  std::uint16_t port() const { return listener_.port(); }
  int posts() const { return posts_; }
  // One line a request that was refused: status, request line, reason.
  std::vector<std::string> refusals() const;

 private:
  struct Request;
  void run();
  void serve(TcpSocket& peer);
  std::string answer(const Request& request);
  std::string completion(const Request& request) const;
  std::string refuse(int status, const std::string& what, const Request& request);

  TcpListener listener_;
  int tokens_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> posts_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> refusals_;
  std::vector<std::thread> peers_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace saccade::test
