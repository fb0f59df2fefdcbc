// SPDX-License-Identifier: Apache-2.0
// The CPython in this process, found through its symbols: nothing here links against Python.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/interned/interned_bytes.h"
#include "collector/python/code_table.h"
#include "collector/python/python_layout.h"
#include "collector/stacks/module_table.h"

namespace memreel::python {

// Which nn.Module a frame is a call of: the type and identity of `self`, and the name that the program gave it.

/// Whether all module calls go through this code: nn.Module._wrapped_call_impl, in every PyTorch since 2.1
/// (torch/nn/modules/module.py). `self` is its first argument there, and never in a cell.
bool is_module_call(const CodeView& code);

/// Calls of one code object, distinguished by the called object. Any thread, any time, without locks or allocation,
/// except where noted.
///
/// An object is identified by its address and type. If a program drops a module and creates another of the same type at
/// the same address, both share a number, unless the program calls name() with an empty name. If all other parts of
/// their frames are equal, a thread may miss a change of type too (FrameChain).
class Instances {
 public:
  /// The meaning of a number.
  struct Instance {
    std::uint32_t code = 0;     // number of the code object
    std::uintptr_t object = 0;  // address of the module
    std::string type;           // its class, without the Python module: "GPT2Block"
    std::string name;           // "transformer.h.3.mlp"; empty: unnamed when it was first called
  };

  /// Whether a FrameKey's code number came from number_of().
  static bool is_instance(std::uint32_t number) { return (number & bit) != 0; }

  /// Whether the value at the place of `self` can be read as an object. The process's first one is read with care and
  /// stands for all others: if the layout holds once, it always does.
  bool are_readable(const void* self, const Layout& layout) {
    const Readable known = readable_.load(std::memory_order_relaxed);
    return known == Readable::unknown ? try_to_read(self, layout) : known == Readable::yes;
  }

  /// The number, below 2^31, for calls of `code` (below 2^30) on `self`, a live object, once are_readable(). Returns
  /// `code` if there is no room, or its type has no name.
  std::uint32_t number_of(std::uint32_t code, const void* self, const Layout& layout);

  /// Allocates.
  Instance operator[](std::uint32_t number) const;

  /// Changes with every name(): frames read earlier may now be shown differently.
  std::uint32_t epoch() const { return epoch_.load(std::memory_order_relaxed); }

  /// From now on the live object is shown with this name; empty: without one. Texts longer than 1 KiB are cut.
  void name(const void* object, std::string_view name, const Layout& layout);

 private:
  enum class Readable : std::uint8_t { unknown, no, yes };
  static constexpr std::uint32_t bit = 1U << 30U;

  bool try_to_read(const void* self, const Layout& layout);
  std::uint32_t add(std::uint32_t code, const void* self, const Layout& layout);

  std::atomic<std::uint32_t> epoch_ = 0;
  std::atomic<Readable> readable_ = Readable::unknown;
  KnownCodes known_{1U << 18U};  // rows by object; the version is derived from its type
  KnownCodes names_{1U << 18U};  // texts by object
  InternedBytes rows_{1U << 18U, std::size_t{32} << 20U};
  InternedBytes texts_{1U << 18U, std::size_t{32} << 20U};
};

/// Python's functions, as declared by its C API. Object stands for PyObject.
struct Api {
  using Object = void;
  int (*is_initialized)() = nullptr;                         // Py_IsInitialized
  void* (*thread_state)() = nullptr;                         // PyGILState_GetThisThreadState; needs no GIL
  int (*add_pending_call)(int (*)(void*), void*) = nullptr;  // Py_AddPendingCall; needs no GIL
  Object* (*current_frame)() = nullptr;                      // PyEval_GetFrame; borrowed
  Object* (*caller_of)(Object*) = nullptr;                   // PyFrame_GetBack; new reference
  Object* (*code_of)(Object*) = nullptr;                     // PyFrame_GetCode; new reference
  int (*line_of)(Object*) = nullptr;                         // PyFrame_GetLineNumber
  void (*release)(Object*) = nullptr;                        // Py_DecRef
};

struct Interpreter {
  std::string version;  // "3.12.3"
  Layout layout;
  Types types;
  Api api;
  std::vector<stacks::AddressRange> evaluator;  // _PyEval_EvalFrameDefault, in one piece or several
  stacks::AddressRange
      plumbing;  // all code of the interpreter's library or program; empty if it also contains other code
};

/// The result of looking for an interpreter: an interpreter, or why the one that is there can't be walked; both empty
/// if there is none (yet). Takes the dynamic loader's lock: never from a callback.
struct Found {
  std::optional<Interpreter> interpreter;
  std::string refusal;
};
Found find_interpreter();

}  // namespace memreel::python
