#include "cluster/store/node_record.h"

#include <algorithm>

#include "base/json.h"
#include "cluster/access.h"
#include "cluster/store/hex.h"

namespace saccade::cluster {
namespace {

constexpr std::size_t kMaxNodeText = 512;
constexpr std::int64_t kVersion = 1;

std::string proof_of(const NodeRecord& r, std::string_view key) {
  return proof(key, {"node", r.id, r.role, bytes_of(r.epoch), r.encodes_at, r.url, r.fingerprint,
                     r.numerics, bytes_of(r.row_bytes)});
}

bool is_url(std::string_view text) {
  return (text.starts_with("http://") || text.starts_with("https://")) &&
         std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f && c != '"'; });
}

Result<std::string> text_member(const json::object& from, std::string_view name) {
  TRY(std::string text, json::get_string_or(from, name, ""));
  if (text.size() > kMaxNodeText ||
      std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    return fail(ErrorCode::kCorrupt, "\"{}\" is not plain text of up to {} bytes", name,
                kMaxNodeText);
  return text;
}

}  // namespace

bool is_node_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  });
}

std::string write_record(const NodeRecord& record, std::string_view key) {
  std::string text;
  json::JsonWriter w(text);
  w.begin_object();
  w.member("version", kVersion);
  w.member("role", record.role);
  w.member("epoch", hex_of(bytes_of(record.epoch)));
  w.member("encodes_at", record.encodes_at);
  w.member("url", record.url);
  w.member("fingerprint", record.fingerprint);
  w.member("numerics", record.numerics);
  w.member("row_bytes", record.row_bytes);
  if (!key.empty()) w.member("proof", hex_of(proof_of(record, key)));
  w.end_object();
  return text;
}

Result<NodeRecord> read_record(std::string_view text, std::string_view id, std::string_view key) {
  if (text.size() > kMaxRecordBytes)
    return fail(ErrorCode::kCorrupt, "a record of {} bytes, at most {} are read", text.size(),
                kMaxRecordBytes);
  const auto tree = json::parse(text, 4);
  if (!tree || !tree->is_object()) return fail(ErrorCode::kCorrupt, "a record that is no object");
  const json::object& from = tree->get_object();
  const auto read = [&]() -> Result<NodeRecord> {
    TRY(const std::int64_t version, json::get_int(from, "version"));
    if (version != kVersion)
      return fail(ErrorCode::kCorrupt, "a record of version {}, {} is read", version, kVersion);
    NodeRecord record;
    record.id = std::string(id);
    TRY(record.role, text_member(from, "role"));
    TRY(const std::string epoch, text_member(from, "epoch"));
    TRY(record.encodes_at, text_member(from, "encodes_at"));
    TRY(record.url, text_member(from, "url"));
    TRY(record.fingerprint, text_member(from, "fingerprint"));
    TRY(record.numerics, text_member(from, "numerics"));
    TRY(const std::int64_t row_bytes, json::get_int(from, "row_bytes"));
    const auto bytes = from_hex(epoch);
    if (!bytes || bytes->size() != 8 || row_bytes < 0)
      return fail(ErrorCode::kCorrupt, "a record with a wrong number");
    record.row_bytes = static_cast<std::uint64_t>(row_bytes);
    for (std::size_t i = 8; i-- > 0;)
      record.epoch = record.epoch << 8 | static_cast<unsigned char>((*bytes)[i]);
    if (!record.encodes_at.empty()) TRY_DO(check_address(record.encodes_at));
    if (!record.url.empty() && !is_url(record.url))
      return fail(ErrorCode::kCorrupt, "a record whose url is none");
    return record;
  };
  auto record = read();
  if (!record) return fail(ErrorCode::kCorrupt, "{}", record.error().message);
  if (key.empty()) return record;
  const auto said = json::get_string_or(from, "proof", "");
  const auto shown = said ? from_hex(*said) : std::nullopt;
  if (!shown || !equal_proofs(*shown, proof_of(*record, key)))
    return fail(ErrorCode::kDenied, "a record whose writer does not know the cluster's key");
  return record;
}

}  // namespace saccade::cluster
