// The Python frames of the calling thread, read where they lie: without the GIL, without Python's functions.
//
// A thread that runs C code, ours included, can't change its frames meanwhile, and each frame keeps its code object
// alive. So reading them is safe whether the thread holds the GIL or not. What is read is where CPython of this minor
// version keeps it (layout.h). That is checked twice before it is relied upon: the first walk reads through the kernel
// and looks at every type on its way; then the interpreter's main thread, at a point where it may run Python, compares
// a walk with what Python's C API says. When one of them disagrees there are no Python frames any more, and status()
// says why.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collector/python/code_table.h"
#include "collector/python/frame_chain.h"
#include "collector/python/instances.h"
#include "collector/python/interpreter.h"
#include "collector/python/known_codes.h"
#include "collector/stacks/merge.h"

namespace memreel::python {

/// A frame as a user reads it.
struct FrameDescription {
  std::string function;  // the qualified name from CPython 3.11 on, else the name
  std::string file;
  std::uint32_t line = 0;  // 0: the instruction belongs to no line

  // Of a call of an nn.Module: which one. Empty, 0: of none.
  std::string module_type;       // its class
  std::string module_name;       // as the program named it, if it did
  std::uintptr_t module_id = 0;  // as Python's id() says

  friend bool operator==(const FrameDescription&, const FrameDescription&) = default;
};

class FrameWalker {  // NOLINT(clang-analyzer-optin.performance.Padding): one for the process
 public:
  enum class Trust : std::uint8_t {
    absent,     // no interpreter was found
    unproved,   // one was found; no frames were seen yet
    plausible,  // its structures look right
    agreed,     // and a walk agreed with the C API
    refused,    // no Python frames: see reason()
  };

  FrameWalker() = default;
  FrameWalker(const FrameWalker&) = delete;
  FrameWalker& operator=(const FrameWalker&) = delete;

  /// Looks for an interpreter, until there is one. Once trust() is agreed, and where code has no version, has its
  /// deaths counted (code_deaths.h) until unwatch_code(): then frames that stay cost next to nothing there, too. To be
  /// called again and again, by one thread at a time, and never from a callback: it takes the dynamic loader's lock.
  void look();

  /// Makes `chain`, the calling thread's own, that of the frames it has now; returns their number (see there). 0 when
  /// the thread has none, and when they can't be walked. Any thread, any time.
  std::uint64_t walk(FrameChain& chain) noexcept;

  /// Writes the frames that walk() has just found, innermost first, as many as fit; returns how many. By the same
  /// thread, before any of them goes on.
  std::size_t frames(const FrameChain& chain, std::span<stacks::PythonFrame> frames) noexcept;

  /// What a Python frame that frames() gave stands for. Any thread, but with allocation.
  FrameDescription describe(stacks::FrameKey frame) const;

  /// From now on frames that are calls of this module, a live object, are shown with this name; empty: with none.
  void name_module(const void* module, std::string_view name);

  /// Compares a walk with the C API. The calling thread holds the GIL. Returns trust().
  Trust compare_with_api();

  Trust trust() const { return trust_.load(std::memory_order_acquire); }
  /// Why there are no Python frames: empty, or a sentence part such as "CPython 3.15.0 keeps ...". Constant once
  /// trust() is refused.
  const std::string& reason() const { return reason_; }
  /// The interpreter, once trust() is not absent.
  const Interpreter& interpreter() const { return *interpreter_; }
  /// Code objects that were left out of stacks because their table was full.
  std::uint64_t refused_codes() const { return codes_.refused(); }

 private:
  template <Activations style>
  class Reader;
  template <class Work>
  auto with_reader(Work work);
  std::uint32_t number_of(const void* code, std::uint32_t version);
  std::uint32_t number_by_content(const void* code, KnownCodes::Known known);
  bool prove(const void* thread_state);
  void refuse(const char* why);

  std::atomic<Trust> trust_ = Trust::absent;
  std::atomic<bool> proving_ = false;
  std::atomic<bool> asked_ = false;
  std::atomic<bool> refusing_ = false;
  std::optional<Interpreter> interpreter_;
  std::string reason_;
  CodeTable codes_;
  KnownCodes known_;
  Instances instances_;
  std::atomic<std::uint32_t> module_call_ = 0;  // number of the code that all calls of modules go through; 0: not seen
};

}  // namespace memreel::python
