// From the images and videos of a chat request to the encoder's inputs: read, measured, decoded,
// resized, hashed. Everything is measured before anything is decoded. What has to be fetched over
// the network is listed here, and fetched before (HttpDownloads).
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

// Whether media are to be decoded and prepared for the encoder, or only measured (tokenize).
enum class MediaWork { kPrepare, kMeasure };

struct LoadedMedia {
  std::vector<ImageLayout> layouts;  // one an image or video, in order of appearance
  // Of the encoder's inputs: one an image, one for each group of a video's frames.
  std::vector<Digest> digests;
  std::vector<std::shared_ptr<const PreparedImage>> prepared;  // null when only measured
};

// Any thread; const after construction.
class MediaLoader {
 public:
  MediaLoader(const ServeSettings& settings, const Model& model, const Clock& clock);

  // What load() needs from the network, in order of appearance. kInvalid for more media than the
  // settings allow and for media that the model does not take.
  Result<std::vector<DownloadOrder::Item>> remote(const api::ChatRequest& request) const;

  // Blocks. `fetched`: the files of remote(). Stamps media_done; `cancelled` is looked at between
  // stages. kInvalid as remote() and for frames of different sizes, kTooLarge for more bytes or
  // tokens than are possible; the rest as read_media, the decoder and Model::image_layout say.
  // Messages name the image or frame.
  Result<LoadedMedia> load(const api::ChatRequest& request, std::vector<std::string> fetched,
                           MediaWork work, const std::atomic<bool>& cancelled,
                           RequestTimes& times) const;

 private:
  struct Medium;
  Result<std::vector<Medium>> list(const api::ChatRequest& request) const;
  Result<void> read(std::vector<Medium>& media, std::vector<std::string> fetched,
                    const std::atomic<bool>& cancelled) const;
  Result<ImageLayout> measure(const Medium& medium, const api::ChatRequest& request) const;
  Result<void> prepare(Medium& medium, const ImageLayout& layout, MediaWork work,
                       LoadedMedia& loaded) const;

  const ServeSettings& settings_;
  const Model& model_;
  const Clock& clock_;
};

}  // namespace saccade::serve
