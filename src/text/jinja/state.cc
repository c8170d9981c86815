#include "text/jinja/state.h"

namespace saccade::jinja {

Result<void> RenderState::allow_string(std::size_t bytes) {
  if (bytes > limits_.max_string_bytes) {
    return fail(ErrorCode::kInvalid, "a string of {} bytes is over the template limit of {}", bytes,
                limits_.max_string_bytes);
  }
  return charge_bytes(bytes);
}

Result<void> RenderState::allow_elements(std::size_t count) {
  const auto steps = static_cast<std::int64_t>(count);
  if (steps > limits_.max_steps - steps_) return spent();
  count_bytes(count * sizeof(Value));
  return charge(steps);
}

Value RenderState::sequence(Kind kind, std::vector<Value> items) {
  Sequence* made = make<Sequence>(kind, std::move(items));
  count_bytes(made->items.size() * sizeof(Value));
  for (const Value& item : made->items) nest(*made, item);
  return Value::object(made);
}

tl::unexpected<Error> RenderState::spent() const {
  if (too_deep_) {
    return fail(ErrorCode::kInvalid, "values nest deeper than the template limit of {}",
                limits_.max_value_depth);
  }
  if (live_bytes_ > limits_.max_live_bytes) {
    return fail(ErrorCode::kInvalid, "the template holds {} bytes, limit {}", live_bytes_,
                limits_.max_live_bytes);
  }
  return fail(ErrorCode::kInvalid, "the template takes more than {} steps", limits_.max_steps);
}

}  // namespace saccade::jinja
