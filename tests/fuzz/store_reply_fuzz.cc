// What a store answers: replies in pieces of any size, then every text of them as a record of a
// node and as a manifest of rows. Nothing is larger than what was allowed.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cluster/redis/reply_reader.h"
#include "cluster/store/node_record.h"
#include "cluster/store/row_manifest.h"
#include "cluster/store/store_address.h"

namespace {

using namespace saccade;
using namespace saccade::cluster;

constexpr std::size_t kAllowed = 4096;

std::size_t read(const StoreReply& reply) {
  std::size_t bytes = reply.text.size();
  for (const std::string_view key : {"", "sixteen bytes or more"}) {
    const auto record = read_record(reply.text, "id", key);
    // What has been read is written so that it is read again.
    if (record) {
      const auto again = read_record(write_record(*record, key), "id", key);
      if (!again || *again != *record) std::abort();
    }
    const auto manifest = read_manifest(reply.text, "key", key);
    if (manifest && (manifest->rows < 1 || manifest->bytes < 1)) std::abort();
  }
  for (const StoreReply& each : reply.list) bytes += sizeof(StoreReply) + read(each);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 64;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  (void)parse_store_address(bytes);
  ReplyReader reader;
  reader.allow(kAllowed);
  std::size_t sum = 0;
  while (!bytes.empty()) {
    const std::string_view next = bytes.substr(0, piece);
    bytes.remove_prefix(next.size());
    if (!reader.feed(next)) return 0;
    while (true) {
      const auto reply = reader.next();
      if (!reply) return 0;
      if (!*reply) break;
      sum += read(**reply);
      if (sum > kAllowed) std::abort();
    }
  }
  return 0;
}
