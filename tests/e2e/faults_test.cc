// What a machine does: a log that nobody reads, no room on the disk. Survived, or refused with a
// message.
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

const std::string kCheckpoint =
    std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/odd_heads";

// The program under a shell line that spoils something first.
std::vector<std::string> spoiled(const std::string& line, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"-c", line, "sh", SACCADE_BINARY});
  return arguments;
}

int complete(std::uint16_t port) {
  return exchange(port, "POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 2})").status;
}

TEST(Faults, ALogThatNobodyReadsIsNoReasonToStop) {
  // What is written to the pipe's other end once its reader has gone is an error, not a signal.
  char pattern[] = "/tmp/saccade-faults-XXXXXX";
  const fs::path folder = mkdtemp(pattern);
  const std::string pipe = (folder / "log").string();
  ServerProcess server(
      "/bin/sh", spoiled("mkfifo " + pipe + "; sed -u 40q " + pipe + " >&2 & exec \"$@\" 2>" + pipe,
                         {"serve", "--model", kCheckpoint, "--enable-log-requests"}));
  for (int i = 0; i < 60; ++i) ASSERT_EQ(complete(server.port()), 200) << i;
  EXPECT_EQ(server.stop(), 0);
  fs::remove_all(folder);
}

TEST(Faults, NoRoomOnTheDiskIsSaid) {
  char pattern[] = "/tmp/saccade-faults-XXXXXX";
  const fs::path folder = mkdtemp(pattern);
  // A file may have 64 KiB: what goes beyond fails as on a full disk.
  const Ended ended =
      run_to_end("/bin/sh", spoiled(R"(trap "" XFSZ; ulimit -f 64; exec "$@")",
                                    {"model", "make-dummy", "--family", "qwen2-vl", "--size",
                                     "tiny", "--out", (folder / "model").string()}));
  EXPECT_NE(ended.status, 0) << ended.output;
  EXPECT_LT(ended.status, 128) << ended.output;  // an error, not a signal
  EXPECT_NE(ended.output.find("model.safetensors"), std::string::npos) << ended.output;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace saccade::test
