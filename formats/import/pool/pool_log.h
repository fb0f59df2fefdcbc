// The format "pool.jsonl": what a pool did, one JSON object a line. It is ours, and the simplest way to have one's own
// allocator analysed: every language writes it in ten lines. docs/pool-log.md shows one.
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
// Any line may have "time" (nanoseconds; without it lines count as one each), "thread", "metadata" (what the program
// says of it), and "stack": frames as {"function": "f", "file": "train.py", "line": 39}, innermost first. `config` may
// have "device"; what it holds besides are settings, which `verify` knows for the allocators of this project. `stream`
// is any number that tells streams apart, such as a handle; 0 is the default one; a free without it is on that of its
// allocation. `up` and `down` that belong to a request stand before its `alloc`. An `up` with "ptr" null was refused;
// what matters of it is what became of the request.
//
// A last line that was cut off is skipped and counted as an unknown action, as are lines with another "op"; frees of
// unknown ids are unmatched frees. Everything else that is wrong is an error that names its line.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::pool_log {

/// Whether the first line is one of these. Of a line of more bytes, whether its first key is "op".
bool looks_like_pool_log(std::span<const std::byte> beginning);

/// Memory: what is live.
Result<void> import_pool_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options);

}  // namespace memreel::pool_log
