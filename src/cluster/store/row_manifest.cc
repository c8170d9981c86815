#include "cluster/store/row_manifest.h"

#include <algorithm>

#include "base/json.h"
#include "cluster/access.h"
#include "cluster/store/hex.h"
#include "cluster/store/node_record.h"

namespace saccade::cluster {
namespace {

std::string manifest_proof(const RowManifest& m, const std::string& key,
                           std::string_view access_key) {
  return proof(access_key, {"stored rows", key, bytes_of(static_cast<std::uint64_t>(m.rows)),
                            bytes_of(m.bytes), text_of(m.digest), m.maker});
}

}  // namespace

std::string row_key(const RowClass& of, const Digest& name) {
  const Digest tower = sha256(of.fingerprint);
  const Digest bits = sha256(of.numerics + '\n' + std::to_string(of.row_bytes));
  return "saccade:rows:{" + to_hex(tower).substr(0, 16) + "." + to_hex(bits).substr(0, 16) + "." +
         to_hex(name) + "}";
}

std::string write_manifest(const RowManifest& manifest, const std::string& key,
                           std::string_view access_key) {
  std::string text;
  json::JsonWriter w(text);
  w.begin_object();
  w.member("version", 1);
  w.member("rows", manifest.rows);
  w.member("bytes", manifest.bytes);
  w.member("sha256", to_hex(manifest.digest));
  w.member("maker", manifest.maker);
  if (!access_key.empty()) w.member("proof", hex_of(manifest_proof(manifest, key, access_key)));
  w.end_object();
  return text;
}

Result<RowManifest> read_manifest(std::string_view text, const std::string& key,
                                  std::string_view access_key) {
  const auto corrupt = [](const char* what) { return fail(ErrorCode::kCorrupt, "{}", what); };
  if (text.size() > kMaxManifestBytes) return corrupt("a manifest that is too long");
  const auto tree = json::parse(text, 4);
  if (!tree || !tree->is_object()) return corrupt("a manifest that is no object");
  const json::object& from = tree->get_object();
  const auto version = json::get_int(from, "version");
  const auto rows = json::get_int(from, "rows");
  const auto bytes = json::get_int(from, "bytes");
  const auto digest = json::get_string(from, "sha256");
  const auto maker = json::get_string(from, "maker");
  if (!version || *version != 1) return corrupt("a manifest of another version");
  if (!rows || !bytes || *rows < 1 || *bytes < 1 || !digest || !maker || !is_node_id(*maker))
    return corrupt("a manifest without rows, bytes, sha256 and maker");
  const auto plain = from_hex(*digest);
  RowManifest manifest{*rows, static_cast<std::uint64_t>(*bytes), {}, *maker};
  if (!plain || plain->size() != manifest.digest.size())
    return corrupt("a manifest whose sha256 is none");
  std::copy(plain->begin(), plain->end(), manifest.digest.begin());
  if (access_key.empty()) return manifest;
  const auto said = json::get_string_or(from, "proof", "");
  const auto shown = said ? from_hex(*said) : std::nullopt;
  if (!shown || !equal_proofs(*shown, manifest_proof(manifest, key, access_key)))
    return fail(ErrorCode::kDenied, "a manifest whose writer does not know the cluster's key");
  return manifest;
}

}  // namespace saccade::cluster
