// Downloads a checkpoint into the Hugging Face cache, in the layout that huggingface_hub keeps: a
// later `--model ORG/NAME` of any tool finds it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "model/gguf/gguf_choice.h"

namespace saccade::hub {

struct PullProgress {
  std::string file;
  std::size_t index = 0;  // of the file, from 0
  std::size_t files = 0;
  std::uint64_t done = 0;  // bytes of this file
  std::uint64_t size = 0;
};

struct PullSettings {
  std::string repository;  // ORG/NAME
  GgufWanted gguf;         // the same of a repository's files in GGUF
  std::string revision = "main";
  std::string endpoint;         // HF_ENDPOINT, else https://huggingface.co
  std::string token;            // HF_TOKEN; empty: none
  std::string cache_directory;  // hub_cache_directory()
  std::string ca_file;          // PEM; empty: the system's
  int attempts = 5;             // a file; each goes on where the last one broke off
  Nanos retry_delay = kSecond;  // before the second attempt; doubled each time
  Nanos stall_timeout = 60 * kSecond;
  std::function<void(const PullProgress&)> progress;  // on another thread; may be empty
};

// HF_ENDPOINT, HF_TOKEN and the cache from the environment.
PullSettings pull_settings_from_environment();

// Blocks until a checkpoint is there, and returns what resolve_checkpoint() would: of safetensors
// the snapshot's directory, with configuration and tokenizer; where `gguf.model` is given, or there
// are no safetensors, the files that choose_gguf() chooses. What is there already is not fetched
// again. Files whose SHA-256 the server states are checked against it; the others against their
// size. kUnsupported when the repository has neither, kDenied for a wrong or missing token,
// kUnavailable when the hub cannot be reached, kCorrupt for a checksum, choose_gguf()'s.
Result<std::string> pull_model(const PullSettings& settings);

}  // namespace saccade::hub
