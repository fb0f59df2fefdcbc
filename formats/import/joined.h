// SPDX-License-Identifier: Apache-2.0
// A recording, and a profile that its program made of itself meanwhile, as one trace: the driver's calls and the
// tensors in what they gave.
#pragma once

#include <filesystem>
#include <memory>

#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

/// The profile in a directory that jax.profiler.trace() or TensorFlow's profiler was given: the newest *.xplane.pb in
/// it. A file is itself. Errors: there is none.
Result<std::filesystem::path> profile_in(const std::filesystem::path& path);

/// Writes the events of both in order of time, with the recording's header; a device's segments that were deduced
/// from the profile are left out, as the recording has the calls that made them. Errors: the recording has no calls of
/// the driver, or is a flight recorder's; the profile knows no device's memory, or is of another time.
Result<void> join(const Trace& recording, const Trace& profile, std::unique_ptr<ByteSink> sink,
                  const WriterOptions& options = {});

}  // namespace memreel
