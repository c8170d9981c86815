#include "text/patterns/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "text/patterns/oniguruma.h"
#include "text/patterns/regex_effort.h"
#include "text/unicode/unicode.h"

namespace saccade {
namespace {

// Backtracking steps for one match: some tenths of a second. Tokenizer patterns over any text stay
// far below it, except over blanks by the megabyte.
constexpr std::uint32_t kMatchLimit = 20'000'000;
// The same where one of many places is looked at, so that all of them together take no more.
constexpr std::uint32_t kWindowMatchLimit = 100'000;
// Bytes where a match may begin, of one call; between calls the clock is looked at.
constexpr std::size_t kFirstWindow = 64;
constexpr std::size_t kMaxWindow = 512;
constexpr Nanos kShortLook = 1'000'000;
constexpr std::uint32_t kHeapLimitKiB = 64 * 1024;
constexpr std::size_t kJitStackBytes = std::size_t{1} << 20;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeCompileContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeJitStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

bool pcre2_knows_unicode_16() {
  std::array<char, 64> version{};  // "14.0.0"
  return pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version.data()) > 0 &&
         std::atoi(version.data()) >= 16;
}

}  // namespace

struct Regex::Program {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
};

namespace {

thread_local RegexEffort* current_effort = nullptr;

}  // namespace

Nanos RegexEffort::for_text(std::size_t bytes) {
  constexpr Nanos kLeast = 1'000'000'000;
  constexpr Nanos kAByte = 4'000;
  return kLeast + kAByte * static_cast<Nanos>(bytes);
}

Nanos RegexEffort::now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Nanos{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

RegexEffort::RegexEffort(Nanos most, bool of_thread)
    : end_(now() + most), outermost_(of_thread && current_effort == nullptr) {
  if (outermost_) current_effort = this;
}

RegexEffort::~RegexEffort() {
  if (outermost_) current_effort = nullptr;
}

RegexEffort* RegexEffort::current() { return current_effort; }

struct Regex::Matches::Workspace {
  std::unique_ptr<pcre2_match_data, FreeMatchData> data;
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context;
  std::unique_ptr<pcre2_jit_stack, FreeJitStack> stack;  // made when the default one is too small
  std::optional<RegexEffort> own;                        // where the thread has none
  RegexEffort* effort = nullptr;
  std::size_t window = kFirstWindow;
  Nanos looked = 0;  // when the last window was over, where it had no match

  void set_window(std::size_t bytes) {
    window = bytes;
    pcre2_set_match_limit(context.get(), bytes == 1 ? kMatchLimit : kWindowMatchLimit);
  }
};

Regex::Regex(std::unique_ptr<Program> program, std::unique_ptr<Program> newer)
    : program_(std::move(program)), newer_(std::move(newer)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<std::unique_ptr<Regex::Program>> Regex::compile_pcre2(std::string_view pattern,
                                                             std::uint32_t options, bool jit) {
  const std::unique_ptr<pcre2_compile_context, FreeCompileContext> context(
      pcre2_compile_context_create(nullptr));
  CHECK(context != nullptr);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto program = std::make_unique<Program>();
  program->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                    options | PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT, &error, &offset,
                                    context.get()));
  if (program->code == nullptr) {
    std::array<PCRE2_UCHAR, 160> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return fail(ErrorCode::kInvalid, "pattern: {} (near byte {} of \"{}\")",
                reinterpret_cast<const char*>(message.data()), offset, pattern.substr(0, 200));
  }
  program->jit = jit && pcre2_jit_compile(program->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return program;
}

Result<Regex> Regex::compile(std::string_view oniguruma_pattern) {
  return compile_either(oniguruma_pattern, true);
}

Result<Regex> Regex::compile_for_names(std::string_view oniguruma_pattern) {
  return compile_either(oniguruma_pattern, false);
}

Result<Regex> Regex::compile_either(std::string_view oniguruma_pattern, bool jit) {
  constexpr std::uint32_t kOptions = PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  TRY(const std::string pattern, pcre2_from_oniguruma(oniguruma_pattern, false));
  TRY(auto program, compile_pcre2(pattern, kOptions, jit));
  if (pcre2_knows_unicode_16()) return Regex(std::move(program), nullptr);
  TRY(const std::string wider, pcre2_from_oniguruma(oniguruma_pattern, true));
  if (wider == pattern) return Regex(std::move(program), nullptr);
  TRY(auto newer, compile_pcre2(wider, kOptions, jit));
  return Regex(std::move(program), std::move(newer));
}

Result<Regex> Regex::literal(std::string_view text) {
  if (!is_valid_utf8(text)) return fail(ErrorCode::kInvalid, "pattern: not valid UTF-8");
  TRY(auto program, compile_pcre2(text, PCRE2_LITERAL, true));
  return Regex(std::move(program), nullptr);
}

Result<bool> Regex::matches_at_start(std::string_view text, std::uint32_t max_steps) const {
  CHECK(!program_->jit);
  const bool newer = newer_ != nullptr && may_have_newer_characters(text);
  const pcre2_code* const code = (newer ? newer_ : program_)->code.get();
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeMatchContext> context(
      pcre2_match_context_create(nullptr));
  CHECK(data != nullptr && context != nullptr);
  pcre2_set_match_limit(context.get(), max_steps);
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
  const int outcome = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                  PCRE2_ANCHORED, data.get(), context.get());
  if (outcome >= 0) return true;
  if (outcome == PCRE2_ERROR_NOMATCH) return false;
  return fail(ErrorCode::kTooLarge, "takes over {} steps, or {} MiB, for '{}'", max_steps,
              kHeapLimitKiB / 1024, text.substr(0, 256));
}

std::size_t Regex::shortest_match() const {
  std::uint32_t characters = 0;
  CHECK(pcre2_pattern_info(program_->code.get(), PCRE2_INFO_MINLENGTH, &characters) == 0);
  return characters;
}

Regex::Matches::Matches(const Regex& regex, std::string_view text)
    : program_(regex.newer_ != nullptr && may_have_newer_characters(text) ? *regex.newer_
                                                                          : *regex.program_),
      text_(text),
      workspace_(std::make_unique<Workspace>()) {
  workspace_->data.reset(pcre2_match_data_create(1, nullptr));
  workspace_->context.reset(pcre2_match_context_create(nullptr));
  CHECK(workspace_->data != nullptr && workspace_->context != nullptr);
  workspace_->set_window(kFirstWindow);
  pcre2_set_heap_limit(workspace_->context.get(), kHeapLimitKiB);
  workspace_->effort = RegexEffort::current();
  if (workspace_->effort == nullptr)
    workspace_->effort = &workspace_->own.emplace(RegexEffort::for_text(text.size()), false);
}

Regex::Matches::~Matches() = default;

// What is found does not depend on the windows: a match is looked for from place to place, and each
// call sees all of the text.
std::optional<Regex::Span> Regex::Matches::next() {
  const pcre2_code* code = program_.code.get();
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  Workspace& own = *workspace_;
  while (at_ <= text_.size() && !own.effort->may_be_over()) {
    const std::size_t last = text_.size() - at_ <= own.window ? text_.size() : at_ + own.window - 1;
    pcre2_set_offset_limit(own.context.get(), last);
    const auto match = [&] {
      // pcre2_match() looks at all of the text again on each call, even when told it is valid.
      return program_.jit ? pcre2_jit_match(code, subject, text_.size(), at_, 0, own.data.get(),
                                            own.context.get())
                          : pcre2_match(code, subject, text_.size(), at_, PCRE2_NO_UTF_CHECK,
                                        own.data.get(), own.context.get());
    };
    int outcome = match();
    if (outcome == PCRE2_ERROR_JIT_STACKLIMIT && own.stack == nullptr) {
      own.stack.reset(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr));
      pcre2_jit_stack_assign(own.context.get(), nullptr, own.stack.get());
      outcome = match();
    }
    if (outcome == PCRE2_ERROR_MATCHLIMIT && own.window > 1) {
      own.set_window(1);
      continue;
    }
    if (outcome == PCRE2_ERROR_NOMATCH && last < text_.size()) {
      const Nanos now = RegexEffort::now();
      const bool is_short = own.looked == 0 || now - own.looked < kShortLook;
      own.set_window(is_short ? std::min(own.window * 4, kMaxWindow)
                              : std::max<std::size_t>(own.window / 4, 1));
      own.looked = now;
      if (own.effort->is_over()) break;
      at_ = last + 1;
      while (at_ < text_.size() && (static_cast<unsigned char>(text_[at_]) & 0xc0) == 0x80) ++at_;
      continue;
    }
    if (outcome < 0) break;  // no match, or one that is beyond the limits

    own.looked = 0;
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(own.data.get());
    const Span span{offsets[0], offsets[1]};
    if (span.begin > span.end || span.end < at_) break;  // \K in a lookahead; not translated
    if (span.begin == span.end && last_end_ == span.end) {
      if (at_ >= text_.size()) break;
      at_ += character_bytes(text_[at_]);
      continue;
    }
    at_ = span.end;
    last_end_ = span.end;
    return span;
  }
  at_ = text_.size() + 1;
  return std::nullopt;
}

double replacement_growth(const Regex& pattern, std::string_view content) {
  const auto bytes = static_cast<double>(content.size());
  const auto shortest = static_cast<double>(pattern.shortest_match());
  return shortest == 0 ? 1 + bytes : std::max(1.0, bytes / shortest);
}

}  // namespace saccade
