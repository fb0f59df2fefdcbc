# SPDX-License-Identifier: Apache-2.0
"""How well memreel's categories agree with the programs' own labels: precision and recall by category.

    category_score.py [FILE.pickle.xz...]    labelled histories; default: all in shared/histories/labels and
                                             shared/histories/asrecorded/labels
"""

import json
import lzma
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import histories

LABELS = histories.SHARED / "labels"
AS_RECORDED = histories.SHARED / "asrecorded/labels"
MEMREEL = os.environ.get("MEMREEL", "memreel")
# A copy of the parameters has the name of its kind; autocast's copies of weights are kept for the backward pass.
EXPECTED = {"ema": {"parameter_copy"}, "activation": {"activation", "parameter_copy"}}
NAME = {"ema": "parameter_copy"}


def labelled():
    return sorted(LABELS.glob("*.pickle.xz"))


def as_recorded():
    """The same programs as people record them: with C++ frames, begun late, with a full ring."""
    return sorted(AS_RECORDED.glob("*/*.pickle.xz"))


class Instant:
    """Labelled bytes at one instant: for each label, the bytes by memreel's category."""

    def __init__(self, labels, live):
        self.where = f"step {labels['step']}, {labels['when']}"
        self.named = {label: defaultdict(int) for label in labels["blocks"]}
        for label, blocks in labels["blocks"].items():
            for address in blocks:
                category, size = live[int(address)]
                self.named[label][category] += size

    def bytes(self, label):
        return sum(self.named[label].values())

    def right(self, label):
        return sum(self.named[label][category] for category in EXPECTED.get(label, {label}))

    def share(self, amounts, labels=None):
        total = sum(self.bytes(label) for label in labels or self.named)
        return sum(amounts) / total if total else 0

    def share_right(self, labels=None):
        labels = [label for label in labels or self.named if label in self.named]
        return self.share((self.right(label) for label in labels), labels)

    def share_unknown(self):
        return self.share(named["unknown"] for named in self.named.values())


def score(history, whole=True):
    """The labelled instants of a history, in order. `whole`: the recording has all of them."""
    history = str(history)
    labels = json.loads(lzma.open(history.replace(".pickle.xz", ".labels.json.xz")).read())
    pending = {instant["marker_bytes"]: instant for instant in labels["instants"]}
    live, instants = {}, []
    with subprocess.Popen([MEMREEL, "export", history, "--format", "jsonl"], stdout=subprocess.PIPE) as export:
        for line in export.stdout:
            row = json.loads(line)
            if row["kind"] == "free_requested":
                live.pop(row["address"], None)
            if row["kind"] != "alloc":
                continue
            if row["size"] in pending:
                instants.append(Instant(pending.pop(row["size"]), live))
            live[row["address"]] = (row["category"], row["size"])
    if export.returncode or (pending and whole) or not instants:
        raise RuntimeError(f"{history}: exit {export.returncode}, {len(pending)} instants not met")
    return instants


def main(files):
    print(f"{'program':20} {'instants':>8} {'least right %':>13} {'most unknown %':>14}")
    for history in files:
        instants = score(history, whole=AS_RECORDED not in Path(history).parents)
        name = os.path.basename(history).removesuffix(".pickle.xz")
        print(f"{name:20} {len(instants):8} {100 * min(map(Instant.share_right, instants)):13.2f} "
              f"{100 * max(map(Instant.share_unknown, instants)):14.2f}")
        answers, right_answers = defaultdict(int), defaultdict(int)
        for instant in instants:
            for label, by_category in instant.named.items():
                for category, size in by_category.items():
                    answers[category] += size
                    right_answers[category] += size * (category in EXPECTED.get(label, {label}))
        for label in sorted({label for instant in instants for label in instant.named}):
            total = sum(instant.bytes(label) for instant in instants if label in instant.named)
            right = sum(instant.right(label) for instant in instants if label in instant.named)
            name = NAME.get(label, label)
            precision = f"{100 * right_answers[name] / answers[name]:6.2f} %" if answers[name] else "     -  "
            if total:
                print(f"    {label:16} recall {100 * right / total:6.2f} %   precision {precision}   "
                      f"{total / 2**20 / len(instants):9.1f} MiB")


if __name__ == "__main__":
    main(sys.argv[1:] or labelled() + as_recorded())
