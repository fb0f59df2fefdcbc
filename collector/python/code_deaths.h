// Whether another code object may have replaced a dead one at the same address, in interpreters whose code has no
// version: CPython 3.9 to 3.11.
//
// CPython frees an object through its type's `tp_dealloc`; for code, `PyCode_Type`'s (Objects/object.c: _Py_Dealloc).
// While code is watched, a function of ours is installed there, which counts and calls Python's. If no code object was
// freed, all are unchanged and need not be read again.
#pragma once

#include <cstdint>

namespace memreel::python {

/// Watches the code objects of the interpreter with this PyCode_Type, until unwatch_code(). May be called repeatedly:
/// does nothing if they are already watched, if other data is at that place, or while another function is installed
/// there. Any thread; needs no GIL. Only for an interpreter whose layout has been verified.
void watch_code(const void* code_type);

/// Restores Python's function, unless another function was installed over ours and would miss it.
void unwatch_code();

/// As long as this value stays the same, no code object has died. 0: unknown, as Python does not call our function. Any
/// thread, any time.
std::uint32_t code_epoch();

}  // namespace memreel::python
