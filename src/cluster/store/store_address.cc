#include "cluster/store/store_address.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/regular_file.h"
#include "base/text/ascii.h"
#include "net/http_text.h"
#include "net/shown_host.h"

namespace saccade::cluster {
namespace {

constexpr int kMaxDatabase = 65'535;
constexpr std::size_t kMaxPath = 107;  // sockaddr_un
constexpr std::size_t kMaxAddressText = 4096;

std::optional<int> number_of(std::string_view text, int most) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > most)
    return std::nullopt;
  return number;
}

// Nothing where a percent sign starts no escape.
std::optional<std::string> decoded(std::string_view text) {
  for (std::size_t i = text.find('%'); i < text.size(); i = text.find('%', i + 3)) {
    if (i + 2 >= text.size() || ascii::hex_value(text[i + 1]) < 0 ||
        ascii::hex_value(text[i + 2]) < 0)
      return std::nullopt;
  }
  return net::percent_decode(text);
}

// Takes "user:password@" off the beginning.
Result<void> take_credentials(std::string_view& rest, StoreAddress& address) {
  const std::size_t at = rest.rfind('@');
  if (at == std::string_view::npos) return {};
  const std::string_view who = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  const std::size_t colon = who.find(':');
  if (colon == std::string_view::npos)
    return fail(ErrorCode::kInvalid, "before the @ a password is expected: [user]:password@");
  const auto user = decoded(who.substr(0, colon));
  const auto password = decoded(who.substr(colon + 1));
  if (!user || !password)
    return fail(ErrorCode::kInvalid, "before the @: a %% has to be followed by two hex digits");
  address.user = *user;
  address.password = *password;
  return {};
}

Result<StoreAddress> parse_socket(std::string_view rest) {
  StoreAddress address;
  const std::size_t question = rest.find('?');
  if (question != std::string_view::npos) {
    const std::string_view query = rest.substr(question + 1);
    const auto database =
        query.starts_with("db=") ? number_of(query.substr(3), kMaxDatabase) : std::nullopt;
    if (!database) return fail(ErrorCode::kInvalid, "?{:.40}: db=NUMBER is expected", query);
    address.database = *database;
    rest = rest.substr(0, question);
  }
  TRY_DO(take_credentials(rest, address));
  if (rest.empty() || rest.front() != '/' || rest.size() > kMaxPath)
    return fail(ErrorCode::kInvalid, "unix:// needs the whole path of a socket, up to {} bytes",
                kMaxPath);
  address.path = std::string(rest);
  return address;
}

Result<StoreAddress> parse_host(std::string_view rest) {
  StoreAddress address;
  TRY_DO(take_credentials(rest, address));
  const std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view text = rest.substr(slash + 1);
    const auto database = text.empty() ? std::optional(0) : number_of(text, kMaxDatabase);
    if (!database)
      return fail(ErrorCode::kInvalid, "/{:.40}: a database is a number up to {}", text,
                  kMaxDatabase);
    address.database = *database;
    rest = rest.substr(0, slash);
  }
  const std::size_t bracket = rest.starts_with('[') ? rest.find(']') : std::string_view::npos;
  const std::size_t colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const auto port = number_of(rest.substr(colon + 1), 65'535);
    if (!port || *port == 0)
      return fail(ErrorCode::kInvalid, ":{:.40}: a port is a number from 1 to 65535",
                  rest.substr(colon + 1));
    address.port = static_cast<std::uint16_t>(*port);
    rest = rest.substr(0, colon);
  }
  if (bracket != std::string_view::npos) rest = rest.substr(1, bracket - 1);
  if (rest.empty() || rest.size() > 255)
    return fail(ErrorCode::kInvalid, "no host: redis://[:password@]HOST:PORT[/DATABASE]");
  address.host = std::string(rest);
  return address;
}

}  // namespace

std::string StoreAddress::display() const {
  if (!path.empty()) return fmt::format("unix://{}?db={}", path, database);
  return fmt::format("redis://{}:{}/{}", net::shown_host(host), port, database);
}

Result<StoreAddress> parse_store_address(std::string_view text) {
  if (text.size() > kMaxAddressText)
    return fail(ErrorCode::kInvalid, "{} bytes, at most {} are taken", text.size(),
                kMaxAddressText);
  // A zero byte would end a path or a name early.
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorCode::kInvalid, "it has a zero byte");
  for (const std::string_view scheme : {"redis://", "valkey://"}) {
    if (text.starts_with(scheme)) return parse_host(text.substr(scheme.size()));
  }
  if (text.starts_with("unix://")) return parse_socket(text.substr(7));
  for (const std::string_view scheme : {"rediss://", "valkeys://"}) {
    if (text.starts_with(scheme))
      return fail(ErrorCode::kUnsupported,
                  "{} (TLS) is not spoken; give redis:// to a TLS tunnel on this machine, such as "
                  "stunnel",
                  scheme);
  }
  return fail(ErrorCode::kInvalid,
              "redis://[:password@]HOST:PORT[/DATABASE] or unix:///PATH is expected");
}

Result<StoreAddress> read_store_address(std::string_view text, const std::string& password_file) {
  auto address = parse_store_address(text);
  if (!address) return fail_within("--registry", std::move(address).error());
  if (password_file.empty()) return address;
  auto read = read_regular_file(password_file, std::size_t{1} << 20);
  if (!read) return fail_within("--registry-password-file", std::move(read).error());
  std::string password = *std::move(read);
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r'))
    password.pop_back();
  if (password.empty() || password.size() > kMaxAddressText)
    return fail(ErrorCode::kInvalid,
                "--registry-password-file {}: a file with a password of 1 to {} bytes is required",
                password_file, kMaxAddressText);
  address->password = std::move(password);
  return address;
}

}  // namespace saccade::cluster
