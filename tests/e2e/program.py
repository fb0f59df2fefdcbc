# SPDX-License-Identifier: Apache-2.0
"""Runs memreel as a user would and checks the results."""

import json
import os
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MEMREEL = os.environ.get("MEMREEL", str(REPOSITORY / "build/release/bin/memreel"))
SAMPLES = REPOSITORY / "samples/traces"

# Sanitizers map terabytes of shadow memory, so the address space can be limited only without them.
SANITIZED = os.environ.get("MEMREEL_SANITIZE", "") != ""


def run(*arguments, memory_limit=None, processor_limit=None, timeout=500, environment=None):
    """Returns the finished process; `memory_limit` bounds its address space in bytes, `processor_limit` its CPU time in
    seconds. Neither applies under a sanitizer."""
    def limit():
        for kind, most in ((resource.RLIMIT_AS, memory_limit), (resource.RLIMIT_CPU, processor_limit)):
            if most is not None and not SANITIZED:
                resource.setrlimit(kind, (most, most))
    return subprocess.run([MEMREEL, *map(str, arguments)], preexec_fn=limit, timeout=timeout, text=True,
                          env=os.environ | {"COLUMNS": ""} | (environment or {}),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class ProgramTest(unittest.TestCase):
    """A test with its own directory, `self.directory`."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="memreel-e2e-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def file(self, name, content):
        path = self.directory / name
        path.write_bytes(content)
        return path

    def answer(self, *arguments, code=0):
        """Runs memreel, which must exit with `code` (None: any), and returns the process."""
        process = run(*arguments)
        self.assertIn(process.returncode, [process.returncode if code is None else code],
                      f"memreel {' '.join(map(str, arguments))}\n{process.stderr}{process.stdout[:4000]}")
        return process

    def document(self, *arguments, code=0):
        """The JSON document on standard output."""
        return json.loads(self.answer(*arguments, "--json", code=code).stdout)

    def assert_refused(self, process, *mentions):
        """Asserts exit code 2, an empty standard output, and one line on standard error that contains all of `mentions`."""
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertEqual(process.stdout, "")
        self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
        for mention in mentions:
            self.assertIn(str(mention), process.stderr)
