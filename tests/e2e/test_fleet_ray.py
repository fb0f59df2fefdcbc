# SPDX-License-Identifier: Apache-2.0
"""memreel fleet --engine ray: tasks on a local cluster, one of whose workers is killed."""

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import peers
from processes import kill_unless_ended, processes_below
from program import MEMREEL, REPOSITORY, SAMPLES, ProgramTest
from test_fleet_parts import content_of

MODULE = REPOSITORY / "collector/python_module"
STARTED = "import ray; ray.init(num_cpus=2, log_to_driver=False, logging_level='error', include_dashboard=False); " \
          "import memreel.on_ray, sys; sys.exit(memreel.on_ray.main(sys.argv[1:]))"


def workers_of(process):
    """Descendants of `process` that are running a Ray task."""
    return [pid for pid, command in processes_below(process) if command.startswith("ray::map_file")]


class Ray(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.python = peers.python_with("ray")

    def setUp(self):
        super().setUp()
        self.job = self.directory / "job"
        self.job.mkdir()
        samples = sorted(SAMPLES.glob("[!o]*.reel"), key=lambda file: file.stat().st_size)[:4]  # none that ran out of memory
        for rank in range(12):
            shutil.copy(samples[rank % 4], self.job / f"rank{rank}.reel")
        self.expected = self.answer("fleet", "map", self.job, "-o", self.directory / "expected", "--shard", "0/1")
        self.environment = {**os.environ, "PYTHONPATH": str(MODULE), "PATH": f"{Path(self.python).parent}:{os.environ['PATH']}",
                            "RAY_USAGE_STATS_ENABLED": "0"}

    def test_the_same_bytes_and_the_same_answer(self):
        out = self.directory / "out"
        process = subprocess.run([MEMREEL, "fleet", "--engine", "ray", "-o", out, self.job, "--no-setting", "--json"], text=True,
                                 capture_output=True, env=self.environment, timeout=500)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(content_of(out), content_of(self.directory / "expected"))
        self.assertEqual(json.loads(process.stdout), self.document("fleet", self.job, "--no-setting"))

    def test_the_documented_script(self):
        """samples/fleet/fleet_on_ray.py"""
        out = self.directory / "out"
        process = subprocess.run([self.python, REPOSITORY / "samples/fleet/fleet_on_ray.py", out, self.job], text=True, capture_output=True,
                                 env={**self.environment, "PATH": f"{Path(MEMREEL).parent}:{self.environment['PATH']}"}, timeout=500)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(content_of(out, "*.rank"), content_of(self.directory / "expected"))
        self.assertIn("all 12 ranks", process.stdout)

    def test_a_killed_worker_changes_nothing(self):
        out = self.directory / "out"
        # Recordings that take a while, so that there is something to kill.
        slow = self.directory / "slow-memreel"
        slow.write_text(f"#!/bin/sh\nsleep 1\nexec {MEMREEL} \"$@\"\n")
        slow.chmod(0o755)
        files = sorted(str(file) for file in self.job.iterdir())
        driver = subprocess.Popen([self.python, "-c", STARTED, "--memreel", slow, "--out", out, "--no-setting", "--json", "--", *files],
                                  env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        killed = []

        def kill():
            while driver.poll() is None and not killed:
                killed.extend(filter(kill_unless_ended, workers_of(driver.pid)[:1]))
                time.sleep(0.05)

        killer = threading.Thread(target=kill)
        killer.start()
        output, errors = driver.communicate(timeout=500)
        killer.join()
        self.assertTrue(killed, "no worker was seen")
        self.assertEqual(driver.returncode, 0, errors)
        self.assertEqual(content_of(out), content_of(self.directory / "expected"))
