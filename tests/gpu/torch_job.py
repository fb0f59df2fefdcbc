#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of several ranks, for torchrun: torch_job.py PROGRAM OUT_DIR

  fsdp       FSDP2 with activation checkpointing; its communicator is made when the process group is
  ddp        data parallel, DistributedDataParallel
  mesh       tensor parallel 2 x data parallel N/2, three communicators a rank, each made at its first use; the last half
             of the ranks has a larger batch
  pipeline   a stage a rank, each pair of neighbours with a communicator; stage N/2 is the heaviest, rank 1 keeps an
             activation of every step

Every rank writes rank_R.json: torch.cuda.memory_stats(), the most that the driver said was in use on its device, and by
how much free memory fell as each communicator was made and used for the first time. The first and the last rank record
PyTorch's own history, too: rank_R.pickle.xz. Without a GPU it runs on the processor, to try the program."""

import ctypes
import json
import lzma
import os
import pathlib
import pickle
import random
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._composable import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

GPU = torch.cuda.is_available()
STEPS, HEADS, BATCH = 12, 16, 4
HIDDEN, WORDS, UNIT, LARGE = (1024, 16384, 64, 1 << 24) if GPU else (64, 128, 1, 1 << 10)
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if GPU else torch.device("cpu")
fell, communicators, least_free = {}, [], []


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2) for part in (self.q, self.k, self.v))
        return self.o(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention = Attention()
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False), nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


class Model(nn.Module):
    """The first stage of a pipeline has the words, the last one the head."""

    def __init__(self, blocks, first=True, last=True):
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN) if first else None
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(HIDDEN, WORDS, bias=False) if last else None

    def forward(self, x):
        x = self.words(x) if self.words else x
        for block in self.blocks:
            x = block(x)
        return self.head(x) if self.head else x


def free():
    if not GPU:
        return 0
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def measured(name, group, communicator, use):
    """Uses a communicator for the first time."""
    before = free()
    use(group)
    fell[name] = before - free()
    communicators.append({"name": name, "number": communicator, "time_ns": time.time_ns()})


def collectives(group):
    """Once each of what the programs do."""
    n = dist.get_world_size(group)
    for tensor in (large, large[:256]):
        dist.all_reduce(tensor, group=group)
    dist.all_gather_into_tensor(gathered[:n * small.numel()], small, group=group)
    dist.reduce_scatter_tensor(small, gathered[:n * small.numel()], group=group)
    ring = dist.get_process_group_ranks(group or dist.group.WORLD)
    at = ring.index(RANK)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, small, ring[(at + 1) % n], group),
                                        dist.P2POp(dist.irecv, gathered[:small.numel()], ring[at - 1], group)]):
        work.wait()


def lengths():
    """Of the sequences of each step, the same on every rank."""
    chosen = random.Random(7)
    return [chosen.randrange(4, 17) * UNIT for _ in range(STEPS)]


def words(batch, length):
    return torch.randint(WORDS, (batch, length), device=DEVICE)


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def train(model, batch):
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for length in lengths():
        text = words(batch, length + 1)
        loss = loss_of(model(text[:, :-1]), text[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(loss.detach())
        least_free.append(free())


def half():
    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def fsdp():
    collectives(None)
    model = Model(8).to(DEVICE)
    for block in model.blocks:
        checkpoint(block)
        fully_shard(block, mp_policy=half())
    fully_shard(model, mp_policy=half())
    train(model, BATCH)


def ddp():
    collectives(None)
    model = Model(8).to(DEVICE)
    train(nn.parallel.DistributedDataParallel(model, device_ids=[DEVICE.index] if GPU else None), BATCH)


def mesh():
    parallel = init_device_mesh(DEVICE.type, (SIZE // 2, 2), mesh_dim_names=("dp", "tp"))
    first = dist.new_group()  # loads NCCL's code
    measured("code and first", first, 1, collectives)
    dist.destroy_process_group(first)
    time.sleep(3)  # its memory comes back when all ranks have ended it
    measured("world", None, 2, collectives)
    measured("tp", parallel.get_group("tp"), 3, collectives)
    measured("dp", parallel.get_group("dp"), 4, collectives)
    model = Model(8).to(DEVICE)
    for block in model.blocks:
        parallelize_module(block, parallel["tp"], {
            "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(), "attention.v": ColwiseParallel(),
            "attention.o": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=parallel["dp"], mp_policy=half())
    fully_shard(model, mesh=parallel["dp"], mp_policy=half())
    train(model, BATCH + RANK * 2 // SIZE)


def pass_on(tensor, source, target):
    """From one rank to another and back."""
    for sender, receiver in ((source, target), (target, source)):
        if RANK == sender:
            dist.send(tensor, receiver)
        else:
            dist.recv(tensor, sender)


def pipeline():
    measured("code and first", None, 1, collectives)
    made = 1
    for rank in range(SIZE - 1):
        if RANK in (rank, rank + 1):
            made += 1
            measured(f"{rank} and {rank + 1}", (rank, rank + 1), made, lambda pair: pass_on(large, *pair))
        dist.barrier()
    is_first, is_last = RANK == 0, RANK == SIZE - 1
    stage = Model(10 if RANK == SIZE // 2 else 2, is_first, is_last).to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(stage.parameters(), foreach=True)
    for length in lengths():
        passed = []
        for _ in range(4):
            text = words(BATCH, length)
            inputs = text if is_first else torch.empty(BATCH, length, HIDDEN, device=DEVICE, dtype=torch.bfloat16)
            if not is_first:
                dist.recv(inputs, RANK - 1)
                inputs.requires_grad_()
            outputs = loss_of(stage(inputs), text) if is_last else stage(inputs)
            if not is_last:
                dist.send(outputs.detach(), RANK + 1)
            passed.append((inputs, outputs))
        if RANK == 1:
            kept = outputs.detach().clone()  # the leak
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # as an extension in C does
        for inputs, outputs in passed:
            gradient = None if is_last else torch.empty_like(outputs)
            if not is_last:
                dist.recv(gradient, RANK + 1)
            outputs.backward(gradient)
            if not is_first:
                dist.send(inputs.grad, RANK - 1)
        del passed, inputs, outputs, gradient
        optimizer.step()
        optimizer.zero_grad()
        least_free.append(free())


def main(program, out):
    has_history = GPU and RANK in (0, SIZE - 1)
    if GPU:
        torch.cuda.set_device(DEVICE)
    if has_history:
        torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=1 << 22)
    at_once = {"device_id": DEVICE} if GPU and program == "fsdp" else {}
    dist.init_process_group("nccl" if GPU else "gloo", **at_once)
    globals().update(large=torch.ones(LARGE, device=DEVICE), small=torch.ones(LARGE >> 4, device=DEVICE),
                     gathered=torch.ones(SIZE * LARGE >> 4, device=DEVICE))
    {"fsdp": fsdp, "ddp": ddp, "mesh": mesh, "pipeline": pipeline}[program]()
    dist.barrier()
    row = {"file": f"rank_{RANK}", "pid": os.getpid(), "fell": fell, "communicators": communicators,
           "torch": torch.__version__}
    if GPU:
        row["driver_peak"] = torch.cuda.mem_get_info()[1] - min(least_free)
        row["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    dist.destroy_process_group()
    if GPU:
        row["devices"] = [torch.cuda.memory_stats(i) for i in range(torch.cuda.device_count())]
    if has_history:
        snapshot = torch.cuda.memory._snapshot()
        with lzma.open(out / f"rank_{RANK}.pickle.xz", "wb", preset=1) as file:
            pickle.dump(snapshot, file, protocol=4)
    (out / f"rank_{RANK}.json").write_text(json.dumps(row) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
