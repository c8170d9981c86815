// From the images and videos of a chat request to the encoder's inputs: read, measured by their
// headers, hashed. Nothing is decoded here: the engine does that for what it has to encode. What
// has to be fetched over the network is listed here, and fetched before (HttpDownloads).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "api/chat_request.h"
#include "base/clock.h"
#include "base/hash.h"
#include "engine/request.h"
#include "serve/http_media.h"
#include "serve/settings.h"

namespace saccade::serve {

struct LoadedMedia {
  std::vector<ImageLayout> layouts;  // one an image or video, in order of appearance
  // The encoder's inputs: one an image, one for each group of a video's frames. Without spans.
  std::vector<RequestImage> inputs;
};

// Any thread; const after construction.
class MediaLoader {
 public:
  MediaLoader(const ServeSettings& settings, const Model& model, const Clock& clock);

  // What load() needs from the network, in order of appearance. kInvalid for more media than the
  // settings allow and for media that the model does not take.
  Result<std::vector<DownloadOrder::Item>> remote(const api::ChatRequest& request) const;

  // Blocks. `fetched`: the files of remote(). `reserved`, which may be null, becomes what the media
  // take and stays with them: kUnavailable when its budget has no room. Stamps media_done;
  // `cancelled` is looked at between stages. kInvalid as remote() and for frames of different
  // sizes, kTooLarge for more bytes or tokens than are possible; the rest as read_media, the
  // decoder and Model::image_layout say. Messages name the image or frame.
  Result<LoadedMedia> load(const api::ChatRequest& request, std::vector<std::string> fetched,
                           const std::shared_ptr<ByteReservation>& reserved,
                           const std::atomic<bool>& cancelled, RequestTimes& times) const;

 private:
  struct Medium;
  Result<std::vector<Medium>> list(const api::ChatRequest& request) const;
  Result<void> read(std::vector<Medium>& media, std::vector<std::string> fetched,
                    const std::atomic<bool>& cancelled) const;
  Result<ImageLayout> measure(const Medium& medium, const api::ChatRequest& request) const;
  void add_inputs(Medium& medium, const ImageLayout& layout,
                  const std::shared_ptr<const ByteReservation>& held, LoadedMedia& loaded) const;

  const ServeSettings& settings_;
  const Model& model_;
  const Clock& clock_;
};

}  // namespace saccade::serve
