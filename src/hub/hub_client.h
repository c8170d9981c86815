// The three requests that a download from the hub is made of: list, look up, fetch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/client/http_client.h"

namespace saccade::hub {

// What a HEAD of a file says.
struct HubFile {
  std::string etag;  // without quotes: SHA-256 in hex of large files, a git object id of others
  std::uint64_t size = 0;
  net::Url location;        // where its bytes are
  bool with_token = false;  // the location is on the hub itself
  bool etag_is_sha256() const { return etag.size() == 64; }
};

// One thread calls at a time; callbacks run on the client's own.
class HubClient {
 public:
  // `token` goes to the hub's own host alone, never along a redirect to another.
  static Result<HubClient> create(const std::string& endpoint, std::string token,
                                  const std::string& ca_file, Nanos stall_timeout);

  struct Revision {
    std::string commit;
    std::vector<std::string> files;  // with their folders: each is safe below one of ours
  };
  Result<Revision> list(const std::string& repository, const std::string& revision);
  Result<HubFile> look_up(const std::string& repository, const std::string& commit,
                          const std::string& file);
  // Bytes from `offset` on. `begin` gets true when they start there, false when the server starts
  // over. kTimeout when nothing came for stall_timeout.
  Result<void> fetch(const HubFile& file, std::uint64_t offset,
                     const std::function<void(bool resumed)>& begin,
                     const std::function<bool(std::string_view)>& receive);

 private:
  HubClient() = default;
  net::ClientRequest request(const char* method, net::Url url, bool with_token) const;
  Result<net::ClientResponse> follow(const char* method, net::Url url, bool leave_host,
                                     net::Url* end);

  net::Url endpoint_;
  std::string token_;
  Nanos stall_timeout_ = 0;
  std::unique_ptr<net::HttpClient> client_;
};

}  // namespace saccade::hub
