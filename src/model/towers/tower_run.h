// An encoding in progress of a tower whose stages are its layers: images become rows, rows pass
// layer after layer, and the last are made embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/network.h"

namespace saccade {

class TowerRun : public EncodeRun {
 public:
  Result<bool> advance() final;

 protected:
  TowerRun(Stream& stream, std::span<const PreparedImage* const> images, std::span<const View> out,
           Tap tap, std::size_t layers);
  // The run has the first `rows` of the tower's memory. Once, before the first stage.
  void take_rows(View memory, std::int64_t rows);

  virtual void embed() = 0;  // images_ to hidden_
  virtual void layer(std::size_t index) = 0;
  virtual void project() = 0;  // hidden_ to out_

  Stream& stream_;
  std::vector<const PreparedImage*> images_;
  std::vector<View> out_;
  Tap tap_;
  View hidden_;

 private:
  std::size_t layers_;
  std::size_t stage_ = 0;
};

}  // namespace saccade
