# SPDX-License-Identifier: Apache-2.0
"""samples/fleet/slurm.sbatch and arrays, on a one-node Slurm started by the test."""

import os
import shutil
import subprocess
import time
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY
from test_fleet_parts import Recordings, content_of

# Separate ports, so that this machine's own Slurm is left alone. More CPUs than exist, so that tasks need not wait for
# each other.
CONFIGURATION = """
ClusterName=memreel
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={here}/munge/socket
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=localhost CPUs=8 RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES OverSubscribe=FORCE:4
"""


class Slurm(Recordings):
    @classmethod
    def setUpClass(cls):
        if missing := [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(name) is None]:
            raise unittest.SkipTest(f"{', '.join(missing)} not installed")
        if os.geteuid() != 0:
            raise unittest.SkipTest("Slurm's daemons need root")

    def setUp(self):
        super().setUp()
        here = self.directory / "slurm"
        # munged trusts only directories that others can traverse but not write to.
        self.directory.chmod(0o755)
        for name in ("munge", "state", "spool"):
            (here / name).mkdir(parents=True)
        (here / "munge/key").write_bytes(os.urandom(128))
        (here / "munge/key").chmod(0o400)
        (here / "slurm.conf").write_text(CONFIGURATION.format(here=here))
        self.environment = {**os.environ, "SLURM_CONF": str(here / "slurm.conf"),
                            "PATH": f"{Path(MEMREEL).parent}:{os.environ['PATH']}"}
        munge = here / "munge"
        self.daemon("munged", "--foreground", f"--key-file={munge}/key", f"--socket={munge}/socket",
                    f"--pid-file={munge}/pid", f"--seed-file={munge}/seed", f"--log-file={munge}/log")
        self.until(lambda: (munge / "socket").exists(), "munged")
        self.daemon("slurmctld", "-D", "-f", here / "slurm.conf")
        self.daemon("slurmd", "-D", "-N", "localhost", "-f", here / "slurm.conf")
        self.until(lambda: subprocess.run(["sinfo", "-h", "-o", "%T"], env=self.environment, capture_output=True,
                                          text=True).stdout.strip() == "idle", "an idle node")

    def daemon(self, *command):
        process = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)

        def end():
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.addCleanup(end)

    def until(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            if time.monotonic() > end:
                self.skipTest(f"no Slurm on this machine: waited a minute for {what}")
            time.sleep(0.1)

    def submit(self, *arguments):
        process = subprocess.run(["sbatch", "--wait", "-o", self.directory / "said-%a", *map(str, arguments)],
                                 cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(process.returncode, 0, process.stderr)
        return "".join(file.read_text() for file in sorted(self.directory.glob("said-*")))

    def test_the_documented_script(self):
        out = self.directory / "out"
        said = self.submit("--ntasks-per-node=3", REPOSITORY / "samples/fleet/slurm.sbatch", self.job, out)
        for part in range(3):
            self.assertIn(f"part {part} of 3 (SLURM_PROCID)", said)
        self.assertIn("classes", said)
        results = content_of(out, "*.rank")
        self.assertEqual(results, self.expected)
        self.assertIn(b"<svg", (out / "fleet.html").read_bytes())
        self.assertTrue((out / "tables/ranks.parquet").exists())

    def test_an_array(self):
        out = self.directory / "out"
        said = self.submit("--array=3-7:2", "--wrap", f"memreel fleet map {self.job} -o {out}")
        for part in range(3):
            self.assertIn(f"part {part} of 3 (SLURM_ARRAY_TASK_ID)", said)
        self.assertEqual(content_of(out), self.expected)

    def test_a_batch_script_is_none_of_its_tasks(self):
        out = self.directory / "out"
        said = self.submit("--ntasks=4", "--wrap", f"memreel fleet map {self.job} -o {out}")
        self.assertNotIn("part", said)
        self.assertEqual(content_of(out), self.expected)


if __name__ == "__main__":
    unittest.main()
