#include "benchmarks/model/peer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "base/json.h"
#include "base/rng.h"
#include "image/pixels.h"

namespace saccade {
namespace {

Result<std::string> output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) return fail(ErrorCode::kUnavailable, "cannot run: {}", command);
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), n);
  return text;
}

}  // namespace

Result<PeerSpeeds> run_llama_bench(const PeerPaths& peer, long prompt, long generated) {
  const std::string command = fmt::format("{} -m {} -p {} -n {} -r 1 -o json 2>/dev/null",
                                          peer.llama_bench, peer.model, prompt, generated);
  TRY(const std::string text, output_of(command));
  TRY(const json::value tree, json::parse(text));
  PeerSpeeds speeds;
  for (const auto& row : tree.as_array()) {
    TRY(const double speed, json::get_double(row.as_object(), "avg_ts"));
    TRY(const auto tokens, json::get_int(row.as_object(), "n_gen"));
    (tokens == 0 ? speeds.prefill : speeds.decode) = speed;
    TRY(const std::string commit, json::get_string(row.as_object(), "build_commit"));
    TRY(const std::string type, json::get_string(row.as_object(), "model_type"));
    TRY(const auto threads, json::get_int(row.as_object(), "n_threads"));
    speeds.version = fmt::format("llama.cpp {}, {}, {} threads, llama-bench -p {} -n {} -r 1",
                                 commit, type, threads, prompt, generated);
  }
  return speeds;
}

Result<double> run_mtmd_encode(const PeerPaths& peer, int side) {
  Pixels pixels{side, side, std::vector<std::uint8_t>(static_cast<std::size_t>(side) * side * 3)};
  Rng rng(7);
  for (auto& value : pixels.rgb) value = static_cast<std::uint8_t>(rng.below(256));
  TRY(const auto png, encode_png(pixels));
  const std::string path = fmt::format("/tmp/saccade-peer-{}.png", side);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  TRY(const std::string text,
      output_of(fmt::format("{} -m {} --mmproj {} --image {} -p x -n 1 2>&1", peer.mtmd, peer.model,
                            peer.mmproj, path)));
  // "... encoding done in 1234 ms" or "image slice encoded in ...", by version.
  for (const std::string_view words : {"encoding done in ", "encoded in "}) {
    const std::size_t at = text.find(words);
    if (at != std::string::npos) return std::strtod(text.c_str() + at + words.size(), nullptr);
  }
  return fail(ErrorCode::kCorrupt, "{} did not say how long it encoded: {}", peer.mtmd,
              text.substr(text.size() - std::min<std::size_t>(text.size(), 300)));
}

}  // namespace saccade
