#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two processes that share CUDA tensors: torch_ipc.py

The second is on the last device and opens memory of the first on the first device."""

import torch
import torch.multiprocessing as multiprocessing

MIB = 1 << 20


def take(tensors, answers):
    torch.cuda.set_device(torch.cuda.device_count() - 1)
    own = torch.zeros(3 * MIB, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        tensor = tensors.get()
        answers.put(int(tensor.sum().item() + own.sum().item()))
        del tensor
    torch.cuda.synchronize()


def main():
    multiprocessing.set_start_method("spawn")
    tensors, answers = multiprocessing.Queue(), multiprocessing.Queue()
    other = multiprocessing.Process(target=take, args=(tensors, answers))
    other.start()
    for i in range(3):
        tensor = torch.full((30 * MIB,), i + 1, dtype=torch.uint8, device="cuda:0")
        tensors.put(tensor)
        assert answers.get() == (i + 1) * 30 * MIB
        del tensor
    other.join()
    assert other.exitcode == 0


if __name__ == "__main__":
    main()
