#include "base/check.h"
#include "cluster/grpc/encoder_link.h"
#include "cluster/grpc/encoder_server.h"

namespace saccade::cluster {

Result<void> check_grpc() {
  return fail(ErrorCode::kUnsupported,
              "encoding in other processes: this build has no gRPC (scripts/bootstrap --full "
              "installs libgrpc++-dev, protobuf-compiler and protobuf-compiler-grpc)");
}

std::unique_ptr<RunningLink> make_grpc_link(const GrpcLinkSettings&, const Clock&, EventThread&,
                                            std::function<ItemTable&()>) {
  CHECK(false, "a link without gRPC");
  return nullptr;
}

Result<std::unique_ptr<EncoderServer>> EncoderServer::create(const EncoderServerSettings&,
                                                             EventThread&) {
  return tl::unexpected(check_grpc().error());
}

}  // namespace saccade::cluster
