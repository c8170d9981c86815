#include "video/child/container.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/opt.h>
}

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace saccade::video {
namespace {

constexpr int kReadBytes = 1 << 16;
constexpr std::size_t kMaxPackets = std::size_t{1} << 22;
constexpr const char* kFormats = "mov,matroska";
constexpr const char* kCodecs = "h264,hevc,vp8,vp9,libdav1d,av1,mpeg4";

struct FreeFormat {
  void operator()(AVFormatContext* format) const {
    AVIOContext* io = format->pb;
    avformat_close_input(&format);
    if (io == nullptr) return;
    av_freep(&io->buffer);
    avio_context_free(&io);
  }
};
struct FreeCodec {
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
};
struct FreePacket {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
};
struct FreeFrame {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
};
using Format = std::unique_ptr<AVFormatContext, FreeFormat>;
using Codec = std::unique_ptr<AVCodecContext, FreeCodec>;
using Packet = std::unique_ptr<AVPacket, FreePacket>;
using Picture = std::unique_ptr<AVFrame, FreeFrame>;

// `what` is said to the client.
tl::unexpected<Error> av_error(std::string_view what, int code) {
  if (code == AVERROR(ENOMEM))
    return fail(ErrorCode::kTooLarge, "{}: it takes more memory than a decoder may have", what);
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(code, text, sizeof(text));
  return fail(ErrorCode::kUndecodable, "{}: {}", what, text);
}

// A file in memory, as AVIO reads one.
struct Memory {
  std::span<const std::byte> bytes;
  std::int64_t at = 0;

  static int read(void* self, std::uint8_t* to, int most) {
    auto& memory = *static_cast<Memory*>(self);
    const std::int64_t left = static_cast<std::int64_t>(memory.bytes.size()) - memory.at;
    const std::int64_t count = std::min<std::int64_t>(most, left);
    if (count <= 0) return AVERROR_EOF;
    std::memcpy(to, memory.bytes.data() + memory.at, static_cast<std::size_t>(count));
    memory.at += count;
    return static_cast<int>(count);
  }
  static std::int64_t seek(void* self, std::int64_t offset, int whence) {
    auto& memory = *static_cast<Memory*>(self);
    const auto size = static_cast<std::int64_t>(memory.bytes.size());
    if ((whence & AVSEEK_SIZE) != 0) return size;
    std::int64_t from = 0;
    if ((whence & 3) == SEEK_CUR) from = memory.at;
    if ((whence & 3) == SEEK_END) from = size;
    if (offset < -from || offset > size - from) return AVERROR(EINVAL);
    return memory.at = from + offset;
  }
};

// Playlists, references and the like: a file is what was sent, and nothing else.
int open_nothing(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EACCES);
}

bool is_supported(AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_MPEG4:
      return true;
    default:
      return false;
  }
}

const std::int32_t* display_matrix(const AVStream& stream) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
  const AVPacketSideData* found =
      av_packet_side_data_get(stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data,
                              AV_PKT_DATA_DISPLAYMATRIX);
  const std::uint8_t* data = found == nullptr ? nullptr : found->data;
  const std::size_t size = found == nullptr ? 0 : found->size;
#else
  std::size_t size = 0;
  const std::uint8_t* data = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
#endif
  return data == nullptr || size < 9 * sizeof(std::int32_t)
             ? nullptr
             : reinterpret_cast<const std::int32_t*>(data);
}

// Clockwise; a matrix that is no quarter turn is left out.
int quarter_turns_of(const AVStream& stream) {
  const std::int32_t* matrix = display_matrix(stream);
  if (matrix == nullptr) return 0;
  const double degrees = -av_display_rotation_get(matrix);
  if (!std::isfinite(degrees)) return 0;
  const long turns = std::lround(degrees / 90);
  if (std::abs(degrees - 90.0 * static_cast<double>(turns)) > 1) return 0;
  return static_cast<int>(((turns % 4) + 4) % 4);
}

}  // namespace

class Container::State {
 public:
  State(std::span<const std::byte> bytes, std::int64_t max_pixels)
      : memory_{bytes}, max_pixels_(max_pixels) {}

  Result<void> open() {
    format_.reset(avformat_alloc_context());
    packet_.reset(av_packet_alloc());
    picture_.reset(av_frame_alloc());
    auto* buffer = static_cast<std::uint8_t*>(av_malloc(kReadBytes));
    if (format_ == nullptr || packet_ == nullptr || picture_ == nullptr || buffer == nullptr)
      return av_error("the file", AVERROR(ENOMEM));
    memory_.at = 0;
    AVIOContext* io =
        avio_alloc_context(buffer, kReadBytes, 0, &memory_, &Memory::read, nullptr, &Memory::seek);
    if (io == nullptr) return av_error("the file", AVERROR(ENOMEM));
    format_->pb = io;
    format_->io_open = &open_nothing;
    TRY_DO(read_header(io));
    TRY_DO(choose_stream());
    return open_codec();
  }

  // Packets alone, undecoded.
  Result<void> scan() {
    for (;;) {
      TRY(const bool read, read_packet());
      if (!read) break;
      if ((packet_->flags & AV_PKT_FLAG_CORRUPT) != 0)
        return fail(ErrorCode::kUndecodable, "the file ends within frame {}", packets_.size());
      if ((packet_->flags & AV_PKT_FLAG_DISCARD) != 0) continue;
      if (packets_.size() == kMaxPackets)
        return fail(ErrorCode::kTooLarge, "the video has more than {} frames", kMaxPackets);
      packets_.push_back(
          {packet_->pts, packet_->dts, packet_->duration, (packet_->flags & AV_PKT_FLAG_KEY) != 0});
    }
    if (packets_.empty()) return fail(ErrorCode::kUndecodable, "the video has no frames");
    for (const Entry& entry : packets_) times_.push_back(entry.pts);
    std::ranges::sort(times_);
    timed_ = times_.front() != AV_NOPTS_VALUE && std::ranges::adjacent_find(times_) == times_.end();
    measure_rate();
    return {};
  }

  Result<void> begin(std::span<const std::int64_t> indices) {
    wanted_.assign(indices.begin(), indices.end());
    next_ = 0;
    sent_ = -1;
    came_ = 0;
    draining_ = false;
    return open();
  }

  Result<std::optional<const AVFrame*>> next() {
    const std::int64_t index = wanted_[next_];
    if (timed_) TRY_DO(skip_ahead(time_of(index)));
    for (;;) {
      TRY(const bool came, decode());
      if (!came) return std::optional<const AVFrame*>();
      const std::int64_t number = came_++;
      if (timed_) {
        const std::int64_t at = picture_->best_effort_timestamp;
        if (at < time_of(index) && at != AV_NOPTS_VALUE) continue;
        if (at != time_of(index)) return std::optional<const AVFrame*>();
      } else if (number != index) {
        continue;
      }
      ++next_;
      TRY_DO(check_size());
      return std::optional<const AVFrame*>(picture_.get());
    }
  }

  Result<void> recount() {
    wanted_.clear();
    timed_ = false;
    times_.clear();
    sent_ = -1;
    draining_ = false;
    TRY_DO(open());
    bool all_timed = true;
    for (;;) {
      TRY(const bool came, decode());
      if (!came) break;
      const std::int64_t at = picture_->best_effort_timestamp;
      all_timed = all_timed && at != AV_NOPTS_VALUE && (times_.empty() || at > times_.back());
      times_.push_back(at);
    }
    if (times_.empty()) return fail(ErrorCode::kUndecodable, "no frame can be decoded");
    if (!all_timed) times_.assign(times_.size(), AV_NOPTS_VALUE);
    measure_rate();
    return {};
  }

  int width() const { return turns_ % 2 == 0 ? codec_->width : codec_->height; }
  int height() const { return turns_ % 2 == 0 ? codec_->height : codec_->width; }
  int quarter_turns() const { return turns_; }
  std::int64_t frames() const { return static_cast<std::int64_t>(times_.size()); }
  double fps() const { return fps_; }

  double seconds(std::int64_t frame) const {
    const double even = static_cast<double>(frame) / fps_;
    const std::int64_t at = times_[static_cast<std::size_t>(frame)];
    if (at == AV_NOPTS_VALUE || times_.front() == AV_NOPTS_VALUE) return even;
    const double tick = av_q2d(stream_->time_base);
    const double real = ticks_since_first(at) * tick;
    return std::abs(real - even) <= tick * 1.001 ? even : real;
  }

 private:
  struct Entry {
    std::int64_t pts;
    std::int64_t dts;
    std::int64_t duration;
    bool key;
  };

  // As numbers with a point: a file may say any 64 bits.
  double ticks_since_first(std::int64_t time) const {
    return static_cast<double>(time) - static_cast<double>(times_.front());
  }
  std::int64_t time_of(std::int64_t index) const { return times_[static_cast<std::size_t>(index)]; }

  Result<void> read_header(AVIOContext* io) {
    AVDictionary* options = nullptr;
    av_dict_set(&options, "format_whitelist", kFormats, 0);
    av_dict_set(&options, "codec_whitelist", kCodecs, 0);
    av_dict_set(&options, "protocol_whitelist", "none", 0);
    AVFormatContext* format = format_.release();  // which a failing open frees
    const int opened = avformat_open_input(&format, "", nullptr, &options);
    av_dict_free(&options);
    if (opened < 0) {
      av_freep(&io->buffer);
      avio_context_free(&io);
      if (opened == AVERROR_INVALIDDATA || opened == AVERROR(EINVAL))
        return fail(ErrorCode::kUndecodable,
                    "the file is none of mp4, mov, mkv and webm, or its header is broken");
      return av_error("the file's header", opened);
    }
    format_.reset(format);
    const int found = avformat_find_stream_info(format_.get(), nullptr);
    if (found < 0) return av_error("the file's streams", found);
    return {};
  }

  Result<void> choose_stream() {
    stream_ = nullptr;
    for (unsigned i = 0; i < format_->nb_streams; ++i) {
      AVStream& each = *format_->streams[i];
      each.discard = AVDISCARD_ALL;
      const bool picture = (each.disposition & AV_DISPOSITION_ATTACHED_PIC) != 0;
      if (stream_ == nullptr && each.codecpar->codec_type == AVMEDIA_TYPE_VIDEO && !picture)
        stream_ = &each;
    }
    if (stream_ == nullptr) return fail(ErrorCode::kUndecodable, "the file has no video");
    stream_->discard = AVDISCARD_DEFAULT;
    const AVCodecID id = stream_->codecpar->codec_id;
    if (id == AV_CODEC_ID_NONE)
      return fail(ErrorCode::kUndecodable, "the header does not say how the video is coded");
    if (!is_supported(id))
      return fail(ErrorCode::kUnsupported,
                  "the video's codec is {}; h264, hevc, vp8, vp9, av1 and mpeg4 are supported",
                  avcodec_get_name(id));
    turns_ = quarter_turns_of(*stream_);
    return {};
  }

  Result<void> open_codec() {
    const AVCodecParameters& given = *stream_->codecpar;
    TRY_DO(check_pixels(given.width, given.height));
    const AVCodec* decoder = avcodec_find_decoder(given.codec_id);
    if (decoder == nullptr)
      return fail(ErrorCode::kUnsupported, "this FFmpeg has no decoder for {}",
                  avcodec_get_name(given.codec_id));
    codec_.reset(avcodec_alloc_context3(decoder));
    if (codec_ == nullptr) return av_error("the decoder", AVERROR(ENOMEM));
    int done = avcodec_parameters_to_context(codec_.get(), &given);
    codec_->pkt_timebase = stream_->time_base;
    codec_->thread_count = 1;  // the sandbox makes no threads
    codec_->max_pixels = max_pixels_;
    if (done >= 0) done = avcodec_open2(codec_.get(), decoder, nullptr);
    if (done < 0) return av_error("the decoder", done);
    return {};
  }

  Result<void> check_pixels(int width, int height) const {
    if (width < 1 || height < 1)
      return fail(ErrorCode::kUndecodable, "the video is of {}x{} pixels", width, height);
    if (std::int64_t{width} * height > max_pixels_)
      return fail(ErrorCode::kTooLarge, "the video is of {}x{} pixels, limit {} pixels", width,
                  height, max_pixels_);
    return {};
  }

  Result<void> check_size() const {
    const AVCodecParameters& told = *stream_->codecpar;
    if (picture_->width == told.width && picture_->height == told.height) return {};
    return fail(ErrorCode::kUndecodable,
                "the video is of {}x{} pixels and has a frame of {}x{}: frames have one size",
                told.width, told.height, picture_->width, picture_->height);
  }

  // The next packet of the stream; false at the end.
  Result<bool> read_packet() {
    for (;;) {
      av_packet_unref(packet_.get());
      const int read = av_read_frame(format_.get(), packet_.get());
      if (read == AVERROR_EOF) return false;
      if (read < 0) return av_error(fmt::format("the file behind frame {}", sent_ + 1), read);
      if (packet_->stream_index == stream_->index) return true;
    }
  }

  // One frame out of the decoder; false at the end.
  Result<bool> decode() {
    for (;;) {
      const int came = avcodec_receive_frame(codec_.get(), picture_.get());
      if (came == 0) return true;
      if (came == AVERROR_EOF) return false;
      if (came != AVERROR(EAGAIN)) return av_error(where(), came);
      int given = 0;
      if (!draining_) {
        TRY(const bool read, read_packet());
        draining_ = !read;
      }
      if (draining_) {
        given = avcodec_send_packet(codec_.get(), nullptr);
      } else {
        ++sent_;
        // What nothing else is made of, and nobody wants, need not be made.
        codec_->skip_frame =
            !timed_ || is_wanted(packet_->pts) ? AVDISCARD_DEFAULT : AVDISCARD_NONREF;
        given = avcodec_send_packet(codec_.get(), packet_.get());
      }
      if (given < 0) return av_error(where(), given);
    }
  }

  std::string where() const {
    return fmt::format("near frame {}", std::max<std::int64_t>(sent_, 0));
  }

  bool is_wanted(std::int64_t pts) const {
    const auto at = std::ranges::lower_bound(times_, pts);
    return at != times_.end() && *at == pts &&
           std::ranges::binary_search(wanted_, at - times_.begin());
  }

  // To the last picture before `pts` that needs no other, if it is ahead.
  Result<void> skip_ahead(std::int64_t pts) {
    const std::int64_t from = sent_ + 1;
    std::int64_t key = -1;
    for (std::int64_t i = static_cast<std::int64_t>(packets_.size()) - 1; i > from; --i) {
      const Entry& entry = packets_[static_cast<std::size_t>(i)];
      if (!entry.key || entry.pts > pts) continue;
      key = i;
      break;
    }
    if (key < 0 || draining_) return {};
    const Entry& entry = packets_[static_cast<std::size_t>(key)];
    const bool by_dts = std::string_view(format_->iformat->name).starts_with("mov");
    const std::int64_t to = by_dts && entry.dts != AV_NOPTS_VALUE ? entry.dts : entry.pts;
    if (av_seek_frame(format_.get(), stream_->index, to, AVSEEK_FLAG_BACKWARD) < 0)
      return restart();
    TRY(const bool read, read_packet());
    if (!read || packet_->pts != entry.pts) return restart();
    avcodec_flush_buffers(codec_.get());
    sent_ = key;
    codec_->skip_frame = AVDISCARD_DEFAULT;
    const int given = avcodec_send_packet(codec_.get(), packet_.get());
    if (given < 0) return av_error(where(), given);
    return {};
  }

  // A file in which jumping does not lead where it should is read from its begin.
  Result<void> restart() {
    TRY_DO(open());
    sent_ = -1;
    draining_ = false;
    packets_.clear();
    return {};
  }

  // The header's rate where it accounts for the frames, else what was counted.
  void measure_rate() {
    const double tick = av_q2d(stream_->time_base);
    const auto count = static_cast<double>(times_.size());
    double span = 0;
    if (times_.front() != AV_NOPTS_VALUE && times_.size() > 1) {
      span = ticks_since_first(times_.back()) * tick;
      span += span / (count - 1);  // the last frame stays as long as the others
    }
    const AVRational told = stream_->avg_frame_rate;
    const double header = told.num > 0 && told.den > 0 ? av_q2d(told) : 0;
    constexpr double kFallback = 24;  // transformers', for a file that tells no time
    if (header > 0 && (span <= 0 || std::abs(header * span - count) <= 1)) {
      fps_ = header;
    } else {
      fps_ = span > 0 ? count / span : kFallback;
    }
  }

  Memory memory_;
  std::int64_t max_pixels_;
  Format format_;
  Codec codec_;
  Packet packet_;
  Picture picture_;
  AVStream* stream_ = nullptr;
  int turns_ = 0;
  std::vector<Entry> packets_;       // in the file's order; empty: no jumps
  std::vector<std::int64_t> times_;  // of frames as they are shown
  bool timed_ = false;               // frames are known by their times
  double fps_ = 0;
  std::vector<std::int64_t> wanted_;
  std::size_t next_ = 0;    // of wanted_
  std::int64_t sent_ = -1;  // the last packet that the decoder was given
  std::int64_t came_ = 0;   // frames since begin()
  bool draining_ = false;
};

Container::Container(std::unique_ptr<State> state) : state_(std::move(state)) {}
Container::~Container() = default;
Container::Container(Container&&) noexcept = default;
Container& Container::operator=(Container&&) noexcept = default;

Result<Container> Container::open(std::span<const std::byte> bytes, std::int64_t max_pixels) {
  auto state = std::make_unique<State>(bytes, max_pixels);
  TRY_DO(state->open());
  TRY_DO(state->scan());
  return Container(std::move(state));
}

int Container::width() const { return state_->width(); }
int Container::height() const { return state_->height(); }
int Container::quarter_turns() const { return state_->quarter_turns(); }
std::int64_t Container::frames() const { return state_->frames(); }
double Container::fps() const { return state_->fps(); }
double Container::seconds(std::int64_t frame) const { return state_->seconds(frame); }
Result<void> Container::begin(std::span<const std::int64_t> indices) {
  return state_->begin(indices);
}
Result<std::optional<const AVFrame*>> Container::next() { return state_->next(); }
Result<void> Container::recount() { return state_->recount(); }

}  // namespace saccade::video
