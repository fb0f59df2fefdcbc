// What PyTorch's allocator holds already when memreel joins a program: its own snapshot says so
// (torch.cuda.memory_snapshot), blocks and segments.
#pragma once

namespace memreel::torch {

/// Asks Python to take the snapshot at the next point at which its main thread may run Python, as it would a signal
/// handler, and to leave what it says with the recorder that there is then: RecordKind::snapshot_begin, snapshot_block,
/// snapshot_end. That is the only point at which it is known that nobody waits for the interpreter's lock or the
/// allocator's. Does nothing when there is no Python. PyTorch that is not loaded, or has not used a GPU, is left alone.
/// Any thread.
void ask_for_snapshot();

}  // namespace memreel::torch
