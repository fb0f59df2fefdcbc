# SPDX-License-Identifier: Apache-2.0
"""Everything that could deadlock with a recorder, at once: torch_stress.py SECONDS.

Training on one thread, threads that allocate on their own streams, constant memory_stats() and empty_cache(), threads
that rarely release the GIL, and a DataLoader with workers. Prints what was done; a watchdog exits with code 3 when any
of them makes no progress for 20 seconds."""
import faulthandler
import os
import random
import sys
import threading
import time

import torch

SECONDS = float(sys.argv[1])
END = float("inf")
done = {}


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return torch.full((64, 64), float(index))


class Training:
    def __init__(self):
        self.model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)]).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.step()  # PyTorch imports many of its modules here, which takes long while others hold the GIL

    def step(self):
        self.model(torch.randn(64, 512, device="cuda")).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def run(self):
        while time.monotonic() < END:
            self.step()
            yield


def allocate():
    sizes, held = random.Random(threading.get_ident()), []
    with torch.cuda.stream(torch.cuda.Stream()):
        while time.monotonic() < END:
            held.append(torch.empty(sizes.randrange(1, 1 << 22), dtype=torch.uint8, device="cuda"))
            held[-1].record_stream(torch.cuda.default_stream())
            if len(held) > 30:
                held.pop(sizes.randrange(len(held)))
            yield


def ask():
    while time.monotonic() < END:
        torch.cuda.memory_stats()
        torch.cuda.memory_summary()
        yield


def empty():
    while time.monotonic() < END:
        torch.cuda.empty_cache()
        time.sleep(0.01)
        yield


def hold_the_gil():
    while time.monotonic() < END:
        sum(i * i for i in range(20000))
        yield


def load():
    while time.monotonic() < END:
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=16, num_workers=2, pin_memory=True)
        for batch in loader:
            batch.cuda(non_blocking=True).sum()
            yield
            if time.monotonic() >= END:
                return


def run(name, work):
    done[name] = 0
    for _ in work():
        done[name] += 1


def main():
    global END
    faulthandler.enable()
    sys.setswitchinterval(0.0005)
    training = Training()
    END = time.monotonic() + SECONDS
    works = [("train", training.run), *[(f"allocate{n}", allocate) for n in range(3)], ("ask", ask), ("empty", empty),
             *[(f"gil{n}", hold_the_gil) for n in range(2)], ("load", load)]
    threads = [threading.Thread(target=run, args=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    seen, since = dict(done), {name: time.monotonic() for name, _ in works}
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        for (name, _), thread in zip(works, threads):
            if done.get(name) != seen.get(name) or not thread.is_alive():
                seen[name], since[name] = done.get(name), time.monotonic()
            elif time.monotonic() - since[name] > 20:
                print(f"{name} stands still", file=sys.stderr, flush=True)
                faulthandler.dump_traceback()
                os._exit(3)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    print(f"{SECONDS:.0f} s, {stats['allocation.all.allocated']} allocations,", done)


if __name__ == "__main__":
    main()
