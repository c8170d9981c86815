// Result<T>: an expected failure is a value that the caller must look at. Bugs are CHECKs (check.h)
// instead.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace saccade {

// What went wrong, in terms every layer shares. api/ owns the one table from these to HTTP status
// codes.
enum class ErrorCode {
  kInvalid,      // the caller's input is wrong
  kNotFound,     // the named thing does not exist
  kDenied,       // credentials or an allow-list forbid it
  kUnsupported,  // understood, and not done by this build or model
  kTooLarge,     // over a byte, pixel or token limit
  kUndecodable,  // media that cannot be fetched or decoded
  kExhausted,    // no room now (queue full); later may work
  kUnavailable,  // the other side is down, overloaded or draining
  kCancelled,
  kTimeout,
  kCorrupt,  // stored data contradicts itself
  kInternal,
};

// `message` is for a person and names the thing, the value and the limit. `param` names the request
// field, if any.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string param;
};

template <typename T = void>
using Result = tl::expected<T, Error>;

// return fail(ErrorCode::kInvalid, "image {} is {}x{}, limit {}", ...);
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...), {}});
}

[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// Same error, said from further out: "config.json: vocab_size is ...".
[[nodiscard]] inline tl::unexpected<Error> fail_within(std::string_view where, Error error) {
  error.message = fmt::format("{}: {}", where, error.message);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace saccade

#define SACCADE_CONCAT_INNER(a, b) a##b
#define SACCADE_CONCAT(a, b) SACCADE_CONCAT_INNER(a, b)

// TRY(auto x, expression);   x is the value, or the enclosing function returns the error.
#define TRY(target, ...) \
  SACCADE_TRY_IMPL(SACCADE_CONCAT(try_result_, __LINE__), target, __VA_ARGS__)
#define SACCADE_TRY_IMPL(result, target, ...)                                      \
  auto result = (__VA_ARGS__);                                                     \
  if (!result) return tl::unexpected<::saccade::Error>(std::move(result).error()); \
  target = *std::move(result)

// TRY_DO(expression);   for Result<void>.
#define TRY_DO(...)                                                                          \
  do {                                                                                       \
    auto try_result = (__VA_ARGS__);                                                         \
    if (!try_result) return tl::unexpected<::saccade::Error>(std::move(try_result).error()); \
  } while (false)
