// What PyTorch's allocator already holds when memreel attaches to a program, from its own snapshot
// (torch.cuda.memory_snapshot): blocks and segments.
#pragma once

namespace memreel::torch {

/// Makes Python take the snapshot the next time its main thread may run Python, as for a signal handler, and pass the
/// result to the recorder active at that time: RecordKind::snapshot_begin, snapshot_block, snapshot_end. Only then is
/// it certain that no thread waits for the interpreter's lock or the allocator's. Does nothing without Python. Leaves
/// PyTorch alone if it is not loaded or has not used a GPU. Any thread.
void ask_for_snapshot();

}  // namespace memreel::torch
