// Tokeniser speed on one thread: MB/s of text encoded, and tokens/s decoded in steps.
//   tokenizer_bench DIR TEXT_FILE     DIR holds a tokenizer.json
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/clock.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

using namespace saccade;

namespace {

constexpr int kRounds = 7;

template <typename Work>
double best_seconds(const Work& work) {
  const SteadyClock clock;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const Nanos begin = clock.now();
    work();
    best = std::min(best, seconds(clock.now() - begin));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: tokenizer_bench DIR TEXT_FILE\n");
    return 2;
  }
  const SteadyClock clock;
  const Nanos begin = clock.now();
  const auto tokenizer = load_tokenizer(argv[1]);
  if (!tokenizer) {
    fmt::print(stderr, "{}\n", tokenizer.error().message);
    return 1;
  }
  const double load = seconds(clock.now() - begin);
  std::ifstream file(argv[2], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

  std::vector<TokenId> ids;
  const double encode = best_seconds([&] { ids = (*tokenizer)->encode(text); });
  std::size_t decoded_bytes = 0;
  const double decode = best_seconds([&] {
    Detokenizer steps(**tokenizer, false);
    decoded_bytes = 0;
    for (const TokenId id : ids) decoded_bytes += steps.push(id).size();
    decoded_bytes += steps.finish().size();
  });
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  const double tokens = static_cast<double>(ids.size());
  fmt::print(
      "load {:.3f} s; {} bytes, {} tokens; encode {:.1f} MB/s ({:.2f} M tokens/s); decode {:.2f} M "
      "tokens/s\n",
      load, text.size(), ids.size(), megabytes / encode, tokens / 1e6 / encode,
      tokens / 1e6 / decode);
  return decoded_bytes > 0 ? 0 : 1;
}
