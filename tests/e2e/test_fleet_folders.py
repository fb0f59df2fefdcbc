# SPDX-License-Identifier: Apache-2.0
"""Jobs' folders as operators leave them: other hosts, names, devices, attempts and jobs than those of test_fleet.py, drawn at random."""

import json
import pickle
import random
import subprocess
import unittest

import fleet_job
from fleet_job import START, history, with_header
from program import MEMREEL, SANITIZED, ProgramTest, run

NAMES = {
    "host first": "run_{host}_rank{rank}", "folders": "node{host}/rank{rank}", "header only": "memreel-node{host}-{process}",
    "padded": "gpt_{rank:05d}", "bare": "{rank}", "memreel's": "memreel-rank{rank}-node{host}-{process}", "step last": "x_r{rank:02d}_s1000",
}


class Folder(fleet_job.Job):
    """A job of any number of GPUs a host, in one of the ways in which recordings are named and jobs identified."""

    def __init__(self, directory, seed):
        draw = random.Random(seed)
        self.gpus, hosts = draw.choice([1, 2, 4, 8, 16]), draw.choice([2, 3, 5, 6])
        self.sees_one = draw.random() < 0.4  # CUDA_VISIBLE_DEVICES: each process knows its GPU as 0
        self.named = draw.choice(list(NAMES))
        self.job_variable = draw.choice(["SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", None])
        self.beside = draw.choice(["another job", "nothing"])  # in the folder
        self.world_of_other = draw.choice([4, 0])  # 0: as large as the job
        ranks = max(32, self.gpus * hosts)
        super().__init__(directory, ranks, seed, stages=draw.choice([1, 2, 4]))

    def name(self, rank, extension="reel"):
        return NAMES[self.named].format(host=100 + rank // self.gpus, rank=rank, process=20_000 + rank) + "." + extension

    def device(self, rank):
        return 0 if self.sees_one else rank % self.gpus

    def recorded(self, rank, job="4711", attempt=1, world=None, process=None, skip=0, **options):
        environment = {"RANK": rank, "WORLD_SIZE": world or self.ranks, "LOCAL_RANK": rank % self.gpus, "TORCHELASTIC_RESTART_COUNT": attempt}
        if self.job_variable:
            environment[self.job_variable] = job
        trace = (self.late_trace(rank, skip) if skip else self.trace(self.stage(rank), self.device(rank), **options))
        return with_header(trace, f"node{100 + rank // self.gpus}", process or 20_000 + rank, options.get("start", START) * 1000, environment)

    def late_trace(self, rank, skip):
        source, out = self.directory / "late.pickle", self.directory / "late.tmp"
        source.write_bytes(pickle.dumps(history(self.stage(rank), self.device(rank)).snapshot(skip)))
        subprocess.run([MEMREEL, "import", source, "-o", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        trace = out.read_bytes()
        source.unlink()
        out.unlink()
        return trace

    def write(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        for rank in range(self.ranks):
            if rank in self.late and self.named not in ("header only", "memreel's"):
                late = history(self.stage(rank), self.device(rank)).snapshot(12)
                self.put(self.name(rank, "pickle"), pickle.dumps(late))  # which has no header
                continue
            content = self.recorded(rank, skip=12) if rank in self.late else self.recorded(
                rank, more=self.gibibyte if rank == self.outlier else 0)
            if rank == self.unreadable:
                content = b"nothing of the kind"
            elif rank == self.bad_block:
                content = fleet_job.damaged(content)
            elif rank == self.cut:
                content = content[:-40]
            self.put(self.name(rank), content)
        self.put(self.name(self.dumped).replace(".reel", "-dump-1.reel"), self.recorded(self.dumped, steps=2))
        self.put("old/" + self.name(self.again), self.recorded(self.again, attempt=0, process=9, start=START - 3_600_000_000))
        if self.beside == "another job":
            for rank in range(3):
                self.put("debug/" + self.name(rank), self.recorded(rank, job="4712", world=self.world_of_other or self.ranks, process=50 + rank,
                                                                   weights=3))

    def put(self, name, content):
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        super().put(name, content)


class Folders(ProgramTest):
    SEEDS = range(100, 104 if SANITIZED else 116)

    def test_the_answer_is_right_and_complete(self):
        for seed in self.SEEDS:
            folder = Folder(self.directory / str(seed), seed)
            what = {key: value for key, value in vars(folder).items() if key not in ("random", "imported", "directory")}
            with self.subTest(**what):
                self.check(folder, json.loads(run("fleet", folder.directory, "--no-setting", "--json").stdout))

    def check(self, folder, fleet):
        truth = folder.truth()
        self.assertEqual((fleet["world_size"], fleet["missing_ranks"]), (truth["world_size"], truth["missing_ranks"]))
        # Of a file that can't be read, only a name says the rank.
        assumed = [row["rank"] for row in fleet["ranks"] if row["rank_assumed"]]
        self.assertEqual(assumed, [folder.unreadable] if folder.named == "header only" else [])
        fleet_job.assert_told(self, fleet, truth)
        others = [(other["world_size"], len(other["missing_ranks"])) for other in fleet["other_jobs"]]
        world = folder.world_of_other or folder.ranks
        self.assertEqual(others, [(world, world - 3)] if folder.beside == "another job" else [])


if __name__ == "__main__":
    unittest.main()
