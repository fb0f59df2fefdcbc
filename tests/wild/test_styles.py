# SPDX-License-Identifier: Apache-2.0
"""First answers on small snapshots in the styles that people record."""

import pathlib
import pickle
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e"), str(pathlib.Path(__file__).resolve().parent)]
import truth  # noqa: E402
from program import ProgramTest, run  # noqa: E402
from styles import MIB, Device, backward, forward, frame, layer, model, snapshot  # noqa: E402


class Styles(ProgramTest):
    def write(self, *devices):
        return self.file("snapshot.pickle", pickle.dumps(snapshot(*devices), protocol=4))

    def lines(self, file):
        return {line["topic"]: line["text"] for line in self.document("report", file)["verdict"]["lines"]}

    def losses(self, file):
        return self.document("info", file)["losses"]


class Peaks(Styles):
    def inherited(self, used):
        """Earlier code left 80 MiB reserved; the recording has a model of 16 MiB and uses `used` bytes more."""
        device = Device()
        model(device, layers=2)
        device.free(device.alloc(64 * MIB))
        device.record()
        for block in [device.alloc(used, layer(1)) for _ in range(2)]:
            device.free(block)
        return device

    def test_a_peak_is_judged_when_most_is_live(self):
        device = self.inherited(32 * MIB)
        document = self.document("report", self.write(device))
        found = document["verdict"]["fragmentation"]
        self.assertEqual((found["reserved_bytes"], found["allocated_bytes"]), truth.heaps(snapshot(device))[0].tightest())
        self.assertTrue(found["inherited"])
        self.assertIsNone(document["fragmentation"]["heaps"][0]["growth"])
        self.assertIn("little", self.lines(self.write(device))["fragmented"])

    def test_inherited_cache_is_no_fragmentation_and_no_setting_is_the_answer(self):
        file = self.write(self.inherited(4 * MIB))
        lines = self.lines(file)
        self.assertEqual(lines["fragmented"], "80.00 MiB reserved before the recording, which used 24.00 MiB")
        self.assertIn("torch.cuda.empty_cache()", lines["use"])
        self.assertNotIn("set", lines)
        self.assertIn("reserved before the recording began", run("report", file, "--fragmentation").stdout)

    def test_memory_that_the_recording_reserved_is_its_own(self):
        device = self.inherited(4 * MIB)
        device.alloc(100 * MIB, layer(2))
        document = self.document("report", self.write(device))
        self.assertFalse(document["verdict"]["fragmentation"]["inherited"])
        self.assertEqual(document["fragmentation"]["heaps"][0]["growth"]["requested_bytes"], 100 * MIB)

    def test_a_budget_judges_the_same_instant(self):
        file = self.write(self.inherited(32 * MIB))
        self.answer("check", file, "--max-fragmentation", "0.1", "--allow-incomplete")

    def test_tune_recommends_nothing_for_what_was_cached_before(self):
        file = self.write(self.inherited(4 * MIB))
        self.assertIsNone(self.document("tune", file)["recommended"])
        self.assertIn("torch.cuda.empty_cache()", " ".join(run("tune", file).stdout.split()))


class Frames(Styles):
    def training(self):
        """A model of 64 MiB, its activations and what a backward pass left, recorded with C++ and Python frames."""
        device = Device()
        device.record()
        model(device)
        forward(device)
        for _ in range(8):
            device.alloc(3 * MIB, backward("BmmBackward0"))
        return device

    def test_a_line_of_python_is_named_and_a_node_where_there_is_none(self):
        file = self.write(self.training())
        labels = [group["label"] for group in self.document("report", file)["live_at_peak"][0]["groups"]]
        self.assertIn("model.py:12", labels[0])
        self.assertTrue(any("BmmBackward0" in label for label in labels), labels)
        for hidden in ("??", "ceval", "unwind", "Register", "CUDACachingAllocator"):
            self.assertFalse(any(hidden in label for label in labels), labels)

    def test_no_backward_pass_is_claimed_that_never_ran(self):
        device = Device()
        device.record()
        model(device)
        forward(device)
        phases = {phase["phase"] for phase in self.document("report", self.write(device))["peaks"][0]["phases"]}
        self.assertIn("forward", phases)
        self.assertNotIn("backward", phases)

    def test_paths_of_windows_are_paths(self):
        device = Device()
        device.record()
        site = "C:\\Users\\user\\.venv\\Lib\\site-packages\\torch"
        for _ in range(4):
            device.alloc(8 * MIB, [frame("einsum", site + "\\functional.py", 373), frame("forward", "D:\\work\\model.py", 39),
                                   frame("_call_impl", site + "\\nn\\modules\\module.py", 1750),
                                   frame("<module>", "D:\\work\\train.py", 9)])
        label = self.document("report", self.write(device))["live_at_peak"][0]["groups"][0]["label"]
        self.assertIn("model.py:39", label)


class Rings(Styles):
    def busy(self, entries, before=0):
        """A recording with that many entries, `before` of which an earlier one had: the blocks then made are live."""
        device = Device()
        device.alloc(MIB)
        device.record()
        for number in range(before):
            device.alloc(512, layer(number))
        del device.entries[:]
        for number in range(entries):
            if len(device.entries) + 3 > entries:
                break
            device.free(device.alloc(4096, layer(number)))
        while len(device.entries) < entries:
            device.alloc(512, layer(0))
        return device

    def overflowed(self, device):
        return self.losses(self.write(device))["history_overflowed"]

    def test_as_many_entries_as_a_ring_are_a_full_ring(self):
        for entries in (10_000, 5000, 4096):
            self.assertTrue(self.overflowed(self.busy(entries)), entries)

    def test_a_loop_may_make_a_round_number_too(self):
        self.assertFalse(self.overflowed(self.busy(1800)))
        self.assertFalse(self.overflowed(self.busy(3500)))
        self.assertTrue(self.overflowed(self.busy(3500, before=3)), "with older blocks whose stacks are known")

    def test_a_second_recording_is_no_overflow(self):
        device = self.busy(1234, before=3)
        self.assertFalse(self.overflowed(device))
        said = run("report", self.write(device)).stderr
        self.assertIn("overwritten", said)
        self.assertIn("the stacks of 1 are not known", said)
        self.assertIn("before the model is built", said)


class Instants(Styles):
    def instant(self):
        device = Device()
        model(device)
        return device

    def test_there_is_nothing_to_verify(self):
        self.assertIn("nothing to verify", self.answer("verify", self.write(self.instant()), code=2).stderr)

    def test_a_history_of_one_entry_is_an_instant(self):
        device = self.instant()
        device.record()
        device.entries.append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 1, "frames": []})
        file = self.write(device)
        self.assertIn("nothing to verify", self.answer("verify", file, code=2).stderr)
        self.assertEqual(self.document("info", file)["recording"]["kind"], "instant")

    def test_a_report_has_one_table(self):
        self.assertEqual(run("report", self.write(self.instant())).stdout.count("64.00 MiB in 8 allocations"), 1)


class Kinds(Styles):
    def kind(self, device):
        return self.document("info", self.write(device))["recording"]["kind"]

    def test_info_names_the_kind_of_recording(self):
        whole, late = Device(), Device()
        whole.record()
        for device in (whole, late):
            model(device)
            device.record()
            forward(device)
        self.assertEqual(self.kind(whole), "whole")
        self.assertEqual(self.kind(late), "late")
        self.assertEqual(self.kind(Rings.busy(self, 10_000)), "overflowed")


class Devices(Styles):
    def job(self):
        """A failure on the second of three devices, which is not the fullest."""
        devices = [Device(number) for number in range(3)]
        for device in devices:
            device.record()
            model(device, layers=2 + 2 * device.number)
        devices[1].time += 1000  # later than all of the others
        devices[1].fail(100 * MIB, 0, layer(3, line=41))
        return devices

    def test_a_failure_is_about_the_device_that_failed(self):
        file = self.write(*self.job())
        verdict = self.document("report", file)["verdict"]
        self.assertEqual(verdict["decides"]["device"], 1)
        lines = {line["topic"]: line["text"] for line in verdict["lines"]}
        self.assertIn("on GPU 1 of 3", lines["OOM"])
        self.assertEqual(lines["others"], "live then: 16.00 MiB on GPU 0, 48.00 MiB on GPU 2")
        self.assertLessEqual(len(verdict["lines"]), 5)

    def test_other_devices_take_a_line_each(self):
        file = self.write(*self.job())
        text = run("report", file).stdout
        self.assertEqual(text.count("live at the peak"), 1)
        self.assertIn("--device 2 shows more", " ".join(text.split()))
        self.assertIn("48.00 MiB in 6 allocations", run("report", file, "--device", 2).stdout)
        self.assert_refused(run("report", file, "--device", 7), "no device 7", "0, 1, 2")


if __name__ == "__main__":
    unittest.main()
