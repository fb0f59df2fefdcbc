#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes rmm_third_run.csv, a log in the format of RMM's logging_resource_adaptor: make_rmm_log.py > rmm_third_run.csv

Synthetic, not recorded. It has the pattern of https://github.com/rapidsai/rmm/issues/1969: the same program runs three
times on a pool of 84.6 GB that cannot grow, everything is freed after each run, and the third run fails with more than
20 GB free. Two streams do it: what a run frees stays in the list of the stream that freed it, so the next run finds the
same memory cut in other places.
"""

import random

STREAMS = (("0x0", 2342727), ("0x55d2c8a3f0e0", 2342731))  # a thread each
GB = 846_000_000

# One run: allocations (name, hundredths of the pool, stream) and frees (name).
RUN = [("build", 17, 0), "build", ("table", 57, 1), ("keys", 4, 1), ("index", 4, 0), ("join", 24, 1), "join", "table",
       "index", "keys"]
RUNS = 3


class Log:
    def __init__(self):
        self.random = random.Random(1969)
        self.time_us = (14 * 3600 + 21 * 60 + 19) * 1_000_000
        self.live = {}  # name: (address, size, stream)
        print("Thread,Time,Action,Pointer,Size,Stream")

    def line(self, action, pointer, size, stream):
        self.time_us += self.random.randrange(3, 900)
        seconds, micros = divmod(self.time_us, 1_000_000)
        time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
        handle, thread = STREAMS[stream]
        print(f"{thread},{time},{action},{pointer},{size},{handle}")

    def allocate(self, name, size, stream):
        address = 0x302000000
        for begin, length, _ in sorted(self.live.values()):
            if begin - address >= size:
                break
            address = max(address, begin + (length + 255) // 256 * 256)
        self.live[name] = (address, size, stream)
        self.line("allocate", hex(address), size, stream)

    def free(self, name):
        address, size, stream = self.live.pop(name)
        self.line("free", hex(address), size, stream)

    def scratch(self, stream):
        """Scratch memory of kernels, freed at once."""
        for _ in range(self.random.randrange(10, 30)):
            self.allocate("scratch", self.random.choice((256, 1024, 4096, 40_000, 1_048_576)), stream)
            self.free("scratch")


def main():
    log = Log()
    for run in range(RUNS):
        for step in RUN:
            if isinstance(step, str):
                log.free(step)
                continue
            name, share, stream = step
            if run == RUNS - 1 and name == "join":
                log.line("allocate failure", "(nil)", share * GB, stream)
                for rest in list(log.live):
                    log.free(rest)
                return
            log.allocate(name, share * GB, stream)
            log.scratch(stream)


if __name__ == "__main__":
    main()
