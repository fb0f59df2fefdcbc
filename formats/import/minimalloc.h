// SPDX-License-Identifier: Apache-2.0
// The format "minimalloc.csv": buffers with lifetimes, the input of static memory planners (google/minimalloc,
// idealloc).
//
// The first line names the columns, in any order; each further line is a buffer.
// - `lower` (also `start`, `begin`) and `upper`: alive from lower up to, but not including, upper.
// - `end` instead of `upper`: the last instant of the lifetime, one less.
// - `size`: bytes.
// - `id` (also `buffer`, `buffer_id`): any text.
// - `alignment`: of the offset.
// - `gaps`: when a buffer is not in use, "5-9 12-20" (with `end`, the last instants). After "@", what it uses
// meanwhile.
// - `offset`: where it has to lie; `hint`: where it could lie; -1, or nothing: anywhere.
//
// As a trace it becomes one heap at the framework level, in which a buffer keeps its memory during its gaps, which are
// counted in Losses::unknown_actions; ids, alignment and offsets are left out, since placement is up to a policy. The
// file has no capacity, streams or stacks. Its time unit becomes a nanosecond.
#pragma once

#include <filesystem>
#include <span>

#include "formats/import/source/bytes.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/writer/trace_output.h"

namespace memreel {

/// Whether the first line has the columns that identify the format.
bool looks_like_minimalloc(std::span<const std::byte> beginning);

Result<void> import_minimalloc(ByteCursor& bytes, Header header, const BeginOutput& begin);

/// A line of the file.
struct MinimallocBuffer {
  std::string id;
  std::uint64_t lower = 0, upper = 0;  // > lower
  Bytes size;
  std::uint64_t alignment = 1;
  std::optional<Bytes> hint, offset;
  /// From, up to but not including; ascending, within the lifetime, which they leave part of. Not those in which part
  /// of the buffer is in use.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps;
};

Result<std::vector<MinimallocBuffer>> read_minimalloc(ByteCursor& bytes);

/// The buffers of a file that may be compressed; nothing if it has another format.
Result<std::optional<std::vector<MinimallocBuffer>>> read_minimalloc(const std::filesystem::path& file);

}  // namespace memreel
