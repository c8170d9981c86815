// A host of images as there are many: some come at once, some late, some never, some are none.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace saccade::soak {

// Serves "/FILE" out of the folders it is given; "/late/FILE" after a while; "/stall" never;
// "/torn" half; "/none" as 404; "/round" as a redirect to itself; "/endless" without an end.
class ImageHost {
 public:
  explicit ImageHost(std::vector<std::string> folders);
  ~ImageHost();
  ImageHost(const ImageHost&) = delete;
  ImageHost& operator=(const ImageHost&) = delete;

  std::string url() const;  // "http://127.0.0.1:PORT"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saccade::soak
