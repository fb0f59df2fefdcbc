# SPDX-License-Identifier: Apache-2.0
"""memreel diff: two runs, or two instants of one."""

import pickle
import unittest

from program import SAMPLES, ProgramTest, run
from snapshot import snapshot
from test_documents import LOSSES

SAMPLE = SAMPLES / "gpt_default.reel"
LEAK = SAMPLES / "leak.reel"
INFERENCE = SAMPLES / "decode_default.reel"  # has no backward pass


class Diff(ProgramTest):
    def test_keys(self):
        diff = self.document("diff", SAMPLE, LEAK)
        self.assertEqual(set(diff), {"schema", "a", "b", "device_totals", "devices"})
        self.assertEqual(diff["schema"], "memreel.diff/1")
        for side in ("a", "b"):
            self.assertEqual(set(diff[side]), {"trace", "instant", "losses"})
            self.assertEqual(set(diff[side]["losses"]), LOSSES)
        for device in diff["devices"]:
            self.assertEqual(set(device), {"device", "heap", "a", "b", "categories", "checkpointing", "sites", "steps"})
            for side in ("a", "b"):
                self.assertEqual(set(device[side]), {"device", "events", "phase", "live_bytes", "live_allocations"})
            for site in device["sites"]:
                self.assertEqual(set(site), {"change_bytes", "a_bytes", "b_bytes", "a_count", "b_count", "new", "vanished",
                                             "stack"})
                self.assertEqual(site["change_bytes"], site["b_bytes"] - site["a_bytes"])
            for step in device["steps"]:
                self.assertEqual(set(step), {"a_peak_live_bytes", "b_peak_live_bytes"})

    def test_the_changes_of_the_stacks_are_the_change_of_the_heap(self):
        for a, b in ((SAMPLE, LEAK), (f"{LEAK}@event:1000", "@end"), (f"{SAMPLE}@10ms", "@end")):
            device = self.document("diff", a, b)["devices"][0]
            self.assertEqual(sum(site["change_bytes"] for site in device["sites"]),
                             device["b"]["live_bytes"] - device["a"]["live_bytes"])

    def test_categories_add_up_and_name_the_layer(self):
        device = self.document("diff", f"{SAMPLE}@peak", "@end")["devices"][0]
        categories = {entry.pop("category"): entry for entry in device["categories"]}
        self.assertEqual(sum(entry["change_bytes"] for entry in categories.values()),
                         device["b"]["live_bytes"] - device["a"]["live_bytes"])
        self.assertRegex(categories["activation"]["place"], r"^forward \([a-z_0-9]+\.py:\d+\)$")
        self.assertEqual(categories["parameter"]["change_bytes"], 0)
        text = self.answer("diff", f"{SAMPLE}@peak", "@end").stdout
        self.assertRegex(text, r"(?m)^ +-\S+ GiB .* activations +forward")

    def test_live_bytes_are_those_of_the_report(self):
        device = self.document("diff", f"{SAMPLE}@peak", "@end")["devices"][0]
        report = self.document("report", SAMPLE)
        self.assertEqual(device["a"]["live_bytes"], report["live_at_peak"][0]["bytes"])
        self.assertEqual(device["b"]["live_bytes"], report["live_at_end"][0]["bytes"])

    def test_a_single_allocation_is_not_plural(self):
        one = self.file("one.pickle", pickle.dumps(snapshot()))
        text = " ".join(self.answer("diff", f"{one}@event:1", "@end").stdout.split())
        self.assertIn("(1 allocation)", text)
        self.assertNotIn("(1 allocations)", text)
        self.assertIn("1 allocation, by line", self.answer("report", one, "--at", "end").stdout)

    def test_what_is_reserved_and_what_is_live_are_told_apart(self):
        text = self.answer("diff", SAMPLE, LEAK).stdout
        self.assertRegex(text, r"^device 0 at its peak: reserved -\S+ GiB \(\S+ GiB before, \S+ \S+ now\)\n")
        self.assertRegex(text, r"(?m)^torch.cuda, device 0: live -\S+ GiB$")

    def test_a_peak_from_before_the_recording_is_said_to_be_that(self):
        late = snapshot()
        late["device_traces"] = [[entry for entry in late["device_traces"][0] if entry["action"] != "segment_alloc"]]
        early, late = (self.file(name, pickle.dumps(content)) for name, content in
                       (("early.pickle", snapshot()), ("late.pickle", late)))
        text = self.answer("diff", early, late).stdout.splitlines()[0:2]
        self.assertIn("the 2.00 MiB were reserved before the recording began)", " ".join(" ".join(text).split()))
        text = " ".join(self.answer("diff", late, early).stdout.splitlines()[0:2])
        self.assertIn("the 2.00 MiB were reserved before the recording began)", " ".join(text.split()))

    def test_a_run_and_itself(self):
        text = self.answer("diff", SAMPLE, SAMPLE).stdout
        self.assertRegex(text, r"(?m)^torch.cuda, device 0: live unchanged$")
        self.assertIn("the same stacks hold the same bytes", text)
        self.assertIn("the same peaks in each", text)

    def test_steps_of_two_kinds_are_not_compared(self):
        def marked(name, mark, times=1):
            document = snapshot()
            begin, end = document["external_annotations"]
            document["external_annotations"] = [
                {**begin_or_end, "name": mark, "time_us": begin["time_us"] + 2 * i + (begin_or_end is end)}
                for i in range(times) for begin_or_end in (begin, end)]
            return self.file(name, pickle.dumps(document))
        adamw = marked("adamw.pickle", "Optimizer.step#AdamW.step")
        for name, mark, expected in (("loop.pickle", "step", "steps are not comparable: marked by {} before, marked by {} now"),
                                     ("sgd.pickle", "Optimizer.step#SGD.step",
                                      "step by step (marked by {} before, marked by {} now; 1 in both): the same peaks in each")):
            other = marked(name, mark)
            for a, b, marks in ((adamw, other, ("Optimizer.step#AdamW.step", mark)), (other, adamw, (mark, "Optimizer.step#AdamW.step"))):
                text = " ".join(self.answer("diff", a, b).stdout.split())
                self.assertIn(expected.format(*marks), text)
                self.assertEqual(len(self.document("diff", a, b)["devices"][0]["steps"]), "not" not in expected)
        text = " ".join(self.answer("diff", marked("one.pickle", "step"), marked("two.pickle", "step", 2)).stdout.split())
        self.assertIn("step by step (step, 1 and 2 steps, the first compared): ", text)

    def instant(self, name, device, sizes, frames=()):
        """A snapshot without a history: live blocks of these sizes in MiB, each made at `frames`."""
        document = snapshot()
        segment, = document["segments"]
        at, blocks = segment["address"], []
        for size in sizes:
            blocks.append({"address": at, "size": size << 20, "requested_size": size << 20, "state": "active_allocated",
                           "frames": list(frames)})
            at += size << 20
        total = sum(sizes) << 20
        segment.update(device=device, total_size=total, allocated_size=total, active_size=total, requested_size=total, blocks=blocks)
        return self.file(name, pickle.dumps({**document, "device_traces": [[] for _ in range(device + 1)], "external_annotations": []}))

    def test_one_instant_has_no_peak(self):
        for device in (0, 2):
            pair = self.instant("a.pickle", 0, [4, 2]), self.instant("b.pickle", device, [4, 3])
            text = " ".join(self.answer("diff", *pair).stdout.split())
            self.assertIn(f"device {device}: held +1.00 MiB (6.00 MiB before, 7.00 MiB now) torch.cuda", text)
            self.assertIn("before 6.00 MiB at the one instant of a.pickle (2 allocations)", text)
            self.assertNotRegex(text, "peak|phase|recording began")
            self.assertEqual(self.document("diff", *pair)["a"]["instant"], "at the one instant")
            self.assertIn("compared by size: nothing live has a stack change", text)
            self.assertIn("+3.00 MiB 0 B 3.00 MiB +1 new 3.00 MiB -2.00 MiB 2.00 MiB 0 B -1 gone 2.00 MiB", text)
            text = " ".join(self.answer("diff", self.file("history.pickle", pickle.dumps(snapshot())), pair[1]).stdout.split())
            self.assertIn(f"device {device} at its peak (now: at the one instant): held +5.00 MiB", text)
            self.assertIn("at the peak of history.pickle", text)

    def test_sizes_are_compared_where_one_side_has_no_stacks(self):
        frames = [{"name": "step", "filename": "train.py", "line": 7}]
        plain, placed = self.instant("plain.pickle", 0, [4, 4, 2]), self.instant("placed.pickle", 0, [2, 4, 4, 1], frames)
        for pair, word, row in (((plain, placed), "before", "+1.00 MiB 0 B 1.00 MiB +1 new 1.00 MiB"),
                                ((placed, plain), "now", "-1.00 MiB 1.00 MiB 0 B -1 gone 1.00 MiB")):
            text = " ".join(self.answer("diff", *pair).stdout.split())
            self.assertIn(f"compared by size: nothing live {word} has a stack change before now allocations of ", text)
            self.assertTrue(text.endswith(row), text)
            self.assertNotRegex(text, "train.py|no stack|recording began")
            device, = self.document("diff", *pair)["devices"]
            site, = device["sites"]
            self.assertEqual((abs(site["change_bytes"]), site["stack"]), (1 << 20, []))
            self.assertEqual({category["place"] for category in device["categories"]}, {None} if device["categories"] else set())
        text = " ".join(self.answer("diff", placed, self.instant("other.pickle", 0, [4], frames)).stdout.split())
        self.assertIn("-7.00 MiB 11.00 MiB 4.00 MiB -3 step (train.py:7)", text)
        mixed = self.instant("mixed.pickle", 0, [8, 8])
        content = pickle.loads(mixed.read_bytes())
        content["segments"][0]["blocks"][0]["frames"] = frames
        mixed.write_bytes(pickle.dumps(content))
        text = self.answer("diff", placed, mixed).stdout
        self.assertIn("(no stack)", text)
        self.assertNotIn("recording began", text)

    def test_edited_code_is_neither_new_nor_gone(self):
        def frames(*places):
            return [{"name": name, "filename": file, "line": line} for name, file, line in places]
        before = self.instant("before.pickle", 0, [4, 2], frames(("forward", "/home/me/model.py", 102), ("<module>", "/tmp/ipykernel_7/111.py", 41)))
        for cell in ("/tmp/ipykernel_8/222.py", "C:\\Temp\\ipykernel_8\\222.py"):
            now = self.instant("now.pickle", 1, [2, 4], frames(("forward", "/home/me/model.py", 110), ("<module>", cell, 40)))
            self.assertIn("the same stacks hold the same bytes", self.answer("diff", before, now).stdout)
        now = self.instant("now.pickle", 0, [4, 2], frames(("forward", "/home/me/model.py", 92), ("epoch", "/home/me/train.py", 7)))
        self.assertIn("the same stacks hold the same bytes", self.answer("diff", before, now).stdout)
        for sizes, name, file in (([4, 3], "forward", "model.py"), ([4, 2], "backward", "model.py"), ([4, 2], "forward", "other.py")):
            now = self.instant("now.pickle", 0, sizes, frames((name, f"/home/me/{file}", 92), ("epoch", "/home/me/train.py", 7)))
            text = self.answer("diff", before, now).stdout
            self.assertRegex(text, rf"\bnew +{name} \({file}:92\)")
            self.assertRegex(text, r"\bgone +forward \(model.py:102\)")

    def test_a_leak_is_what_grew_between_two_instants(self):
        device = self.document("diff", f"{LEAK}@event:1000", "@end")["devices"][0]
        self.assertGreater(device["sites"][0]["change_bytes"], 0)
        self.assertGreater(device["sites"][0]["b_count"], device["sites"][0]["a_count"])
        self.assertNotIn("step by step", self.answer("diff", f"{LEAK}@step:10", "@step:40").stdout)

    def test_two_ranks_are_compared_device_by_device(self):
        document = snapshot()
        document["segments"][0]["device"] = 1
        document["device_traces"] = [[], document["device_traces"][0]]
        ranks = [self.file("rank0.pickle", pickle.dumps(snapshot())), self.file("rank1.pickle", pickle.dumps(document))]
        for options in ((), ("--map", "0=1")):
            device, = self.document("diff", *ranks, *options)["devices"]
            self.assertEqual((device["a"]["device"], device["b"]["device"]), (0, 1))
            self.assertEqual(device["a"]["live_bytes"], device["b"]["live_bytes"])
        self.assert_refused(run("diff", *ranks, "--map", "0:1"), "--map")
        self.assert_refused(run("diff", *ranks, "--map", "0=7"), "no device 7")

    def test_a_phase_that_one_side_never_ran_is_neither_suggested_nor_compared(self):
        for pair in ((INFERENCE, SAMPLE), (SAMPLE, INFERENCE)):
            text = " ".join(self.answer("diff", *pair).stdout.split())
            self.assertIn("FILE@phase:forward on both sides compares the same one", text)
            text = " ".join(self.answer("diff", *(f"{file}@phase:forward" for file in pair)).stdout.split())
            self.assertIn(f"at the peak of phase forward of {pair[0].name} (", text)
            self.assert_refused(run("diff", *(f"{file}@phase:backward" for file in pair)), f"{INFERENCE}, ", "no phase 'backward'", "forward")
        self.assert_refused(run("report", "--at", "phase:backward", INFERENCE), "no phase 'backward'", "other, forward")

    def test_wrong_input_is_refused_in_one_line(self):
        snapshot_file = self.file("snapshot.pickle", pickle.dumps(snapshot()))
        damaged = self.file("damaged.reel", b"not a trace")
        for arguments, mention in (((SAMPLE, f"{SAMPLE}@tomorrow"), "tomorrow"), ((SAMPLE, "@step:1000000"), "steps"),
                                   ((SAMPLE, f"{LEAK}@step:1000000"), f"{LEAK}, after step 1,000,000: "),
                                   ((f"{SAMPLE}@range:nothing", LEAK), f"{SAMPLE}, at the peak of range nothing: "),
                                   ((SAMPLE, f"{snapshot_file}@event:99999"), "events"), ((SAMPLE, damaged), damaged),
                                   ((SAMPLE, "nowhere.reel"), "nowhere.reel")):
            with self.subTest(mention):
                self.assert_refused(run("diff", *arguments), mention)


if __name__ == "__main__":
    unittest.main()
