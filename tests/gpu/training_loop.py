#!/usr/bin/env python3
"""A training loop whose steps are timed: training_loop.py [STEPS]. Prints the median milliseconds of a step.

Small enough for the processor to be the bottleneck, as in the worst case for a recorder: kernels are short, and hundreds of
tensors are allocated and freed in each step."""

import statistics
import sys
import time

import torch


def main(steps):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    times = []
    for step in range(steps):
        start = time.perf_counter()
        batch = torch.randn(8, 64 + 8 * (step % 5), 256, device="cuda")
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    print(f"ms_per_step {statistics.median(times[steps // 4:]):.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
