// The format "jax.memory": jax.profiler.save_device_memory_profile("memory.prof").
//
// Source: xla/pjrt (HeapProfile) and pprof's profile.proto. One instant: for each device and place in the program, how
// many buffers are live and their bytes in all; compiled programs ("executable") apart from them, as a heap of its own.
// Buffers of a place are written with equal sizes that add up to its bytes. There are no addresses: they are made up.
// Devices: the number in "gpu:0", "cuda:0", "TPU_0"; the host's memory for those with "CPU".
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::xplane {

/// A profile of pprof with two kinds of samples, as JAX's has.
bool looks_like_device_memory(std::span<const std::byte> beginning);

/// Memory: the decompressed profile.
Result<void> import_device_memory(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                                  const WriterOptions& options);

}  // namespace memreel::xplane
