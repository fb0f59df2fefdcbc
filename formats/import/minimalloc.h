// The format "minimalloc.csv": buffers with lifetimes, the input of static memory planners (google/minimalloc,
// idealloc).
//
// The first line names the columns, in any order; each further line is a buffer.
// - `lower` (also `start`, `begin`) and `upper`: alive from lower up to, but not including, upper.
// - `end` instead of `upper`: the last instant of the lifetime, one less.
// - `size`: bytes.
// - `id` (also `buffer`, `buffer_id`), `alignment`, `hint`, `offset`: ignored. Placement is up to a policy.
// - `gaps`, times when a buffer is not in use: it keeps its memory; counted in Losses::unknown_actions.
//
// Becomes one heap at the framework level. The file has no capacity, streams or stacks. Its time unit becomes a
// nanosecond.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

/// Whether the first line has the columns that identify the format.
bool looks_like_minimalloc(std::span<const std::byte> beginning);

Result<void> import_minimalloc(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                               const WriterOptions& options);

}  // namespace memreel
