// What the machine can do at best, measured: the denominators of every kernel's figure.
#pragma once

#include "base/threads/thread_pool.h"
#include "ops/cpu/isa/isa.h"

namespace saccade {

struct Roofs {
  double read_bytes = 0;  // per second, from memory, all threads streaming
  double f32_flops = 0;   // per second, fused multiply-adds in registers, all threads
  double bf16_flops = 0;  // per second, of the matrix unit, or of vectors of bf16; 0 without either
  double int8_ops = 0;    // per second, products of bytes and their sums; 0 where not measured
};

// Takes about a second. Each figure is the best of several short runs: a roof is what the machine
// can do, so a neighbour's noise must not lower it.
double measure_read_bytes(ThreadPool& pool);
double measure_f32_flops(ThreadPool& pool, cpu::Isa isa);
double measure_bf16_flops(ThreadPool& pool, cpu::Isa isa);
// The matrix unit with its operands read from the first-level cache, and numbers instead of zeros
// (a processor may slow down for those): what is left to a product of large matrices. 0 without
// one.
double measure_loaded_bf16_flops(ThreadPool& pool, cpu::Isa isa);
double measure_int8_ops(ThreadPool& pool, cpu::Isa isa);

}  // namespace saccade
