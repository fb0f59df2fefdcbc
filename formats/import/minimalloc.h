// The format "minimalloc.csv": buffers with lifetimes, as planners of static memory take them (google/minimalloc,
// idealloc).
//
// The first line names the columns, in any order; each further line is a buffer.
// - `lower` (also `start`, `begin`) and `upper`: alive from lower up to, but not including, upper.
// - `end` instead of `upper` is the last instant of life: one less.
// - `size`: bytes.
// - `id` (also `buffer`, `buffer_id`), `alignment`, `hint`, `offset`: not kept. Where a buffer goes is for a policy to
//   decide.
// - `gaps`, times at which a buffer is not in use: it keeps its memory; counted in Losses::unknown_actions.
//
// Becomes one heap of level framework. The file says nothing of a capacity, streams or stacks. Its unit of time becomes
// a nanosecond.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

/// Whether the first line has the columns that make the format.
bool looks_like_minimalloc(std::span<const std::byte> beginning);

Result<void> import_minimalloc(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                               const WriterOptions& options);

}  // namespace memreel
