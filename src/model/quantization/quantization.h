// How a checkpoint's matrices are quantised: config.json's quantization_config, as AutoAWQ,
// AutoGPTQ and GPTQModel, AutoFP8, FineGrainedFP8 and compressed-tensors write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace saccade {

// kPacked, kInt8: compressed-tensors' pack-quantized and int-quantized.
enum class QuantMethod { kAwq, kGptq, kFp8, kPacked, kInt8 };

struct Quantization {
  QuantMethod method = QuantMethod::kAwq;
  int bits = 4;                 // of a weight: 4 (AWQ); 4 or 8 (packed); 2, 4 or 8 (GPTQ); else 8
  std::int64_t group = 128;     // inputs that share a scale and a zero; 0: all; -1: its scales say
  bool symmetric = false;       // GPTQ, packed: every zero is the middle of the range
  bool zeros_less_one = false;  // GPTQ's first format stores each zero minus one
  // fp8: outputs and inputs that share a scale; 0: one a matrix or one an output, as stored.
  std::int64_t block_out = 0;
  std::int64_t block_in = 0;
  // Activations are to be rounded too, each row by itself: kInt8 to bytes, kFp8 to E4M3.
  bool activations = false;
  // kFp8: by the scale that a matrix has for them, where it has one (input_scale).
  bool static_activations = false;
};

// Nothing for a checkpoint that is not quantised. kUnsupported names a method, format or field that
// is not read, and says what to give instead. Which modules stay as they were is seen from their
// tensors, so lists of them (modules_to_not_convert, ignored_layers, ignore) are not read.
Result<std::optional<Quantization>> parse_quantization(const json::object& config);

std::string describe(const Quantization& quantization);  // "AWQ, 4 bits, groups of 128"

}  // namespace saccade
