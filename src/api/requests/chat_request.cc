#include "api/requests/chat_request.h"

#include "api/pages/limits.h"
#include "api/requests/conversation.h"
#include "api/requests/fields/fields.h"
#include "api/requests/rows_file.h"
#include "base/text/base64.h"

namespace saccade::api {
namespace {

// What a part is that does not say: vLLM takes such parts by the member that they have.
std::string type_by_member(const json::object& part) {
  for (const std::string_view name : {"image_url", "video_url", "video", "text"}) {
    if (json::find(part, name) != nullptr) return std::string(name);
  }
  return "";
}

Result<ContentPart> add_video(const json::object& part, std::string_view where,
                              ChatRequest& request) {
  std::size_t frames = 0;
  for (const VideoPart& video : request.videos) frames += video.frames.size();
  TRY(VideoPart video, read_video(part, where, limits::kFrames.most - frames));
  request.videos.push_back(std::move(video));
  return ContentPart{ContentPart::Kind::kVideo, {}, request.videos.size() - 1};
}

// Base64 of a tensor, or an object that has the model's own names for that and for its grid. As one
// file in a data: URL, from which images come too.
Result<ImagePart> read_rows(const json::object& part, std::string_view where) {
  constexpr std::string_view kRows = "image_embeds";
  constexpr std::string_view kGrid = "image_grid_thw";
  ImagePart image;
  TRY(image.uuid, json::get_string_or(part, "uuid", ""));
  TRY_DO(within(limits::kImageName, image.uuid.size(), fmt::format("{}.uuid", where)));
  const json::value* rows = json::find(part, kRows);
  std::string grid;
  if (rows == nullptr && !image.uuid.empty()) return image;  // what was sent under that name
  if (rows != nullptr && rows->is_object()) {
    const json::object& named = rows->get_object();
    for (const auto& member : named) {
      if (member.key() == kRows || member.key() == kGrid) continue;
      return invalid("messages", "{}: '{}.{}' is not supported; {} and {} are", where, kRows,
                     std::string_view(member.key()).substr(0, 40), kRows, kGrid);
    }
    TRY(const std::string text, json::get_string_or(named, kGrid, ""));
    auto decoded = base64_decode_forgiving(text);
    if (!decoded) return invalid("messages", "{}.{}: {}", where, kGrid, decoded.error().message);
    grid = *std::move(decoded);
    rows = json::find(named, kRows);
  }
  if (rows == nullptr || !rows->is_string() || rows->get_string().empty())
    return invalid("messages", "{}: '{}' must be base64 of a tensor", where, kRows);
  if (const auto file = base64_decode_forgiving(rows->get_string()); !file)
    return invalid("messages", "{}: '{}': {}", where, kRows, file.error().message);
  auto head = rows_file_head(grid);
  if (!head) return invalid("messages", "{}: {}", where, head.error().message);
  image.url = "data:application/x-image-embeds;base64," + base64_encode(*head);
  image.url += rows->get_string();
  return image;
}

Result<ContentPart> read_part(const json::value& v, std::string_view where, ChatRequest& request) {
  if (v.is_string()) return ContentPart{ContentPart::Kind::kText, std::string(v.get_string()), 0};
  if (!v.is_object())
    return invalid("messages", "{} is {}, an object is required", where, json::kind_name(v));
  const auto& part = v.get_object();
  const json::value* type_value = json::find(part, "type");
  std::string type;
  if (type_value != nullptr && type_value->is_string())
    type = std::string(type_value->get_string());
  if (type.empty()) type = type_by_member(part);
  if (type == "text" || type == "input_text" || type == "refusal" || type == "thinking") {
    const std::string_view name = type == "input_text" ? std::string_view("text") : type;
    TRY_DO(check_contents(part, {name}, "messages", where));
    auto text = json::get_string(part, name);
    if (!text) return invalid("messages", "{}: {}", where, text.error().message);
    return ContentPart{ContentPart::Kind::kText, *std::move(text), 0};
  }
  const bool rows = type == "image_embeds";
  if (rows || type == "image_url" || type == "input_image" || type == "image") {
    TRY_DO(check_contents(part, {rows ? "image_embeds" : "image_url", rows ? "" : "image"},
                          "messages", where));
    TRY(ImagePart image, rows ? read_rows(part, where) : read_image(part, "messages", where));
    if (request.images.size() == limits::kImages.most)
      return invalid("messages", "more than {} images in one request", limits::kImages.most);
    request.images.push_back(std::move(image));
    return ContentPart{ContentPart::Kind::kImage, {}, request.images.size() - 1};
  }
  if (type == "video_url" || type == "input_video" || type == "video") {
    TRY_DO(check_contents(part, {"video_url", "video"}, "messages", where));
    return add_video(part, where, request);
  }
  return invalid("messages",
                 "{}: a part of type '{}' is not supported; text, image_url, video_url and "
                 "image_embeds are",
                 where, type.substr(0, 40));
}

// The id of the call that was made last.
std::string last_call_id(const std::vector<Message>& messages) {
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    const json::value* calls = json::find(message->other, "tool_calls");
    if (calls == nullptr || !calls->is_array() || calls->get_array().empty()) continue;
    const json::object* call = calls->get_array().back().if_object();
    const json::value* id = call == nullptr ? nullptr : json::find(*call, "id");
    if (id != nullptr && id->is_string()) return std::string(id->get_string());
  }
  return "call00000";
}

// Calls in the form that they had before tools, which templates know no more: an assistant's
// `function_call`, and a role "function" that answers it. Nothing: it is none of these.
std::optional<json::object> of_older_form(const json::object& from, std::size_t index,
                                          const std::vector<Message>& before) {
  const json::value* role = json::find(from, "role");
  if (role == nullptr || !role->is_string()) return std::nullopt;
  const json::value* call = json::find(from, "function_call");
  const json::value* calls = json::find(from, "tool_calls");
  const bool calls_tools = calls != nullptr && *calls != json::value(json::array());
  if (role->get_string() == "assistant" && call != nullptr && !calls_tools) {
    json::object made = from;
    made.erase("function_call");
    // Nine letters and digits, as Mistral's templates demand.
    json::object tool{
        {"id", fmt::format("call{:05}", index)}, {"type", "function"}, {"function", *call}};
    made["tool_calls"] = json::array{std::move(tool)};
    return made;
  }
  if (role->get_string() != "function") return std::nullopt;
  json::object made = from;
  made["role"] = "tool";
  if (json::find(from, "tool_call_id") == nullptr) made["tool_call_id"] = last_call_id(before);
  return made;
}

// What a message without content says: an assistant perhaps that it refused, a tool's null nothing.
Result<void> take_absent(const json::object& from, std::string_view where, Message& message) {
  if (message.role == "tool" && from.contains("content")) {
    message.content.push_back({ContentPart::Kind::kText, "", 0});
    return {};
  }
  // Assistants may say nothing, as they do when they call tools.
  if (message.role != "assistant") return invalid("messages", "{}: 'content' is missing", where);
  const json::value* refusal = json::find(from, "refusal");
  if (refusal != nullptr && refusal->is_string() && !refusal->get_string().empty())
    message.content.push_back({ContentPart::Kind::kText, std::string(refusal->get_string()), 0});
  return {};
}

// `parts`: of all messages so far.
Result<Message> read_message(const json::value& v, std::size_t index, std::size_t& parts,
                             ChatRequest& request) {
  const std::string where = fmt::format("messages[{}]", index);
  if (!v.is_object())
    return invalid("messages", "{} is {}, an object is required", where, json::kind_name(v));
  TRY_DO(within(limits::kMessageMembers, v.get_object().size(), where));
  const auto newer = of_older_form(v.get_object(), index, request.messages);
  const json::object& from = newer ? *newer : v.get_object();
  Message message;
  auto role = json::get_string(from, "role");
  if (!role) return invalid("messages", "{}: {}", where, role.error().message);
  message.role = *std::move(role);
  // Which roles there are is the template's affair.
  if (message.role.empty()) return invalid("messages", "{}: the role is empty", where);
  TRY_DO(within(limits::kRole, message.role.size(), where));
  const json::value* content = json::find(from, "content");
  if (content == nullptr) {
    TRY_DO(take_absent(from, where, message));
  } else if (content->is_string()) {
    message.content.push_back({ContentPart::Kind::kText, std::string(content->get_string()), 0});
  } else if (content->is_array()) {
    message.has_parts = true;
    parts += content->get_array().size();
    TRY_DO(within(limits::kParts, parts, where));
    std::size_t number = 0;
    for (const auto& item : content->get_array()) {
      TRY(ContentPart part,
          read_part(item, fmt::format("{}.content[{}]", where, number++), request));
      message.content.push_back(std::move(part));
    }
  } else {
    return invalid("messages", "{}: 'content' is {}, a string or an array is required", where,
                   json::kind_name(*content));
  }
  TRY_DO(check_tool_members(from, message.role, where));
  for (const auto& member : from) {
    const std::string_view name = member.key();
    if (name != "role" && name != "content") message.other[member.key()] = member.value();
  }
  return message;
}

Result<void> take_messages(Fields& fields, ChatRequest& request) {
  TRY(const json::array* list, fields.array("messages"));
  if (list == nullptr) return invalid("messages", "'messages' is missing, an array is required");
  if (list->empty())
    return invalid("messages", "'messages' is empty, at least one message is required");
  TRY_DO(within(limits::kMessages, list->size()));
  std::size_t parts = 0;
  for (std::size_t i = 0; i < list->size(); ++i) {
    TRY(Message message, read_message((*list)[i], i, parts, request));
    request.messages.push_back(std::move(message));
  }
  return {};
}

}  // namespace

namespace {

// vLLM's, by modality.
Result<void> check_media_io(const json::object* kwargs) {
  if (kwargs == nullptr) return {};
  for (const auto& [name, value] : *kwargs) {
    const bool asks = !value.is_null() && !(value.is_object() && value.get_object().empty());
    if (asks && name != "video")
      return invalid(
          "media_io_kwargs",
          "'media_io_kwargs.{}' is not supported by this server; media_io_kwargs.video is",
          std::string_view(name).substr(0, 40));
  }
  return {};
}

// Of a request with a template of its own.
Result<void> take_effort(Fields& fields, ChatRequest& request) {
  TRY(const auto effort, fields.text("reasoning_effort"));
  if (effort) TRY_DO(show_effort(*effort, "reasoning_effort", request));
  TRY(const auto verbosity, fields.text("verbosity"));
  if (verbosity) {
    TRY_DO(within(limits::kEffort, verbosity->size(), "verbosity"));
    request.chat_template_kwargs["verbosity"] = *verbosity;
  }
  return {};
}

}  // namespace

// {"type": "image_url", "image_url": {"url", "detail", "min_pixels", "max_pixels"}, "uuid"}; the
// inner value may be a bare string, and "input_image" is the same thing under another name.
Result<ImagePart> read_image(const json::object& part, std::string_view param,
                             std::string_view where) {
  ImagePart image;
  TRY(image.uuid, json::get_string_or(part, "uuid", ""));
  TRY_DO(within(limits::kImageName, image.uuid.size(), fmt::format("{}.uuid", where)));
  const json::value* v = json::find(part, "image_url");
  if (v == nullptr) v = json::find(part, "image");
  if (v == nullptr && image.uuid.empty())
    return invalid(param, "{}: 'image_url' is missing", where);
  const json::value nothing = json::string();
  if (v == nullptr) v = &nothing;
  const json::object* holder = &part;
  if (v->is_string()) {
    image.url = std::string(v->get_string());
  } else if (v->is_object()) {
    holder = &v->get_object();
    // What was sent under its uuid before needs none.
    const bool named = !image.uuid.empty() && json::find(*holder, "url") == nullptr;
    auto url = named ? Result<std::string>("") : json::get_string(*holder, "url");
    if (!url) return invalid(param, "{}: {}", where, url.error().message);
    image.url = *std::move(url);
  } else {
    return invalid(param, "{}: 'image_url' is {}, an object with a 'url' is required", where,
                   json::kind_name(*v));
  }
  TRY(const std::string detail, json::get_string_or(*holder, "detail", "auto"));
  if (detail == "low") {
    image.detail = ImageDetail::kLow;
  } else if (detail == "high" || detail == "original") {
    image.detail = ImageDetail::kHigh;
  } else if (detail != "auto") {
    return invalid(param, "{}: 'detail' is '{}', auto, low, high or original is required", where,
                   detail.substr(0, 40));
  }
  const auto pixels = [&](std::string_view name,
                          std::optional<std::int64_t>& into) -> Result<void> {
    const json::object* from = json::find(*holder, name) != nullptr ? holder : &part;
    if (json::find(*from, name) == nullptr) return {};
    auto count = json::get_int(*from, name);
    if (!count) return invalid(param, "{}: {}", where, count.error().message);
    if (*count <= 0)
      return invalid(param, "{}: '{}' is {}, it must be above 0", where, name, *count);
    into = *count;
    return {};
  };
  TRY_DO(pixels("min_pixels", image.min_pixels));
  TRY_DO(pixels("max_pixels", image.max_pixels));
  if (image.url.empty() && image.uuid.empty()) return invalid(param, "{}: 'url' is empty", where);
  return image;
}

Result<void> show_effort(std::string_view effort, std::string_view param, ChatRequest& request) {
  TRY_DO(within(limits::kEffort, effort.size(), param));
  json::object& variables = request.chat_template_kwargs;
  variables["reasoning_effort"] = json::string(effort);
  if (!variables.contains("enable_thinking")) variables["enable_thinking"] = effort != "none";
  return {};
}

Result<void> check_template_kwargs(const json::object& kwargs, std::string_view param) {
  for (const std::string_view name : {"messages", "tools", "documents", "add_generation_prompt",
                                      "continue_final_message", "chat_template", "tokenize"}) {
    if (kwargs.contains(name))
      return invalid(param, "'{}' has '{}', which is no variable of the client's: {}", param, name,
                     name == "tokenize" ? "/tokenize gives a prompt's tokens"
                                        : "send it as a member of the request");
  }
  return {};
}

namespace {

// Three of a request's members are taken here too, as vLLM does, where they do not say the opposite
// of it.
Result<void> take_kwargs(json::object kwargs, ChatRequest& request) {
  constexpr std::string_view kParam = "chat_template_kwargs";
  TRY_DO(within(limits::kTemplateKwargs, kwargs.size()));
  const auto drop = [&](std::string_view name, bool own) {
    const json::value* v = json::find(kwargs, name);
    if (v == nullptr || *v == json::value(own)) kwargs.erase(name);
  };
  drop("add_generation_prompt", request.add_generation_prompt);
  drop("continue_final_message", request.continue_final_message);
  const json::value* documents = json::find(kwargs, "documents");
  if (documents != nullptr && documents->is_array() && !request.documents) {
    TRY_DO(within(limits::kDocuments, documents->get_array().size()));
    request.documents = documents->get_array();
    kwargs.erase("documents");
  }
  TRY_DO(check_template_kwargs(kwargs, kParam));
  request.chat_template_kwargs = std::move(kwargs);
  return {};
}

}  // namespace

Result<void> take_template_fields(Fields& fields, ChatRequest& request) {
  TRY(const auto add_prompt, fields.boolean("add_generation_prompt"));
  TRY(const auto continue_final, fields.boolean("continue_final_message"));
  request.continue_final_message = continue_final.value_or(false);
  request.add_generation_prompt = add_prompt.value_or(!request.continue_final_message);
  if (request.continue_final_message && add_prompt.value_or(false)) {
    return invalid(
        "continue_final_message",
        "'continue_final_message' and 'add_generation_prompt' are both true: only one can be");
  }
  TRY(const auto add_special, fields.boolean("add_special_tokens"));
  request.add_special_tokens = add_special.value_or(false);
  TRY(request.chat_template, fields.text("chat_template"));
  if (request.chat_template) TRY_DO(within(limits::kChatTemplate, request.chat_template->size()));
  TRY(const json::array* documents, fields.array("documents"));
  if (documents != nullptr) {
    TRY_DO(within(limits::kDocuments, documents->size()));
    request.documents = *documents;
  }
  TRY(const json::object* kwargs, fields.object("chat_template_kwargs"));
  if (kwargs != nullptr) TRY_DO(take_kwargs(*kwargs, request));
  TRY(const json::object* processor, fields.object("mm_processor_kwargs"));
  if (processor != nullptr) {
    TRY_DO(within(limits::kProcessorKwargs, processor->size()));
    request.mm_processor_kwargs = *processor;
  }
  for (const std::string_view name : {"min_pixels", "max_pixels"}) {
    TRY(const auto pixels, fields.integer(name, 1));
    if (pixels) request.mm_processor_kwargs[name] = *pixels;
  }
  const json::value* modalities = fields.take("modalities");
  if (modalities != nullptr) {
    const json::array* list = modalities->if_array();
    if (list == nullptr || list->size() != 1 || !list->front().is_string() ||
        list->front().get_string() != "text") {
      return invalid("modalities",
                     "'modalities' other than [\"text\"] are not supported by this server");
    }
  }
  TRY(const json::object* media_io, fields.object("media_io_kwargs"));
  TRY_DO(check_media_io(media_io));
  return set_video_rates(request.videos, request.mm_processor_kwargs, media_io);
}

std::string Message::text() const {
  std::string all;
  for (const ContentPart& part : content) all += part.text;
  return all;
}

bool ChatRequest::echoes() const {
  return echo && (!add_generation_prompt || messages.back().role == "assistant");
}

Result<ChatRequest> parse_chat_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  TRY_DO(fields.settle(RequestKind::kChat));
  ChatRequest request;
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  TRY_DO(take_messages(fields, request));
  TRY(request.sampling, take_sampling(fields));
  TRY(request.delivery, take_delivery(fields));
  TRY(const auto logprobs, fields.boolean("logprobs"));
  request.logprobs = logprobs.value_or(false);
  TRY(const auto top, fields.integer("top_logprobs", -1));
  request.top_logprobs = top.value_or(0);
  if (top && *top != 0 && !request.logprobs) {
    return invalid("top_logprobs", "'top_logprobs' is {}, which needs 'logprobs' to be true", *top);
  }
  TRY_DO(take_logprob_tokens(fields, request.logprobs, request.sampling));
  TRY(const auto echo, fields.boolean("echo"));
  request.echo = echo.value_or(false);
  TRY_DO(take_prompt_logprobs(fields, request.delivery.stream, request.sampling));
  TRY_DO(take_beam_search(fields, request.sampling));
  TRY(request.tools, take_tool_fields(fields));
  TRY_DO(take_template_fields(fields, request));
  TRY_DO(take_effort(fields, request));
  TRY_DO(refuse_best_of(fields));
  TRY_DO(take_reasoning_form(fields, request.delivery));
  TRY(const auto prompt_text, fields.boolean("return_prompt_text"));
  request.delivery.return_prompt_text = prompt_text.value_or(false);
  request.unknown = fields.unknown();
  return request;
}

namespace {

void guard_strings(json::value& v, GuardText guard, void* context) {
  if (v.is_string()) {
    v = json::string(guard(context, v.get_string()));
  } else if (v.is_array()) {
    for (json::value& item : v.get_array()) guard_strings(item, guard, context);
  } else if (v.is_object()) {
    for (auto& member : v.get_object()) guard_strings(member.value(), guard, context);
  }
}

}  // namespace

namespace {

// What openai's model_dump() adds to an answer that goes back into a history: templates ask
// whether there is such a member.
bool says_nothing(std::string_view name, const json::value& value) {
  if (value.is_null()) return true;
  return name == "tool_calls" && value.is_array() && value.get_array().empty();
}

// Thoughts under both of their names, whichever the client knows: of two, vLLM's counts.
void show_thoughts(json::object& message) {
  const json::value* thoughts = json::find(message, "reasoning");
  if (thoughts == nullptr) thoughts = json::find(message, "reasoning_content");
  if (thoughts == nullptr || !thoughts->is_string()) return;
  const json::value both = *thoughts;
  message["reasoning"] = both;
  message["reasoning_content"] = both;
}

}  // namespace

json::array template_tools(const ChatRequest& request, GuardText guard, void* context) {
  json::value tools = request.tools.list ? *request.tools.list : json::array();
  guard_strings(tools, guard, context);
  return std::move(tools.get_array());
}

json::array template_messages(const ChatRequest& request, GuardText guard, void* context) {
  json::array messages;
  for (const Message& message : request.messages) {
    json::object made;
    made["role"] = message.role;
    if (!message.has_parts) {
      // No content is no parts: templates that read lists or strings both take that.
      made["content"] = message.content.empty()
                            ? json::value(json::array())
                            : json::value(json::string(guard(context, message.content[0].text)));
    } else {
      json::array parts;
      for (const ContentPart& part : message.content) {
        json::object item;
        if (part.kind == ContentPart::Kind::kText) {
          item["type"] = "text";
          item["text"] = guard(context, part.text);
        } else {
          item["type"] = part.kind == ContentPart::Kind::kImage ? "image" : "video";
        }
        parts.push_back(std::move(item));
      }
      made["content"] = std::move(parts);
    }
    for (const auto& member : message.other) {
      if (says_nothing(member.key(), member.value())) continue;
      json::value value =
          member.key() == "tool_calls" ? with_parsed_arguments(member.value()) : member.value();
      guard_strings(value, guard, context);
      made[member.key()] = std::move(value);
    }
    show_thoughts(made);
    messages.push_back(std::move(made));
  }
  return messages;
}

}  // namespace saccade::api
