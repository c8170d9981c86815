// What a proxy has to know of a request's JSON, found in one pass without a tree: who asks for
// which model, how much text and media there is, and which requests begin alike. The bytes go on as
// they came; a body that is no JSON goes on too, and is refused by whoever reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace saccade::cluster {

// A string that is an image or a video, or the address of one.
struct ScannedMedia {
  std::size_t begin = 0;  // in the body, behind the quote
  std::size_t end = 0;    // at the closing quote
  bool remote = false;    // fetched by the server: its bytes are not here
};

struct ScannedBody {
  std::string model;  // as written, escapes decoded where they are ASCII
  std::string user;   // who keeps coming back: user, session_id or prompt_cache_key
  bool stream = false;
  std::int64_t max_tokens = 0;  // 0: not said
  std::size_t messages = 0;
  std::size_t text_bytes = 0;  // of messages or prompts, media left out
  std::vector<ScannedMedia> media;
  // Equal for requests that begin alike: of the first KiB of what is said, and of how each medium
  // begins and how long it is. 0: nothing is said.
  std::uint64_t opening = 0;
  bool complete = false;  // the value has ended, and nothing but blanks came behind it
};

// Bytes in any pieces; what is found does not depend on how they are cut. A second member of the
// same name takes the place of the first. Memory does not grow with the body but by its media.
class BodyScan {
 public:
  void feed(std::string_view bytes);
  const ScannedBody& found() const { return found_; }
  // What comes is not JSON, or nested too deep to be a request: nothing more is looked for.
  bool lost() const { return lost_; }

 private:
  enum class Place : std::uint8_t {
    kOther,
    kRoot,      // the request
    kMessages,  // its list
    kMessage,
    kContent,  // a message's list of parts
    kPart,
    kMedium,   // the object about a medium in a part
    kPrompts,  // a list of prompts
    kFrames,   // a list of a video's frames
  };
  enum class Target : std::uint8_t { kNothing, kKey, kModel, kUser, kText, kMedia };
  struct Level {
    Place place = Place::kOther;
    bool object = false;
    bool wants_key = false;
  };

  void structure(char c);
  void open(bool object);
  void close(bool object);
  void begin_string();
  std::size_t take_string(std::string_view bytes);
  void take_escape(char c);
  void add(char c);
  void end_string();
  void end_literal();
  Place place_below() const;
  Target target_of_string() const;
  void note(std::string_view raw);
  void lose() { lost_ = true; }

  ScannedBody found_;
  std::vector<Level> levels_;
  bool lost_ = false;
  bool ended_ = false;
  std::size_t offset_ = 0;  // of the next byte in the body

  std::string key_;      // of the value that comes or is there
  std::string literal_;  // a number, true, false or null
  // The string in hand.
  bool in_string_ = false;
  Target target_ = Target::kNothing;
  std::string held_;      // what is kept of it
  std::size_t raw_ = 0;   // bytes of it
  bool escaped_ = false;  // behind a backslash
  int unicode_ = 0;       // digits of a \u escape that are still to come
  unsigned code_ = 0;
  std::size_t noted_ = 0;  // bytes that went into `opening`, of text
};

}  // namespace saccade::cluster
