// The OpenAI API over an engine that generates text: the way of a request from bytes to an answer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/answers/completion_writer.h"
#include "api/requests/tokenize_request.h"
#include "base/threads/worker_pool.h"
#include "engine/engine.h"
#include "model/prompts/processor.h"
#include "serve/assembly/drainable.h"
#include "serve/handlers/stored_responses.h"
#include "serve/lora_adapters.h"
#include "serve/media/http_media.h"
#include "serve/requests/answer.h"
#include "serve/requests/request_builder.h"
#include "serve/router.h"
#include "serve/settings.h"

namespace saccade::serve {

class MetricsPage;
class MetricsText;

// What a service works with; all of it outlives the service.
struct ServiceParts {
  const ServeSettings& settings;
  const Processor& processor;
  RequestBuilder& builder;
  Engine& engine;
  MetricsPage& metrics;
  ImageSizer* sizer;       // null: images keep their clients' sizes
  LoraAdapters* adapters;  // null: there are none
  const Clock& clock;
};

// Handlers run on the router's workers; deltas come on the engine thread.
class Service final : public Drainable {
 public:
  explicit Service(const ServiceParts& parts);
  ~Service() override;

  Router& router() { return router_; }
  std::size_t unfinished() override { return unfinished_; }
  bool end_answers() override {
    engine_.stop();
    return true;
  }

 private:
  void add_routes();
  void add_known();
  void add_upkeep_routes();
  void add_cache_config(MetricsText& page) const;
  AnswerForm answer_form(const api::DeliveryFields& delivery, const Reply& reply) const;
  std::unique_ptr<api::AnswerWriter> completion_writer(api::CompletionForm form, bool stream,
                                                       std::size_t choices) const;
  // Calls `then` with the files that MediaLoader::remote() names and the frames of video files, on
  // a worker: at once for a request without media; else when they are there. No worker waits for
  // them. An error, the fetching's or then's, is the answer.
  using WithFiles = std::function<Result<void>(FetchedMedia fetched)>;
  // `reserved` grows by what is fetched; may be null.
  Result<void> with_media(const api::ChatRequest& request,
                          std::shared_ptr<ByteReservation> reserved, const Reply& reply,
                          WithFiles then);
  // Video files on their way to frames; `done` is called once, and keeps `request`.
  void decode_videos(const api::ChatRequest& request, std::vector<std::string> downloaded,
                     std::shared_ptr<ByteReservation> reserved, const Reply& reply,
                     std::function<void(Result<FetchedMedia>)> done);
  Result<void> chat(const net::HttpRequest& request, const Reply& reply);
  Result<void> responses(const net::HttpRequest& request, const Reply& reply);
  Result<void> messages(const net::HttpRequest& request, const Reply& reply);
  Result<void> count_tokens(const net::HttpRequest& request, const Reply& reply);
  Result<void> response_tokens(const net::HttpRequest& request, const Reply& reply);
  // `object`: of the answer's shape.
  Result<void> count(api::ChatRequest chat, std::string_view object,
                     const net::HttpRequest& request, const Reply& reply);
  // SageMaker's one path: what the body is, a chat or a completion.
  Result<void> invocations(const net::HttpRequest& request, const Reply& reply);
  // What all APIs that chat are translated to goes on its one way to the engine.
  Result<void> answer_chat(api::ChatRequest chat, AnswerForm form,
                           std::unique_ptr<api::AnswerWriter> writer,
                           const net::HttpRequest& request, const Reply& reply);
  // Several conversations, whose answers are the choices of one.
  Result<void> chat_batch(const net::HttpRequest& request, const Reply& reply);
  struct Chat;
  struct ChatBatch;
  Result<void> prepare_chat(const Chat& chat, FetchedMedia fetched);
  // The next conversations, one after another, and then all of them to the engine.
  Result<void> prepare_batch(const std::shared_ptr<ChatBatch>& batch);
  // What the engine is given; nothing where the client was told to come again.
  Result<std::optional<Request>> request_of(const Chat& chat, FetchedMedia fetched);
  std::optional<ImageSizing> sizing_of(const Chat& chat) const;
  void track(Request& request, const std::shared_ptr<PendingWork>& work);
  // What a request says of the time to its first token: its own member, or a gateway's header.
  static Result<std::optional<Nanos>> ttft_target(const api::DeliveryFields& delivery,
                                                  const net::HttpRequest& request);
  Result<void> completions(const net::HttpRequest& request, const Reply& reply);
  Result<void> tokenize(const net::HttpRequest& request, const Reply& reply);
  Result<BuiltPrompt> counted(const api::ChatRequest& chat, std::uint64_t client,
                              FetchedMedia fetched) const;
  Result<std::string> token_counts(const api::TokenizeRequest& request, std::uint64_t client,
                                   FetchedMedia fetched) const;
  void reset_prefix_cache(const Reply& reply);
  // Choice k of each prompt draws by its seed plus k.
  Result<void> submit(const std::shared_ptr<Answer>& answer, const std::vector<Request>& prompts,
                      int per_prompt);
  // The same by beam search: `width` beams of each prompt, of which the answer has choices.
  Result<void> submit_beams(const std::shared_ptr<Answer>& answer,
                            const std::vector<Request>& prompts, const api::SamplingFields& fields,
                            std::int64_t width);
  void watch(const std::shared_ptr<Answer>& answer, const Reply& reply);
  std::vector<api::ModelCard> cards() const;
  // The adapter that a request's model is; null of the model itself. kNotFound: it has been
  // unloaded since the name was checked.
  Result<std::shared_ptr<const LoraAdapter>> adapter_of(const std::string& model) const;
  void after_step();

  const ServeSettings& settings_;
  const Processor& processor_;
  RequestBuilder& builder_;
  Engine& engine_;
  MetricsPage& metrics_;
  ImageSizer* sizer_;
  LoraAdapters* adapters_;
  const Clock& clock_;
  const std::int64_t started_at_;         // Unix seconds
  std::vector<net::StreamWrite> writes_;  // engine thread: this step's events
  std::atomic<std::size_t> unfinished_ = 0;
  HttpDownloads downloads_;
  std::atomic<bool> stopping_ = false;         // ends what video_threads_ do
  std::unique_ptr<WorkerPool> video_threads_;  // each waits for one decoder at a time
  StoredResponses responses_;
  Router router_;  // last: its jobs use everything above
};

}  // namespace saccade::serve
