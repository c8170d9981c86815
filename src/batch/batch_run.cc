#include "batch/batch_run.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "batch/batch_files.h"
#include "batch/batch_line.h"
#include "net/server/local_request.h"

namespace saccade::batch {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr auto kTurn = std::chrono::milliseconds(100);  // between looks at signals and the clock

// What an answer is known by; 128 bits, so that no two of a file are alike by chance.
struct Key {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const { return key.a; }
};
using Keys = std::unordered_set<Key, KeyHash>;

Key key_of(std::string_view kind, std::string_view text) {
  const std::uint64_t seed = hash64(kind);
  return {hash64(text, seed), hash64(text, seed + 1)};
}
Key key_of_custom_id(std::string_view id) { return key_of("custom_id", id); }
Key key_of_line(std::int64_t number) { return key_of("line", answer_id(number)); }

struct Ended {
  std::int64_t number = 0;
  net::HttpResponse answer;
};

// Answers on their way from the threads that make them to the one that writes them. Outlives the
// run: late answers find it.
class Inbox {
 public:
  void put(Ended ended) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(ended));
    came_.notify_one();
  }
  // What is there, at once or within a turn.
  std::vector<Ended> take() {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, kTurn, [&] { return !ended_.empty(); });
    return std::exchange(ended_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Ended> ended_;  // guarded by mutex_
};

// No room now: another answer's end makes some.
bool is_refusal_for_now(const net::HttpResponse& answer) {
  return answer.status == 429 || answer.status == 503;
}

class Run {
 public:
  Run(const BatchSettings& settings, const serve::Offline& server, const BatchProgress& progress,
      LineScanner input)
      : settings_(settings), server_(server), progress_(progress), input_(std::move(input)) {}
  ~Run() {
    for (auto& [number, line] : in_flight_) line.asked->cancel();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Result<BatchCounts> run();

 private:
  struct NextLine {
    LinePlace place;
    bool again = false;
  };
  struct InFlight {
    LinePlace place;
    std::string custom_id;
    std::shared_ptr<net::LocalRequest> asked;
    std::int64_t asked_as = 0;  // of all that were asked, in turn
    bool alone = false;         // nothing else was in flight when it was asked
  };

  Result<void> open_output();
  Result<void> ask_more();
  Result<std::optional<NextLine>> next_line();
  Result<void> ask(const NextLine& next);
  void send(const LinePlace& place, BatchLine line);
  Result<void> take_answers();
  Result<void> take(Ended ended);
  Result<void> write(const std::string& line, bool is_error);
  Result<void> write_doubtful();
  void look_at_signals();

  const BatchSettings& settings_;
  const serve::Offline& server_;
  const BatchProgress& progress_;
  LineScanner input_;
  std::optional<OutputFile> output_;
  Keys answered_;  // in the output when the run began
  Keys seen_;      // custom_ids of this run's lines
  BatchCounts counts_;

  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::map<std::int64_t, InFlight> in_flight_;  // by line number
  std::deque<LinePlace> again_;                 // refused for now
  std::int64_t asked_ = 0;
  bool waiting_for_room_ = false;  // until one that is in flight has ended
  bool exhausted_ = false;         // every line has been read
  bool ending_ = false;
  SteadyTime end_;
  // Faults of the server, to be written unless its engine is found to have stopped.
  std::vector<std::string> doubtful_;
};

Result<BatchCounts> Run::run() {
  TRY(counts_.lines, input_.count());
  TRY_DO(open_output());
  for (;;) {
    look_at_signals();
    if (!ending_) TRY_DO(ask_more());
    progress_(counts_);
    if (in_flight_.empty() && (ending_ || (exhausted_ && again_.empty()))) break;
    if (ending_ && std::chrono::steady_clock::now() >= end_) break;
    TRY_DO(take_answers());
  }
  TRY_DO(server_.verdict());
  TRY_DO(write_doubtful());
  TRY_DO(output_->sync());
  return counts_;
}

Result<void> Run::open_output() {
  TRY(output_,
      OutputFile::open(settings_.output, input_, [this](std::string_view line) -> Result<void> {
        TRY(const AnsweredKey key, read_answer_key(line));
        answered_.insert(key.custom_id ? key_of_custom_id(*key.custom_id) : key_of("line", key.id));
        counts_.errors += key.is_error ? 1 : 0;
        return {};
      }));
  return {};
}

void Run::look_at_signals() {
  if (ending_ || !server_.signals.came()) return;
  ending_ = counts_.interrupted = true;
  end_ = std::chrono::steady_clock::now() + settings_.drain_time;
}

Result<void> Run::ask_more() {
  while (in_flight_.size() < settings_.max_in_flight) {
    if (waiting_for_room_ && !in_flight_.empty()) return {};
    waiting_for_room_ = false;
    TRY(const std::optional<NextLine> next, next_line());
    if (!next) return {};
    TRY_DO(ask(*next));
  }
  return {};
}

Result<std::optional<Run::NextLine>> Run::next_line() {
  if (!again_.empty()) {
    const LinePlace place = again_.front();
    again_.pop_front();
    return NextLine{place, true};
  }
  if (exhausted_) return std::nullopt;
  TRY(const std::optional<LinePlace> place, input_.next());
  exhausted_ = !place;
  if (!place) return std::nullopt;
  return NextLine{*place, false};
}

Result<void> Run::ask(const NextLine& next) {
  const LinePlace& place = next.place;
  const auto not_asked = [&](const LineError& error) -> Result<void> {
    if (answered_.contains(key_of_line(place.number))) {
      ++counts_.before;
      return {};
    }
    return write(error_line(place.number, error), true);
  };
  if (static_cast<std::size_t>(place.length) > settings_.max_line_bytes)
    return not_asked(
        {"line_too_long", fmt::format("line {}: {} bytes, {} are possible (--max-body-mib)",
                                      place.number, place.length, settings_.max_line_bytes)});
  TRY(const std::string text, input_.text(place));
  tl::expected<BatchLine, LineError> line = read_line(text, place.number);
  if (!line) return not_asked(line.error());
  const Key key = key_of_custom_id(line->custom_id);
  if (!next.again && !seen_.insert(key).second)
    return not_asked(
        {"duplicate_custom_id", fmt::format("line {}: custom_id '{}' is that of an earlier line",
                                            place.number, line->custom_id)});
  if (answered_.contains(key)) {
    ++counts_.before;
    return {};
  }
  send(place, *std::move(line));
  return {};
}

// As HTTP does: the header is admitted, then the whole request is handled.
void Run::send(const LinePlace& place, BatchLine line) {
  net::HttpAdmission admission = server_.router.admit(line.request, line.request.body.size());
  InFlight asked{place, std::move(line.custom_id), nullptr, ++asked_, in_flight_.empty()};
  asked.asked = std::make_shared<net::LocalRequest>(
      [inbox = inbox_, number = place.number](net::HttpResponse answer) {
        inbox->put({number, std::move(answer)});
      });
  const net::Responder responder = asked.asked->responder();
  in_flight_.emplace(place.number, std::move(asked));
  if (admission.refusal) {
    waiting_for_room_ = is_refusal_for_now(*admission.refusal);
    responder.respond(*std::move(admission.refusal));
    return;
  }
  line.request.reserved = std::make_shared<ByteReservation>(std::move(admission.body));
  server_.router.handle(std::move(line.request), responder);
}

Result<void> Run::take_answers() {
  for (Ended& ended : inbox_->take()) TRY_DO(take(std::move(ended)));
  return {};
}

Result<void> Run::take(Ended ended) {
  const auto found = in_flight_.find(ended.number);
  const InFlight line = std::move(found->second);
  in_flight_.erase(found);
  const bool had_all_room = line.alone && line.asked_as == asked_;
  if (is_refusal_for_now(ended.answer) && !had_all_room) {
    waiting_for_room_ = true;
    again_.push_back(line.place);
    return {};
  }
  waiting_for_room_ = false;
  std::string text = answer_line(ended.number, line.custom_id, ended.answer);
  if (ended.answer.status == 500) {
    doubtful_.push_back(std::move(text));
    return {};
  }
  return write(text, ended.answer.status != 200);
}

Result<void> Run::write_doubtful() {
  for (const std::string& line : doubtful_) TRY_DO(write(line, true));
  return {};
}

Result<void> Run::write(const std::string& line, bool is_error) {
  TRY_DO(output_->append(line));
  ++counts_.done;
  counts_.errors += is_error ? 1 : 0;
  return {};
}

}  // namespace

Result<void> check_files(const BatchSettings& settings) {
  const auto is_answer = [](std::string_view line) -> Result<void> {
    TRY_DO(read_answer_key(line));
    return {};
  };
  TRY(const LineScanner input, LineScanner::open(settings.input));
  TRY_DO(OutputFile::open(settings.output, input, is_answer));
  return {};
}

Result<BatchCounts> run_batch(const BatchSettings& settings, const serve::Offline& server,
                              const BatchProgress& progress) {
  TRY(LineScanner input, LineScanner::open(settings.input));
  Run run(settings, server, progress, std::move(input));
  return run.run();
}

}  // namespace saccade::batch
