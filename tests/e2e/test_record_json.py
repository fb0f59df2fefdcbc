# SPDX-License-Identifier: Apache-2.0
"""memreel record --json FILE, attach --json, detach --json: the outcome of a recording, for scripts."""

import json
import os
import signal
import subprocess
import sys

from attaching import AttachTest
from program import MEMREEL
from recorded import PROGRAM
from schema import defects


class RecordJson(AttachTest):
    def report(self, *command, code=0, options=()):
        """The document on a recorded program."""
        file = self.directory / "recording.json"
        self.record(*command, options=("-q", "--json", file, *options), code=code)
        document = json.loads(file.read_text())
        self.assertEqual(defects(document), [])
        return document

    def assert_describes(self, recorded, trace):
        info = self.document("info", trace)
        self.assertEqual(recorded["trace"], str(trace))
        self.assertEqual([recorded[key] for key in ("events", "lost_events", "bytes")],
                         [info["events"], info["lost_events"], info["bytes"]])
        self.assertIsNone(recorded["problem"])

    def test_a_program_that_ends(self):
        document = self.report(PROGRAM, "single")
        self.assertEqual((document["exit_code"], document["signal"], document["program"]), (0, None, PROGRAM))
        self.assertGreater(document["duration_s"], 0)
        [recorded] = document["traces"]
        self.assert_describes(recorded, self.trace())
        self.assertTrue(recorded["complete"])
        self.assertGreater(recorded["devices"][0]["peak_bytes"], 0)
        self.assertEqual(recorded["process"], document["process"])

    def test_its_output_stays_its_own(self):
        process = self.record("echo", "its own", options=("-q", "--json", "recording.json"))
        self.assertEqual((process.stdout, process.stderr), ("its own\n", ""))

    def test_exit_codes_and_signals(self):
        document = self.report("sh", "-c", "exit 7", code=7)
        self.assertEqual((document["exit_code"], document["signal"], document["traces"]), (7, None, []))
        document = self.report("sh", "-c", "kill -TERM $$", code=-signal.SIGTERM)
        self.assertEqual((document["exit_code"], document["signal"]), (None, int(signal.SIGTERM)))

    def test_every_process_has_an_entry(self):
        document = self.report("sh", "-c", f"'{PROGRAM}' single; '{PROGRAM}' single", options=("-o", "%p.reel"))
        self.assertEqual({entry["trace"] for entry in document["traces"]}, {str(trace) for trace in self.traces()})
        self.assertEqual(len(document["traces"]), 2)

    def test_what_can_not_be_written_is_said_before_the_program_runs(self):
        for file in ("/no/such/directory/recording.json", self.directory):
            process = self.record("touch", "ran", options=("--json", file), code=2)
            self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
            self.assertIn(str(file), process.stderr)
        self.assertFalse((self.directory / "ran").exists())

    def test_a_program_is_never_overwritten(self):
        script = self.file("script", b"#!/bin/sh\n")
        script.chmod(0o755)
        process = self.record("true", options=("--json", script), code=2)
        self.assertIn("--json FILE -- PROGRAM", process.stderr)
        self.assertEqual(script.read_bytes(), b"#!/bin/sh\n")

    def test_no_two_outputs_share_a_file(self):
        for options in (("-o", "k.reel", "--json", "k.reel"), ("-o", "k.reel", "--json", self.directory / "k.reel"),
                        ("--json", "k.prom", "--openmetrics", "k.prom"), ("-o", "./k.reel", "--openmetrics", "k.reel"),
                        ("-o", "k-%r.reel", "--json", "k-3.reel")):
            with self.subTest(options):
                process = self.record("touch", "ran", options=options, environment=self.environment(RANK=3), code=2)
                self.assertIn("two outputs would go to this file", process.stderr)
                self.assertEqual(os.listdir(self.directory), [])

    def test_what_was_recorded_is_not_replaced_by_the_document(self):
        """Whatever names traces got: that of an earlier recording was taken."""
        self.record(PROGRAM, "single", options=("-q", "-o", "k.reel"))
        process = self.record(PROGRAM, "single", options=("-q", "-o", "k.reel", "--json", "k-1.reel"))
        self.assertIn("k-1.reel: is a trace of this recording", process.stderr)
        self.assertEqual(len(self.traces()), 2)
        for trace in self.traces():
            self.assertGreater(self.document("info", trace)["events"], 0)

    def test_nothing_half_written_is_left(self):
        self.record("no-such-program", options=("--json", "recording.json"), code=2)
        self.assertEqual(os.listdir(self.directory), [])


class AttachJson(AttachTest):
    def test_the_metrics_never_go_to_the_trace(self):
        process = self.run_program(PROGRAM, "endless", 2, FAKE_CUDA_DELAY_US=100)
        for output, metrics in (("k.reel", "./k.reel"), ("k-%p.reel", f"k-{process.pid}.reel")):
            attached = subprocess.run([MEMREEL, "attach", str(process.pid), "-o", output, "--openmetrics", metrics], cwd=self.directory,
                                      text=True, capture_output=True, timeout=60)
            self.assertEqual(attached.returncode, 2, attached.stderr)
            self.assertIn("two outputs would go to this file", attached.stderr)
        self.assertEqual(self.traces(), [])

    def start_dormant(self):
        process = self.run_program(MEMREEL, "record", "--dormant", "--", PROGRAM, "endless", 2, FAKE_CUDA_DELAY_US=100)
        self.wait_for_truth(20)
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            return int(children.read().split()[0])

    def json_of(self, *arguments):
        process = self.memreel(*arguments, "--json")
        document = json.loads(process.stdout)
        self.assertEqual(defects(document), [])
        return document

    def test_begin_and_end(self):
        pid = self.start_dormant()
        begun = self.json_of("attach", pid, "-o", "run.reel")
        trace = str(self.directory / "run.reel")
        self.assertEqual([begun[key] for key in ("process", "method", "state", "trace", "recorded")],
                         [pid, "loaded", "recording", trace, None])
        ended = self.json_of("detach", pid)
        self.assertEqual((ended["process"], ended["name"]), (pid, begun["name"]))
        info = self.document("info", trace)
        self.assertEqual([ended["recorded"][key] for key in ("trace", "events", "bytes", "lost_events", "complete")],
                         [trace, info["events"], info["bytes"], info["lost_events"], True])

    def test_for_a_while(self):
        document = self.json_of("attach", self.start_dormant(), "-o", "run.reel", "--duration", 0.2, "-q")
        self.assertEqual(document["state"], "stopped")
        self.assertGreater(document["recorded"]["events"], 0)

    def test_not_with_the_live_view(self):
        self.assert_refused(self.memreel("attach", 1, "--live", "--json", code=2), "--json", "--live")


class Targets(AttachTest):
    def test_a_name_is_not_a_process_id(self):
        sleeper = self.run_program(sys.executable, "-c", "open('/proc/self/comm', 'w').write('fa-sleeper'); print(flush=True);"
                                   "import time; time.sleep(60)")
        sleeper.stdout.readline()
        for command in ("attach", "detach"):
            self.assert_refused(self.memreel(command, "fa-sleeper", code=2), "'fa-sleeper' is not a process id",
                                f"did you mean {sleeper.pid} (fa-sleeper)?")
            for word in ("abc", "0", "-1x", "12a", "99999999999999999999"):
                self.assert_refused(self.memreel(command, word, code=2), "is not a process id", f"memreel {command} 4711")
