// From the images and videos of a chat request to the encoder's inputs: read, measured by their
// headers, hashed. Nothing is decoded here: the engine does that for what it has to encode. What
// has to be fetched over the network is listed here, and fetched before (HttpDownloads).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/requests/chat_request.h"
#include "base/clock.h"
#include "base/hash.h"
#include "engine/request.h"
#include "model/prompts/processor.h"
#include "serve/image_sizes/image_sizer.h"
#include "serve/media/http_media.h"
#include "serve/media/kept_images.h"
#include "serve/media/video_frames.h"
#include "serve/settings.h"

namespace saccade::serve {

struct LoadedMedia {
  std::vector<ImageLayout> layouts;  // one an image or video, in order of appearance
  // The encoder's inputs: one an image, one for each group of a video's frames. Without spans.
  std::vector<RequestImage> inputs;
};

// Who decides how large the images of a request become, and what came of it.
struct ImageSizing {
  ImageSizer& sizer;
  SizingRequest request;
  SizedRequest sized = {};
};

// Whose the media of a request are, what has been fetched of them, and what they take.
struct MediaOrigin {
  std::uint64_t client = 0;
  FetchedMedia fetched = {};
  std::shared_ptr<ByteReservation> reserved = nullptr;  // null: nothing is counted
  const std::atomic<bool>& cancelled;                   // looked at between stages
  RequestTimes& times;                                  // media_done and preprocessed are stamped
  ImageSizing* sizing = nullptr;  // null: images stay as their clients have them
};

// Any thread.
class MediaLoader {
 public:
  MediaLoader(const ServeSettings& settings, const Processor& processor, const Clock& clock);

  // What load() needs from the network, in order of appearance. kInvalid for more media than the
  // settings allow and for media that the model does not take.
  Result<std::vector<DownloadOrder::Item>> remote(const api::ChatRequest& request) const;

  // What load() needs of video files: reads and decodes them, one after the other. Blocks for as
  // long as that takes; not for workers. `downloaded`: the files of remote(). `reserved` may be
  // null. Messages name the video.
  Result<FetchedMedia> decode_videos(const api::ChatRequest& request,
                                     std::vector<std::string> downloaded, ByteReservation* reserved,
                                     const std::function<bool()>& cancelled) const;

  // Blocks. Images that bring a `uuid` are kept for the client under it, and those that bring
  // nothing else are found by it: kInvalid where there is none. `fetched`: the files of remote(),
  // and what decode_videos() makes of video files.
  // `reserved` becomes what the media take and stays with them: kUnavailable when its budget has no
  // room. Stamps media_done. kInvalid as remote() and for frames of different sizes, kTooLarge for
  // more bytes or tokens than are possible; the rest as read_media, the decoder,
  // Processor::image_layout and ImageSizer::size say. Messages name the image or frame.
  Result<LoadedMedia> load(const api::ChatRequest& request, MediaOrigin origin) const;

 private:
  struct Medium;
  Result<std::vector<Medium>> list(const api::ChatRequest& request) const;
  Result<void> read(std::vector<Medium>& media, const api::ChatRequest& request,
                    std::uint64_t client, FetchedMedia fetched,
                    const std::atomic<bool>& cancelled) const;
  Result<std::string> kept(const Medium& medium, const ImageName& name) const;
  Result<VideoControls> video_controls(const Medium& medium, const api::ChatRequest& request) const;
  Result<void> measure(Medium& medium, const api::ChatRequest& request) const;
  Result<void> size(std::vector<Medium>& media, ImageSizing& sizing) const;
  void add_inputs(Medium& medium, const std::shared_ptr<const ByteReservation>& held,
                  LoadedMedia& loaded) const;

  const ServeSettings& settings_;
  const Processor& processor_;
  const Clock& clock_;
  const std::unique_ptr<KeptImages> kept_;
  const VideoFrameReader video_files_;
};

}  // namespace saccade::serve
