// SPDX-License-Identifier: Apache-2.0
// The Python frames of the calling thread, read in place: without the GIL, without Python's functions.
//
// A thread that runs C code, ours included, can't change its frames meanwhile, and each frame keeps its code object
// alive, so reading them is safe whether or not the thread holds the GIL. The walk relies on the structure layouts of
// the CPython minor version (layout.h), which are verified twice: the first walk reads through the kernel and checks
// every type on the way; then the interpreter's main thread, at a point where it may run Python, compares a walk with
// the C API. If either disagrees, Python frames are disabled and status() says why.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collector/python/code_table.h"
#include "collector/python/frame_chain.h"
#include "collector/python/interpreter.h"
#include "collector/stacks/stack_tree.h"

namespace memreel::python {

/// A frame as shown to a user.
struct FrameDescription {
  std::string function;  // the qualified name since CPython 3.11, else the name
  std::string file;
  std::uint32_t line = 0;  // 0: the instruction has no line

  // If it is a call of an nn.Module, which one. Else empty, 0.
  std::string module_type;       // its class
  std::string module_name;       // as the program named it, if it did
  std::uintptr_t module_id = 0;  // Python's id()

  friend bool operator==(const FrameDescription&, const FrameDescription&) = default;
};

class FrameWalker {  // NOLINT(clang-analyzer-optin.performance.Padding): one per process
 public:
  enum class Trust : std::uint8_t {
    absent,     // no interpreter was found
    unproved,   // an interpreter was found; no frames were seen yet
    plausible,  // its structures look right
    agreed,     // and a walk agreed with the C API
    refused,    // no Python frames: see reason()
  };

  FrameWalker() = default;
  FrameWalker(const FrameWalker&) = delete;
  FrameWalker& operator=(const FrameWalker&) = delete;

  /// Looks for an interpreter until one is found. Once trust() is agreed, and if code has no version, starts counting
  /// code deaths (code_table.h) until unwatch_code(): then unchanged frames cost next to nothing there too. Call
  /// repeatedly, from one thread at a time, never from a callback: it takes the dynamic loader's lock.
  void look();

  /// Updates `chain`, which belongs to the calling thread, to its current frames; returns their number (see
  /// FrameChain::follow). 0 if the thread has none, or they can't be walked. Any thread, any time.
  std::uint64_t walk(FrameChain& chain) noexcept;

  /// Writes the frames that walk() just found, innermost first, as many as fit; returns how many. Call on the same
  /// thread, before any of the frames resumes.
  std::size_t frames(const FrameChain& chain, std::span<stacks::PythonFrame> frames) noexcept;

  /// Describes a Python frame that frames() returned. Any thread; allocates.
  FrameDescription describe(stacks::FrameKey frame) const;

  /// From now on frames that are calls of this module, a live object, are shown with this name; empty: without a name.
  void name_module(const void* module, std::string_view name);

  /// Compares a walk with the C API. The calling thread holds the GIL. Returns trust().
  Trust compare_with_api();

  Trust trust() const { return trust_.load(std::memory_order_acquire); }
  /// Why there are no Python frames: empty, or part of a sentence such as "CPython 3.15.0 keeps ...". Constant once
  /// trust() is refused.
  const std::string& reason() const { return reason_; }
  /// The interpreter, once trust() is not absent.
  const Interpreter& interpreter() const { return *interpreter_; }
  /// Code objects missing from stacks because their table was full.
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
  std::atomic<std::uint32_t> module_call_ = 0;  // number of the code through which all module calls go; 0: not seen
};

}  // namespace memreel::python
