// An image that encoders elsewhere can be sent, and that this process cannot read.
#pragma once

#include "engine/images/image_source.h"

namespace saccade::test {

class PortableFile final : public ImageSource {
 public:
  Result<PreparedImage> load(const Cancelled& /*cancelled*/) const override {
    return fail(ErrorCode::kInternal, "not here");
  }
  std::size_t load_bytes() const override { return 0; }
  PortableImage portable() const override { return {{"bytes"}, "recipe"}; }
};

}  // namespace saccade::test
