#include "ops/reference/view_numbers.h"

#include "base/check.h"

namespace saccade::reference {

void read(View view, std::int64_t row, std::int64_t begin, std::span<double> to) {
  const auto each = [&]<typename T>(const T* from, auto number) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = number(from[i]);
  };
  const auto plain = [](auto x) { return static_cast<double>(x); };
  const auto coded = [](auto x) { return static_cast<double>(to_float(x)); };
  switch (view.dtype()) {
    case DType::kF32:
      return each(view.row<float>(row) + begin, plain);
    case DType::kBf16:
      return each(view.row<Bf16>(row) + begin, coded);
    case DType::kF16:
      return each(view.row<F16>(row) + begin, coded);
    case DType::kI8:
      return each(view.row<std::int8_t>(row) + begin, plain);
    case DType::kE4m3:
      return each(view.row<E4m3>(row) + begin, coded);
    default:
      CHECK(false, "a view of {}", name_of(view.dtype()));
  }
}

double get(View view, std::int64_t row, std::int64_t col) {
  double value = 0;
  read(view, row, col, {&value, 1});
  return value;
}

void set(View view, std::int64_t row, std::int64_t col, double value) {
  const auto rounded = static_cast<float>(value);
  switch (view.dtype()) {
    case DType::kF32:
      view.row<float>(row)[col] = rounded;
      return;
    case DType::kBf16:
      view.row<Bf16>(row)[col] = to_bf16(rounded);
      return;
    case DType::kF16:
      view.row<F16>(row)[col] = to_f16(rounded);
      return;
    default:
      CHECK(false, "a view of {}", name_of(view.dtype()));
  }
}

std::vector<double> part_of(View view, std::int64_t row, std::int64_t begin, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  read(view, row, begin, values);
  return values;
}

std::vector<double> row_of(View view, std::int64_t row) {
  return part_of(view, row, 0, view.cols());
}

void write(View view, std::int64_t row, std::int64_t begin, std::span<const double> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    set(view, row, begin + static_cast<std::int64_t>(i), values[i]);
}

}  // namespace saccade::reference
