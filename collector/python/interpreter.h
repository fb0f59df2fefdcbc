// The CPython in this process, found through its symbols: nothing here links against Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/python/code_view.h"
#include "collector/python/layout.h"
#include "collector/stacks/module_table.h"

namespace memreel::python {

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
