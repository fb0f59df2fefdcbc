# SPDX-License-Identifier: Apache-2.0
"""Recordings that lack events, frees among them: what was live then is known roughly, and no answer claims more."""

import json
import unittest

from program import SAMPLES, ProgramTest, run

LONG = SAMPLES / "decode_default.reel"  # has more than one block of events


class LostEvents(ProgramTest):
    def document(self, *arguments, code=0):
        process = run(*arguments, "--json", timeout=120)
        self.assertEqual(process.returncode, code, process.stderr)
        return json.loads(process.stdout)

    def damaged(self):
        """Recordings of which parts in the middle can't be read."""
        whole = LONG.read_bytes()
        found = 0
        for tenth in range(1, 9):
            at = len(whole) * tenth // 10
            content = bytearray(whole)
            for i in range(at, at + 100):
                content[i] ^= 0x5A
            file = self.file(f"at{tenth}.reel", bytes(content))
            if self.document("info", file)["recording"]["kind"] == "gaps":
                found += 1
                yield file
        self.assertGreater(found, 2)

    def test_what_is_handed_out_again_was_freed(self):
        peak = self.document("info", LONG)["devices"][0]["peak_live_bytes"]
        for file in self.damaged():
            with self.subTest(file.name):
                [heap] = self.document("info", file)["devices"]
                self.assertLessEqual(heap["peak_live_bytes"], peak)
                self.assertLessEqual(heap["peak_live_bytes"], heap["peak_reserved_bytes"])
                summary = self.document("report", file)["summary"]["devices"][0]
                self.assertEqual(summary["peak_live_bytes"], heap["peak_live_bytes"])

    def test_peaks_are_no_bounds_and_leaks_not_judged(self):
        file = next(self.damaged())
        verdict = {line["topic"]: line["text"] for line in self.document("report", file)["verdict"]["lines"]}
        self.assertTrue(verdict["peak"].startswith("about "), verdict)
        self.assertIn("not judged", verdict["leaks"])
        self.assertNotIn("exact", str(verdict))
        self.assertIn("events in between are lost", run("info", file).stdout)
        (job := self.directory / "job").mkdir()
        file.rename(job / "rank0.reel")
        fleet = self.document("fleet", job, "--no-setting", code=1)
        self.assertFalse(fleet["ranks"][0]["at_least"])
        self.assertIn("about", fleet["decides"]["why"])
        self.assertNotIn("at least", fleet["decides"]["why"])
        text = run("fleet", job, "--no-setting").stdout
        self.assertIn("about ", text)
        self.assertNotIn(">=", text)

    def test_an_end_that_is_lost_leaves_a_lower_bound(self):
        whole = LONG.read_bytes()
        (job := self.directory / "job").mkdir()
        (cut := job / "rank0.reel").write_bytes(whole[:len(whole) * 3 // 4])
        self.assertEqual(self.document("info", cut)["recording"]["kind"], "cut_off")
        self.assertIn("the end may be lost", run("info", cut).stdout)
        self.assertTrue(self.document("fleet", job, "--no-setting", code=1)["ranks"][0]["at_least"])


class UnsizedFailures(ProgramTest):
    """JAX's profiler records that a request failed, but not its size."""

    def test_they_are_failures_everywhere(self):
        profile = SAMPLES / "jax_oom_growth.xplane.pb.gz"
        report = run("report", profile).stdout
        self.assertTrue(report.startswith("OOM         4 requests failed, their sizes are not recorded"), report)
        self.assertIn("use         nothing: what the failed requests asked for is unknown", report)
        self.assertIn("failed requests: 4", run("report", profile, "--oom").stdout)
        document = json.loads(run("report", profile, "--json").stdout)
        self.assertEqual((document["failed_requests"], document["verdict"]["decides"]["failed_requests"]), (4, 4))
        self.assertIsNone(document["verdict"]["decides"]["first_failure"])
        self.assertIn("4 more requests failed", run("info", profile).stdout)
        for style in ("markdown", "html"):
            self.assertIn("failed whose size is not recorded", run("report", profile, "--format", style).stdout)

        (job := self.directory / "job").mkdir()
        (job / "rank0.xplane.pb.gz").write_bytes(profile.read_bytes())
        fleet = run("fleet", job)
        self.assertEqual(fleet.returncode, 1)
        self.assertIn("out of memory: 4 requests were refused", " ".join(fleet.stdout.split()))
        checked = run("check", "--fleet", job, "--max-reserved", "9GiB")
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stdout, r"FAILED +out-of-memory")
        checked = run("check", profile, "--max-reserved", "9GiB")
        self.assertEqual(checked.returncode, 2)
        self.assertIn("the sizes of 4 requests that failed", checked.stderr)


if __name__ == "__main__":
    unittest.main()
