// An HTTP/1.1 response from bytes that arrive in any pieces: status line, headers, and a body by
// Content-Length, chunks or end of stream. Hostile input is refused or bounded. No sockets. Not
// Beast's as for requests (request_parser.h), which are held to the letter: servers of others end
// lines with LF alone, and the benchmark hears of each piece when it came, uncopied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saccade::net {

// Hears what the parser finds. A false return stops the parser where it is.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  // Once, after 1xx responses were skipped.
  virtual bool on_head(int status, std::vector<std::pair<std::string, std::string>>&& headers) = 0;
  virtual bool on_body(std::string_view bytes) = 0;  // never empty
};

// One thread. reset() makes it ready for the next response on the connection.
class ResponseParser {
 public:
  enum class State { kMore, kDone, kFailed, kStopped };

  // Longer heads are refused; so are trailers.
  explicit ResponseParser(std::size_t max_head_bytes = 256u << 10)
      : max_head_bytes_(max_head_bytes) {}

  // no_body: the request's method was HEAD.
  void reset(bool no_body);

  // Consumes all of `bytes`, or up to the end of the response, which it says in consumed().
  State feed(std::string_view bytes, ResponseSink& sink);

  // The stream has ended: kDone when the response was complete or is one that ends so.
  State finish();

  std::size_t consumed() const { return consumed_; }  // of the last feed()
  // Bytes of this response, 1xx responses included, have been seen.
  bool started() const { return started_; }
  // After kDone: another request may use the connection.
  bool keep_alive() const { return keep_alive_ && !until_end_; }
  const std::string& failure() const { return failure_; }  // after kFailed

 private:
  enum class Part {
    kHead,
    kLengthBody,
    kBodyUntilEnd,
    kChunkSize,
    kChunkData,
    kChunkEnd,  // CR LF after a chunk's data
    kTrailer,
    kDone,
  };
  using Headers = std::vector<std::pair<std::string, std::string>>;

  bool take_head(std::string_view& rest, ResponseSink& sink);
  bool parse_head(std::string_view head, ResponseSink& sink);
  bool parse_headers(std::string_view lines, Headers& headers);
  bool note_header(std::string_view name, std::string_view value);
  bool choose_body(int status);
  bool take_counted(std::string_view& rest, Part next, ResponseSink& sink);
  bool take_chunk_size(std::string_view& rest);
  bool take_trailer(std::string_view& rest);
  // The next line without its end, over any split; false: it has not ended yet (or failed).
  bool take_line(std::string_view& rest, std::string_view& line);
  bool fail(std::string why);

  std::size_t max_head_bytes_;
  Part part_ = Part::kHead;
  bool no_body_ = false;
  bool started_ = false;
  bool keep_alive_ = true;
  bool until_end_ = false;
  bool chunked_ = false;
  bool stopped_ = false;
  bool has_length_ = false;
  std::uint64_t length_ = 0;     // Content-Length
  std::uint64_t remaining_ = 0;  // of the body or the chunk
  int interim_responses_ = 0;    // 1xx
  std::size_t consumed_ = 0;
  std::size_t trailer_bytes_ = 0;
  std::string held_;  // a head or a line whose end has not come
  bool held_spent_ = false;
  std::string failure_;
};

}  // namespace saccade::net
