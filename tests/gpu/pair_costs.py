"""What turns of record_cost.py add up to: pair_costs.py FILE. A line for each call depth and kind of recording."""
import json
import sys


def main(path):
    least = {}
    with open(path) as file:
        for turn in map(json.loads, file):
            for depth, ns in turn["ns"].items():
                key = depth, turn["label"]
                least[key] = min(ns, least.get(key, ns))
    if not least:
        sys.exit("no turn of the loop was measured")
    for depth in sorted({depth for depth, _ in least}, key=int):
        bare = least[depth, "bare"]
        history = least[depth, "history"] - bare
        for label in "no stacks", "native stacks", "native and Python stacks":
            added = least[depth, label] - bare
            print(
                f"{label}, depth {depth}\tbare {bare:,}: +{added:,}, PyTorch's own recorder +{history:,}: {added / history:.2f} of it"
            )


main(sys.argv[1])
