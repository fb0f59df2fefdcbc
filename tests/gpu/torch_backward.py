# SPDX-License-Identifier: Apache-2.0
"""Backward allocations and their operators: torch_backward.py, and torch_backward.py MEMREEL TRACE.

Each layer is called on a line of its own; allocations in a layer's backward pass must name that line."""
import collections
import os
import sys


def program():
    import torch

    first, second = torch.nn.Linear(300, 500).cuda(), torch.nn.Linear(500, 700).cuda()
    for _ in range(3):
        x = torch.randn(64, 300, device="cuda", requires_grad=True)
        y = first(x)  # line: first
        z = torch.nn.functional.gelu(y)  # line: gelu
        w = second(z)  # line: second
        loss = w.square().mean()  # line: loss
        loss.backward()
    torch.cuda.synchronize()


def main(memreel, trace):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
    from ground_truth import read_trace

    with open(__file__, encoding="utf-8") as file:
        lines = {number: text.rsplit("# line: ", 1)[1].strip() for number, text in enumerate(file, 1)
                 if "# line: " in text and "rsplit" not in text and " in text" not in text}
    # The bytes of each layer's gradient.
    expected = {64 * 300 * 4: {"first"}, 300 * 500 * 4: {"first"}, 64 * 500 * 4: {"gelu", "second"},
                500 * 700 * 4: {"second"}, 64 * 700 * 4: {"loss"}}
    linked, total, wrong = 0, 0, []
    for row in read_trace(memreel, trace):
        if row["heap"] != "torch.cuda" or row["kind"] != "alloc":
            continue
        names = [frame["function"] for frame in row.get("stack", ())]
        if "[backward of]" not in names and any(frame["file"].endswith(".py") for frame in row.get("stack", ())):
            continue
        total += 1
        if "[backward of]" not in names:
            continue
        linked += 1
        behind = row["stack"][names.index("[backward of]"):]
        line = next((lines[f["line"]] for f in behind if f["file"] == os.path.abspath(__file__) and f["line"] in lines), None)
        if row["size"] in expected and line not in expected[row["size"]]:
            wrong.append((row["size"], line))
    print(f"{linked} of {total} allocations of the backward pass have their operator; wrong ones: "
          f"{dict(collections.Counter(wrong))}")
    return 0 if linked and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else program())
