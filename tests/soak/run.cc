#include "tests/soak/run.h"

#include <algorithm>

#include "bench/traces/trace.h"

namespace saccade::soak {

Result<std::vector<Nanos>> trace_gaps(const std::string& source_dir) {
  std::vector<Nanos> gaps;
  for (const char* name : {"peak4", "peak10", "peak5", "peak7"}) {
    TRY(const bench::Trace trace, bench::read_trace(source_dir + "/data/traces/" + name + ".txt"));
    Nanos last = 0;
    for (const Nanos due : bench::due_times(trace))
      gaps.push_back(std::max<Nanos>(due - std::exchange(last, due), 0));
  }
  return gaps;
}

Result<void> ask_alone(test::ServerProcess& server, std::vector<Question>& questions, Tally& tally,
                       const std::string& headers) {
  for (Question& question : questions) {
    for (const bool streamed : {false, true}) {
      const test::RawAnswer answer = test::exchange(server.port(), "POST", question.path,
                                                    question.body(streamed), -1, headers);
      if (answer.status != 200)
        return fail(ErrorCode::kInternal, "alone: {} {}", answer.status, answer.body);
      TRY(std::string gist, gist_of(answer.body, streamed));
      if (streamed && gist != question.answer)
        tally.find("a stream is not its answer: " + gist + " " + question.answer);
      question.answer = std::move(gist);
    }
  }
  if (server.stop() != 0) return fail(ErrorCode::kInternal, "alone: {}", server.log());
  say("{} questions asked alone", questions.size());
  return {};
}

void say_findings(const Tally& tally, std::size_t& said) {
  const auto findings = tally.findings();
  for (; said < findings.size(); ++said) say("  found: {}", findings[said]);
}

void say_counts(const Tally& tally, double elapsed_s) {
  fmt::print("\n{:.0f} s\n", elapsed_s);
  for (const auto& [what, count] : tally.counts()) fmt::print("{:>8}  {}\n", count, what);
}

}  // namespace saccade::soak
