// Building blocks of fake_program's modes: calls to the driver, and the ground truth about them
// (samples/cuda/ground_truth.h).
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

/// Ends the program if a call that must succeed failed.
void must(Status status, const char* what);

/// The primary context of the first device, made current in this thread.
fake::Context* use_gpu();

/// 1 byte to 4 MiB, small ones more often.
std::uint64_t random_size(Random& random);

struct Block {
  DevicePointer pointer = 0;
  std::uint64_t size = 0;
};

/// Linear memory of `size` bytes; false when there is none.
bool allocate(std::uint64_t size, Block& block);
void release(const Block& block);

/// Allocates and frees `count` times; frees what is left at the end unless told to keep it.
void churn(std::uint64_t count, std::uint64_t seed, bool keep = false);

/// The exit code of a child, as a shell reports it.
int wait_for(pid_t child);

}  // namespace fake_program
