#include "api/requests/fields/member_table.h"

#include <algorithm>

#include "api/requests/fields/table_names.h"

namespace saccade::api {
namespace {

using namespace table_names;

constexpr std::string_view kCached = "what is cached is cached without being asked";
constexpr std::string_view kHeld = "a schema is held to always";
constexpr std::string_view kNotShown = "no template shows it";
constexpr std::string_view kKept = "it is given back with the input's items";
constexpr std::string_view kSaid = "of what was said, the text counts";
constexpr std::string_view kSelf = "media say themselves what they are";
constexpr std::string_view kPixels = "send 'min_pixels' and 'max_pixels'";
constexpr std::string_view kFrames = "send the frames that are wanted";
constexpr std::string_view kScaled = "images are scaled to what the model takes";
constexpr std::string_view kDirect =
    "calls are the model's alone; leave it out, or name \"direct\"";

// Chat.
constexpr MemberRow kMessage[] = {
    {"role", kUsed},
    {"content", kUsed},
    {"refusal", kUsed},
    {"tool_calls", kTemplate},
    {"function_call", kTemplate, "as one of tool_calls"},
    {"tool_call_id", kTemplate},
    {"name", kTemplate},
    {"reasoning", kTemplate},
    {"reasoning_content", kTemplate},
    {"tools", kTemplate},
    {"task", kTemplate},
    {"audio", kRefused, "this server has said nothing aloud; send its text as 'content'"},
};
constexpr MemberRow kPart[] = {
    {"type", kUsed},
    {"text", kUsed},
    {"refusal", kUsed},
    {"thinking", kUsed},
    {"closed", kIgnored, "thoughts of a part are text"},
    {"image_url", kUsed},
    {"image", kUsed},
    {"image_embeds", kUsed},
    {"video_url", kUsed},
    {"video", kUsed},
    {"uuid", kUsed},
    {"detail", kUsed},
    {"min_pixels", kUsed},
    {"max_pixels", kUsed},
    {"total_pixels", kUsed},
    {"resized_height", kRefused, kPixels},
    {"resized_width", kRefused, kPixels},
    {"fps", kUsed},
    {"sample_fps", kUsed},
    {"num_frames", kUsed},
    {"nframes", kUsed},
    {"min_frames", kUsed},
    {"max_frames", kUsed},
    {"video_start", kRefused, kFrames},
    {"video_end", kRefused, kFrames},
    {"cache_control", kIgnored, kCached},
    {"prompt_cache_breakpoint", kIgnored, kCached},
};
constexpr MemberRow kImageUrl[] = {
    {"url", kUsed},
    {"detail", kUsed},
    {"min_pixels", kUsed},
    {"max_pixels", kUsed},
    {"resized_height", kRefused, kPixels},
    {"resized_width", kRefused, kPixels},
    {"format", kIgnored, kSelf},
};
constexpr MemberRow kVideoUrl[] = {
    {"url", kUsed},
    {"fps", kUsed},
    {"sample_fps", kUsed},
    {"num_frames", kUsed},
    {"nframes", kUsed},
    {"min_frames", kUsed},
    {"max_frames", kUsed},
    {"min_pixels", kUsed},
    {"max_pixels", kUsed},
    {"total_pixels", kUsed},
    {"resized_height", kRefused, kPixels},
    {"resized_width", kRefused, kPixels},
    {"video_start", kRefused, kFrames},
    {"video_end", kRefused, kFrames},
    {"format", kIgnored, kSelf},
};
constexpr MemberRow kEmbeds[] = {{"image_embeds", kUsed}, {"image_grid_thw", kUsed}};
constexpr MemberRow kCall[] = {{"id", kTemplate}, {"type", kUsed}, {"function", kUsed}};
constexpr MemberRow kCallFunction[] = {{"name", kTemplate}, {"arguments", kTemplate}};
constexpr MemberRow kTool[] = {{"type", kUsed}, {"function", kUsed}, {"defer_loading", kTemplate}};
constexpr MemberRow kFunction[] = {
    {"name", kUsed},       {"description", kTemplate},   {"parameters", kUsed},
    {"strict", kTemplate}, {"defer_loading", kTemplate},
};
constexpr MemberRow kChoice[] = {{"type", kUsed}, {"function", kUsed}, {"allowed_tools", kUsed}};
constexpr MemberRow kName[] = {{"name", kUsed}};
constexpr MemberRow kAllowed[] = {{"mode", kUsed}, {"tools", kUsed}};
constexpr MemberRow kNamedTool[] = {{"type", kUsed}, {"function", kUsed}};

// The answer's form, and how it comes.
constexpr MemberRow kResponseFormat[] = {
    {"type", kUsed},   {"json_schema", kUsed}, {"schema", kUsed},
    {"format", kUsed}, {"structures", kUsed},  {"triggers", kUsed},
};
constexpr MemberRow kJsonSchema[] = {
    {"schema", kUsed},
    {"name", kIgnored, kNotShown},
    {"description", kIgnored, kNotShown},
    {"strict", kIgnored, kHeld},
};
constexpr MemberRow kTag[] = {{"begin", kUsed}, {"schema", kUsed}, {"end", kUsed}};
constexpr MemberRow kStructured[] = {
    {"json", kUsed},
    {"regex", kUsed},
    {"choice", kUsed},
    {"grammar", kUsed},
    {"structural_tag", kUsed},
    {"json_object", kUsed},
    {"disable_any_whitespace", kUsed},
    {"disable_fallback", kIgnored, "there is nothing to fall back to"},
    {"disable_additional_properties", kIgnored, "members that no schema names do not come"},
    {"whitespace_pattern", kRefused, "'disable_any_whitespace' is"},
};
constexpr MemberRow kStreamOptions[] = {
    {"include_usage", kUsed},
    {"continuous_usage_stats", kUsed},
    {"include_obfuscation", kIgnored, "nothing is padded"},
};
constexpr MemberRow kVideoIo[] = {
    {"fps", kUsed},
    {"num_frames", kUsed},
    {"frames_indices", kUsed},
    {"total_num_frames", kUsed},
    {"do_sample_frames", kUsed},
    {"duration", kIgnored, "fps and frames say it"},
    {"backend", kIgnored, "there is one"},
    {"video_backend", kIgnored, "there is one"},
};

// Responses.
constexpr MemberRow kItem[] = {
    {"type", kUsed},
    {"id", kIgnored, kKept},
    {"status", kIgnored, kKept},
    {"created_by", kIgnored, kKept},
    {"role", kUsed},
    {"content", kUsed},
    {"phase", kIgnored, kNotShown},
    {"call_id", kUsed},
    {"name", kUsed},
    {"arguments", kUsed},
    {"output", kUsed},
    {"summary", kUsed},
    {"encrypted_content", kIgnored, "another server's, which it alone can read"},
    {"namespace", kRefused, "functions are in none"},
    {"caller", kIgnored, "whoever called"},
    {"async", kIgnored, "an answer is waited for by the client"},
};
constexpr MemberRow kItemPart[] = {
    {"type", kUsed},
    {"text", kUsed},
    {"refusal", kUsed},
    {"image_url", kUsed},
    {"detail", kUsed},
    {"uuid", kUsed},
    {"min_pixels", kUsed},
    {"max_pixels", kUsed},
    {"file_id", kRefused,
     "this server keeps no files; give the image as 'image_url', a data: URL for instance"},
    {"annotations", kIgnored, kSaid},
    {"logprobs", kIgnored, kSaid},
    {"prompt_cache_breakpoint", kIgnored, kCached},
};
constexpr MemberRow kTextPart[] = {{"type", kUsed}, {"text", kUsed}};
constexpr MemberRow kText[] = {{"format", kUsed}, {"verbosity", kTemplate}};
constexpr MemberRow kTextFormat[] = {
    {"type", kUsed},
    {"schema", kUsed},
    {"name", kIgnored, kNotShown},
    {"description", kIgnored, kNotShown},
    {"strict", kIgnored, kHeld},
};
constexpr MemberRow kReasoning[] = {
    {"effort", kTemplate},
    {"summary", kIgnored, "thoughts are shown whole"},
    {"generate_summary", kIgnored, "thoughts are shown whole"},
    {"context", kRefused, "which thoughts are shown again is the template's affair", "auto"},
    {"mode", kRefused, {}, "standard"},
};
constexpr MemberRow kFlatTool[] = {
    {"type", kUsed},
    {"name", kUsed},
    {"description", kTemplate},
    {"parameters", kUsed},
    {"strict", kTemplate},
    {"defer_loading", kTemplate},
    {"output_schema", kTemplate},
    {"allowed_callers", kRefused, kDirect, "direct"},
    {"async", kIgnored, "an answer is waited for by the client"},
};
constexpr MemberRow kFlatChoice[] = {
    {"type", kUsed}, {"name", kUsed}, {"mode", kUsed}, {"tools", kUsed}};
constexpr MemberRow kFlatNamed[] = {{"type", kUsed}, {"name", kUsed}};

// Messages.
constexpr MemberRow kTurn[] = {
    {"role", kUsed},
    {"content", kUsed},
    {"clear_at", kRefused, "leave out of 'messages' what is to be shown no more", "never"},
    {"output_config", kRefused, "send the request's own 'output_config'"},
};
constexpr MemberRow kBlock[] = {
    {"type", kUsed},
    {"text", kUsed},
    {"source", kUsed},
    {"thinking", kUsed},
    {"id", kUsed},
    {"name", kUsed},
    {"input", kUsed},
    {"tool_use_id", kUsed},
    {"content", kUsed},
    {"is_error", kTemplate},
    {"signature", kIgnored, "nothing is signed, and nothing checked"},
    {"data", kIgnored, "another server's, which it alone can read"},
    {"cache_control", kIgnored, kCached},
    {"citations", kIgnored, kSaid},
    {"caller", kIgnored, "whoever called"},
    {"transformations", kIgnored, kScaled},
    {"toolset_name", kIgnored, "the tool's own name counts"},
};
constexpr MemberRow kShownBlock[] = {
    {"type", kUsed},
    {"text", kUsed},
    {"source", kUsed},
    {"cache_control", kIgnored, kCached},
    {"citations", kIgnored, kSaid},
    {"transformations", kIgnored, kScaled},
};
constexpr MemberRow kTransformations[] = {{"oversized_image", kRefused, kScaled, "downsize"}};
constexpr MemberRow kSource[] = {
    {"type", kUsed}, {"url", kUsed}, {"media_type", kUsed}, {"data", kUsed}};
constexpr MemberRow kSystem[] = {
    {"type", kUsed},
    {"text", kUsed},
    {"cache_control", kIgnored, kCached},
    {"citations", kIgnored, kSaid},
};
constexpr MemberRow kThinking[] = {
    {"type", kUsed},
    {"budget_tokens", kIgnored, "thoughts end where the model ends them"},
    {"display", kIgnored, "thoughts are shown whole"},
    {"block_binding", kIgnored, "nothing is signed, and nothing checked"},
};
constexpr MemberRow kMessagesTool[] = {
    {"type", kUsed},
    {"name", kUsed},
    {"description", kTemplate},
    {"input_schema", kUsed},
    {"strict", kTemplate},
    {"defer_loading", kTemplate},
    {"input_examples", kTemplate},
    {"allowed_callers", kRefused, kDirect, "direct"},
    {"cache_control", kIgnored, kCached},
    {"eager_input_streaming", kIgnored, "inputs come as they are made"},
};
constexpr MemberRow kMessagesChoice[] = {
    {"type", kUsed}, {"name", kUsed}, {"disable_parallel_tool_use", kUsed}};
constexpr MemberRow kOutputConfig[] = {
    {"effort", kTemplate},
    {"format", kUsed},
    {"task_budget", kRefused, "send 'max_tokens'"},
};
constexpr MemberRow kOutputFormat[] = {{"type", kUsed}, {"schema", kUsed}};
constexpr MemberRow kMetadata[] = {{"user_id", kIgnored, "users are told apart by their keys"}};

constexpr Place kPlaces[] = {
    {"messages[]", kChat, kMessage, Others::kTemplate},
    {"messages[].content[]", kChat, kPart},
    {"messages[].content[].image_url", kChat, kImageUrl},
    {"messages[].content[].image", kChat, kImageUrl},
    {"messages[].content[].video_url", kChat, kVideoUrl},
    {"messages[].content[].video", kChat, kVideoUrl},
    {"messages[].content[].image_embeds", kChat, kEmbeds, Others::kRefused},
    {"messages[].tool_calls[]", kChat, kCall, Others::kTemplate},
    {"messages[].tool_calls[].function", kChat, kCallFunction, Others::kTemplate},
    {"messages[].function_call", kChat, kCallFunction, Others::kTemplate},
    {"messages[].tools[]", kChat, kTool, Others::kTemplate},
    {"messages[].tools[].function", kChat, kFunction, Others::kTemplate},
    {"tools[]", kChat, kTool, Others::kTemplate},
    {"tools[].function", kChat, kFunction, Others::kTemplate},
    {"tool_choice", kChat, kChoice},
    {"tool_choice.function", kChat, kName},
    {"tool_choice.allowed_tools", kChat, kAllowed},
    {"tool_choice.allowed_tools.tools[]", kChat, kNamedTool},
    {"tool_choice.allowed_tools.tools[].function", kChat, kName},

    {"response_format", kChat | kCompletion, kResponseFormat},
    {"response_format.json_schema", kChat | kCompletion, kJsonSchema},
    {"response_format.structures[]", kChat | kCompletion, kTag},
    {"stream_options", kChat | kCompletion | kResponse, kStreamOptions},
    {"structured_outputs", kChat | kCompletion | kResponse | kMessages, kStructured,
     Others::kRefused},
    {"media_io_kwargs.video", kChat | kResponse | kMessages, kVideoIo, Others::kRefused},

    {"input[]", kResponse, kItem},
    {"input[].content[]", kResponse, kItemPart},
    {"input[].content[].image_url", kResponse, kImageUrl},
    {"input[].output[]", kResponse, kItemPart},
    {"input[].output[].image_url", kResponse, kImageUrl},
    {"input[].summary[]", kResponse, kTextPart},
    {"text", kResponse, kText, Others::kRefused},
    {"text.format", kResponse, kTextFormat},
    {"reasoning", kResponse, kReasoning},
    {"tools[]", kResponse, kFlatTool},
    {"tool_choice", kResponse, kFlatChoice},
    {"tool_choice.tools[]", kResponse, kFlatNamed},

    {"messages[]", kMessages, kTurn},
    {"messages[].content[]", kMessages, kBlock},
    {"messages[].content[].source", kMessages, kSource},
    {"messages[].content[].transformations", kMessages, kTransformations},
    {"messages[].content[].content[]", kMessages, kShownBlock},
    {"messages[].content[].content[].source", kMessages, kSource},
    {"messages[].content[].content[].transformations", kMessages, kTransformations},
    {"system[]", kMessages, kSystem},
    {"thinking", kMessages, kThinking},
    {"tools[]", kMessages, kMessagesTool},
    {"tool_choice", kMessages, kMessagesChoice},
    {"output_config", kMessages, kOutputConfig, Others::kRefused},
    {"output_config.format", kMessages, kOutputFormat},
    {"output_format", kMessages, kOutputFormat},
    {"metadata", kMessages, kMetadata},
};

}  // namespace

std::span<const Place> member_table() { return kPlaces; }

const Place* place_of(RequestKind kind, std::string_view path) {
  const auto* found = std::ranges::find_if(kPlaces, [&](const Place& place) {
    return place.path == path && (place.kinds & static_cast<std::uint16_t>(kind)) != 0;
  });
  return found == std::end(kPlaces) ? nullptr : found;
}

const MemberRow* row_of(const Place& place, std::string_view name) {
  const auto found = std::ranges::find(place.rows, name, &MemberRow::name);
  return found == place.rows.end() ? nullptr : &*found;
}

}  // namespace saccade::api
