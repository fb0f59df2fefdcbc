// SPDX-License-Identifier: Apache-2.0
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
// - Reserved bytes: what the allocator had of the device after each event ("Total Reserved") becomes a sample
//   (memory_info) wherever it changed, of what was allocated and what was cached. In which segments is not in the file.
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

#include <span>
#include <unordered_map>

#include "formats/import/source/bytes.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/writer/trace_output.h"

namespace memreel::kineto {

// What a profile says about memory, in the importer's own terms.

/// Slices that begin together are nested in this order.
enum class SliceKind : std::uint8_t { annotation, python_function, cpu_op };

/// Something that ran on a thread. Times are in nanoseconds since Profile::base_ns.
struct Slice {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::uint64_t tid = 0;
  std::uint32_t name = 0;  // in Profile::names
  SliceKind kind = SliceKind::cpu_op;
};

/// "[memory]", or "[OutOfMemory]" when `failed`.
struct MemoryEvent {
  std::int64_t time_ns = 0;
  std::uint64_t tid = 0;
  std::int32_t device = 0;
  bool failed = false;
  std::int64_t bytes = 0;              // negative: freed
  std::uint64_t address = 0;           // 0 only when failed
  std::optional<std::uint64_t> total;  // allocated bytes after it
  std::optional<std::uint64_t> reserved;
};

struct Profile {
  std::vector<std::string> names;
  std::vector<Slice> slices;        // in file order, like the next
  std::vector<MemoryEvent> memory;  // of devices
  std::int64_t base_ns = 0;         // since the epoch
  std::uint64_t process = 0;        // 0: not known
  std::optional<std::uint64_t> rank, world_size;
  std::uint64_t host_events = 0;      // of other devices' memory
  std::uint64_t without_address = 0;  // device memory events without an address
  std::uint64_t incomplete = 0;       // events that lack something else
};

/// Reads the document. Errors: it is damaged, or has impossible values.
Result<Profile> read_profile(ByteCursor& bytes);

// What was running on each thread of a profile at an instant.

/// Slices must be added in order of their begin; times never decrease.
class ThreadStacks {
 public:
  ThreadStacks(const std::vector<std::string>& names, ImportOutput& writer);

  /// A slice that outlasts its enclosing slice ends with it: clocks differ by some nanoseconds.
  void enter(const Slice& slice);
  /// Python functions and operators, innermost first; frames beyond the maximum stack depth are left out.
  StackId at(std::uint64_t tid, std::int64_t time_ns);

 private:
  struct Open {
    std::int64_t end_ns = 0;
    std::uint32_t name = 0;
    StackId stack = StackId::none;  // none: not yet requested
  };

  FrameId frame_of(std::uint32_t name);

  const std::vector<std::string>& names_;
  ImportOutput& writer_;
  std::vector<FrameId> frames_;  // by name; none: not yet created
  std::unordered_map<std::uint64_t, std::vector<Open>> open_;
};

/// How far into a file its first recognisable key may be: programs add their own data before it.
inline constexpr std::size_t longest_preamble = std::size_t{64} << 10U;

/// Whether it is a JSON object with a key found in Chrome or Kineto traces.
bool looks_like_profile(std::span<const std::byte> beginning);

/// Memory: the slices in the file, 40 bytes each, and the names; at most bytes.memory_limit().
Result<void> import_profile(ByteCursor& bytes, Header header, const BeginOutput& begin);

}  // namespace memreel::kineto
