#include "text/pipeline/decoder.h"

#include <utility>

#include "base/text/ascii.h"
#include "text/pipeline/step_members.h"
#include "text/unicode/byte_alphabet.h"
#include "text/unicode/unicode.h"

namespace saccade {
namespace {

constexpr std::int64_t kMaxStrip = 1000;
constexpr std::size_t kMaxSteps = 64;
constexpr double kMaxDecodedGrowth = 64;
constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 20;

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

// What WordPiece takes back of the spaces that its tokens would put around punctuation.
void clean_up_spaces(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [what, with] : kRules) replace_all(text, what, with);
}

void replace_pattern(std::string& text, const Regex& pattern, std::string_view with) {
  std::string result;
  std::size_t done = 0;
  Regex::Matches matches(pattern, text);
  while (const auto match = matches.next()) {
    result.append(text, done, match->begin - done);
    result += with;
    done = match->end;
  }
  result.append(text, done);
  text = std::move(result);
}

void strip_token(std::string& text, std::string_view character, int start, int stop) {
  std::string_view rest = text;
  for (int i = 0; i < start && rest.starts_with(character); ++i)
    rest.remove_prefix(character.size());
  for (int i = 0; i < stop && rest.ends_with(character); ++i) rest.remove_suffix(character.size());
  text = std::string(rest);
}

Result<int> strip_count(const json::object& from, std::string_view name) {
  TRY(const std::int64_t count, json::get_int(from, name));
  if (count < 0 || count > kMaxStrip) {
    return fail(ErrorCode::kInvalid, "'{}' is {}, allowed is 0 to {}", name, count, kMaxStrip);
  }
  return static_cast<int>(count);
}

}  // namespace

Result<Decoder> Decoder::parse(const json::value* from) {
  Decoder decoder;
  if (from == nullptr) {
    decoder.join_ = Join::kSpaced;
  } else {
    TRY_DO(decoder.add(*from));
  }
  return decoder;
}

Result<Decoder::Step> Decoder::parse_step(const std::string& type, const json::object& from) {
  Step step;
  if (type == "Replace") {
    TRY(PatternMember pattern, pattern_of(from));
    step.pattern = std::make_shared<const Regex>(std::move(pattern.regex));
    TRY(step.text, json::get_string(from, "content"));
    const double growth = replacement_growth(*step.pattern, step.text);
    if (growth > kMaxDecodedGrowth) {
      return fail(ErrorCode::kTooLarge, "makes a token up to {} times longer, limit {}", growth,
                  kMaxDecodedGrowth);
    }
    return step;
  }
  if (type == "Metaspace") {
    step.kind = Step::Kind::kMetaspace;
    TRY(step.text, one_character(from, "replacement"));
    TRY(const std::string scheme, json::get_string_or(from, "prepend_scheme", "always"));
    TRY(const bool prefix, json::get_bool_or(from, "add_prefix_space", true));
    step.flag = prefix && scheme != "never";
    return step;
  }
  if (type == "Strip") {
    step.kind = Step::Kind::kStrip;
    TRY(step.text, one_character(from, "content"));
    TRY(step.start, strip_count(from, "start"));
    TRY(step.stop, strip_count(from, "stop"));
    return step;
  }
  if (type == "WordPiece") {
    step.kind = Step::Kind::kWordPiece;
    TRY(step.text, json::get_string(from, "prefix"));
    TRY(step.flag, json::get_bool(from, "cleanup"));
    return step;
  }
  return fail(ErrorCode::kUnsupported, "this type is not supported");
}

Result<void> Decoder::add(const json::value& from) {
  if (!from.is_object()) {
    return fail(ErrorCode::kInvalid, "decoder is {}, an object is required", json::kind_name(from));
  }
  const json::object& object = from.get_object();
  TRY(const std::string type, json::get_string(object, "type"));
  if (type == "Sequence") {
    auto steps = steps_of(object, "decoders");
    if (!steps) return fail_within("decoder Sequence", std::move(steps).error());
    for (const json::value& step : **steps) TRY_DO(add(step));
    return {};
  }
  if (steps_.size() == kMaxSteps) {
    return fail(ErrorCode::kTooLarge, "decoder: over {} steps", kMaxSteps);
  }
  if (type == "Fuse") {
    fused_ = true;
    return {};
  }
  if (type == "ByteFallback" && !fused_ && join_ == Join::kText) {
    join_ = Join::kByteRuns;
    return {};
  }
  if (type == "ByteLevel" && !fused_ && join_ == Join::kText) {
    steps_.push_back({Step::Kind::kByteLevel, nullptr, {}, 0, 0, false});
    join_ = Join::kBytes;
    fused_ = true;
    return {};
  }
  auto step = parse_step(type, object);
  if (!step) return fail_within("decoder " + type, std::move(step).error());
  if (fused_ && step->kind == Step::Kind::kStrip && step->stop == 0 && strip_count_ == 0) {
    strip_front_ = step->text;
    strip_count_ = step->start;
    return {};
  }
  if (fused_ || join_ != Join::kText) {
    return fail(ErrorCode::kUnsupported,
                "decoder {}: it is not supported after Fuse, ByteLevel or "
                "ByteFallback with these options",
                type);
  }
  first_differs_ |= step->kind == Step::Kind::kMetaspace || step->kind == Step::Kind::kWordPiece;
  steps_.push_back(*std::move(step));
  return {};
}

std::string Decoder::piece(std::string_view token, bool first) const {
  std::string text(token);
  for (const Step& step : steps_) {
    if (text.size() > kMaxPieceBytes) break;  // steps that multiply each other
    switch (step.kind) {
      case Step::Kind::kReplace:
        replace_pattern(text, *step.pattern, step.text);
        break;
      case Step::Kind::kMetaspace:
        replace_all(text, step.text, first && step.flag ? "" : " ");
        break;
      case Step::Kind::kStrip:
        strip_token(text, step.text, step.start, step.stop);
        break;
      case Step::Kind::kWordPiece:
        if (!first) text = text.starts_with(step.text) ? text.substr(step.text.size()) : " " + text;
        if (step.flag) clean_up_spaces(text);
        break;
      case Step::Kind::kByteLevel:
        if (auto bytes = bytes_of_characters(text)) text = *std::move(bytes);
        break;
    }
  }
  if (const int byte = join_ == Join::kByteRuns ? byte_of(token) : -1; byte >= 0) {
    text.assign(1, static_cast<char>(static_cast<unsigned char>(byte)));
  }
  return text;
}

int Decoder::byte_of(std::string_view token) const {
  if (join_ != Join::kByteRuns || token.size() != 6) return -1;
  if (!token.starts_with("<0x") || !token.ends_with('>')) return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = ascii::hex_value(c);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void Decoder::append(std::string_view piece, bool byte, DecodeState& state,
                     std::string& out) const {
  switch (join_) {
    case Join::kText:
      emit(piece, state, out);
      break;
    case Join::kSpaced:
      if (!state.first) out += ' ';
      out += piece;
      break;
    case Join::kBytes: {
      state.held += piece;
      std::string text;
      const std::size_t kept = append_valid_utf8(text, state.held, false);
      state.held.erase(0, state.held.size() - kept);
      emit(text, state, out);
      break;
    }
    case Join::kByteRuns:
      if (byte) {
        state.held += piece;
      } else {
        finish(state, out);
        emit(piece, state, out);
      }
      break;
  }
  state.first = false;
}

void Decoder::finish(DecodeState& state, std::string& out) const {
  std::string text;
  if (join_ == Join::kByteRuns && !is_valid_utf8(state.held)) {
    for (std::size_t i = 0; i < state.held.size(); ++i) append_utf8(text, kReplacementCharacter);
  } else {
    append_valid_utf8(text, state.held, true);
  }
  state.held.clear();
  emit(text, state, out);
}

// Adds finished text, less what is to be stripped from the front of all of it.
void Decoder::emit(std::string_view text, DecodeState& state, std::string& out) const {
  while (state.stripped < strip_count_ && !text.empty()) {
    if (text.starts_with(strip_front_)) {
      text.remove_prefix(strip_front_.size());
      ++state.stripped;
    } else {
      state.stripped = strip_count_;
    }
  }
  out += text;
}

}  // namespace saccade
