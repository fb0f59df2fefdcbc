# SPDX-License-Identifier: Apache-2.0
"""memreel report --leaks on recorded programs with known leaks."""

import json
import pickle
import unittest

from program import REPOSITORY, SAMPLES, ProgramTest, run
from snapshot import BASE, Recorder, snapshot

LEAKS = REPOSITORY / "tests/data/leaks"
FINDING = {"verdict", "bytes", "count", "freed_at_end", "growth_bytes_per_step", "evidence", "device", "heap", "steps", "steps_with_growth",
           "r2", "age_steps", "last_free_step", "kept_by", "cause", "stack"}


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


class Training:
    """A snapshot of a PyTorch program, made up: `train(steps)`, as often as wanted, then `snapshot()`."""

    TORCH = "/usr/lib/python3.11/site-packages/torch/"
    SEGMENT = 64 << 30

    def __init__(self, device=0, native_frames=False, older=0):
        self.device, self.native_frames = device, native_frames
        self.entries, self.live, self.end, self.has_state = [], {}, BASE, []
        self.older = [self.take(1 << 20) for _ in range(older)]  # made before the recording began
        if not older:
            self.add("segment_alloc", BASE, self.SEGMENT, [])

    def take(self, size, frames=()):
        address, self.end = self.end, self.end + (size + 511) // 512 * 512
        self.live[address] = (size, list(frames))
        return address

    def add(self, action, address, size, frames):
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames,
                             "time_us": 1_700_000_000_000_000 + len(self.entries)})

    def stack(self, *frames):
        """Innermost first; with those of the interpreter between them, as stacks="all" records."""
        if not self.native_frames:
            return list(frames)
        return [frame("torch::unwind::unwind()", "??", 0), frame("at::_ops::add::call(at::Tensor const&)", "??", 0)] + [
            each for python in frames for each in (python, frame("_PyEval_EvalFrameDefault", "ceval.c", 0))]

    def alloc(self, size, *frames):
        frames = self.stack(*frames)
        address = self.take(size, frames)
        self.add("alloc", address, size, frames)
        return address

    def free(self, address):
        size, _ = self.live.pop(address)
        for action in ("free_requested", "free_completed"):
            self.add(action, address, size, [])

    def main(self, line):
        return frame("main", "/home/me/train.py", line), frame("<module>", "/home/me/train.py", 99)

    def forward(self, layers=12):
        """Keeps the activations, as autograd does."""
        call = frame("_call_impl", self.TORCH + "nn/modules/module.py", 1762)
        return [self.alloc(4 << 20, frame("forward", self.TORCH + "nn/modules/linear.py", 134), call,
                           frame("forward", "/home/me/model.py", 7 + layer % 2), call, *self.main(20))
                for layer in range(layers)]

    def backward(self, gradients=4):
        engine = [frame("torch::autograd::Engine::evaluate_function(...)", "??", 0)] if self.native_frames else []
        return [self.alloc(1 << 20, *engine) for _ in range(gradients)]

    def update(self):
        step = (frame("step", self.TORCH + "optim/adamw.py", 232), *self.main(22))
        if not self.has_state:
            self.has_state = [self.alloc(1 << 20, *step) for _ in range(8)]
        self.free(self.alloc(1 << 20, *step))

    def train(self, steps, leak=0):
        for _ in range(steps):
            batch = self.alloc(1 << 16, *self.main(19))
            activations = self.forward()
            if leak:
                self.alloc(leak, *self.main(21))
            gradients = self.backward()
            self.update()
            for address in [batch, *activations, *gradients]:
                self.free(address)

    def snapshot(self):
        blocks, at = [], BASE
        for address, (size, frames) in sorted(self.live.items()):
            if address > at:
                blocks.append({"address": at, "size": address - at, "requested_size": 0, "state": "inactive", "frames": []})
            at = address + (size + 511) // 512 * 512
            blocks.append({"address": address, "size": at - address, "requested_size": size, "state": "active_allocated",
                           "frames": frames})
        blocks.append({"address": at, "size": BASE + self.SEGMENT - at, "requested_size": 0, "state": "inactive",
                       "frames": []})
        active = sum(size for size, _ in self.live.values())
        segment = {"device": self.device, "address": BASE, "total_size": self.SEGMENT, "allocated_size": active,
                   "active_size": active, "requested_size": active, "stream": 0, "segment_type": "large",
                   "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}
        return pickle.dumps({"segments": [segment], "device_traces": [[]] * self.device + [self.entries],
                             "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""}, "external_annotations": []}, protocol=4)


class Steps(ProgramTest):
    """What a snapshot of few steps, or of none, says about leaks."""

    KINDS = [{}, {"device": 1}, {"native_frames": True}, {"older": 40}, {"older": 40, "native_frames": True}]

    def report(self, training):
        self.path = self.file("snapshot.pickle", training.snapshot())
        return self.document("report", self.path, "--leaks")

    def line(self):
        text = run("report", self.path).stdout
        return next(line for line in text.splitlines() if line.startswith("leaks"))

    def test_in_one_step_nothing_is_judged(self):
        for kind in self.KINDS:
            with self.subTest(**kind):
                training = Training(**kind)
                training.train(1, leak=1 << 20)
                report = self.report(training)
                self.assertEqual([f for f in report["leaks"] if f["verdict"] in ("leak", "suspected")], [])
                self.assertRegex(self.line(), "not judged: the recording holds 1 step$")
                self.assertEqual(report["verdict"]["leaks"]["not_judged"], "not judged: the recording holds 1 step")
                text = run("report", self.path, "--leaks").stdout
                self.assertIn("leaks are not judged", text)

    def test_layers_whose_graph_is_kept_are_no_steps(self):
        for kind in self.KINDS:
            with self.subTest(**kind):
                training = Training(**kind)
                training.forward(64)
                report = self.report(training)
                self.assertEqual([f for f in report["leaks"] if f["verdict"] in ("leak", "suspected")], [])
                self.assertRegex(self.line(), "not judged: the recording holds 1 step$")

    def test_a_budget_for_leaks_needs_steps(self):
        training = Training()
        training.train(3)
        self.report(training)
        self.assert_refused(run("check", self.path, "--max-leaked", "0"), "the recording holds 3 steps",
                            "record at least 4 steps")
        self.answer("check", self.path, "--max-leaked", "0", "--allow-incomplete")
        self.answer("check", self.path, "--max-peak", "10GiB")
        training.train(3)
        self.report(training)
        self.answer("check", self.path, "--max-leaked", "0")

    def test_a_leak_shows_after_some_steps_however_they_were_recorded(self):
        for kind in self.KINDS:
            for steps in (5, 20):
                with self.subTest(steps=steps, **kind):
                    training = Training(**kind)
                    training.train(steps, leak=3 << 20)
                    accused = [f for f in self.report(training)["leaks"] if f["verdict"] in ("leak", "suspected")]
                    self.assertEqual([f["bytes"] for f in accused], [steps * (3 << 20)])
                    self.assertEqual(accused[0]["verdict"], "leak" if steps == 20 else "suspected")
                    self.assertEqual(accused[0]["device"], kind.get("device", 0))
                    self.assertIn("3.00 MiB per step", self.line())

    def test_a_clean_program_is_not_accused_nor_is_its_unfinished_step(self):
        for kind in self.KINDS:
            with self.subTest(**kind):
                training = Training(**kind)
                training.train(6)
                training.forward()
                report = self.report(training)
                self.assertEqual([f for f in report["leaks"] if f["verdict"] in ("leak", "suspected")], [])
                self.assertRegex(self.line(), "none over 6 steps$")

    def test_what_replaces_older_memory_does_not_leak(self):
        training = Training(older=40)
        for _ in range(12):
            training.free(training.older.pop())
            training.train(1, leak=1 << 20)
        self.assertEqual([f for f in self.report(training)["leaks"] if f["verdict"] in ("leak", "suspected")], [])

    def test_a_failed_step_is_not_part_of_the_judgement(self):
        training = Training()
        training.train(6)
        training.forward(8)
        training.add("oom", 0, 4 << 20, training.stack(*training.main(20)))
        training.entries[-1]["device_free"] = 0
        self.assertEqual([f for f in self.report(training)["leaks"] if f["verdict"] in ("leak", "suspected")], [])
        self.assertRegex(self.line(), "none over 6 steps$")


class Leaks(ProgramTest):
    def accused(self, *arguments):
        return [finding for finding in self.document("report", *arguments, "--leaks")["leaks"]
                if finding["verdict"] in ("leak", "suspected")]

    def test_every_leaked_allocation_is_listed_by_address(self):
        truth = json.loads((LEAKS / "closures.truth.json").read_text())
        accused = self.accused(LEAKS / "closures.reel", "--allocations")
        self.assertEqual(sorted(a["address"] for finding in accused for a in finding["allocations"]),
                         sorted(leaked["address"] for leaked in truth["leaked"]))
        for finding in accused:
            self.assertEqual(set(finding), FINDING | {"allocations"})
            self.assertEqual(finding["bytes"], sum(a["bytes"] for a in finding["allocations"]))

    def test_a_kept_graph_is_one_cause_and_names_the_function_that_keeps_it(self):
        report = self.document("report", LEAKS / "losses_with_graph.reel", "--leaks")
        self.assertEqual(len(report["leak_causes"]), 1)
        cause = report["leak_causes"][0]
        self.assertGreater(cause["stacks"], 3)
        self.assertEqual(cause["frame"]["function"], "step")
        self.assertTrue(all(f["cause"] == 0 for f in report["leaks"] if f["verdict"] == "leak"))

    def test_training_is_not_accused(self):
        self.assertEqual(self.accused(SAMPLES / "gpt_default.reel"), [])
        self.assertTrue(self.answer("report", SAMPLES / "gpt_default.reel", "--leaks").stdout.startswith("no leaks"))

    def test_steps_are_found_where_none_are_marked(self):
        steps = self.document("report", LEAKS / "losses_without_marks.reel", "--leaks")["leak_steps"][0]
        self.assertEqual((steps["from"], steps["steps"]), ("backward", 60))
        steps = self.document("report", LEAKS / "closures.reel", "--leaks")["leak_steps"][0]
        self.assertEqual((steps["from"], steps["mark"], steps["steps"]), ("marks", "step", 60))

    def test_evidence_is_one_sentence_with_the_line(self):
        text = run("report", LEAKS / "closures.reel", "--leaks", environment={"COLUMNS": "300"}).stdout
        self.assertRegex(text, r"leak: 60 of 60 steps kept \S+ \S+ allocated at leak_programs\.py:\d+; nothing allocated "
                               r"there was ever freed")

    def test_what_is_suppressed_is_counted(self):
        for option, value in (("--suppress", "leak:leak_programs"),
                              ("--suppressions", self.file("known.txt", b"# ours\n\nleak:^step$\n"))):
            report = self.document("report", LEAKS / "closures.reel", "--leaks", option, value)
            self.assertEqual([f for f in report["leaks"] if f["verdict"] == "leak"], [])
            self.assertEqual([(s["count"], s["built_in"]) for s in report["suppressed"]], [(60, False)])
        self.assertIn("suppressed by leak:^step$", self.answer(
            "report", LEAKS / "closures.reel", "--leaks", "--suppress", "leak:^step$").stdout)

    def test_what_is_no_suppression_is_refused(self):
        self.assert_refused(run("report", LEAKS / "closures.reel", "--suppress", "closures"), "--suppress", "leak:PATTERN")
        self.assert_refused(run("report", LEAKS / "closures.reel", "--suppressions",
                                self.file("known.txt", b"leak:a\nrace:b\n")), "known.txt", "line 2")
        self.assert_refused(run("report", LEAKS / "closures.reel", "--suppressions", self.directory / "none"), "none")

    def test_how_long_memory_lasts(self):
        steps = self.document("report", LEAKS / "closures.reel", "--leaks")["leak_steps"][0]
        self.assertIsNone(steps["steps_left"])
        growth = sum(f["growth_bytes_per_step"] for f in self.accused(LEAKS / "closures.reel"))
        report = self.document("report", LEAKS / "closures.reel", "--leaks", "--capacity", "1GiB")
        free = (1 << 30) - report["summary"]["devices"][0]["end_reserved_bytes"]
        self.assertAlmostEqual(report["leak_steps"][0]["steps_left"] * growth / free, 1)


class Notes(ProgramTest):
    """Recordings without stacks, whose program notes what an allocation is for."""

    def test_a_leak_is_found_though_the_notes_number_its_steps(self):
        mib, steps = 1 << 20, 40
        for note in ("", "request", "request {}"):
            with self.subTest(note):
                recorder, marks = Recorder(), []
                recorder.add("segment_alloc", BASE, 4096 * mib)
                for step in range(steps):
                    mark = {"name": "step", "stage": "START", "device": 0, "time_us": 1_700_000_000_000_000 + len(recorder.entries)}
                    first = len(recorder.entries)
                    recorder.add("alloc", BASE + (64 + 2 * step) * mib, 2 * mib)
                    for size in (4 * mib, 8 * mib):
                        recorder.add("alloc", BASE + size, size)
                        recorder.free(BASE + size, size)
                    for entry in recorder.entries[first:]:
                        entry.update({"frames": []}, **({"user_metadata": note.format(step)} if note else {}))
                    marks += [mark, dict(mark, stage="END", time_us=1_700_000_000_000_000 + len(recorder.entries))]
                file = self.file("notes.pickle", pickle.dumps(snapshot() | {
                    "segments": [], "device_traces": [recorder.entries], "external_annotations": marks}))
                self.assertIn("leaks       2.00 MiB per step, 80.00 MiB in all", self.answer("report", file).stdout)
                self.assertEqual(run("check", file, "--max-leaked", "1MiB", "--allow-incomplete").returncode, 1)


if __name__ == "__main__":
    unittest.main()
