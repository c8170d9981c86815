#include "tests/soak/question.h"

#include <boost/json/serialize.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "base/json.h"
#include "base/text/base64.h"

namespace saccade::soak {
namespace {

constexpr int kPictures = 24;
// Bytes behind an image's end, which decoders leave alone, as base64. 12 of them.
constexpr std::string_view kRoom = "RoomForWhatIsNew";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string quoted(std::string_view text) {
  std::string out;
  json::append_quoted(out, text);
  return out;
}

std::string words(int count, int seed) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "word " + std::to_string((i * 7 + seed * 13) % 100) + (i % 9 == 8 ? ". " : " ");
  return text;
}

// One image part; where the image comes from alternates.
class ImageParts {
 public:
  ImageParts(std::string folder, std::string host)
      : folder_(std::move(folder)), host_(std::move(host)) {}

  std::string part(const std::string& file, int way) const {
    std::string url;
    if (way % 3 == 0) {
      url = "data:image/" + file.substr(file.rfind('.') + 1) + ";base64," +
            base64_encode(read_file(folder_ + file));
    } else if (way % 3 == 1) {
      url = "file://" + folder_ + file;
    } else {
      url = host_ + "/" + file;
    }
    return R"({"type":"image_url","image_url":{"url":)" + quoted(url) + "}}";
  }

 private:
  std::string folder_;  // ends with "/"
  std::string host_;
};

Question chat(const std::string& parts, const std::string& prompt, const std::string& more) {
  return {"/v1/chat/completions",
          R"("messages":[{"role":"user","content":[)" + parts +
              (parts.empty() ? R"({"type":"text","text":)" : R"(,{"type":"text","text":)") +
              quoted(prompt) + "}]}]," + more,
          {}};
}

std::string greedy(int tokens, bool to_the_end = true) {
  return R"("temperature":0,"max_tokens":)" + std::to_string(tokens) +
         (to_the_end ? R"(,"ignore_eos":true)" : "");
}

// A picture as data with kRoom behind it.
std::string roomy_part(const std::string& path) {
  std::string bytes = read_file(path);
  bytes.resize((bytes.size() + 2) / 3 * 3);  // no padding in the middle
  return R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
         base64_encode(bytes) + std::string(kRoom) + R"("}})";
}

struct Picture {
  std::string file;
  std::string prompt;
};

Result<std::vector<Picture>> pictures(const std::string& path) {
  std::vector<Picture> found;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line) && found.size() < kPictures;) {
    TRY(const json::value row, json::parse(line));
    TRY(const std::string prompt, json::get_string(row.as_object(), "prompt"));
    found.push_back({std::string(row.at("image_files").at(0).as_string()), prompt});
  }
  if (found.size() < kPictures) return fail(ErrorCode::kNotFound, "{}: too few pictures", path);
  return found;
}

// One choice of an answer, put together from as many chunks as it takes.
struct Choice {
  std::string text;
  std::string finish;
  std::string logprobs;
};

void add_to(std::map<std::int64_t, Choice>& choices, const json::value& tree) {
  for (const auto& item : tree.at("choices").as_array()) {
    const json::object& from = item.as_object();
    Choice& choice = choices[from.at("index").as_int64()];
    const json::value* text = from.if_contains("text");
    for (const char* holder : {"message", "delta"}) {
      if (const json::value* message = from.if_contains(holder))
        text = json::find(message->as_object(), "content");
    }
    if (text != nullptr) choice.text += std::string_view(text->as_string());
    if (const json::value* finish = json::find(from, "finish_reason"))
      choice.finish = std::string_view(finish->as_string());
    if (const json::value* logprobs = json::find(from, "logprobs")) {
      if (const json::value* content = json::find(logprobs->as_object(), "content")) {
        for (const auto& token : content->as_array())
          choice.logprobs += boost::json::serialize(token.at("logprob")) + " ";
      }
    }
  }
}

}  // namespace

std::string Question::body(bool streamed) const {
  return (streamed ? R"({"stream":true,)" : "{") + members + "}";
}

std::string Question::unseen_body(bool streamed, Rng& rng) const {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = body(streamed);
  for (std::size_t at = 0; (at = text.find(kRoom, at)) != std::string::npos;) {
    for (std::size_t i = 0; i < kRoom.size(); ++i) text[at++] = kDigits[rng.below(kDigits.size())];
  }
  return text;
}

Result<std::vector<Question>> unseen_pool(const std::string& source_dir) {
  const std::string folder = source_dir + "/data/glimpse/";
  TRY(const std::vector<Picture> shown, pictures(folder + "answers.jsonl"));
  std::vector<Question> pool;
  for (std::size_t i = 0; i < kPictures; ++i)
    pool.push_back(chat(roomy_part(folder + shown[i].file), shown[i].prompt, greedy(24, false)));
  for (std::size_t i = 0; i < 8; ++i) {
    std::string parts = roomy_part(folder + shown[i].file);
    for (std::size_t more = 0; more <= i % 3; ++more)
      parts += "," + roomy_part(folder + shown[i + more + 1].file);
    pool.push_back(chat(parts, "What do they say?", greedy(16 + 8 * static_cast<int>(i))));
  }
  pool.push_back(
      chat(roomy_part(source_dir + "/data/images/chelsea.png"), "Read the text.", greedy(20)));
  for (int i = 0; i < 8; ++i) pool.push_back(chat("", words(1 + i * 8, i), greedy(8 + i * 16)));
  return pool;
}

Result<std::vector<Question>> question_pool(const std::string& source_dir,
                                            const std::string& image_host) {
  const std::string glimpse = source_dir + "/data/glimpse/";
  TRY(const std::vector<Picture> shown, pictures(glimpse + "answers.jsonl"));
  const ImageParts images(glimpse, image_host);
  std::vector<Question> pool;
  for (int i = 0; i < kPictures; ++i) {
    const Picture& picture = shown[static_cast<std::size_t>(i)];
    pool.push_back(chat(images.part(picture.file, i), picture.prompt, greedy(24, false)));
  }
  for (int i = 0; i < 8; ++i) {
    std::string parts = images.part(shown[static_cast<std::size_t>(i)].file, i);
    for (int more = 0; more <= i % 3; ++more)
      parts += "," + images.part(shown[static_cast<std::size_t>(i + more + 1)].file, i + more + 1);
    pool.push_back(chat(parts, "What do they say?", greedy(16 + 8 * i)));
  }
  const ImageParts photographs(source_dir + "/data/images/", image_host);
  int way = 0;
  for (const char* file : {"chelsea.png", "coffee.webp", "receipt.jpg"})
    pool.push_back(chat(photographs.part(file, way++), "Read the text.", greedy(20)));
  for (int i = 0; i < 16; ++i) pool.push_back(chat("", words(1 + i * 4, i), greedy(8 + i * 8)));
  for (int i = 0; i < 4; ++i) {
    pool.push_back(chat("", words(5 + i, i), greedy(12) + R"(,"logprobs":true,"top_logprobs":2)"));
    pool.push_back(chat("", words(9 + i, i),
                        R"("temperature":0.9,"n":2,"max_tokens":20,"ignore_eos":true,"seed":)" +
                            std::to_string(i)));
    pool.push_back(
        {"/v1/completions",
         R"("prompt":[)" + quoted(words(4, i)) + "," + quoted(words(30, i)) + "]," + greedy(30 + i),
         {}});
  }
  return pool;
}

Result<std::string> gist_of(std::string_view body, bool streamed) {
  std::map<std::int64_t, Choice> choices;
  if (!streamed) {
    TRY(const json::value tree, json::parse(body));
    if (!tree.is_object() || !tree.get_object().contains("choices"))
      return fail(ErrorCode::kCorrupt, "no choices in {}", body.substr(0, 200));
    add_to(choices, tree);
  } else {
    if (!body.ends_with("data: [DONE]\n\n"))
      return fail(ErrorCode::kCorrupt, "a stream that ends with '{}'",
                  body.substr(body.size() - std::min<std::size_t>(body.size(), 200)));
    for (std::size_t at = 0; (at = body.find("data: {", at)) != std::string_view::npos;) {
      const std::size_t end = body.find("\n\n", at);
      TRY(const json::value tree, json::parse(body.substr(at + 6, end - at - 6)));
      if (!tree.is_object() || !tree.get_object().contains("choices"))
        return fail(ErrorCode::kCorrupt, "in a stream: {}", body.substr(at, end - at));
      add_to(choices, tree);
      at = end;
    }
  }
  std::string gist;
  for (const auto& [index, choice] : choices) {
    if (choice.finish.empty()) return fail(ErrorCode::kCorrupt, "choice {} has no end", index);
    gist +=
        std::to_string(index) + " " + choice.finish + " " + choice.logprobs + choice.text + "\n";
  }
  return gist;
}

std::string text_so_far(std::string_view events) {
  std::map<std::int64_t, Choice> choices;
  for (std::size_t at = 0; (at = events.find("data: {", at)) != std::string_view::npos;) {
    const std::size_t end = events.find("\n\n", at);
    if (end == std::string_view::npos) break;
    const auto tree = json::parse(events.substr(at + 6, end - at - 6));
    if (tree) add_to(choices, *tree);
    at = end;
  }
  return choices[0].text;
}

}  // namespace saccade::soak
