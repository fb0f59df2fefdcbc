# SPDX-License-Identifier: Apache-2.0
"""NCCL's memory by communicator: torch_communicators.py run, torch_communicators.py MEMREEL TRACE.

`run`, under `memreel record`, creates three single-rank communicators on three lines and uses each of them.
"""
import json
import os
import subprocess
import sys


def run():
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
    device = torch.device("cuda:0")

    def whole():
        dist.init_process_group("nccl", device_id=device)  # makes one

    def tensor_parallel():
        return dist.new_group([0], backend="nccl")  # makes one

    def pipeline():
        return dist.new_group([0], backend="nccl")  # makes one

    whole()
    x = torch.ones(1 << 20, device=device)
    for group in (None, tensor_parallel(), pipeline()):
        dist.all_reduce(x, group=group)
        torch.cuda.synchronize()
    dist.destroy_process_group()


def compare(memreel, trace, _):
    report = json.loads(subprocess.run([memreel, "report", "--json", "--by", "library", trace], check=True,
                                       stdout=subprocess.PIPE).stdout)
    groups = [group for peak in report["live_at_peak"] if peak["heap"] == "cuda.driver" for group in peak["groups"]]
    found = {group["label"].rsplit("(", 1)[-1].rstrip(")").rsplit(":", 1)[-1]: group["bytes"] for group in groups
             if "communicator" in group["label"]}
    with open(__file__, encoding="utf-8") as file:
        lines = [str(n) for n, line in enumerate(file, 1) if line.rstrip().endswith("# makes one")]
    print(", ".join(f"line {line}: {bytes >> 20} MiB" for line, bytes in sorted(found.items()))
          + f"; of {sum(group['bytes'] for group in groups) >> 20} MiB at the peak")
    return int(sorted(found) != sorted(lines) or sum(found.values()) != sum(group["bytes"] for group in groups))


if __name__ == "__main__":
    run() if sys.argv[1] == "run" else sys.exit(compare(*sys.argv[1:]))
