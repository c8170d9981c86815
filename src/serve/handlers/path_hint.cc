#include "serve/handlers/path_hint.h"

#include <utility>

#include "base/text/ascii.h"

namespace saccade::serve {
namespace {

// llama-server's own and Ollama's.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"/completion", "/v1/completions"},
    {"/embedding", "/v1/embeddings"},
    {"/reranking", "/v1/rerank"},
    {"/props", "/server_info"},
    {"/slots", "/load"},
    {"/api/chat", "/v1/chat/completions"},
    {"/api/generate", "/v1/completions"},
    {"/api/embed", "/v1/embeddings"},
    {"/api/embeddings", "/v1/embeddings"},
    {"/api/tags", "/v1/models"},
    {"/api/version", "/version"},
};

// A base address that ends in a slash before a path that begins with one, and capitals.
std::string in_one_form(std::string_view path) {
  std::string plain;
  for (const char c : path) {
    if (c == '/' && plain.ends_with('/')) continue;
    plain += ascii::lower(c);
  }
  return plain;
}

}  // namespace

std::string path_meant(std::string_view asked,
                       const std::function<bool(std::string_view)>& exists) {
  const std::string plain = in_one_form(asked);
  std::string_view path = plain;
  for (const auto& [theirs, ours] : kElsewhere)
    if (path == theirs && exists(ours)) return std::string(ours);
  constexpr std::string_view kVersion = "/v1";
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  while (path.starts_with("/v1/v1/")) path.remove_prefix(kVersion.size());
  const std::string bare(path);
  for (const std::string& one : {bare, bare + "s"}) {
    if (exists(one)) return one;
    const std::string versioned = std::string(kVersion) + one;
    if (exists(versioned)) return versioned;
  }
  return "";
}

}  // namespace saccade::serve
