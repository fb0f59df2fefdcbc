# SPDX-License-Identifier: Apache-2.0
"""Memory held by CUDA graph captures, compared with PyTorch's: torch_graphs.py run, torch_graphs.py MEMREEL TRACE
SAID.

`run`, under `memreel record`, captures graphs of several batch sizes into one pool and one graph into its own pool,
and prints what PyTorch's segments of that pool hold after each capture.
"""
import json
import subprocess
import sys

BATCHES = (64, 32, 128, 16)


def run():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()

    def held(pool):
        return sum(segment["total_size"] for segment in torch.cuda.memory_snapshot()
                   if tuple(segment["segment_pool_id"]) == tuple(pool))

    def capture(batch, pool):
        x = torch.zeros(256 * batch, 1024, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            model(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool), torch.no_grad():
            output = model(x)
        graph.replay()
        torch.cuda.synchronize()
        return graph, x, output

    kept, said = [], []
    for batches in (BATCHES, (64,)):
        pool = torch.cuda.graph_pool_handle()
        totals = []
        for batch in batches:
            kept.append(capture(batch, pool))
            totals.append(held(pool))
        said.append(totals)
    print(json.dumps(said))


def compare(memreel, trace, said):
    report = json.loads(subprocess.run([memreel, "report", "--json", trace], check=True, stdout=subprocess.PIPE).stdout)
    with open(said, encoding="utf-8") as file:
        expected = json.load(file)
    pools = [pool for heap in report["private_pools"] for pool in heap["pools"] if heap["heap"] == "torch.cuda"]
    found = []
    for pool in pools:
        total, totals = 0, []
        for use in pool["uses"]:
            total += use["grew_bytes"]
            totals.append(total)
        found.append(totals)
    print(f"{sum(map(len, expected))} captures in {len(expected)} pools: " + (
        "each added what PyTorch's segments show" if found == expected else f"{found}, PyTorch {expected}"))
    return int(found != expected or not all(pool["cuda_graphs"] for pool in pools))


if __name__ == "__main__":
    run() if sys.argv[1] == "run" else sys.exit(compare(*sys.argv[1:]))
