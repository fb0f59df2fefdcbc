// SPDX-License-Identifier: Apache-2.0
// The format "pool.jsonl": a pool's log, one JSON object per line. It is memreel's own, and the simplest way to have
// your own allocator analysed: any language writes it in ten lines. docs/pool-log.md has an example.
//
//   {"op": "config", "kind": "rmm.pool", "initial": "64MiB"}    first, optional: which allocator, and how made
//   {"op": "up", "size": 67108864, "ptr": 140489856647168}      the pool got this from its parent (cudaMalloc)
//   {"op": "alloc", "id": 1, "size": 905, "stream": 0, "ptr": 140489856647168}
//   {"op": "alloc", "id": 2, "size": 4294967296, "ptr": null}   the request failed
//   {"op": "free", "id": 1}
//   {"op": "down", "size": 67108864, "ptr": 140489856647168}    the pool gave it back
//   {"op": "sync"}                                              the host waited for the device, or a "stream"
//   {"op": "trim"}                                              unused memory was to be given back
//   {"op": "begin", "name": "step"}  {"op": "end", "name": "step"}   ranges of the program
//
// Any line may have "time" (nanoseconds; by default a line counts as one), "thread", "metadata" (the program's own
// note), and "stack": frames as {"function": "f", "file": "train.py", "line": 39}, innermost first. `config` may have
// "device"; its other keys are settings, which `verify` understands for this project's allocators. `stream` is any
// number that identifies a stream, such as a handle; 0 is the default stream; a free without it is on its allocation's
// stream. `up` and `down` that belong to a request precede its `alloc`. An `up` with "ptr" null was refused; only the
// request's outcome matters.
//
// A truncated last line is skipped and counted as an unknown action, as are lines with another "op"; frees of unknown
// IDs are unmatched frees. Any other problem is an error that names its line.
#pragma once

#include <span>

#include "formats/import/source/bytes.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_output.h"

namespace memreel::pool_log {

// One line of a pool log (pool_log.h).

struct FrameText {
  std::string function, file;
  std::uint64_t line = 0;
};

/// The contents of an object. Unknown keys are in `others` if their value is a string, a number or a boolean.
struct Line {
  std::string op, name, metadata;
  std::optional<std::uint64_t> id, size, ptr, stream, thread, device, time;
  std::vector<FrameText> stack;
  std::vector<std::pair<std::string, std::string>> others;
};

/// Reads one line; reuses the strings of `into`. False: it is not a JSON object with these keys. Skips anything nested
/// deeper than a stack.
bool parse(std::string_view text, Line& into);

/// Whether the first line is one of these. If it is too long, whether its first key is "op".
bool looks_like_pool_log(std::span<const std::byte> beginning);

/// Memory: live allocations.
Result<void> import_pool_log(ByteCursor& bytes, Header header, const BeginOutput& begin);

}  // namespace memreel::pool_log
