#include "text/jinja/builtins/globals.h"

#include <array>
#include <ctime>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins/methods.h"
#include "text/jinja/print.h"
#include "text/jinja/wrong.h"

namespace saccade::jinja {
namespace {

class GlobalFunction final : public Callable {
 public:
  using Body = Result<Value> (*)(RenderState& state, Arguments& arguments);
  GlobalFunction(std::string_view name, Body body) : name_(name), body_(body) {}
  Result<Value> call(RenderState& state, Arguments& arguments) override {
    return body_(state, arguments);
  }
  std::string repr() const override { return fmt::format("<function {}>", name_); }

 private:
  const std::string_view name_;
  const Body body_;
};

// What cycler(...) returns.
class Cycler final : public Callable {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  Result<Value> call(RenderState&, Arguments&) override {
    return wrong("'Cycler' object is not callable");
  }
  std::string repr() const override { return "<jinja2.utils.Cycler object>"; }
  Result<std::optional<Value>> attribute(RenderState& state, std::string_view name) override;
  Value advance() {
    const Value now = items_[at_];
    at_ = (at_ + 1) % items_.size();
    return now;
  }
  void reset() { at_ = 0; }

 private:
  const std::vector<Value> items_;
  std::size_t at_ = 0;
};

constexpr Method kCyclerNext{"next", [](RenderState&, const Value& self, Arguments& arguments) {
                               return Bound::bind("next", arguments, {}, 0).map([&](const Bound&) {
                                 return self.as<Cycler>().advance();
                               });
                             }};
constexpr Method kCyclerReset{
    "reset", [](RenderState&, const Value& self, Arguments& arguments) {
      return Bound::bind("reset", arguments, {}, 0).map([&](const Bound&) {
        self.as<Cycler>().reset();
        return Value();
      });
    }};

Result<std::optional<Value>> Cycler::attribute(RenderState& state, std::string_view name) {
  if (name == "current") return items_[at_];
  const Method* method = name == "next" ? &kCyclerNext : name == "reset" ? &kCyclerReset : nullptr;
  if (method == nullptr) return std::nullopt;
  return Value::object(state.make<BoundMethod>(Value::object(this), method));
}

// What joiner(separator) returns: nothing on the first call, then the separator.
class Joiner final : public Callable {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  Result<Value> call(RenderState& state, Arguments& arguments) override {
    TRY_DO(Bound::bind("joiner", arguments, {}, 0));
    return std::exchange(used_, true) ? separator_ : state.string("");
  }
  std::string repr() const override { return "<jinja2.utils.Joiner object>"; }

 private:
  const Value separator_;
  bool used_ = false;
};

Result<Value> make_range(RenderState& state, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("range", arguments, {"", "", ""}, 1));
  std::int64_t start = 0, stop = 0, step = 1;
  if (bound.given(1)) {
    TRY(start, bound.integer(0, 0));
    TRY(stop, bound.integer(1, 0));
    TRY(step, bound.integer(2, 1));
  } else {
    TRY(stop, bound.integer(0, 0));
  }
  if (step == 0) return wrong("range() arg 3 must not be zero");
  const std::int64_t span = step > 0 ? stop - start : start - stop;
  const std::int64_t stride = step > 0 ? step : -step;
  const std::int64_t length = span > 0 ? (span + stride - 1) / stride : 0;
  if (length > kMaxRange) {
    return wrong("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  return Value::object(state.make<Range>(start, stop, step, length));
}

// The members of dict(mapping or pairs, name=value, ...).
Result<void> fill(RenderState& state, Dict& dict, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    return wrong("dict expected at most 1 argument, got {}", arguments.positional.size());
  }
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& entry : source.as<Dict>().entries) {
        TRY_DO(state.charge());
        TRY_DO(dict.set(state, entry.key, entry.value));
      }
    } else {
      TRY(Cursor cursor, Cursor::over(source));
      while (true) {
        TRY(const std::optional<Value> pair, cursor.next(state));
        if (!pair) break;
        TRY(const std::vector<Value> parts, elements(state, *pair));
        if (parts.size() != 2) {
          return wrong("dictionary update sequence element has length {}; 2 is required",
                       parts.size());
        }
        TRY_DO(dict.set(state, parts[0], parts[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    TRY_DO(dict.set(state, state.string(name), value));
  }
  return {};
}

Result<Value> make_dict(RenderState& state, Arguments& arguments) {
  Dict* dict = state.make<Dict>();
  TRY_DO(fill(state, *dict, arguments));
  return Value::object(dict);
}

Result<Value> make_namespace(RenderState& state, Arguments& arguments) {
  auto* space = state.make<Namespace>();
  TRY_DO(fill(state, space->attributes, arguments));
  return Value::object(space);
}

Result<Value> make_cycler(RenderState& state, Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return wrong("at least one item has to be provided");
  }
  return Value::object(state.make<Cycler>(std::move(arguments.positional)));
}

Result<Value> make_joiner(RenderState& state, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("joiner", arguments, {"sep"}, 0));
  return Value::object(state.make<Joiner>(bound.value(0, state.string(", "))));
}

Result<Value> raise_exception(RenderState& state, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("raise_exception", arguments, {"message"}, 1));
  TRY(const std::string message, to_str(state, *bound[0]));
  state.set_raised();
  return wrong("{}", message);
}

Result<Value> strftime_now(RenderState& state, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("strftime_now", arguments, {"format"}, 1));
  TRY(const std::string_view given, bound.text(0));
  constexpr std::size_t kMaxFormat = 256, kMaxResult = 4096;
  if (given.size() > kMaxFormat) {
    return wrong("strftime_now: a format of {} bytes, limit {}", given.size(), kMaxFormat);
  }
  // A time without a zone has no zone to show.
  std::string format;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == '\0') return wrong("strftime_now: embedded null character");
    if (given[i] == '%' && i + 1 < given.size() && (given[i + 1] == 'Z' || given[i + 1] == 'z')) {
      ++i;
      continue;
    }
    format += given[i];
    if (given[i] == '%' && i + 1 < given.size()) format += given[++i];
  }
  if (format.empty()) return state.string("");
  const auto now = static_cast<std::time_t>(state.now_unix_seconds());
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) return wrong("strftime_now: time out of range");
  std::array<char, kMaxResult> text;
  const std::size_t length = std::strftime(text.data(), text.size(), format.c_str(), &parts);
  if (length == 0) return wrong("strftime_now: the result is over {} bytes", kMaxResult);
  return state.string(std::string(text.data(), length));
}

}  // namespace

void add_globals(RenderState& state, Variables& variables) {
  static constexpr std::pair<std::string_view, GlobalFunction::Body> kGlobals[] = {
      {"range", make_range},         {"dict", make_dict},     {"namespace", make_namespace},
      {"cycler", make_cycler},       {"joiner", make_joiner}, {"raise_exception", raise_exception},
      {"strftime_now", strftime_now}};
  for (const auto& [name, body] : kGlobals) {
    variables.insert_or_assign(std::string(name),
                               Value::object(state.make<GlobalFunction>(name, body)));
  }
}

}  // namespace saccade::jinja
