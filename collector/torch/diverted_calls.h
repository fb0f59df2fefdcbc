// PyTorch's reports in a program that memreel joined. A library that was preloaded comes before libc10 when names are
// looked up; one that comes later has to change what was looked up already: the slots in libc10_cuda's table of
// addresses through which it calls the two functions of reporters.h. They are put back when the recording ends.
#pragma once

namespace memreel::torch {

/// Has libc10_cuda call our functions, if it is loaded, and does not already. May be called again and again, by one
/// thread at a time; takes the dynamic loader's lock. Does nothing when the slots can't be found.
void divert_calls();

/// Has it call what it called before.
void restore_calls();

}  // namespace memreel::torch
