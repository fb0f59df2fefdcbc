#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training with NCCL, for torchrun: torch_ranks.py OUT_DIR

Each rank records its own history from its first allocation on and writes rank_R.pickle.xz and rank_R.json: the final
torch.cuda.memory_stats() and driver statistics."""

import json
import lzma
import os
import pathlib
import pickle
import sys

import torch
import torch.distributed as distributed


def used_by_this_process():
    """Bytes on each GPU, by index, as the driver counts them; empty where it does not."""
    try:
        import pynvml

        pynvml.nvmlInit()
        used = {}
        for i in range(pynvml.nvmlDeviceGetCount()):
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(i)):
                if process.pid == os.getpid() and process.usedGpuMemory:
                    used[i] = process.usedGpuMemory
        return used
    except Exception:  # whatever is missing, the rest can be compared
        return {}


def train(rank):
    """Whether NCCL's sum is right."""
    torch.manual_seed(rank)
    layers = [torch.nn.Linear(1024, 1024) for _ in range(6)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(20):
        loss = model(torch.randn(64 + 32 * (step % 3), 1024, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    total = torch.full((1 << 22,), float(rank + 1), device="cuda")
    distributed.all_reduce(total)
    gathered = [torch.empty_like(total) for _ in range(distributed.get_world_size())]
    distributed.all_gather(gathered, total)
    torch.cuda.synchronize()
    return bool((total == sum(range(1, distributed.get_world_size() + 1))).all())


def main():
    out = pathlib.Path(sys.argv[1])
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    right = train(rank)
    distributed.barrier()
    used = used_by_this_process()
    distributed.destroy_process_group()
    stats = [torch.cuda.memory_stats(i) for i in range(torch.cuda.device_count())]
    snapshot = torch.cuda.memory._snapshot()
    with lzma.open(out / f"rank_{rank}.pickle.xz", "wb", preset=1) as file:
        pickle.dump(snapshot, file, protocol=4)
    row = {"file": f"rank_{rank}", "pid": os.getpid(), "right": right, "used": used, "devices": stats,
           "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    (out / f"rank_{rank}.json").write_text(json.dumps(row) + "\n")


main()
