// SPDX-License-Identifier: Apache-2.0
// The tables that events refer to: each row is written to the trace once and identified by a dense ID from then on.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// The allocator level at which an event was seen.
enum class Level : std::uint8_t {
  driver = 0,     // cudaMalloc, cuMemCreate/cuMemMap, cudaMallocAsync...
  framework = 1,  // a pool inside the program: PyTorch, BFC, RMM, custom pools
};

/// A binary or shared object that contains native frames.
struct Module {
  StringId path = StringId::none;
  std::string build_id;  // raw bytes of the GNU build-id note, empty if there is none
  Address base{};        // of its first loadable segment
  Bytes size{};          // to the end of its last

  friend bool operator==(const Module&, const Module&) = default;
};

/// What a frame is (formats/model/frame_kind.h decides).
enum class FrameKind : std::uint8_t {
  unknown,        // too little is known, or it marks a place in a stack
  python,         // any Python code
  native,         // compiled code that no other kind describes
  interpreter,    // of Python, and what starts programs and threads
  allocator,      // an allocator, CUDA's runtime and driver below it, and what walks the stack for a recorder
  dispatcher,     // passes an operator on: PyTorch's dispatcher, generated registrations, bindings to Python
  operation,      // the call of a PyTorch operator: "at::_ops::bmm::call(...)"
  autograd_node,  // a node of the backward graph runs: "torch::autograd::generated::BmmBackward0::apply(...)"
};

/// Whose code a frame is.
enum class CodeOwner : std::uint8_t {
  library,    // an installed package, the system, CUDA, the interpreter; also if nothing is known
  user,       // what the user can change
  generated,  // written by a compiler at run time: torch.compile, Triton, torch.fx
};

/// One place in code. Python frames have a function, file and line; native frames have a module and an offset from its
/// base (the last byte of the call, one before the return address), and get the rest when symbols are resolved. Native
/// code outside any module has its address as the offset.
struct Frame {
  StringId function = StringId::none;
  StringId file = StringId::none;
  std::uint32_t line = 0;
  ModuleId module = ModuleId::none;
  std::uint64_t module_offset = 0;
  StringId instance = StringId::none;  // for a call of an nn.Module: which one, "transformer.h.3.mlp" or "GPT2MLP 3"
  // Derived from the rest (formats/model/frame_kind.h); not in files.
  FrameKind kind = FrameKind::unknown;
  CodeOwner owner = CodeOwner::library;
  std::uint16_t short_file_at = 0;  // where the part of `file` begins that tables print

  friend bool operator==(const Frame& a, const Frame& b) {
    return a.function == b.function && a.file == b.file && a.line == b.line && a.module == b.module &&
           a.module_offset == b.module_offset && a.instance == b.instance;
  }
};

/// A call stack: its innermost frame and the stack of its caller. `caller` has a smaller ID; StackId::none ends it.
struct Stack {
  FrameId frame = FrameId::none;
  StackId caller = StackId::none;

  friend bool operator==(const Stack&, const Stack&) = default;
};

/// A node in the tree of which heap sub-allocates from which.
struct Heap {
  StringId name = StringId::none;  // "torch.cuda", "cuda.driver"...
  Level level = Level::driver;
  std::int32_t device = 0;  // CUDA ordinal; -1 is host memory
  HeapId parent = HeapId::none;
  bool observes_completion = true;  // false: a free_requested is also its free_completed

  friend bool operator==(const Heap&, const Heap&) = default;
};

/// A separate arena inside a heap, e.g. the private pool of a CUDA graph or a torch.cuda.MemPool.
struct Pool {
  StringId name = StringId::none;
  std::uint64_t key_high = 0;  // the framework's own ID: PyTorch's MempoolId_t is a pair
  std::uint64_t key_low = 0;
  bool inferred = false;  // inferred by the importer, not recorded

  friend bool operator==(const Pool&, const Pool&) = default;
};

struct Stream {
  std::uint64_t handle = 0;  // the cudaStream_t as an integer; 0 is the legacy default stream

  friend bool operator==(const Stream&, const Stream&) = default;
};

struct Thread {
  std::uint64_t tid = 0;
  StringId name = StringId::none;

  friend bool operator==(const Thread&, const Thread&) = default;
};

/// Where an event came from. Programs use few distinct combinations, so one small ID per event represents all four.
struct Origin {
  HeapId heap = HeapId::none;
  PoolId pool = PoolId::default_pool;
  StreamId stream = StreamId::default_stream;
  ThreadId thread = ThreadId::unknown;
  StringId metadata = StringId::none;  // the program's note on its allocations: PyTorch's user_metadata

  friend bool operator==(const Origin&, const Origin&) = default;
};

enum class MarkPhase : std::uint8_t { instant = 0, begin = 1, end = 2 };

struct Mark {
  StringId name = StringId::none;
  MarkPhase phase = MarkPhase::instant;

  friend bool operator==(const Mark&, const Mark&) = default;
};

/// Allocator settings as key and value texts, e.g. {"max_split_size", "-1"}.
struct Settings {
  std::vector<std::pair<StringId, StringId>> entries;

  friend bool operator==(const Settings&, const Settings&) = default;
};

/// All tables of a trace, indexed by ID. Row 0 always exists.
struct Tables {
  std::vector<std::string> strings{std::string{}};
  std::vector<Module> modules{Module{}};
  std::vector<Frame> frames{Frame{}};
  std::vector<Stack> stacks{Stack{}};
  std::vector<Heap> heaps{Heap{}};
  std::vector<Pool> pools{Pool{}};
  std::vector<Stream> streams{Stream{}};
  std::vector<Thread> threads{Thread{}};
  std::vector<Origin> origins{Origin{}};
  std::vector<Mark> marks{Mark{}};
  std::vector<Settings> settings{Settings{}};

  const std::string& operator[](StringId id) const { return strings[index(id)]; }
  const Module& operator[](ModuleId id) const { return modules[index(id)]; }
  const Frame& operator[](FrameId id) const { return frames[index(id)]; }
  const Stack& operator[](StackId id) const { return stacks[index(id)]; }
  const Heap& operator[](HeapId id) const { return heaps[index(id)]; }
  const Pool& operator[](PoolId id) const { return pools[index(id)]; }
  const Stream& operator[](StreamId id) const { return streams[index(id)]; }
  const Thread& operator[](ThreadId id) const { return threads[index(id)]; }
  const Origin& operator[](OriginId id) const { return origins[index(id)]; }
  const Mark& operator[](MarkId id) const { return marks[index(id)]; }
  const Settings& operator[](SettingsId id) const { return settings[index(id)]; }

  friend bool operator==(const Tables&, const Tables&) = default;
};

// How a trace names NCCL's ranges: NCCL marks each of its calls (NVTX), from 2.25 on with the communicator.

/// Between the name of a function of NCCL and the 16 hexadecimal digits of its communicator, which NCCL_DEBUG=INFO
/// calls commId. Communicators of one process on several devices may have the same.
inline constexpr std::string_view nccl_communicator = ", communicator 0x";

struct NcclRange {
  std::string_view function;
  std::uint64_t communicator = 0;  // 0: not recorded
};

inline NcclRange nccl_range(std::string_view mark) {
  NcclRange range{.function = mark};
  const std::size_t at = mark.find(nccl_communicator);
  if (at == std::string_view::npos) return range;
  range.function = mark.substr(0, at);
  const std::string_view digits = mark.substr(at + nccl_communicator.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), range.communicator, 16);
  return range;
}

}  // namespace memreel
