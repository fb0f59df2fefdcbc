# SPDX-License-Identifier: Apache-2.0
"""Records programs with `memreel record` on the fake GPU of tests/fake, as a user would on a real one."""

import os
import signal
import subprocess
from pathlib import Path

from ground_truth import differences, read_trace, read_truth
from program import MEMREEL, REPOSITORY, ProgramTest

FAKE = Path(os.environ.get("MEMREEL_FAKE", REPOSITORY / "build/release/fake"))
PROGRAM = os.environ.get("MEMREEL_FAKE_PROGRAM", str(REPOSITORY / "build/release/bin/fake_program"))

class RecordTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.truth_file = self.directory / "truth"

    def environment(self, **variables):
        return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(FAKE), "MEMREEL_TRUTH": str(self.truth_file),
                "HOME": str(self.directory), **{name: str(value) for name, value in variables.items()}}

    def start(self, *command, options=(), environment=None, **arguments):
        """A running `memreel record`, in this test's directory."""
        return subprocess.Popen([MEMREEL, "record", *map(str, options), "--", *map(str, command)], text=True,
                                cwd=self.directory, env=environment or self.environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **arguments)

    def record(self, *command, options=(), environment=None, code=0, **arguments):
        """A finished `memreel record`, which must exit with `code`."""
        process = self.start(*command, options=options, environment=environment, **arguments)
        output, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, code, errors)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def record_program(self, *mode, **arguments):
        return self.record(PROGRAM, *mode, **arguments)

    def truth(self, since=0):
        """The program's account since its file had this size in bytes."""
        if not self.truth_file.exists():
            return []
        with self.truth_file.open() as file:
            file.seek(since)
            return read_truth(file.read())

    def traces(self):
        return sorted(self.directory.glob("*.reel"))

    def trace(self):
        """The only trace."""
        traces = self.traces()
        self.assertEqual(len(traces), 1, traces)
        return traces[0]

    def events(self, trace=None):
        return read_trace(MEMREEL, trace or self.trace())

    def assert_equals_truth(self, trace=None, truth=None):
        """The events of the trace, after checking them against the program's account."""
        events = self.events(trace)
        self.assertEqual(differences(self.truth() if truth is None else truth, events), [])
        return events

    def losses(self, trace):
        return self.document("info", trace)["losses"]

    def assert_died_of(self, process, number):
        self.assertEqual(process.returncode, -number, f"{signal.Signals(number).name}: {process.returncode}")
