#include "chat/answer_stream.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "base/json.h"
#include "net/sse.h"

namespace saccade::chat {
namespace {

// What the client's thread gathers; read after the end.
struct Gathered {
  AnswerEnd end;
  net::SseScanner events;
  std::string refusal;  // the body of an answer that is no 200
  int status = 0;
  Nanos sent = 0;
};

void take_event(Gathered& gathered, std::string_view data, Nanos at,
                const std::function<void(const AnswerPiece&)>& told) {
  if (data == "[DONE]") return;
  const auto event = bench::read_stream_event(data);
  if (!event) return;
  if (event->usage.prompt != bench::kUnknownTokens) gathered.end.usage = event->usage;
  if (!event->error.empty()) event->error.append_to(gathered.end.error);
  if ((event->kinds & bench::kOutputEvent) != 0 && gathered.end.first_token == 0)
    gathered.end.first_token = at - gathered.sent;
  for (const bool is_thought : {true, false}) {
    std::string text;
    (is_thought ? event->reasoning : event->content).append_to(text);
    if (text.empty()) continue;
    if (!is_thought) gathered.end.text += text;
    told({text, is_thought});
  }
}

// Ends with the answer, or with SIGINT: then true.
bool interrupted(int ended, int signals) {
  pollfd both[] = {{ended, POLLIN, 0}, {signals, POLLIN, 0}};
  while (poll(both, 2, -1) < 0) {
  }
  if ((both[1].revents & POLLIN) == 0) return false;
  signalfd_siginfo info{};
  return read(signals, &info, sizeof(info)) > 0;
}

}  // namespace

AnswerEnd stream_answer(net::HttpClient& client, const bench::ServerTarget& target,
                        const bench::BodyPieces& body,
                        const std::function<void(const AnswerPiece&)>& told) {
  auto url = target.api_url("/chat/completions");
  if (!url) {
    AnswerEnd end;
    end.error = url.error().message;
    return end;
  }
  Gathered gathered;
  const int ended = eventfd(0, EFD_CLOEXEC);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  const int signals = signalfd(-1, &interrupt, SFD_CLOEXEC);

  net::ClientRequest request;
  request.url = *std::move(url);
  request.headers = target.headers;
  request.body = body;
  net::ClientHandlers handlers;
  handlers.on_headers = [&](const net::ClientResponse& so_far) { gathered.status = so_far.status; };
  handlers.on_body = [&](std::string_view bytes, Nanos at) {
    if (gathered.status != 200) {
      gathered.refusal +=
          bytes.substr(0, 65'536 - std::min<std::size_t>(65'536, gathered.refusal.size()));
      return true;
    }
    return gathered.events.feed(
        bytes, [&](std::string_view data) { take_event(gathered, data, at, told); });
  };
  net::ClientResponse response;
  handlers.on_done = [&](net::ClientResponse done) {
    response = std::move(done);
    const std::uint64_t one = 1;
    (void)!write(ended, &one, sizeof(one));
  };
  gathered.sent = steady_now();
  const auto id = client.start(std::move(request), std::move(handlers));
  if (interrupted(ended, signals)) {
    gathered.end.stopped = true;
    client.cancel(id);
    while (interrupted(ended, signals)) {
    }
  }
  close(ended);
  close(signals);

  gathered.end.duration = response.times.end - gathered.sent;
  if (response.failure != net::ClientFailure::kNone) {
    if (!gathered.end.stopped) gathered.end.error = response.error;
  } else if (response.status != 200) {
    gathered.end.error = refusal_of(response.status, gathered.refusal);
  }
  return std::move(gathered.end);
}

std::string refusal_of(int status, std::string_view body) {
  const auto tree = json::parse(body);
  if (tree && tree->is_object()) {
    const json::value* error = json::find(tree->get_object(), "error");
    if (error != nullptr && error->is_object()) {
      const auto message = json::get_string(error->get_object(), "message");
      if (message) return fmt::format("{}: {}", status, *message);
    }
  }
  return fmt::format("{}: {}", status, body.substr(0, 300));
}

std::string facts_of(const AnswerEnd& end) {
  std::string facts;
  const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : ", ") + fact; };
  const bench::UsageCounts& usage = end.usage;
  if (usage.prompt >= 0)
    add(fmt::format("{} tokens in{}", usage.prompt,
                    usage.image > 0 ? fmt::format(" ({} of images)", usage.image) : ""));
  if (usage.completion >= 0) add(fmt::format("{} out", usage.completion));
  if (end.first_token > 0)
    add(fmt::format("first token after {:.0f} ms", static_cast<double>(end.first_token) / 1e6));
  if (usage.completion > 1 && end.first_token > 0 && end.duration > end.first_token)
    add(fmt::format("{:.1f} tokens/s",
                    (usage.completion - 1) / seconds(end.duration - end.first_token)));
  if (end.stopped) add("stopped");
  return facts;
}

}  // namespace saccade::chat
