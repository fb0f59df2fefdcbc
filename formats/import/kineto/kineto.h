// The format "torch.profiler": what torch.profiler and Kineto export as a Chrome trace,
// `profile(profile_memory=True, with_stack=True)` and `export_chrome_trace("trace.json.gz")`.
//
// Source: torch/csrc/profiler/collection.cpp and torch/csrc/autograd/profiler_kineto.cpp of PyTorch, from 1.10 on, and
// libkineto's output_json.cpp.
//
// Each "[memory]" event states what PyTorch's allocator allocated (Bytes > 0) or freed (Bytes < 0), where, and its
// total allocated bytes afterwards. So the trace has a heap "torch.cuda" for each device of type CUDA (1) or HIP (6),
// at the framework level, without segments or streams; frees complete at once. Sizes are block sizes, so multiples of
// 512: requested sizes are not in the file. Events are unordered there and are sorted by time, those with equal times
// in file order.
//
// - Completeness: each total must equal the previous one plus Bytes. Otherwise something is missing, which is counted
//   as a dropped event.
// - What a device's first total already includes are allocations older than the recording: one each for those whose
//   frees are in the file, one for the rest.
// - Stacks: the Python functions (with_stack=True) and operators running on the thread at that time.
// - Ranges of the program (record_function, ProfilerStep#N) are marks.
// - Events about other devices' memory, including the host's, are left out and counted as unknown actions.
//
// PyTorch 1.9 and older wrote no addresses; such files are refused.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::kineto {

/// How far into a file its first recognisable key may be: programs add their own data before it.
inline constexpr std::size_t longest_preamble = std::size_t{64} << 10U;

/// Whether it is a JSON object with a key found in Chrome or Kineto traces.
bool looks_like_profile(std::span<const std::byte> beginning);

/// Memory: the slices in the file, 40 bytes each, and the names; at most bytes.memory_limit().
Result<void> import_profile(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                            const WriterOptions& options);

}  // namespace memreel::kineto
