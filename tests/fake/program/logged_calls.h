// SPDX-License-Identifier: Apache-2.0
// Building blocks of fake_program's modes: driver calls, and the ground truth they log (samples/cuda/ground_truth.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <random>

#include "samples/cuda/ground_truth.h"
#include "tests/fake/cuda_functions.h"

namespace fake_program {

using fake::DevicePointer, fake::Status;
using Random = std::mt19937_64;

constexpr std::uint64_t mib = 1U << 20U;

/// Exits when a call that must succeed failed.
void must(Status status, const char* what);

/// The first device's primary context, made current on this thread.
fake::Context* use_gpu();

/// 1 byte to 4 MiB, with small sizes more frequent.
std::uint64_t random_size(Random& random);

struct Block {
  DevicePointer pointer = 0;
  std::uint64_t size = 0;
};

/// `size` bytes of linear memory; false when out of memory. Not inlined: tests look for this frame in stacks.
[[gnu::noinline]] bool allocate(std::uint64_t size, Block& block);
void release(const Block& block);

/// Allocates and frees `count` times; frees the rest at the end unless told to keep it.
void churn(std::uint64_t count, std::uint64_t seed, bool keep = false);

/// The exit code of a child as a shell reports it.
int wait_for(pid_t child);

}  // namespace fake_program
