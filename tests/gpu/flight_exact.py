# SPDX-License-Identifier: Apache-2.0
"""Flight recordings of PyTorch that began anew several times, replayed by its rules: flight_exact.py MEMREEL DIRECTORY [SEED...]

Each seed is a random program of some 130,000 tensors on three streams with empty_cache() now and then, recorded in 1 MiB under four
settings. Prints one line: how many recordings verify, and their addresses; fails if one does not."""

import json
import os
import pathlib
import random
import subprocess
import sys

SETTINGS = ["", "expandable_segments:True", "roundup_power2_divisions:4", "max_split_size_mb:64"]


def program(seed, count):
    import torch
    draw = random.Random(seed)
    streams = [torch.cuda.Stream() for _ in range(2)]
    live, held = [], 0
    for i in range(count):
        if live and (held > 1 << 30 or draw.random() < 0.48):
            k = draw.randrange(len(live))
            live[k], live[-1] = live[-1], live[k]
            tensor = live.pop()
            held -= tensor.numel()
            if draw.random() < 0.05:
                tensor.record_stream(draw.choice(streams))
            del tensor
        else:
            size = draw.choice([draw.randint(1, 200_000)] * 5 + [draw.randint(200_000, 4 << 20)] * 3 + [draw.randint(4 << 20, 40 << 20)] * 2)
            held += size
            with torch.cuda.stream(draw.choice([torch.cuda.current_stream()] * 3 + streams)):
                live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        if i % 5000 == 4999 and draw.random() < 0.3:
            torch.cuda.empty_cache()


def main():
    memreel, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    recordings = addresses = folded = 0
    for seed in map(int, sys.argv[3:] or ["1", "2"]):
        for number, settings in enumerate(SETTINGS):
            trace = directory / f"{seed}_{number}.reel"
            subprocess.run([memreel, "record", "-q", "--flight", "1MiB", "--when-full", "block", "-o", trace, "--",
                            sys.executable, __file__, "program", str(seed), "130000"],
                           env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings}, check=True)
            verified = subprocess.run([memreel, "verify", "--json", trace], capture_output=True, text=True)
            for heap in json.loads(verified.stdout)["devices"]:
                if not heap["exact"]:
                    sys.exit(f"flight_exact.py: {trace}, '{settings}': {heap['address_matches']:,} of {heap['allocations']:,} addresses"
                             f" equal; {heap['note'] or heap['first_divergence']}")
                addresses += heap["allocations"]
            info = json.loads(subprocess.run([memreel, "info", "--json", trace], capture_output=True, text=True, check=True).stdout)
            folded += info["losses"]["folded_events"] > 0
            recordings += 1
    if folded < recordings:
        sys.exit(f"flight_exact.py: {recordings - folded} of {recordings} recordings still had their first events")
    print(f"ok: {recordings} recordings exact, {addresses:,} addresses")


if __name__ == "__main__":
    if sys.argv[1] == "program":
        program(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
