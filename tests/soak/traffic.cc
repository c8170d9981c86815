#include "tests/soak/traffic.h"

#include <fmt/format.h>

#include <chrono>

#include "base/check.h"
#include "tests/support/tcp_socket.h"

namespace saccade::soak {
namespace {

constexpr int kMaxInFlight = 32;            // over it arrivals wait: the machine has other work
constexpr Nanos kPatience = 900 * kSecond;  // an answer that takes longer is none
constexpr int kSocketMs = 600'000;

// Of a hundred clients.
constexpr int kAreHostile = 5;
constexpr int kLeave = 15;
constexpr int kReadSlowly = 5;
constexpr int kWantLateImages = 4;

enum class Kind { kAsks, kLeaves, kLateImage, kHostile };

}  // namespace

struct Traffic::Visit {
  Kind kind = Kind::kAsks;
  const Question* question = nullptr;       // of kAsks and kLeaves
  const HostileRequest* hostile = nullptr;  // of kHostile
  bool streamed = false;
  Phase began = Phase::kServing;
  net::ClientRequest request;
  std::string body;  // of the answer, as far as it has come
  std::int64_t leaves_after_bytes = -1;
  Nanos leaves_at = 0;
};

Traffic::Traffic(const World& world, Arrivals& arrivals, Tally& tally, std::uint16_t port,
                 std::uint64_t seed)
    : world_(world), arrivals_(arrivals), tally_(tally), port_(port), rng_(seed) {
  auto client = net::HttpClient::create({});
  CHECK(client, "a client");
  client_ = *std::move(client);
}

Traffic::~Traffic() { CHECK(sockets_.empty(), "not finished"); }

void Traffic::come_for(Nanos duration) {
  const SteadyClock clock;
  const Nanos end = clock.now() + duration;
  for (Nanos due = clock.now(); due < end;) {
    arrive();
    due += arrivals_.next_gap();
    {
      std::unique_lock lock(mutex_);
      if (in_flight_ >= kMaxInFlight) {
        tally_.count("arrivals that had to wait for room");
        fewer_.wait(lock, [this] { return in_flight_ < kMaxInFlight; });
        due = std::max(due, clock.now());
      }
    }
    const Nanos wait = std::min(due, end) - clock.now();
    if (wait > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(wait));
  }
}

void Traffic::enter(Phase phase) {
  phase_ = phase;
  if (phase != Phase::kDraining) return;
  // Connections are accepted in the order in which they are made: once this one has been answered,
  // so have been, or are being, all before it.
  net::ClientRequest health;
  health.method = "GET";
  health.url = {"http", "127.0.0.1", port_, "/health"};
  const auto answer = client_->send(std::move(health));
  if (!answer || answer->status != 200) tally_.find("no /health before the end");
}

void Traffic::finish() {
  for (std::thread& socket : sockets_) socket.join();
  sockets_.clear();
  {
    std::unique_lock lock(mutex_);
    fewer_.wait(lock, [this] { return in_flight_ == 0; });
  }
  client_.reset();  // and with it the connections that it keeps: they are the server's too
}

void Traffic::arrive() {
  auto drawn = static_cast<int>(rng_.below(100));
  tally_.count("requests");
  if ((drawn -= kAreHostile) < 0)
    return rng_.below(2) == 0 ? be_hostile() : be_hostile_on_a_connection();
  if ((drawn -= kLeave) < 0) return ask(true);
  if ((drawn -= kReadSlowly) < 0) return read_slowly();
  if ((drawn -= kWantLateImages) < 0) return ask_with_late_image();
  ask(false);
}

const Question& Traffic::any_question(bool one_choice) {
  while (true) {
    const Question& question = world_.questions[rng_.below(world_.questions.size())];
    const bool several = question.answer.find("\n1 ") != std::string::npos;
    if (!one_choice || !several) return question;
  }
}

void Traffic::ask(bool leaves) {
  auto visit = std::make_shared<Visit>();
  visit->kind = leaves ? Kind::kLeaves : Kind::kAsks;
  visit->question = &any_question(leaves);
  visit->streamed = rng_.below(3) != 0;
  visit->request.url.path = visit->question->path;
  visit->request.body = {
      std::make_shared<const std::string>(visit->question->body(visit->streamed))};
  if (leaves && rng_.below(2) == 0) {
    visit->leaves_after_bytes = static_cast<std::int64_t>(rng_.below(6000));
  } else if (leaves) {
    visit->leaves_at = steady_now() + static_cast<Nanos>(rng_.below(1500)) * kMillisecond;
  }
  visit->request.headers = {{"Authorization", "Bearer " + world_.key}};
  tally_.count(leaves ? "cancelled at a random moment" : "asked to the end");
  send(std::move(visit));
}

// The picture comes late, or never: answered as ever, or 422; nobody else is held up.
void Traffic::ask_with_late_image() {
  auto visit = std::make_shared<Visit>();
  visit->kind = Kind::kLateImage;
  const bool never = rng_.below(2) == 0;
  visit->request.url.path = "/v1/chat/completions";
  visit->request.body = {std::make_shared<const std::string>(
      R"({"max_tokens":4,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
      world_.image_host + (never ? "/stall" : "/late/000-read.png") +
      R"("}},{"type":"text","text":"What does it say?"}]}]})")};
  visit->request.headers = {{"Authorization", "Bearer " + world_.key}};
  tally_.count("with an image that is late or never comes");
  send(std::move(visit));
}

void Traffic::be_hostile() {
  auto visit = std::make_shared<Visit>();
  visit->kind = Kind::kHostile;
  visit->hostile = &world_.hostile[rng_.below(world_.hostile.size())];
  visit->request.method = visit->hostile->method;
  visit->request.url.path = visit->hostile->path;
  visit->request.body = {std::make_shared<const std::string>(visit->hostile->body)};
  if (visit->hostile->with_key)
    visit->request.headers = {{"Authorization", "Bearer " + world_.hostile_key}};
  tally_.count("hostile");
  tally_.count("hostile: " + visit->hostile->name);
  send(std::move(visit));
}

void Traffic::be_hostile_on_a_connection() {
  const auto& all = hostile_connections();
  const HostileConnection& hostile = all[rng_.below(all.size())];
  tally_.count("hostile");
  tally_.count("hostile: " + hostile.name);
  sockets_.emplace_back([this, &hostile, rng = Rng(rng_())]() mutable {
    const auto wrong = hostile.act(port_, world_.hostile_key, rng);
    if (wrong && phase_ == Phase::kServing) tally_.find(hostile.name + ": " + *wrong);
  });
}

// A little at a time through a small window: the whole stream comes all the same.
void Traffic::read_slowly() {
  const Question& question = any_question(true);
  tally_.count("read slowly");
  sockets_.emplace_back([this, &question, rng = Rng(rng_())]() mutable {
    test::TcpSocket socket = test::TcpSocket::connect(port_, 2048);
    const std::string body = question.body(true);
    std::string stream;
    if (socket.valid() &&
        socket.send(
            fmt::format("POST {} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n"
                        "Content-Length: {}\r\n\r\n",
                        question.path, world_.key, body.size()) +
            body)) {
      for (std::string more = socket.receive(kSocketMs, 600); !more.empty();
           more = socket.receive(kSocketMs, 600)) {
        stream += more;
        std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(20)));
      }
    }
    const std::size_t end = stream.find("\r\n\r\n");
    const auto gist = gist_of(std::string_view(stream).substr(std::min(end, stream.size())), true);
    if (gist && *gist == question.answer) return tally_.count("answers as alone");
    if (phase_ == Phase::kServing) {
      tally_.find(fmt::format("read slowly: {}, {} bytes of {}",
                              gist ? "another answer" : gist.error().message, stream.size(),
                              question.members.substr(0, 200)));
    }
  });
}

void Traffic::send(std::shared_ptr<Visit> visit) {
  visit->began = phase_;
  visit->request.url.scheme = "http";
  visit->request.url.host = "127.0.0.1";
  visit->request.url.port = port_;
  visit->request.deadline = steady_now() + kPatience;
  {
    const std::lock_guard lock(mutex_);
    ++in_flight_;
  }
  net::ClientHandlers handlers;
  handlers.on_body = [visit](std::string_view bytes, Nanos) {
    visit->body += bytes;
    return visit->leaves_after_bytes < 0 ||
           static_cast<std::int64_t>(visit->body.size()) <= visit->leaves_after_bytes;
  };
  handlers.on_done = [this, visit](const net::ClientResponse& response) {
    ended(*visit, response);
    const std::lock_guard lock(mutex_);
    --in_flight_;
    fewer_.notify_all();
  };
  const auto id = client_->start(visit->request, std::move(handlers));
  if (visit->leaves_at > 0) client_->at(visit->leaves_at, [this, id] { client_->cancel(id); });
}

void Traffic::ended(const Visit& visit, const net::ClientResponse& response) {
  if (response.failure == net::ClientFailure::kCancelled) {  // prefix of the answer, nothing else
    if (visit.streamed && response.status == 200 &&
        visit.question->answer.find(text_so_far(visit.body)) == std::string::npos)
      find(visit, response, "a cut stream of another answer");
    return tally_.count("left before the end");
  }
  if (response.failure != net::ClientFailure::kNone) {
    if (excused(visit, response)) return tally_.count("lost with a server that ended");
    return find(visit, response, "no answer");
  }
  if (response.status == 503 && visit.began != Phase::kServing)
    return tally_.count("refused by a server that ends");
  switch (visit.kind) {
    case Kind::kAsks:
    case Kind::kLeaves:
      return judge_answer(visit, response);
    case Kind::kLateImage:
      if (response.status == 200 || response.status == 422)
        return tally_.count("answered as should be");
      return find(visit, response, "a late image");
    case Kind::kHostile:
      if (visit.hostile->statuses.contains(response.status))
        return tally_.count("answered as should be");
      return find(visit, response, visit.hostile->name);
  }
}

void Traffic::judge_answer(const Visit& visit, const net::ClientResponse& response) {
  if (response.status != 200) return find(visit, response, "refused");
  const auto gist = gist_of(visit.body, visit.streamed);
  if (!gist) {
    if (phase_ == Phase::kKilled) return tally_.count("lost with a server that ended");
    return find(visit, response, gist.error().message);
  }
  if (*gist != visit.question->answer)
    return find(visit, response, "another answer than alone: " + *gist);
  tally_.count("answers as alone");
}

// Whom nobody has to answer: who came after the end, or before a kill; and who sends too much to be
// listened to may find the connection closed.
bool Traffic::excused(const Visit& visit, const net::ClientResponse& response) const {
  if (phase_ == Phase::kKilled || visit.began != Phase::kServing) return true;
  return visit.kind == Kind::kHostile && response.failure == net::ClientFailure::kTruncated;
}

void Traffic::find(const Visit& visit, const net::ClientResponse& response,
                   const std::string& what) {
  tally_.find(fmt::format("{}: status {}, {} {}, after {:.1f} s; asked {} {}; got {}", what,
                          response.status, net::name_of(response.failure), response.error,
                          seconds(response.times.end - response.times.start),
                          visit.request.url.path, visit.request.body.front()->substr(0, 160),
                          visit.body.substr(0, 300)));
}

}  // namespace saccade::soak
