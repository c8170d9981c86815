#include "bench/traces/trace_command.h"

#include "bench/datasets/text_file.h"
#include "bench/traces/trace_stat.h"

namespace saccade::bench {
namespace {

Result<Trace> make_by_method(const TraceMakeSettings& settings) {
  const Peak& peak = settings.generate.peak;
  if (settings.method == TraceMethod::kGenerate) return generate_with_peak(settings.generate);
  TRY(const Trace whole, read_trace(settings.source));
  TRY(TraceCut part, cut(whole, settings.window));
  if (settings.method == TraceMethod::kScale) return scale_to_peak(part.trace, peak);
  if (settings.method == TraceMethod::kCap) return cap_at_peak(part.trace, peak);
  return thin_to_peak(part.trace, peak, settings.generate.seed);
}

Result<std::string> give(const std::string& text, const Trace& trace, const std::string& output) {
  if (output.empty()) return text;
  TRY_DO(write_text_file(output, text));
  return fmt::format("{}\n{}", output, to_text(describe(trace)));
}

}  // namespace

Result<std::string> trace_stat(const std::vector<std::string>& paths) {
  std::string out;
  for (const std::string& path : paths) {
    TRY(const Trace trace, read_trace(path));
    if (!out.empty()) out += '\n';
    out += fmt::format("{:<24}{} ({})\n", "trace", path, name_of(trace.format));
    out += to_text(describe(trace));
  }
  return out;
}

Result<std::string> trace_make(const TraceMakeSettings& settings) {
  const bool generated = settings.method == TraceMethod::kGenerate;
  if (!generated && settings.source.empty())
    return fail(ErrorCode::kInvalid, "--from FILE is required for --method {}",
                name_in(kTraceMethods, settings.method));
  TRY(Trace made, make_by_method(settings));
  made.notes.insert(made.notes.begin(), {"kind", generated ? "synthetic" : "derived"});
  if (!generated) made.notes.emplace_back("source", settings.source);
  for (const std::string& note : settings.notes) {
    const std::size_t equals = note.find('=');
    if (equals == 0 || equals == std::string::npos || note.find('\n') != std::string::npos)
      return fail(ErrorCode::kInvalid, "note '{}' is not of the form key=value", note);
    made.notes.emplace_back(note.substr(0, equals), note.substr(equals + 1));
  }
  TraceFormat format = made.format;
  if (!settings.format.empty()) {
    TRY(format, trace_format_named(settings.format));
  }
  TRY(const std::string text, format_trace(made, format));
  return give(text, made, settings.output);
}

Result<std::string> trace_convert(const TraceConvertSettings& settings) {
  TRY(const Trace whole, read_trace(settings.source, settings.labels));
  TRY(const TraceCut part, cut(whole, settings.window));
  TRY(const TraceFormat format, trace_format_named(settings.format));
  TRY(const std::string text, format_trace(part.trace, format));
  return give(text, part.trace, settings.output);
}

}  // namespace saccade::bench
