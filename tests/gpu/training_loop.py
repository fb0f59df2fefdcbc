#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training loop with timed steps: training_loop.py small|usual STEPS [python|all]. Prints the median milliseconds.

`small` is the worst case for a recorder: kernels are so short that the processor is the bottleneck, with almost a
thousand tensors in each step. `usual` keeps the GPU busy. With a third argument PyTorch records its own history, with
these stacks.
"""

import statistics
import sys
import time

import torch


def main(size, steps, stacks=None):
    width, batch, length = {"small": (256, 8, 64), "usual": (1024, 32, 512)}[size]
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    if stacks:
        torch.cuda.memory._record_memory_history(stacks=stacks)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        data = torch.randn(batch, length + 8 * (step % 5), width, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    print(f"ms_per_step {statistics.median(times[steps // 4:]):.4f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
