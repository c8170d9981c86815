#include "bench/metrics/text_similarity.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/json.h"
#include "bench/datasets/text_file.h"
#include "bench/log/run_log.h"
#include "bench/metrics/statistics.h"

namespace saccade::bench {
namespace {

constexpr std::size_t kMaxWords = 20'000;  // of one text: the subsequence is quadratic

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// Runs of ASCII letters and digits, in lower case; everything else is between words.
std::vector<std::string> alphanumeric_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    if (is_word(c)) {
      if (!inside) words.emplace_back();
      words.back() += lower(c);
    }
    inside = is_word(c);
  }
  if (words.size() > kMaxWords) words.resize(kMaxWords);
  return words;
}

bool is_punctuation(char c) {
  return c > ' ' && c < 0x7f && !is_word(c);  // ASCII, as Python's string.punctuation
}

std::vector<std::string> normalised_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") words.push_back(word);
    word.clear();
  };
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v')
      end_word();
    else if (!is_punctuation(c))
      word += lower(c);
  }
  end_word();
  return words;
}

std::size_t longest_common_subsequence(const std::vector<std::string>& a,
                                       const std::vector<std::string>& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (const std::string& word : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = word == b[j - 1] ? diagonal + 1 : std::max(row[j], row[j - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

Overlap overlap(std::size_t common, std::size_t predicted, std::size_t referred) {
  if (common == 0) return {};
  Overlap o;
  o.precision = static_cast<double>(common) / static_cast<double>(predicted);
  o.recall = static_cast<double>(common) / static_cast<double>(referred);
  o.f1 = 2 * o.precision * o.recall / (o.precision + o.recall);
  return o;
}

struct Pair {
  std::string prediction;
  std::string reference;
};

Result<std::vector<Pair>> pairs_of_json(const json::value& document) {
  const json::value* list = document.is_object()
                                ? json::find(document.get_object(), "individual_request_metrics")
                                : nullptr;
  if (list == nullptr || !list->is_array())
    return fail(ErrorCode::kInvalid, "'individual_request_metrics' is not an array");
  std::vector<Pair> pairs;
  for (const json::value& row : list->get_array()) {
    if (!row.is_object()) return fail(ErrorCode::kInvalid, "a request is not an object");
    if (json::find(row.get_object(), "error_code") != nullptr) continue;
    TRY(std::string said, json::get_string_or(row.get_object(), "generated_text", ""));
    TRY(std::string wanted, json::get_string_or(row.get_object(), "answer_text", ""));
    pairs.push_back({std::move(said), std::move(wanted)});
  }
  return pairs;
}

Result<std::vector<Pair>> pairs_of_log(const RunLog& log) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    const RequestRecord& r = log.requests[i];
    if (r.warmup || error_class(r, log.events_of(i)) != ErrorClass::kNone) continue;
    pairs.push_back({std::string(log.text_of(r.answer)), log.prompts[r.prompt].reference});
  }
  return pairs;
}

std::string similarity_row(std::string_view name, const std::vector<double>& values) {
  const Distribution d(values);
  std::string out = fmt::format("{:<28} {:.4f}", name, d.mean());
  if (const auto interval = mean_interval(values))
    out += fmt::format("  [{:.4f}, {:.4f}]", interval->low, interval->high);
  return out + "\n";
}

Result<std::vector<double>> cosines(const std::vector<Pair>& pairs, const Embedder& embedder) {
  std::vector<std::string> texts;
  for (const Pair& pair : pairs) {
    texts.push_back(pair.prediction);
    texts.push_back(pair.reference);
  }
  TRY(const auto rows, embedder(texts));
  std::vector<double> values;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    values.push_back(cosine(rows[2 * i], rows[2 * i + 1]));
  return values;
}

// What a text chooses of several: the last "Answer: X", or all that it says: "B", "(b).", "3".
std::optional<char> chosen(std::string_view text) {
  if (const auto letter = answer_letter(text)) return letter;
  std::optional<char> only;
  for (const char c : text) {
    if (is_word(c) && only) return std::nullopt;
    if (is_word(c)) only = upper(c);
    if (static_cast<unsigned char>(c) >= 0x80) return std::nullopt;  // other letters
  }
  return only;
}

Result<std::string> report(const std::vector<Pair>& pairs, const Embedder& embedder) {
  std::vector<double> rouge;
  std::vector<double> f1;
  std::vector<double> exact;
  for (const Pair& pair : pairs) {
    rouge.push_back(rouge_l(pair.prediction, pair.reference).f1);
    f1.push_back(token_f1(pair.prediction, pair.reference).f1);
    const auto key = chosen(pair.reference);
    if (key) exact.push_back(chosen(pair.prediction) == key ? 1 : 0);
  }
  std::string out = fmt::format("{:<28} {}\n", "pairs", pairs.size());
  out += similarity_row("ROUGE-L F1", rouge);
  out += similarity_row("token F1", f1);
  if (embedder) {
    TRY(const std::vector<double> values, cosines(pairs, embedder));
    out += similarity_row("embedding cosine", values);
  }
  if (!exact.empty())
    out += similarity_row(fmt::format("answer accuracy (n {})", exact.size()), exact);
  return out;
}

}  // namespace

Overlap rouge_l(std::string_view prediction, std::string_view reference) {
  const auto a = alphanumeric_words(prediction);
  const auto b = alphanumeric_words(reference);
  return overlap(longest_common_subsequence(a, b), a.size(), b.size());
}

Overlap token_f1(std::string_view prediction, std::string_view reference) {
  const auto a = normalised_words(prediction);
  const auto b = normalised_words(reference);
  if (a.empty() && b.empty()) return {1, 1, 1};
  std::map<std::string, std::int64_t> left;
  for (const std::string& word : b) ++left[word];
  std::size_t common = 0;
  for (const std::string& word : a) {
    const auto it = left.find(word);
    if (it == left.end() || it->second == 0) continue;
    --it->second;
    ++common;
  }
  return overlap(common, a.size(), b.size());
}

std::optional<char> answer_letter(std::string_view text) {
  constexpr std::string_view kMark = "answer:";
  std::optional<char> letter;
  for (std::size_t i = 0; i + kMark.size() <= text.size(); ++i) {
    bool here = true;
    for (std::size_t k = 0; k < kMark.size(); ++k) here = here && lower(text[i + k]) == kMark[k];
    if (!here) continue;
    std::size_t at = i + kMark.size();
    while (at < text.size() && (text[at] == ' ' || text[at] == '(' || text[at] == '*' ||
                                text[at] == '$' || text[at] == '\''))
      ++at;
    // One letter or digit, not the beginning of a word or a number.
    if (at >= text.size() || !is_word(text[at])) continue;
    const std::string_view rest = text.substr(at + 1);
    if (!rest.empty() && is_word(rest[0])) continue;
    if (rest.size() > 1 && rest[0] == '.' && is_word(rest[1])) continue;
    letter = upper(text[at]);
  }
  return letter;
}

Result<std::string> similarity_report(const std::string& path, const Embedder& embedder) {
  TRY(const std::string text, read_text_file(path));
  std::vector<Pair> pairs;
  if (text.starts_with("{\"saccade_run\"")) {
    auto log = parse_run_log(text);
    if (!log) return fail_within(path, std::move(log).error());
    TRY(pairs, pairs_of_log(*log));
  } else {
    auto document = json::parse(text);
    if (!document) return fail_within(path, std::move(document).error());
    auto found = pairs_of_json(*document);
    if (!found) return fail_within(path, std::move(found).error());
    pairs = *std::move(found);
  }
  // A run whose answers or references were not kept has nothing to compare.
  std::erase_if(pairs, [](const Pair& pair) { return pair.reference.empty(); });
  if (pairs.empty())
    return fail(ErrorCode::kInvalid,
                "{}: no answer with a reference is in it (keep texts with "
                "--keep-texts or --genai-json)",
                path);
  return report(pairs, embedder);
}

}  // namespace saccade::bench
