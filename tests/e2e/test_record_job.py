# SPDX-License-Identifier: Apache-2.0
"""Recordings of a job's processes know their rank and world size, and the fleet relies on that."""

import mmap
import os
import shutil
import sys
import unittest

from program import run
from recorded import PROGRAM, RecordTest

# Starts ranks as torchrun does: each with its rank in its environment.
TORCHRUN = ('for rank in {ranks}; do RANK=$rank LOCAL_RANK=$((rank % 2)) WORLD_SIZE={world} TORCHELASTIC_RUN_ID=run7 '
            '{program} single 10 & done; wait')
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": "sh",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


class Job(RecordTest):
    def setUp(self):
        super().setUp()
        self.job = self.directory / "job"
        self.job.mkdir()

    def record_ranks(self, ranks, world, name="%r"):
        script = TORCHRUN.format(ranks=" ".join(map(str, ranks)), world=world, program=PROGRAM)
        return self.record("sh", "-c", script, options=["-o", f"job/{name}.reel"])

    def fleet(self, *arguments, code=0):
        return self.document("fleet", self.job, "--no-setting", *arguments, code=code)

    def test_a_recording_says_where_it_is_from(self):
        self.record_ranks([3], 4)
        info = self.document("info", self.job / "3.reel")
        self.assertEqual(info["host"], os.uname().nodename)
        self.assertGreater(info["process"], 0)
        self.assertAlmostEqual(info["start_ns"] / 1e9, (self.job / "3.reel").stat().st_mtime, delta=60)
        self.assertEqual(info["environment"], {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4",
                                               "TORCHELASTIC_RUN_ID": "run7"})
        self.assertEqual((info["machine"], info["byte_order"], info["page_size"]), (os.uname().machine, sys.byteorder, mmap.PAGESIZE))
        self.assertRegex(self.answer("info", self.job / "3.reel").stdout, rf"machine  {os.uname().machine}, {sys.byteorder}-endian, pages of \d+ KiB")
        self.assertRegex(self.answer("info", self.job / "3.reel").stdout,
                         rf"process  \d+ on {os.uname().nodename}, recorded from \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC")

    def test_files_are_called_by_rank(self):
        self.record_ranks(range(4), 4)
        fleet = self.fleet()
        self.assertEqual(sorted(file.name for file in self.job.iterdir()), [f"{rank}.reel" for rank in range(4)])
        self.assertEqual([row["rank"] for row in fleet["ranks"]], [0, 1, 2, 3])
        self.assertEqual({row["job"] for row in fleet["ranks"]}, {"run7"})
        self.assertEqual([row["local_rank"] for row in fleet["ranks"]], [0, 1, 0, 1])
        self.assertEqual({row["host"] for row in fleet["ranks"]}, {os.uname().nodename})
        self.assertEqual([c["ranks"] for c in fleet["classes"]], [[0, 1, 2, 3]])

    def test_the_directory_of_the_traces_is_made_but_not_its_parents(self):
        self.record("true", options=["-o", "new/%r.reel"])
        self.assertTrue((self.directory / "new").is_dir())
        refused = self.record("true", options=["-o", "absent/new/%r.reel"], code=2)
        self.assertIn("can't write a trace here: No such file or directory", refused.stderr)
        self.assertFalse((self.directory / "absent").exists())

    def test_names_do_not_matter_when_the_recording_knows(self):
        self.record_ranks((0, 1, 3), 5, name="%h-%p")
        fleet = self.fleet(code=1)
        self.assertEqual(fleet["world_size"], 5)
        self.assertEqual(fleet["missing_ranks"], [2, 4])
        self.assertFalse(any(row["rank_assumed"] for row in fleet["ranks"]))
        text = run("fleet", self.job, "--no-setting").stdout
        self.assertEqual(text.splitlines()[0].split(";")[0], "2 of 5 ranks missing: 2, 4")

    def test_a_second_process_of_a_rank_is_no_other_rank(self):
        first = f"RANK=0 WORLD_SIZE=2 {PROGRAM} single 10; "
        self.record("sh", "-c", first + first, options=["-o", "job/%r.reel"])
        self.assertEqual(sorted(file.name for file in self.job.iterdir()), ["0-1.reel", "0.reel"])
        fleet = self.fleet(code=1)
        self.assertEqual([(row["rank"], row["status"]) for row in fleet["ranks"]],
                         [(0, "ok"), (0, "duplicate"), (1, "missing")])

    def test_workers_that_a_task_starts_are_no_duplicates(self):
        script = f"for worker in 0 1 2; do {PROGRAM} single 20 & done; wait"
        self.record("sh", "-c", script, options=["-o", "job/%r-%p.reel"],
                    environment=self.environment(SLURM_PROCID=0, SLURM_NTASKS=2, FAKE_CUDA_DELAY_US=20_000))
        fleet = self.fleet()
        self.assertEqual([(row["rank"], row["rank_assumed"], row["status"]) for row in fleet["ranks"]],
                         [(rank, True, "ok") for rank in range(3)])

    def test_what_starts_the_ranks_is_none(self):
        script = f"{PROGRAM} initialize; " + TORCHRUN.format(ranks="0 1", world=2, program=PROGRAM)
        self.record("sh", "-c", script, options=["-o", "job/%r.reel"])
        fleet = self.fleet()
        self.assertEqual(fleet["world_size"], 2)
        self.assertEqual([os.path.basename(file) for file in fleet["skipped_files"]], ["none.reel"])

    def test_environments_hurt_nobody(self):
        strange = {"RANK": "\udcff\n\x1b[2J", "WORLD_SIZE": "9" * 5000, "LOCAL_RANK": "", "SLURM_JOB_ID": "x" * 50_000,
                   "SLURM_JWT": "very-secret", "SLURM_RESTART_COUNT": "-1",
                   **{f"OMPI_MCA_{i}": "y" * 100 for i in range(3000)}}
        self.record_program("single", 10, options=["-o", "job/%r.reel"], environment=self.environment(**strange))
        self.assert_equals_truth(self.job / "none.reel")
        environment = self.document("info", self.job / "none.reel")["environment"]
        self.assertEqual(environment["RANK"], r"\xff\n\x1b[2J")
        self.assertEqual(environment["SLURM_JWT"], "***")
        self.assertLessEqual(len(environment), 256)
        self.assertLessEqual(max(map(len, environment.values())), 1000)
        self.assertNotIn(b"very-secret", (self.job / "none.reel").read_bytes())
        self.assertEqual(self.fleet()["ranks"][0]["rank_assumed"], True)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_mpi_says_who_is_who(self):
        self.record("mpirun", "-n", 3, PROGRAM, "single", 10, options=["-o", "job/%p.reel"],
                    environment=self.environment(**MPI_ENVIRONMENT))
        fleet = self.fleet()
        self.assertEqual([(row["rank"], row["local_rank"], row["rank_assumed"]) for row in fleet["ranks"]],
                         [(0, 0, False), (1, 1, False), (2, 2, False)])
        self.assertEqual(fleet["world_size"], 3)


if __name__ == "__main__":
    unittest.main()
