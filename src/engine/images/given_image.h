// An image of which a client has brought the rows: nothing of it is decoded or encoded.
#pragma once

#include <memory>
#include <utility>

#include "engine/images/image_source.h"
#include "model/given/given_rows.h"

namespace saccade {

class GivenImage final : public ImageSource {
 public:
  // `held` counts the bytes (a ByteReservation), and may be null.
  GivenImage(GivenRows rows, std::shared_ptr<const void> held)
      : rows_(std::move(rows)), held_(std::move(held)) {}
  const GivenRows* rows() const override { return &rows_; }
  Result<PreparedImage> load(const Cancelled& /*cancelled*/) const override {
    return fail(ErrorCode::kInternal, "an image that came as rows has no pixels");
  }
  std::size_t load_bytes() const override { return 0; }

 private:
  GivenRows rows_;
  std::shared_ptr<const void> held_;
};

}  // namespace saccade
