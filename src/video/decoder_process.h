// A decoder that runs: its pipes, its end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace saccade::video {

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  void reset();
  int get() const { return fd_; }

 private:
  int fd_;
};

// One thread. Its end kills the process, if that still runs, and waits for it.
class DecoderProcess {
 public:
  // Over this point in time, or when `cancelled` says so, reading and writing end.
  struct Patience {
    std::chrono::steady_clock::time_point until;
    std::function<bool()> cancelled;
  };

  // The file is given as a sealed memfd; nothing else is inherited, no descriptor and no variable
  // of the environment but what the loader needs.
  static Result<DecoderProcess> start(const std::string& program, std::span<const std::byte> file,
                                      Patience patience);
  ~DecoderProcess();
  DecoderProcess(DecoderProcess&& other) noexcept;
  DecoderProcess& operator=(DecoderProcess&&) = delete;

  Result<void> write(std::span<const std::byte> bytes);
  // All of them, or how the process ended.
  Result<void> read(std::span<std::byte> bytes);

 private:
  DecoderProcess(pid_t pid, Descriptor to, Descriptor from, Patience patience);
  Result<void> wait_for(int fd, short events);
  Error how_it_ended();

  pid_t pid_ = -1;  // -1: has been waited for
  Descriptor to_;
  Descriptor from_;
  Patience patience_;
};

}  // namespace saccade::video
