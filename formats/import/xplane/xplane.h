// Profiles of XLA programs (JAX, TensorFlow): XSpace files, NAME.xplane.pb.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/import/xplane/recording.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::xplane {

bool looks_like_xspace(std::span<const std::byte> beginning);

/// The memory data of all planes in a profile. Reads one plane at a time. Memory: the largest plane, the memory events,
/// and the events of one timeline.
Result<Recording> read_xspace(ByteCursor& bytes, TraceWriter& writer);

Result<void> import_xspace(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                           const WriterOptions& options);

}  // namespace memreel::xplane
