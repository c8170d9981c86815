// One measured run: requests sent when due, the server watched meanwhile, answers counted after.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/datasets/dataset.h"
#include "bench/load/load_runner.h"
#include "bench/load/server/server_probe.h"
#include "text/tokenizer.h"

namespace saccade::bench {

// What is asked, encoded.
struct RunRequests {
  std::vector<LoadRequest> requests;
  std::vector<PromptRecord> prompts;
  // Multi-turn: see LoadSettings.
  std::function<std::optional<FollowUp>(const RequestRecord&, const std::string&)> follow_up;
};

// One request a prompt.
RunRequests encode_requests(const Dataset& dataset, const BodySettings& body, bool keep_prompts);

struct RunSettings {
  ServerTarget target;
  std::string endpoint = "/v1/chat/completions";
  LoadSettings load;  // url, headers and client are taken from target and endpoint
  ArrivalPlan arrivals;
  const Tokenizer* tokenizer = nullptr;  // counts the answers' tokens after the run
  bool keep_answers = false;             // in the log
  Nanos watch_period = 0;                // of /metrics and memory; 0: not watched
  int server_pid = -1;                   // for memory; below 0: looked up when the server is local
  bool progress = true;                  // on stderr
  RunHeader header;
};

// Fails only when the run cannot begin. `stop` ends it early, keeping what is there; from here on
// the first signal sets stop_flag() alone.
Result<RunLog> measure(const RunSettings& settings, const RunRequests& what,
                       std::atomic<bool>& stop);

// Sends the requests one after the other (or `at_once` at a time) and throws the log away. The
// first failure is kUnavailable with what the server said: nothing should be measured then.
Result<void> warm_up(const RunSettings& settings, const std::vector<LoadRequest>& requests,
                     int at_once);

// Distinct requests like the dataset's, none of which is measured: random text of about the same
// length, a noise image of the same size for each image, a few tokens of answer.
Result<std::vector<LoadRequest>> warm_up_requests(const Dataset& dataset, const BodySettings& body,
                                                  const DatasetContext& context, int count);

// Fills retokenized_tokens of every request whose answer is in the log, and the tokens of its
// events where they are not one each, the server does not say, and the texts of the events tell.
void count_answers(RunLog& log, const Tokenizer& tokenizer);
// Takes the answers out of the log again.
void drop_answers(RunLog& log);

}  // namespace saccade::bench
