// PyTorch's reports in a program that memreel attached to. A preloaded library precedes libc10 in symbol lookup; one
// loaded later must change resolved symbols: the GOT slots in libc10_cuda through which it calls the two functions of
// reporters.h. They are restored when the recording ends.
#pragma once

namespace memreel::torch {

/// Makes libc10_cuda call our functions, if it is loaded and does not already. May be called repeatedly, by one thread
/// at a time; takes the dynamic loader's lock. Does nothing if the slots can't be found.
void divert_calls();

/// Restores the original slots.
void restore_calls();

}  // namespace memreel::torch
