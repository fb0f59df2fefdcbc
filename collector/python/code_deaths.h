// Whether another code object can have taken a dead one's place, in interpreters whose code has no version: CPython 3.9
// to 3.11.
//
// CPython frees an object by what its type says: `tp_dealloc`, of code `PyCode_Type`'s (Objects/object.c: _Py_Dealloc).
// While code is watched, a function of ours stands there, which counts and goes on to Python's. Code that nobody freed
// is what it was, so nothing of it need be read again.
#pragma once

#include <cstdint>

namespace memreel::python {

/// Watches the code of the interpreter whose PyCode_Type that is, until unwatch_code(). To be called again and again:
/// does nothing while it is watched, when something else lies there, and while somebody else's function stands there.
/// Any thread; needs no GIL. Only for an interpreter whose structures are known to be as they should.
void watch_code(const void* code_type);

/// Has Python's function called as before, unless somebody else's stands before ours now: that would miss it.
void unwatch_code();

/// As long as it is the same, no code object has died. 0: that is not known, as ours is not what Python calls. Any
/// thread, any time.
std::uint32_t code_epoch();

}  // namespace memreel::python
