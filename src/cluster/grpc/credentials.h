// TLS for gRPC, from an Access.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string_view>

#include "cluster/access.h"

namespace saccade::cluster {

// Processes of one machine meet in a socket that its file's rights protect.
inline bool is_unix(std::string_view address) { return address.starts_with("unix:"); }

inline std::shared_ptr<grpc::ServerCredentials> server_credentials(const Access& access,
                                                                   std::string_view address) {
  if (!access.tls() || is_unix(address)) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = access.authority;
  options.pem_key_cert_pairs.push_back({access.private_key, access.certificate});
  return grpc::SslServerCredentials(options);
}

inline std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Access& access,
                                                                     std::string_view address) {
  if (!access.tls() || is_unix(address)) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({access.authority, access.private_key, access.certificate});
}

}  // namespace saccade::cluster
