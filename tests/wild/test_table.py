# SPDX-License-Identifier: Apache-2.0
"""Public PyTorch snapshots of strangers: how often memreel's first answer agrees with what the snapshot itself says.

Prints a table; each row has a limit. The files are not part of this repository: without them, the test is skipped."""

import pathlib
import re
import statistics
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e"), str(pathlib.Path(__file__).resolve().parent)]
import truth  # noqa: E402
from program import REPOSITORY, ProgramTest  # noqa: E402

FILES = sorted((REPOSITORY.parent / "shared/wild/torch").glob("*.pickle.xz"))

# A line of a Python file, of a notebook's cell or of a string, with or without its function.
PYTHON_LINE = re.compile(r"(\.py|\bcell\b.*|>|\]):\d+\)?$|\.py:\d+")


def is_python_line(label):
    return PYTHON_LINE.search(label) is not None


class Answer:
    """What memreel says of a file, beside the truth."""

    def __init__(self, file, document):
        self.name = file.name.split(".")[0]
        self.document = document
        self.verdict = document["verdict"]
        self.heaps = truth.heaps(truth.read(file))
        decides = self.verdict["decides"]
        self.heap = next((heap for heap in self.heaps if decides and heap.device == decides["device"]), None)

    @property
    def has_history(self):
        return self.heap is not None and self.heap.has_history

    def live_at_peak(self):
        return next(view for view in self.document["live_at_peak"] if view["device"] == self.heap.device)

    # The rows of the table. Each returns what is wrong, or None.

    def names_no_python_line(self):
        of_python = [block for block in self.heap.at_peak() if any(truth.is_python(frame) for frame in block.frames)]
        if not of_python:
            return None
        labels = [part["label"] for part in self.verdict["held_by"]["parts"]] if self.verdict["held_by"] else []
        labels += [group["label"] for group in self.live_at_peak()["groups"][:10]]
        return None if any(is_python_line(label) for label in labels) else labels[:2]

    def claims_a_leak(self):
        leaks = self.verdict["leaks"]
        return leaks["bytes"] if leaks and leaks["bytes"] > 0 else None

    def misjudges_fragmentation(self):
        reserved, live = self.heap.tightest()
        said = self.verdict["fragmentation"]
        if said is None or reserved == 0:
            return None
        error = said["fragmentation"] - (1 - live / reserved)
        return f"{error:+.3f}" if abs(error) >= 0.1 else None

    def contradicts_itself(self):
        lines = {line["topic"]: line["text"] for line in self.verdict["lines"]}
        all_live = re.match(r"nothing: (\d+) % of the peak is live", lines.get("set", ""))
        unused = re.match(r"(\d+) % of the peak .* unused", lines.get("fragmented", ""))
        if all_live and unused and int(all_live[1]) + int(unused[1]) > 102:
            return f"{lines['fragmented']} / {lines['set']}"
        return None

    def claims_a_backward_pass(self):
        spans = next(spans for spans in self.document["peaks"] if spans["device"] == self.heap.device)
        claimed = any(phase["phase"] == "backward" for phase in spans["phases"])
        return "phase backward" if claimed and not self.heap.runs_backward() else None

    def claims_an_overflow(self):
        """None of the files is known to have a full ring; those with a round number of entries may have one."""
        claimed = self.document["summary"]["losses"]["history_overflowed"]
        return "ring" if claimed and all(len(heap.entries) % 500 for heap in self.heaps) else None

    def unknown_share(self):
        view = self.live_at_peak()
        unknown = sum(category["bytes"] for category in view["categories"] if category["category"] == "unknown")
        return unknown / view["bytes"] if view["bytes"] else 0


# Row, method, the most files for which it may hold.
ROWS = [
    ("no line of Python is named, though stacks have one", Answer.names_no_python_line, 0),
    ("a leak is claimed; there is none in any", Answer.claims_a_leak, 0),
    ("fragmented differs by 10 points or more", Answer.misjudges_fragmentation, 0),
    ("one line of the verdict contradicts another", Answer.contradicts_itself, 0),
    ("a backward pass is claimed that never ran", Answer.claims_a_backward_pass, 0),
    ("an overflow of the ring is claimed falsely", Answer.claims_an_overflow, 0),
]
MOST_UNKNOWN = 0.1  # in the median file


@unittest.skipUnless(FILES, "no ../shared/wild/torch")
class Table(ProgramTest):
    def test_first_answers(self):
        answers = [Answer(file, self.document("report", file)) for file in FILES]
        histories = [answer for answer in answers if answer.has_history]
        print(f"\n{len(answers)} snapshots, {len(histories)} with a history")
        too_many = []
        for row, wrong, most in ROWS:
            found = {answer.name: said for answer in histories if (said := wrong(answer)) is not None}
            print(f"  {len(found):3} of {len(histories)}  {row}", *(f"\n      {name}: {said}" for name, said in list(found.items())[:3]))
            if len(found) > most:
                too_many.append(f"{row}: {len(found)}, at most {most}")
        unknown = statistics.median(answer.unknown_share() for answer in histories)
        print(f"  {100 * unknown:3.0f} %      of the bytes at the peak are unknown, in the median file")
        if unknown > MOST_UNKNOWN:
            too_many.append(f"unknown: {unknown:.3f}")
        self.assertEqual(too_many, [])

    def test_an_instant_is_no_failed_replay(self):
        for file in FILES:
            heaps = truth.heaps(truth.read(file))
            if any(heap.has_history for heap in heaps) or not any(heap.older for heap in heaps):
                continue
            with self.subTest(file.name):
                self.assertIn("nothing to verify", self.answer("verify", file, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
