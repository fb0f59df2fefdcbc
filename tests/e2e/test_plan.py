# SPDX-License-Identifier: Apache-2.0
"""memreel plan: the public instances, checked here and not by memreel; files in and out."""

import csv
import json
import pickle
import random
import re
import subprocess
import unittest

import snapshot
from program import REPOSITORY, SAMPLES, ProgramTest, run
from schema import defects

INSTANCES = REPOSITORY / "tests/data/minimalloc"
CAPACITY = 1048576


def fault_of(rows, align=1, capacity=None):
    """What is wrong with planned rows of minimalloc's CSV: an overlap, an offset that is not aligned, as its row says and at
    least to `align`, an end above the capacity."""
    events, live = [], {}
    for number, row in enumerate(rows):
        lower, upper, size, offset = (int(row[key]) for key in ("lower", "upper", "size", "offset"))
        if offset % max(align, int(row.get("alignment") or 1)) or (capacity is not None and offset + size > capacity):
            return f"row {number} is at {offset}"
        times = [lower, *(int(time) for time in re.findall(r"\d+", row.get("gaps") or "")), upper]
        events += [(time, 1 - index % 2, number, offset, offset + size) for index, time in enumerate(times)]
    for _, begins, number, offset, end in sorted(events):
        if not begins:
            live.pop(number, None)
            continue
        for other, (low, high) in live.items():
            if offset < high and low < end:
                return f"rows {number} and {other} overlap"
        live[number] = (offset, end)
    return None


def rows_of(file):
    with open(file, newline="") as text:
        return list(csv.DictReader(text))


class Instances(ProgramTest):
    """All of google/minimalloc's challenging instances, at its capacity, whatever the order of their rows."""

    def check(self, name, shuffles):
        lines = (INSTANCES / f"{name}.1048576.csv").read_text().splitlines()
        for seed in range(shuffles):
            with self.subTest(name, seed=seed):
                rows = lines[1:]
                if seed:
                    random.Random(seed).shuffle(rows)
                file, plan = self.file(f"{name}.csv", ("\n".join([lines[0], *rows]) + "\n").encode()), self.directory / "plan.csv"
                process = run("plan", file, "--capacity", CAPACITY, "-o", plan)
                self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
                planned = rows_of(plan)
                self.assertEqual([",".join(list(row.values())[:4]) for row in planned], rows)
                self.assertIsNone(fault_of(planned, capacity=CAPACITY))

    def check_published(self, name):
        """The row of the table in docs/policies.md is what the command prints."""
        text = (REPOSITORY / "docs/policies.md").read_text()
        published = re.search(rf"^\| {name} \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", text, re.MULTILINE)
        plan = self.document("plan", INSTANCES / f"{name}.1048576.csv", "--capacity", CAPACITY)
        printed = [plan["buffers"], plan["bound_bytes"], plan["peak_bytes"]]
        self.assertEqual([int(number.replace(",", "")) for number in published.groups()], printed)


for letter in "ABCDEFGHIJK":
    setattr(Instances, f"test_{letter}", lambda self, letter=letter: self.check(letter, 5))
    setattr(Instances, f"test_{letter}_as_published", lambda self, letter=letter: self.check_published(letter))


class Files(ProgramTest):
    BUFFERS = "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n"

    def test_formats(self):
        file = self.file("buffers.csv", self.BUFFERS.encode())
        document = self.document("plan", file)
        self.assertEqual(defects(document), [])
        self.assertEqual((document["peak_bytes"], document["bound_bytes"], document["proved"]), (12, 12, True))
        self.assertEqual((document["fits"], document["gap"], document["stopped_by"]), (None, 0, None))
        offsets = [row["offset"] for row in document["allocations"]]
        header = self.directory / "plan.h"
        self.assertEqual(run("plan", file, "-o", header).returncode, 0)
        source = self.file("use.c", b'#include <stdio.h>\n#include "plan.h"\nint main(void) {\n'
                                    b'  for (int i = 0; i < MEMREEL_PLAN_COUNT; ++i) printf("%d ", (int)memreel_plan_offsets[i]);\n'
                                    b'  return MEMREEL_PLAN_BYTES != 12;\n}\n')
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", source, "-o", self.directory / "use"], check=True)
        printed = subprocess.run([self.directory / "use"], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual([int(word) for word in printed.split()], offsets)

    def test_capacity_is_a_question(self):
        file = self.file("buffers.csv", self.BUFFERS.encode())
        self.assertEqual(run("plan", file, "--capacity", 12).returncode, 0)
        process = run("plan", file, "--capacity", 11)
        self.assertEqual(process.returncode, 1)
        self.assertIn("too small, proved", process.stdout)

    def test_alignment_gaps_and_offsets_of_the_file_are_honoured(self):
        file = self.file("gaps.csv", b"id,lower,upper,size,alignment,gaps\na,0,9,8,8,2-5\nb,2,5,8,8,3-4\nc,3,4,8,8,\n")
        plan = self.directory / "plan.csv"
        self.assertEqual(run("plan", file, "--capacity", 8, "-o", plan).returncode, 0)
        self.assertIsNone(fault_of(rows_of(plan), align=8, capacity=8))
        self.assertEqual((rows_of(plan)[0]["gaps"], rows_of(plan)[0]["alignment"]), ("2-5", "8"))
        again = self.document("plan", plan, "--effort", 0)
        self.assertEqual(again["peak_bytes"], 8)
        self.assertEqual(again["method"], "given")

    def test_a_row_that_is_not_a_multiple_of_its_alignment_needs_no_more_than_its_size(self):
        for rows, capacity in (("a,0,9,3,2\n", 3), ("a,0,9,3,1\nb,0,9,4096,4096\nc,0,9,5,1\n", 4104)):
            file, plan = self.file("rows.csv", ("id,lower,upper,size,alignment\n" + rows).encode()), self.directory / "plan.csv"
            self.assertEqual(run("plan", file, "--capacity", capacity, "-o", plan).returncode, 0)
            self.assertIsNone(fault_of(rows_of(plan), capacity=capacity))
            self.assertIn("too small, proved", run("plan", file, "--capacity", capacity - 1).stdout)
        mixed = self.file("mixed.csv", b"lower,upper,size,alignment\n" + b"".join(b"0,9,%d,1\n" % size for size in range(1, 50)) + b"0,9,64,64\n")
        document = self.document("plan", mixed, "-o", plan)
        self.assertIsNone(fault_of(rows_of(plan), capacity=document["peak_bytes"]))
        self.assertEqual(document["load_bytes"], 64 + sum(range(1, 50)))
        self.assertLessEqual(document["peak_bytes"], document["load_bytes"] + 63)

    def test_offsets_of_the_file_are_fixed_and_hints_are_not(self):
        plan = self.directory / "plan.csv"
        file = self.file("fixed.csv", b"id,lower,upper,size,alignment,offset\na,0,9,8,8,16\nb,0,4,8,1,\nc,4,9,8,1,-1\nd,0,9,8,8,-1\n")
        document = self.document("plan", file, "-o", plan)
        self.assertIsNone(fault_of(rows_of(plan), capacity=24))
        self.assertEqual((rows_of(plan)[0]["offset"], document["peak_bytes"], document["proved"]), ("16", 24, True))
        self.assertEqual(document["stopped_by"], None)
        for rows, word in (("a,0,9,8,8\nb,0,4,8,12\n", "overlaps"), ("a,0,9,8,1,4,5\n", "line 2")):
            self.assert_refused(run("plan", self.file("bad.csv", ("id,lower,upper,size,offset\n" + rows).encode())), word)
        odd = self.file("odd.csv", b"id,lower,upper,size,alignment,offset\na,0,9,8,8,12\n")
        self.assert_refused(run("plan", odd), "line 2", "multiple of its alignment")
        hints = self.file("hints.csv", b"id,lower,upper,size,hint\na,0,9,8,100\nb,0,4,8,4\n")
        self.assertEqual(self.document("plan", hints)["peak_bytes"], 16)

    def test_bad_lines_are_named(self):
        for line, word in (("a,0,9,8,3,", "power of two"), ("a,0,9,8,8,5-2", "gaps"), ("a,0,9,8,8,0-9", "gaps"), ("a,0,9,8,8,x", "gaps")):
            file = self.file("bad.csv", f"id,lower,upper,size,alignment,gaps\n{line}\n".encode())
            self.assert_refused(run("plan", file), "line 2", word)
        good = self.file("buffers.csv", self.BUFFERS.encode())
        self.assert_refused(run("plan", good, "-o", self.directory / "plan.txt"), ".csv")
        self.assert_refused(run("plan", good, "--align", 3), "--align")

    def test_random_buffers_with_gaps_alignment_and_offsets(self):
        """Hints are kept if they are a plan of less, and never if they are none."""
        for seed in range(6):
            numbers, rows = random.Random(seed), []
            for _ in range(80):
                lower, time = numbers.randrange(40), numbers.randint(1, 20)
                gap = sorted(numbers.sample(range(lower + 1, lower + time), 2)) if time > 4 and numbers.random() < 0.4 else None
                rows.append([lower, lower + time, numbers.randint(1, 200), 1 << numbers.randrange(5), gap and "-".join(map(str, gap)) or ""])

            def planned(offsets, *arguments, rows=rows):
                lines = ["lower,upper,size,alignment,gaps" + (",hint" if offsets else "")]
                lines += [",".join(map(str, row + ([offsets[i]] if offsets else []))) for i, row in enumerate(rows)]
                file, plan = self.file("random.csv", ("\n".join(lines) + "\n").encode()), self.directory / "plan.csv"
                document = self.document("plan", file, "-o", plan, *arguments)
                result = rows_of(plan)
                self.assertIsNone(fault_of(result, capacity=document["peak_bytes"]), seed)
                self.assertEqual([row["gaps"] for row in result], [row[4] for row in rows])
                self.assertEqual([int(row["alignment"]) for row in result], [row[3] for row in rows])
                return document["peak_bytes"], [row["offset"] for row in result]

            peak, offsets = planned(None, "--effort", 20_000_000)
            self.assertLessEqual(planned(offsets, "--effort", 0)[0], peak, seed)
            planned(["0"] * len(rows), "--effort", 100_000)

    def test_many_random_buffers(self):
        """Too many for the search: ejection comes close to the bound, and is the same with one thread and with more."""
        numbers = random.Random(3)
        rows = [(begin, begin + 1 + int(numbers.expovariate(1 / 100)), int(2 ** numbers.uniform(9, 20))) for begin in range(6000)]
        file = self.file("random.csv", b"lower,upper,size,alignment\n" + b"".join(b"%d,%d,%d,512\n" % row for row in rows))
        plan = self.directory / "plan.csv"
        plans = [self.document("plan", file, "--effort", 100_000_000, "--threads", threads, "-o", plan) for threads in (1, 2, 8)]
        self.assertIsNone(fault_of(rows_of(plan), align=512, capacity=plans[0]["peak_bytes"]))
        self.assertEqual((plans[0]["method"], plans[0]["stopped_by"]), ("ejection", "effort"))
        self.assertEqual(self.document("plan", file, "--seconds", "0.001")["stopped_by"], "seconds")
        self.assertIn("stopped by --effort", self.answer("plan", file, "--effort", 100_000).stdout)
        self.assertLess(plans[0]["gap"], 0.01)
        for other in plans[1:]:
            self.assertEqual(other["allocations"], plans[0]["allocations"])

    def test_replay_says_how_good_its_plans_are(self):
        policies = "plan.best{effort=1000000},plan.size,fit.best"
        best, size, fit = self.document("replay", SAMPLES / "gpt_default.reel", "--policy", policies)["policies"]
        for policy in (best, size):
            plan = policy["plan"]
            self.assertLessEqual(plan["bound_bytes"], plan["peak_bytes"])
            self.assertAlmostEqual(plan["gap"], plan["peak_bytes"] / plan["bound_bytes"] - 1)
            self.assertEqual(plan["proved"], plan["gap"] == 0)
            self.assertLess(policy["peak_reserved_bytes"] - plan["peak_bytes"], 2 << 20)
        self.assertLessEqual(best["plan"]["peak_bytes"], size["plan"]["peak_bytes"])
        self.assertNotIn("plan", fit)

    def test_a_recording_is_planned_and_compared(self):
        plan = self.directory / "plan.csv"
        document = self.document("plan", SAMPLES / "gpt_default.reel", "-o", plan)
        self.assertEqual(defects(document), [])
        self.assertIsNone(fault_of(rows_of(plan), align=512, capacity=document["peak_bytes"]))
        self.assertLess(document["gap"], 0.005)
        self.assertLessEqual(document["peak_bytes"], document["best_allocator"]["peak_reserved_bytes"])
        text = run("plan", SAMPLES / "gpt_default.reel").stdout
        self.assertIn(f"less than {document['best_allocator']['policy']}, the best of the pools tried", text)

    def test_the_heap_that_holds_most_is_planned(self):
        """Not the one with most allocations."""
        large = 300 << 20
        few, many = snapshot.Recorder(), snapshot.Recorder()
        few.add("segment_alloc", snapshot.BASE, large)
        few.add("alloc", snapshot.BASE, large)
        many.add("segment_alloc", snapshot.BASE, snapshot.SMALL_SEGMENT)
        for i in range(50):
            many.add("alloc", snapshot.BASE + i * 512, 512)
        for traces in ((few, many), (many, few)):
            device = traces.index(few)
            document = snapshot.snapshot() | {"segments": [], "device_traces": [trace.entries for trace in traces],
                                              "external_annotations": []}
            ran = run("plan", self.file("two.pickle", pickle.dumps(document)), "--json")
            self.assertEqual(json.loads(ran.stdout)["peak_bytes"], large)
            self.assertIn(f"the heap that holds most is planned, torch.cuda, device {device}; the other is not", ran.stderr)

    def test_a_step_is_one_of_those_that_info_counts(self):
        for name, steps, how in (("gpt_default", 12, "each a pass of the optimizer"), ("leak", 40, "each a backward pass")):
            with self.subTest(name):
                trace = SAMPLES / f"{name}.reel"
                self.assertRegex(run("info", trace).stdout, f"{steps} steps, .*{how}")
                whole = self.document("plan", trace, "--effort", 1_000_000)["buffers"]
                for step in (1, steps):
                    self.assertLess(self.document("plan", trace, "--step", step, "--effort", 1_000_000)["buffers"], whole)
                for step in (0, steps + 1):
                    self.assert_refused(run("plan", trace, "--step", step), f"has {steps} steps: --step takes 1 to {steps}")
        self.assert_refused(run("plan", SAMPLES / "streams_default.reel", "--step", 1),
                            "shows no steps: without --step all of it is planned")

    def test_steps_too_few_to_judge_growth_by_can_be_planned_and_looked_at(self):
        main = [{"name": "_call_impl", "filename": "/lib/torch/nn/modules/module.py", "line": 1790},
                {"name": "main", "filename": "train.py", "line": 20}, {"name": "<module>", "filename": "train.py", "line": 50}]
        forward = [{"name": "forward", "filename": "/lib/torch/nn/modules/linear.py", "line": 134}, *main]
        optimizer = [{"name": "step", "filename": "/lib/torch/optim/adamw.py", "line": 1},
                     {"name": "main", "filename": "train.py", "line": 22}, {"name": "<module>", "filename": "train.py", "line": 50}]
        entries = []
        for step in range(3):
            for part, frames in enumerate((forward, [], optimizer)):
                block = {"addr": (1 << 40) + (1 << 24) * (3 * step + part), "size": 1 << 20, "stream": 0, "frames": frames}
                entries += [{"action": action, **block} for action in ("alloc", "free_requested", "free_completed")]
        trace = self.file("three.json", json.dumps({"segments": [], "device_traces": [entries]}).encode())
        self.assertRegex(run("info", trace).stdout, "3 steps, each a pass of the optimizer")
        self.assertEqual(self.document("plan", trace, "--step", 3)["buffers"], 3)
        self.assert_refused(run("plan", trace, "--step", 4), "has 3 steps: --step takes 1 to 3")
        self.assertEqual(self.document("report", trace, "--at", "step:3")["live_at"]["instant"], "after step 3")
        self.assert_refused(run("report", trace, "--at", "step:4"), "has 3 steps")
        self.assertIn("empty_cache@step", run("tune", trace, "--what-if", "empty_cache@step").stdout)

    def test_a_report_says_what_a_plan_of_the_step_with_the_peak_would_save(self):
        file = SAMPLES / "gpt_default.reel"
        found = self.document("report", file, "--fragmentation")["fragmentation"]
        step, remedies = found["step_plan"], found["remedies"]
        plan = self.document("plan", file, "--step", step["step"], "--effort", 2_000_000)
        self.assertEqual([step[key] for key in ("allocations", "peak_bytes", "bound_bytes")],
                         [plan[key] for key in ("buffers", "peak_bytes", "bound_bytes")])
        least = min([remedies["peak_reserved_bytes"], *(tried["peak_reserved_bytes"] for tried in remedies["tried"])])
        self.assertEqual(step["least_reserved_bytes"], least)
        self.assertAlmostEqual(step["saves"], 1 - step["peak_bytes"] / least)
        text = run("report", file, "--fragmentation").stdout
        self.assertNotIn("an allocator needs", text)  # others were not tried
        self.assertEqual("static plan of step" in text, step["saves"] > 0.02)


if __name__ == "__main__":
    unittest.main()
