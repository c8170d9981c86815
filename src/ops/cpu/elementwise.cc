// Ops without a dimension to sum over: gated, add, softcap.
#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::gated(const GatedArgs& args) {
  check_shapes(args);
  each_row(args.out.rows(), args.out.cols(), [&](std::int64_t row) {
    kernels_.gated_row(args.gate.row<float>(row), args.up.row<float>(row), args.activation,
                       args.out.row<float>(row), args.out.cols());
  });
}

void CpuStream::add(View x, View y, float scale) {
  check_add_shapes(x, y);
  each_row(y.rows(), y.cols(), [&](std::int64_t row) {
    kernels_.add_row(x.row<float>(x.rows() == 1 ? 0 : row), scale, y.row<float>(row), y.cols());
  });
}

void CpuStream::softcap(View x, float cap) {
  each_row(x.rows(), x.cols(),
           [&](std::int64_t row) { kernels_.softcap_row(x.row<float>(row), cap, x.cols()); });
}

}  // namespace saccade::cpu
