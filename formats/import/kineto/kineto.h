// The format "torch.profiler": what torch.profiler and Kineto export as a Chrome trace,
// `profile(profile_memory=True, with_stack=True)` and `export_chrome_trace("trace.json.gz")`.
//
// Source: torch/csrc/profiler/collection.cpp and torch/csrc/autograd/profiler_kineto.cpp of PyTorch, from 1.10 on, and
// libkineto's output_json.cpp.
//
// Each event "[memory]" says what PyTorch's allocator gave out (Bytes > 0) or was given back (Bytes < 0), where, and
// what it had given out in all since. So the trace has a heap "torch.cuda" for each device of type CUDA (1) or HIP (6),
// at the framework's level, without segments or streams; a free is its own completion. Sizes are those of blocks, so
// multiples of 512: what was requested is not in the file. Events are not in order there and are sorted by time, those
// of one instant as they stand.
//
// - Completeness: each total must be the one before plus Bytes. Where it is not, something is missing, and counted as a
//   dropped event.
// - What the first total of a device says was there before are allocations older than the recording: those whose frees
//   are in the file one by one, the rest as one.
// - Stacks: the Python functions (with_stack=True) and operators that were running on the thread then.
// - Ranges of the program (record_function, ProfilerStep#N) are marks.
// - Events of other devices' memory, the host's among them, are left out and counted as unknown actions.
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

/// How far into a file its first telling key may be: what a program adds to a profile comes before.
inline constexpr std::size_t longest_preamble = std::size_t{64} << 10U;

/// Whether it is a JSON object with a key that traces of Chrome, or Kineto's, have.
bool looks_like_profile(std::span<const std::byte> beginning);

/// Memory: what is running in the file, 40 bytes each, and the names; no more than bytes.memory_limit().
Result<void> import_profile(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                            const WriterOptions& options);

}  // namespace memreel::kineto
