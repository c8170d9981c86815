#include "bench/traces/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "bench/traces/trace_make.h"
#include "bench/traces/trace_stat.h"

namespace saccade::bench {
namespace {

const std::string kRealTraces = SACCADE_SOURCE_DIR "/../shared/data/traces/";

TEST(Trace, GapFiles) {
  const auto trace = parse_trace("# method=by hand\n0.5\n0.001\r\n\n# a remark\n0\n2.25", "t");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->format, TraceFormat::kGaps);
  EXPECT_EQ(due_times(*trace),
            (std::vector<Nanos>{500'000'000, 501'000'000, 501'000'000, 2'751'000'000}));
  EXPECT_EQ(trace->notes, (decltype(trace->notes){{"method", "by hand"}}));
  EXPECT_EQ(trace->rows[0].input_tokens, -1);
}

TEST(Trace, AzureWithAndWithoutImages) {
  const auto text = parse_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.9999999,374,44\r\n"
      "2023-11-17 00:00:01.0,396,109",  // over midnight; no newline at the end
      "t");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->format, TraceFormat::kAzure);
  EXPECT_EQ(text->rows[1].at, 1'000'000'100);
  EXPECT_EQ(text->rows[1].input_tokens, 396);
  EXPECT_EQ(text->rows[1].output_tokens, 109);
  EXPECT_EQ(text->rows[1].num_images, -1);

  const auto images = parse_trace(
      "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
      "2024-10-15T12:00:00.250Z,2,949,126\n"
      "2024-10-15T12:00:00.125Z,0,770,491\n",
      "t");
  ASSERT_TRUE(images) << images.error().message;
  EXPECT_EQ(images->rows[0].num_images, 0);  // sorted by time
  EXPECT_EQ(images->rows[1].num_images, 2);
  EXPECT_EQ(images->rows[1].at, 125 * kMillisecond);
  EXPECT_TRUE(
      parse_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29 00:00:10+00:00,1,1\n", "t"));
}

TEST(Trace, BurstGpt) {
  const auto trace = parse_trace(
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
      "Type\n"
      "5.0,,43,GPT-4,906,446,1352,API log\n7.5,a-b,1,ChatGPT,1779,0,1779,Conversation log\n",
      "t");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->format, TraceFormat::kBurstGpt);
  EXPECT_EQ(trace->rows[1].at, 2'500 * kMillisecond);
  EXPECT_EQ(trace->rows[1].output_tokens, 0);
}

TEST(Trace, MooncakeAndItsLabels) {
  const auto trace = parse_trace(
      "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, "
      "47]}\n"
      "{\"timestamp\": 30535, \"input_length\": 6472, \"output_length\": 26, \"hash_ids\": [46]}\n",
      "t");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->rows[1].at, 3'053 * kMillisecond);
  EXPECT_EQ(trace->hashes_of(trace->rows[0]).size(), 2u);
  EXPECT_EQ(trace->hashes_of(trace->rows[1])[0], 46);

  TraceLabels labels;
  labels.timestamp = "t";
  labels.input_length = "in";
  labels.output_length = "out";
  labels.timestamp_unit_s = 1;
  const auto other =
      parse_trace("{\"t\":1.5,\"in\":1,\"out\":2}\n{\"t\":2,\"in\":1,\"out\":2}\n", "t", labels);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->rows[1].at, 500 * kMillisecond);
}

TEST(Trace, BadRowsAreNamed) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "t: the trace has no requests"},
      {azure + "1985-01-01 00:00:00,1,1\n2185-01-01 00:00:00,1,1\n", "the arrivals span"},
      {"# only=notes\n", "t: the trace has no requests"},
      {"hello\n", "t:1: neither"},
      {"1\n-2\n", "t:2: the gap is -2 s"},
      {"1\nx\n", "t:2: the gap 'x'"},
      {"1\nnan\n", "t:2: the gap 'nan'"},
      {"1\n1e300\n", "t:2: the gap is 1e300"},
      {"2e9\n2e9\n", "t:2: the gaps add up"},
      {"TIMESTAMP,a,b\n", "t:1: the header has no columns"},
      {azure + "2023-11-16 18:15:46.68,374\n", "t:2: 2 columns, the header has 3"},
      {azure + "2023-11-16 18:15:46.68,374,4,4\n", "t:2: 4 columns"},
      {azure + "2023-11-16 18:15:46.68,374,-4\n", "t:2: the output tokens '-4'"},
      {azure + "2023-11-16 18:15:46.68,,4\n", "t:2: the input tokens ''"},
      {azure + "2023-13-16 18:15:46.68,1,4\n", "t:2: TIMESTAMP '2023-13"},
      {azure + "2023-11-16 18:15,1,4\n", "t:2: TIMESTAMP"},
      {azure + "2023-11-16 18:15:46+05:30,1,4\n", "t:2: TIMESTAMP"},
      {azure + "\n\n2023-11-16 18:15:46,1,99999999999\n", "t:4: the output tokens"},
      {"{\"timestamp\":1,\"input_length\":1}\n", "t:1: 'output_length' is missing"},
      {"{\"timestamp\":-1,\"input_length\":1,\"output_length\":1}\n",
       "t:1: 'timestamp' is -0.001 s"},
      {"{\"timestamp\":1,\"input_length\":-1,\"output_length\":1}\n", "'input_length' is -1"},
      {"{\"timestamp\":1,\"input_length\":1,\"output_length\":1,\"hash_ids\":[\"a\"]}\n",
       "a string"},
      {"{\"timestamp\":1\n", "t:1: JSON is malformed"},
  };
  for (const auto& [text, expected] : cases) {
    const auto trace = parse_trace(text, "t");
    ASSERT_FALSE(trace) << text;
    EXPECT_NE(trace.error().message.find(expected), std::string::npos) << trace.error().message;
  }
}

TEST(Trace, CutsAWindow) {
  Trace trace = *parse_trace("1\n1\n1\n1\n", "t");
  trace.rows[2].num_images = 30;
  const auto part =
      cut(trace, {.start = 2 * kSecond, .end = 4 * kSecond, .speed = 2, .max_images = 8});
  ASSERT_TRUE(part);
  EXPECT_EQ(due_times(part->trace), (std::vector<Nanos>{0, kSecond / 2}));
  EXPECT_EQ(part->trace.rows[1].num_images, 8);
  EXPECT_EQ(part->clipped_images, 1u);
  EXPECT_EQ(cut(trace, {.limit = 3})->trace.rows.size(), 3u);
  EXPECT_FALSE(cut(trace, {.start = 9 * kSecond}));
  EXPECT_FALSE(cut(trace, {.start = 2, .end = 1}));
  EXPECT_FALSE(cut(trace, {.speed = 0}));
  EXPECT_FALSE(cut(trace, {.speed = 1e-300}));
}

TEST(Trace, FormatsRoundTrip) {
  const auto trace = parse_trace(
      "# source=hand\n"
      "{\"timestamp\":0,\"input_length\":10,\"output_length\":2,\"hash_ids\":[1,2]}\n"
      "{\"timestamp\":1234,\"input_length\":20,\"output_length\":3,\"hash_ids\":[]}\n"
      "{\"timestamp\":90061000,\"input_length\":30,\"output_length\":4,\"hash_ids\":[1]}\n",
      "t");
  ASSERT_TRUE(trace) << trace.error().message;
  for (const TraceFormat format :
       {TraceFormat::kAzure, TraceFormat::kBurstGpt, TraceFormat::kMooncake, TraceFormat::kGaps}) {
    const auto text = format_trace(*trace, format);
    ASSERT_TRUE(text);
    const auto again = parse_trace(*text, "again");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->format, format);
    EXPECT_EQ(due_times(*again), due_times(*trace)) << name_of(format);
    EXPECT_EQ(again->notes, trace->notes);
    if (format == TraceFormat::kGaps) continue;
    EXPECT_EQ(again->rows[2].input_tokens, 30);
    EXPECT_EQ(again->rows[2].output_tokens, 4);
  }
  EXPECT_FALSE(format_trace(*parse_trace("1\n", "t"), TraceFormat::kMooncake));
}

TEST(TracePeak, BinsAndWindows) {
  const std::vector<Nanos> due = {0,
                                  900 * kMillisecond,
                                  1'000 * kMillisecond,
                                  1'800 * kMillisecond,
                                  1'899 * kMillisecond,
                                  1'900 * kMillisecond,
                                  5'000 * kMillisecond};
  EXPECT_EQ(busiest_bin(due, kSecond), 4);
  EXPECT_EQ(busiest_window(due, kSecond), 4);
  EXPECT_EQ(busiest_window(due, kSecond + 1), 5);  // 900 to 1900 ms
  EXPECT_EQ(busiest_window(due, 10 * kSecond), 7);
  EXPECT_EQ(busiest_bin({}, kSecond), 0);
  EXPECT_EQ(busiest_window({}, kSecond), 0);
}

Trace poisson_like(std::size_t count) {
  const auto made = generate_with_peak({.peak = {.per_second = 9},
                                        .mean_rate = 3,
                                        .duration_s = static_cast<double>(count) / 3,
                                        .seed = 1});
  EXPECT_TRUE(made);
  Trace trace = *made;
  for (std::size_t i = 0; i < trace.rows.size(); ++i)
    trace.rows[i].input_tokens = trace.rows[i].output_tokens = static_cast<std::int32_t>(i);
  return trace;
}

TEST(TracePeak, ThinningIsExactNestedAndStable) {
  const Trace source = poisson_like(900);
  for (const PeakWindow window : {PeakWindow::kBins, PeakWindow::kSliding}) {
    std::size_t before = 0;
    for (const double target : {1, 2, 4, 7}) {
      const Peak peak{.per_second = target, .window = window};
      const auto thinned = thin_to_peak(source, peak, 5);
      ASSERT_TRUE(thinned) << thinned.error().message;
      EXPECT_EQ(peak_count(due_times(*thinned), peak), target);
      EXPECT_GT(thinned->rows.size(), before);
      before = thinned->rows.size();
      EXPECT_EQ(*format_trace(*thinned, TraceFormat::kMooncake),
                *format_trace(*thin_to_peak(source, peak, 5), TraceFormat::kMooncake));
      for (const TraceRow& row : thinned->rows)  // rows keep their lengths
        EXPECT_EQ(source.rows[static_cast<std::size_t>(row.input_tokens)].at, row.at);
    }
  }
  EXPECT_FALSE(thin_to_peak(source, {.per_second = 10}, 5));
  EXPECT_FALSE(thin_to_peak(source, {.per_second = 0.5}, 5));
}

TEST(TracePeak, ScalingAndCapping) {
  const Trace source = poisson_like(900);
  const Peak slow{.per_second = 2, .width = 10 * kSecond, .window = PeakWindow::kSliding};
  const auto scaled = scale_to_peak(source, slow);
  ASSERT_TRUE(scaled);
  EXPECT_EQ(scaled->rows.size(), source.rows.size());
  EXPECT_LE(peak_count(due_times(*scaled), slow), 20);
  EXPECT_GE(peak_count(due_times(*scaled), slow), 19);

  const Peak cap{.per_second = 4};
  const auto capped = cap_at_peak(source, cap);
  ASSERT_TRUE(capped);
  EXPECT_EQ(capped->rows.size(), source.rows.size());
  EXPECT_EQ(peak_count(due_times(*capped), cap), 4);
  for (std::size_t i = 0; i < source.rows.size(); ++i)
    EXPECT_GE(capped->rows[i].at, source.rows[i].at);
  EXPECT_TRUE(std::is_sorted(capped->rows.begin(), capped->rows.end(),
                             [](const auto& a, const auto& b) { return a.at < b.at; }));
  Trace crowd;
  crowd.rows.resize(5);
  EXPECT_FALSE(scale_to_peak(crowd, {.per_second = 2}));  // all at one instant
}

TEST(TracePeak, GeneratingIsExactAndHonest) {
  const GenerateSettings settings{
      .peak = {.per_second = 5}, .mean_rate = 0.8, .gap_cv = 1.1, .seed = 3};
  const auto made = generate_with_peak(settings);
  ASSERT_TRUE(made);
  EXPECT_EQ(busiest_bin(due_times(*made), kSecond), 5);
  EXPECT_NEAR(describe(*made).mean_rate, 0.8, 0.15);
  // The peak survives the file form, and the notes say what is in it.
  const auto again = parse_trace(*format_trace(*made, TraceFormat::kGaps), "t");
  EXPECT_EQ(busiest_bin(due_times(*again), kSecond), 5);
  const auto note = std::find_if(again->notes.begin(), again->notes.end(),
                                 [](const auto& n) { return n.first == "requests"; });
  EXPECT_EQ(note->second, fmt::to_string(again->rows.size()));
  EXPECT_FALSE(generate_with_peak({.peak = {.per_second = 50}, .mean_rate = 0.5, .max_draws = 20}));
  EXPECT_FALSE(generate_with_peak({.peak = {.per_second = 5}, .mean_rate = -1}));
}

// The traces in data/traces, from their own notes.
TEST(PeakTraces, AreWhatTheirHeadersSay) {
  const std::vector<std::pair<int, double>> shipped = {{4, 0.73}, {5, 1.01}, {7, 1.95}, {10, 3.51}};
  for (const auto& [peak, mean] : shipped) {
    const auto trace =
        read_trace(fmt::format("{}/data/traces/peak{}.txt", SACCADE_SOURCE_DIR, peak));
    ASSERT_TRUE(trace) << trace.error().message;
    const TraceStat stat = describe(*trace);
    EXPECT_EQ(stat.peak_bins_1s, peak);
    const auto note = [&](std::string_view key) -> std::string {
      for (const auto& [name, text] : trace->notes)
        if (name == key) return text;
      return "none";
    };
    EXPECT_EQ(note("kind"), "synthetic");
    EXPECT_EQ(note("requests"), fmt::to_string(stat.requests));
    EXPECT_EQ(note("mean_rate"), fmt::format("{:.3f}", stat.mean_rate));
    EXPECT_EQ(note("gap_cv"), fmt::format("{:.3f}", stat.gap_cv));
    const auto again = generate_with_peak({.peak = {.per_second = static_cast<double>(peak)},
                                           .mean_rate = mean,
                                           .gap_cv = 1.09,
                                           .seed = static_cast<std::uint64_t>(peak)});
    ASSERT_TRUE(again);
    EXPECT_EQ(due_times(*again), due_times(*trace));
  }
}

// Figures of published traces, where a copy is at hand.
Result<Trace> real(const std::string& file) {
  if (!std::filesystem::exists(kRealTraces + file))
    return fail(ErrorCode::kNotFound, "{}{} is not here", kRealTraces, file);
  return read_trace(kRealTraces + file);
}

TEST(RealTraces, AzureConversation) {
  const auto trace = real("azure_llm_2023_conv.csv");
  if (!trace) GTEST_SKIP() << trace.error().message;
  const TraceStat stat = describe(*trace);
  EXPECT_EQ(stat.requests, 19'366u);
  EXPECT_NEAR(stat.span_s, 3'502, 1);
  EXPECT_NEAR(stat.mean_rate, 5.53, 0.005);
  EXPECT_EQ(stat.peak_bins_1s, 16);
  EXPECT_EQ(stat.peak_1s, 19);
  EXPECT_NEAR(stat.peak_10s, 11.2, 0.05);
  EXPECT_NEAR(stat.peak_60s, 8.7, 0.05);
  EXPECT_NEAR(stat.gap_cv, 1.09, 0.005);
  EXPECT_NEAR(stat.input_tokens.median(), 1'020, 0.5);
  EXPECT_NEAR(stat.input_tokens.percentile(99), 4'142, 0.5);
  EXPECT_EQ(stat.input_tokens.max(), 14'050);
  EXPECT_NEAR(stat.input_tokens.mean(), 1'155, 0.5);
  EXPECT_EQ(stat.output_tokens.median(), 129);
  EXPECT_EQ(stat.output_tokens.max(), 1'000);
}

TEST(RealTraces, AzureCode) {
  const auto trace = real("azure_llm_2023_code.csv");
  if (!trace) GTEST_SKIP() << trace.error().message;
  const TraceStat stat = describe(*trace);
  EXPECT_EQ(stat.requests, 8'819u);
  EXPECT_NEAR(stat.mean_rate, 2.57, 0.005);
  EXPECT_EQ(stat.peak_1s, 72);
  EXPECT_NEAR(stat.peak_10s, 41.5, 0.05);
  EXPECT_NEAR(stat.peak_60s, 12.05, 0.005);
  EXPECT_NEAR(stat.gap_cv, 13.15, 0.01);
  EXPECT_NEAR(stat.output_tokens.mean(), 27.9, 0.05);
}

TEST(RealTraces, MooncakeConversation) {
  const auto trace = real("mooncake_conversation.jsonl");
  if (!trace) GTEST_SKIP() << trace.error().message;
  const TraceStat stat = describe(*trace);
  EXPECT_EQ(stat.requests, 12'031u);
  EXPECT_EQ(stat.distinct_stamps, 1'180u);
  EXPECT_EQ(stat.peak_1s, 28);
  EXPECT_NEAR(stat.mean_rate, 3.40, 0.005);
  EXPECT_EQ(stat.input_tokens.max(), 126'195);
  EXPECT_NEAR(
      100.0 * static_cast<double>(stat.repeated_blocks) / static_cast<double>(stat.hash_blocks),
      36.6, 0.05);
}

TEST(RealTraces, ThinnedAndScaledToPeaks) {
  const auto whole = real("azure_llm_2023_conv.csv");
  if (!whole) GTEST_SKIP() << whole.error().message;
  const Trace source = cut(*whole, {.end = 300 * kSecond})->trace;
  // Scaling has no random part: factors are the published ones.
  const std::vector<std::pair<double, double>> scales = {
      {4, 2.542}, {5, 1.942}, {7, 1.199}, {10, 0.743}};
  for (const auto& [target, factor] : scales) {
    const Peak peak{.per_second = target, .width = 10 * kSecond, .window = PeakWindow::kSliding};
    const auto scaled = scale_to_peak(source, peak);
    ASSERT_TRUE(scaled);
    EXPECT_EQ(peak_count(due_times(*scaled), peak), target * 10);
    const double got =
        static_cast<double>(scaled->rows.back().at) / static_cast<double>(source.rows.back().at);
    EXPECT_NEAR(got, factor, 0.0015) << target;
  }
  for (const double target : {4, 5, 7, 10}) {
    const Peak peak{.per_second = target};
    const auto thinned = thin_to_peak(source, peak, 41);
    ASSERT_TRUE(thinned);
    EXPECT_EQ(peak_count(due_times(*thinned), peak), target);
  }
}

}  // namespace
}  // namespace saccade::bench
