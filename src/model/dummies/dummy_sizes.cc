#include "model/dummies/dummy_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "model/dummies/dummy_text.h"
#include "model/families/known_templates.h"

namespace saccade {
namespace {

using LineWords = std::vector<std::string_view>;

// Between blanks, or between quotes.
LineWords words_of(std::string_view line) {
  LineWords words;
  while (!line.empty()) {
    const char end = line.front() == '"' ? '"' : ' ';
    if (end == '"') line.remove_prefix(1);
    const std::size_t length = std::min(line.find(end), line.size());
    if (end == '"' || length > 0) words.push_back(line.substr(0, length));
    line.remove_prefix(std::min(length + 1, line.size()));
  }
  return words;
}

LineWords lines_of(std::string_view text) {
  LineWords lines;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return lines;
}

std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  CHECK(error == std::errc() && end == text.data() + text.size(), "\"{}\"", text);
  return number;
}

struct DummyPart {
  std::string_view kind;
  std::string_view name;  // of texts, files and lists
  LineWords when;         // "column=value"
  std::string_view body;
};

struct DummyFamily {
  LineWords columns;
  std::vector<LineWords> sizes;  // a name, then a value a column
  std::vector<DummyPart> parts;
};
using DummyFamilies = std::map<std::string_view, DummyFamily>;

DummyFamilies parse(std::string_view text) {
  DummyFamilies families;
  DummyFamily* family = &families["common"];
  CHECK(text.starts_with("== ") && text.ends_with('\n'), "dummies begin with {}",
        text.substr(0, 16));
  text.remove_suffix(1);
  while (!text.empty()) {
    const std::size_t length = std::min(text.find("\n== "), text.size());
    const std::string_view whole = text.substr(3, length - 3);
    text.remove_prefix(std::min(length + 1, text.size()));
    const std::size_t head_length = std::min(whole.find('\n'), whole.size());
    const std::string_view body = whole.substr(std::min(head_length + 1, whole.size()));
    LineWords head = words_of(whole.substr(0, head_length));
    const std::string_view kind = head.front();
    head.erase(head.begin());
    if (kind == "#") continue;
    if (kind == "family") {
      family = &families[head.front()];
    } else if (kind == "sizes") {
      family->columns = std::move(head);
      for (const std::string_view line : lines_of(body)) family->sizes.push_back(words_of(line));
    } else {
      DummyPart part = {kind, {}, std::move(head), body};
      if (kind != "set" && kind != "tokens") {
        part.name = part.when.front();
        part.when.erase(part.when.begin());
      }
      family->parts.push_back(std::move(part));
    }
  }
  return families;
}

const DummyFamilies& all_families() {
  static const DummyFamilies kFamilies = parse(dummy_text());
  return kFamilies;
}

const DummyFamily& family_named(std::string_view name) {
  const auto found = all_families().find(name);
  CHECK(found != all_families().end(), "no dummies of {}", name);
  return found->second;
}

// One size of a family.
class DummyMaker {
 public:
  DummyMaker(const DummyFamily& family, std::string_view size) : family_(family) {
    const auto row =
        std::ranges::find(family.sizes, size, [](const LineWords& r) { return r.front(); });
    CHECK(row != family.sizes.end() && row->size() == 1 + family.columns.size(), "size {}", size);
    for (std::size_t i = 0; i < family.columns.size(); ++i)
      columns_[family.columns[i]] = (*row)[i + 1];
  }

  DummyCheckpoint make() {
    for (const DummyPart& part : family_.parts)
      if (part.kind == "file" && holds(part))
        made_.files.push_back({std::string(part.name), expand(part.body)});
    made_.chat_template = find("chat_template").value_or("");
    if (const auto pieces = find("word_pieces")) {
      made_.files.push_back({"tokenizer.json", make_word_piece_tokenizer_json(number_of(*pieces))});
      return std::move(made_);
    }
    for (const DummyPart& part : family_.parts)
      if (part.kind == "tokens" && holds(part)) add_tokens(part.body);
    made_.tokenizer_pieces = number_of(value("pieces"));
    made_.tokenizer_pattern = value("pattern");
    made_.tokenizer_options = {.nfc = find("nfc") != "false", .begin = find("begin").value_or("")};
    made_.tokenizer_class = value("tokenizer_class");
    made_.end_token = value("end_token");
    made_.pad_token = value("pad_token");
    return std::move(made_);
  }

 private:
  bool holds(const DummyPart& part) const {
    return std::ranges::all_of(part.when, [&](std::string_view condition) {
      const std::size_t sign = condition.find('=');
      return columns_.at(condition.substr(0, sign)) == condition.substr(sign + 1);
    });
  }

  std::string value(std::string_view name) const {
    auto found = find(name);
    CHECK(found, "dummies do not say what ${} is", name);
    return *std::move(found);
  }

  // A column, or what the family, or else all families, say of it.
  std::optional<std::string> find(std::string_view name) const {
    if (const auto column = columns_.find(name); column != columns_.end())
      return std::string(column->second);
    for (const DummyFamily* family : {&family_, &family_named("common")}) {
      for (const DummyPart& part : family->parts) {
        if (part.kind == "text" && part.name == name && holds(part)) return expand(part.body);
        if (part.kind != "set" || !holds(part)) continue;
        for (const std::string_view line : lines_of(part.body))
          if (line.starts_with(name) && line.substr(name.size()).starts_with(' '))
            return expand(line.substr(name.size() + 1));
      }
    }
    if (name == "template_gemma3") return std::string(kGemma3Template);
    if (name == "template_smolvlm2") return std::string(kSmolVlm2Template);
    return std::nullopt;
  }

  // $name, and $name+number.
  std::string expand(std::string_view text) const {
    constexpr std::string_view kDigits = "0123456789";
    std::string out;
    for (std::size_t at = 0;;) {
      const std::size_t dollar = std::min(text.find('$', at), text.size());
      out += text.substr(at, dollar - at);
      if (dollar == text.size()) return out;
      at = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", dollar + 1),
                    text.size());
      const std::string found = value(text.substr(dollar + 1, at - dollar - 1));
      const std::size_t end =
          text.substr(at).starts_with('+') ? text.find_first_not_of(kDigits, at + 1) : at;
      const std::string_view added = text.substr(at, end - at);
      if (added.size() < 2) {
        out += found;
        continue;
      }
      out += fmt::format("{}", number_of(found) + number_of(added.substr(1)));
      at += added.size();
    }
  }

  TokenId next_token() const { return made_.special_tokens.back().id + 1; }

  // "ID TEXT", where + is the id after the one before, or "@LIST COUNT ID".
  void add_tokens(std::string_view body) {
    for (const std::string_view line : lines_of(body)) {
      const LineWords words = words_of(line);
      if (words.front().starts_with('@')) {
        add_list(words);
      } else {
        const TokenId id = words.front() == "+"
                               ? next_token()
                               : static_cast<TokenId>(number_of(expand(words.front())));
        made_.special_tokens.push_back({id, std::string(words.at(1)), words.size() == 2});
      }
    }
  }

  void add_list(const LineWords& words) {
    const auto& parts = family_named("common").parts;
    const auto list = std::ranges::find(parts, words.front().substr(1), &DummyPart::name);
    CHECK(list != parts.end() && list->kind == "list", "no list {}", words.front());
    auto id = static_cast<TokenId>(number_of(expand(words.at(2))));
    LineWords lines = lines_of(list->body);
    lines.resize(static_cast<std::size_t>(number_of(words.at(1))));
    for (const std::string_view line : lines) {
      const LineWords token = words_of(line);
      made_.special_tokens.push_back(
          {id++, std::string(token.front()), token.size() == 1 || words.size() > 3});
    }
  }

  const DummyFamily& family_;
  std::map<std::string_view, std::string_view> columns_;
  DummyCheckpoint made_;
};

}  // namespace

std::vector<std::string_view> dummy_sizes(std::string_view family) {
  std::vector<std::string_view> names;
  for (const LineWords& size : family_named(family).sizes) names.push_back(size.front());
  return names;
}

DummyCheckpoint make_dummy(std::string_view family, std::string_view size) {
  return DummyMaker(family_named(family), size).make();
}

}  // namespace saccade
