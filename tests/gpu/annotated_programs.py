# SPDX-License-Identifier: Apache-2.0
"""Annotated steps, ranges and pools of programs on a real GPU: annotated_programs.py DIRECTORY. Prints the expected
trace contents."""
import json
import os
import sys

sys.path[:0] = sys.argv[1:]
import memreel
import torch

assert memreel.recording() or "MEMREEL_OUTPUT" not in os.environ
said = {"marks": [], "cupy": []}

model = torch.nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stop = memreel.steps_of_optimizers()
for _ in range(3):
    torch.cuda.nvtx.range_push("forward")
    loss = model(torch.randn(8, 64, device="cuda")).sum()
    torch.cuda.nvtx.range_pop()
    loss.backward()
    optimizer.step()
    said["marks"] += [["forward", "begin"], ["forward", "end"], ["step", "instant"]]
stop()
optimizer.step()

try:
    import cupy
    import cupy_memory
except ImportError as error:
    print("no CuPy here:", error, file=sys.stderr)
else:
    with cupy_memory.Recorded():
        for n in 10, 1000, 100_000:
            array = cupy.zeros(n, dtype=cupy.uint8)
            said["cupy"] += [["alloc", array.data.ptr, n], ["free_requested", array.data.ptr, n]]
            del array
print(json.dumps(said))
