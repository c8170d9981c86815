#include "bench/load/measured_run.h"

#include <algorithm>
#include <optional>

#include "base/threads/end_signals.h"
#include "bench/load/live_view.h"

namespace saccade::bench {
namespace {

Result<LoadSettings> load_settings(const RunSettings& settings, const RunRequests& what) {
  LoadSettings load = settings.load;
  TRY(load.url, settings.target.url(settings.endpoint));
  load.headers.insert(load.headers.end(), settings.target.headers.begin(),
                      settings.target.headers.end());
  load.client = settings.target.client;
  load.follow_up = what.follow_up;
  load.keep_answers = settings.keep_answers || settings.tokenizer != nullptr || what.follow_up;
  return load;
}

// Readings in the log's own time.
void add_samples(RunLog& log, std::vector<Sample> samples, Nanos origin) {
  for (Sample& sample : samples) {
    sample.at -= origin;
    log.samples.push_back(std::move(sample));
  }
  std::stable_sort(log.samples.begin(), log.samples.end(),
                   [](const Sample& a, const Sample& b) { return a.at < b.at; });
}

std::string first_failure(const RunLog& log) {
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    const ErrorClass error = error_class(log.requests[i], log.events_of(i));
    if (error == ErrorClass::kNone || error == ErrorClass::kEmpty) continue;
    const std::string_view said = log.text_of(log.requests[i].error);
    return fmt::format("{}: {}", name_of(error), said.empty() ? "no more is known" : said);
  }
  return {};
}

constexpr EncodeOptions kPlain{.add_special_tokens = false, .parse_special_tokens = false};

// Which tokens came with which event, where they are not one each and the server does not say: each
// event's text by itself. Only if that makes as many as there are.
void split_tokens(const RunLog& log, const RequestRecord& record, std::span<LoggedEvent> events,
                  const Tokenizer& tokenizer) {
  const bool told = record.completion_tokens != kUnknownTokens;
  const std::int32_t all = told ? record.completion_tokens : record.retokenized_tokens;
  std::string_view answer = log.text_of(record.answer);
  std::string_view reasoning = log.text_of(record.reasoning);
  std::vector<std::int32_t> counts;
  std::int32_t sum = 0;
  std::int32_t carriers = 0;
  bool bare_end = false;  // an end token has no text
  for (const LoggedEvent& event : events) {
    if (event.tokens > 0) return;
    counts.push_back(event.tokens);
    const bool carries = (event.kinds & kOutputEvent) != 0;
    bare_end = bare_end || (!carries && (event.kinds & kFinishEvent) != 0);
    if (!carries) continue;
    ++carriers;
    const bool content = (event.kinds & kContentEvent) != 0;
    std::string_view& from = content ? answer : reasoning;
    const bool both = content && (event.kinds & kReasoningEvent) != 0;
    if (both || event.text == kLongText || event.text > from.size()) return;
    counts.back() =
        static_cast<std::int32_t>(tokenizer.encode(from.substr(0, event.text), kPlain).size());
    from.remove_prefix(event.text);
    sum += counts.back();
  }
  const bool splits = sum == all || (bare_end && sum + 1 == all);
  if (all == carriers || !splits) return;
  for (std::size_t i = 0; i < events.size(); ++i) events[i].tokens = counts[i];
}

}  // namespace

RunRequests encode_requests(const Dataset& dataset, const BodySettings& body, bool keep_prompts) {
  RunRequests what;
  for (std::size_t i = 0; i < dataset.prompts.size(); ++i) {
    const Prompt& prompt = dataset.prompts[i];
    LoadRequest request;
    request.body = encode_body(body, prompt, i);
    request.prompt = static_cast<std::uint32_t>(i);
    request.max_tokens = prompt.max_tokens;
    what.requests.push_back(std::move(request));
    what.prompts.push_back(describe(prompt, keep_prompts));
  }
  return what;
}

Result<RunLog> measure(const RunSettings& settings, const RunRequests& what,
                       std::atomic<bool>& stop) {
  TRY(const LoadSettings load, load_settings(settings, what));
  RunHeader header = settings.header;
  header.host = host_facts();
  header.base_url = settings.target.base_url;
  header.endpoint = settings.endpoint;
  header.dataset_hash = dataset_hash(what.prompts);

  std::unique_ptr<ServerWatch> watch;
  if (settings.watch_period > 0) {
    int pid = settings.server_pid;
    if (pid < 0) pid = listening_process(load.url.host, load.url.port).value_or(-1);
    TRY(watch, ServerWatch::start(settings.target, settings.watch_period, pid));
  }

  std::optional<LiveView> view;
  if (settings.progress) view.emplace(stderr);
  // The run's origin on the SteadyClock, from what it says of its age.
  Nanos origin = steady_now();
  LoadControl control;
  control.on_progress = [&](const LoadProgress& progress) {
    origin = steady_now() - progress.elapsed;
    if (view) view->show(progress);
    if (stop.load()) control.stop.store(true);
  };
  stop_in_order();  // what is measured from here on is reported
  if (stop.load()) return fail(ErrorCode::kCancelled, "stopped before the run began");
  TRY(RunLog log,
      run_load(load, settings.arrivals, what.requests, what.prompts, std::move(header), control));
  view.reset();
  if (watch != nullptr) add_samples(log, watch->stop(), origin);
  if (settings.tokenizer != nullptr) count_answers(log, *settings.tokenizer);
  if (!settings.keep_answers) drop_answers(log);
  return log;
}

Result<void> warm_up(const RunSettings& settings, const std::vector<LoadRequest>& requests,
                     int at_once) {
  if (requests.empty()) return {};
  RunRequests none;
  TRY(LoadSettings load, load_settings(settings, none));
  load.max_concurrency = std::max(at_once, 1);
  load.duration = 0;
  LoadControl control;
  std::uint32_t prompts = 0;
  for (const LoadRequest& request : requests) prompts = std::max(prompts, request.prompt + 1);
  TRY(const RunLog log, run_load(load, closed_loop_arrivals(requests.size()), requests,
                                 std::vector<PromptRecord>(prompts), {}, control));
  if (const std::string failure = first_failure(log); !failure.empty())
    return fail(ErrorCode::kUnavailable, "the first request to {}{} failed ({})",
                settings.target.base_url, settings.endpoint, failure);
  return {};
}

Result<std::vector<LoadRequest>> warm_up_requests(const Dataset& dataset, const BodySettings& body,
                                                  const DatasetContext& context, int count) {
  constexpr std::int32_t kAnswer = 4;
  constexpr std::int32_t kLongest = 2'048;
  std::vector<LoadRequest> requests;
  Rng rng(hash_combine(context.seed, 0x77a12));
  for (int i = 0; i < count && !dataset.prompts.empty(); ++i) {
    const Prompt& like = dataset.prompts[static_cast<std::size_t>(i) % dataset.prompts.size()];
    Prompt prompt;
    prompt.max_tokens =
        like.max_tokens == kUnknownTokens ? kAnswer : std::min(like.max_tokens, kAnswer);
    if (!like.token_ids.empty()) {
      prompt.token_ids = like.token_ids;
      for (std::size_t k = 1; k < prompt.token_ids.size(); ++k)  // the same ids in another order
        std::swap(prompt.token_ids[k], prompt.token_ids[rng.below(k + 1)]);
    } else {
      const std::int32_t length = std::clamp(like.text_tokens, 8, kLongest);
      prompt.messages = {{.parts = {{.text = context.text->make(length, rng).text}}}};
      for (const ChatMessage& message : like.messages) {
        for (const ContentPart& part : message.parts) {
          if (part.image == nullptr) continue;
          const SyntheticImage noise{.pattern = ImagePattern::kNoise,
                                     .width = std::max(part.image->width, 1),
                                     .height = std::max(part.image->height, 1),
                                     .seed = rng()};
          TRY(SharedImage image, encode_image(draw(noise), context.encoding));
          prompt.messages[0].parts.push_back({.image = std::move(image)});
        }
      }
    }
    LoadRequest request;
    request.body = encode_body(body, prompt, static_cast<std::size_t>(i));
    request.prompt = static_cast<std::uint32_t>(i);
    request.max_tokens = prompt.max_tokens;
    request.warmup = true;
    requests.push_back(std::move(request));
  }
  return requests;
}

void count_answers(RunLog& log, const Tokenizer& tokenizer) {
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    RequestRecord& record = log.requests[i];
    std::size_t tokens = 0;
    for (const TextSpan span : {record.answer, record.reasoning})
      if (span.size > 0) tokens += tokenizer.encode(log.text_of(span), kPlain).size();
    record.retokenized_tokens = static_cast<std::int32_t>(tokens);
    split_tokens(log, record,
                 std::span(log.events)
                     .subspan(log.event_begin[i], log.event_begin[i + 1] - log.event_begin[i]),
                 tokenizer);
  }
}

void drop_answers(RunLog& log) {
  std::string kept;
  for (RequestRecord& record : log.requests) {
    record.answer = {};
    record.reasoning = {};
    for (TextSpan* const span : {&record.error, &record.first_event}) {
      const std::string_view text = log.text_of(*span);
      *span = {kept.size(), static_cast<std::uint32_t>(text.size())};
      kept += text;
    }
  }
  log.text = std::move(kept);
}

}  // namespace saccade::bench
