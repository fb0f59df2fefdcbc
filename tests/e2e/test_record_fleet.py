# SPDX-License-Identifier: Apache-2.0
"""memreel fleet --heap: one heap of each rank is judged, whichever process does the work."""

import json
import shutil
import subprocess
import sys
import unittest

import test_fleet_parts as parts
from program import MEMREEL, REPOSITORY, run
from recorded import ScriptTest

MIB = 1 << 20

RANK = """
malloc({plain} * MIB)
for name, size in {pools}:
    pool = memreel.pool(name, "arena", device=0)
    address = malloc(512 * MIB)
    pool.segment_add(address, 512 * MIB)
    for _ in range(8):
        pool.alloc(address, size * MIB)
        memreel.step()
        pool.free(address)
"""


class OneHeap(ScriptTest):
    """Three ranks with pools `main` and `side` beside what they have of the driver; the third has no `side`."""

    PEAKS = {"main": (64, 32, 16), "side": (10, 40)}

    def setUp(self):
        super().setUp()
        self.job = self.directory / "job"
        self.job.mkdir()
        for rank, plain in enumerate((8, 4, 2)):
            pools = [(name, sizes[rank]) for name, sizes in self.PEAKS.items() if rank < len(sizes)]
            self.run_python(RANK.format(plain=plain, pools=pools)).rename(self.job / f"rank{rank}.reel")

    def judged(self, *arguments, code=0):
        document = self.document("fleet", self.job, "--no-setting", *arguments, code=code)
        return document, {row["rank"]: row for row in document["ranks"]}

    def test_the_answer_is_that_of_the_heap(self):
        document, _ = self.judged("--heap", "main")
        self.assertEqual((document["heap"], document["missing_ranks"]), ("main", []))
        self.assertIsNone(self.judged()[0]["heap"])
        for heap, decides, code in (("main", 0, 0), ("side", 1, 1), ("cuda.driver", 0, 0)):
            with self.subTest(heap=heap):
                document, rows = self.judged("--heap", heap, code=code)
                for rank, row in rows.items():
                    file = self.job / f"rank{rank}.reel"
                    if row["peak_live_bytes"] is None:
                        continue
                    reported, = [one for one in self.document("report", file, "--heap", heap)["summary"]["devices"] if one["heap"] == heap]
                    self.assertEqual((row["peak_live_bytes"], row["peak_reserved_bytes"]),
                                     (reported["peak_live_bytes"], reported["peak_reserved_bytes"] or reported["peak_live_bytes"]))
                    self.assertEqual((row["other_bytes"], row["beside_bytes"]), (0, 0))
                if heap in self.PEAKS:
                    self.assertEqual([row["peak_live_bytes"] for row in rows.values() if row["peak_live_bytes"] is not None],
                                     [size * MIB for size in self.PEAKS[heap]])
                live = max(rows.values(), key=lambda row: row["peak_live_bytes"] or 0)
                self.assertEqual(live["rank"], decides)
                self.assertIn(f"heap {heap} only: ", self.answer("fleet", self.job, "--no-setting", "--heap", heap, code=code).stdout)

    def test_the_heap_has_the_device_for_itself(self):
        beside = 8 * MIB + 512 * MIB
        for words, most in (((), 512 * MIB + beside), (("--heap", "main"), 512 * MIB)):
            with self.subTest(words=words):
                for capacity, code in ((most, 0), (most - MIB, 1)):
                    _, rows = self.judged("--capacity", capacity, *words)
                    self.assertEqual(rows[0]["headroom_bytes"], capacity - most)
                    self.answer("check", "--fleet", self.job, "--capacity", capacity, "--min-headroom", "0", *words, code=code)
                replay, = self.document("replay", self.job / "rank0.reel", "--policy", "bound.live", "--heap", "main")["policies"]
                self.assertEqual(replay["peak_live_bytes"], rows[0]["peak_live_bytes"])

    def test_a_rank_that_lacks_it_is_not_judged(self):
        document, rows = self.judged("--heap", "side", code=1)
        self.assertEqual(document["missing_ranks"], [2])
        self.assertEqual((rows[2]["class"], rows[2]["peak_live_bytes"], rows[2]["status"]), (None, None, "ok"))
        self.assertEqual(rows[2]["reason"], "it has no memory in a heap 'side'")
        self.assertIn("rank 2, rank2.reel: not judged: it has no memory in a heap 'side'",
                      self.answer("fleet", self.job, "--no-setting", "--heap", "side", code=1).stdout)
        self.answer("fleet", self.job, "--no-setting", "--heap", "side", "--allow-incomplete")
        check = ("check", "--fleet", self.job, "--heap", "side", "--max-reserved", "1GiB")
        self.assertIn("rank 2 is not judged: it has no memory in a heap 'side'", self.answer(*check, code=1).stdout)
        self.answer(*check, "--allow-incomplete")

    def test_a_heap_that_no_rank_has_is_refused_in_the_words_of_other_commands(self):
        error = "memreel: error: --heap: there is no heap 'mian' (there are: cuda.driver, main, side)"
        out = self.directory / "out"
        self.answer("fleet", "map", self.job, "-o", out, "--heap", "mian")
        for command in (("fleet", self.job), ("check", "--fleet", self.job, "--max-reserved", "1GiB"),
                        ("fleet", "merge", out), ("fleet", "settings", out)):
            with self.subTest(command=command[:2]):
                self.assert_refused(run(*command, "--heap", "mian"), error)
        self.assertIn("--heap NAME", self.answer("fleet", "--help").stdout)

    def test_results_are_of_one_heap(self):
        out = self.directory / "out"
        mapping = ("fleet", "map", self.job, "-o", out, "--shard", "0/1", "--resume")
        self.answer(*mapping)
        made = [("main", "all heaps", "leave out --heap"), ("side", "the heap 'main'", "give --heap main"),
                (None, "the heap 'side'", "give --heap side")]
        for heap, before, remedy in made:
            with self.subTest(heap=heap):
                words = ("--heap", heap) if heap else ()
                for step in ("settings", "merge"):
                    self.assert_refused(run("fleet", step, out, *words), f"was made of {before}, not of", remedy)
                self.assertTrue(self.answer(*mapping, *words).stdout.startswith("3 results"))
                self.assertTrue(self.answer(*mapping, *words).stdout.startswith("0 results"))
                code = 1 if heap == "side" else 0
                self.assertEqual(self.document("fleet", "merge", out, "--no-setting", *words, code=code), self.judged(*words, code=code)[0])

    def test_a_baseline_is_of_one_heap(self):
        baseline = self.directory / "job.json"
        check = ("check", "--fleet", self.job)
        self.answer(*check, "--heap", "main", "--write-baseline", baseline)
        self.assertEqual(json.loads(baseline.read_text())["heap"], "main")
        self.answer(*check, "--heap", "main", "--baseline", baseline)
        self.assert_refused(run(*check, "--baseline", baseline), "job.json", "is of the heap 'main'", "give --heap main")
        self.assert_refused(run(*check, "--heap", "side", "--baseline", baseline), "is of the heap 'main'")
        self.answer(*check, "--write-baseline", baseline)
        self.assertNotIn("heap", json.loads(baseline.read_text()))
        self.assert_refused(run(*check, "--heap", "main", "--baseline", baseline), "is not of one heap", "leave out --heap")

    def test_tasks_of_ray_ask_about_it(self):
        modules = parts.stand_in_for_ray(self.directory / "modules")
        process = subprocess.run([MEMREEL, "fleet", "--engine", "ray", "-o", self.directory / "ray", self.job, "--heap", "main", "--json"],
                                 text=True, capture_output=True,
                                 env=parts.environment_of({"MEMREEL_PYTHON": sys.executable,
                                                           "PYTHONPATH": f"{modules}:{REPOSITORY / 'collector/python_module'}"}))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(json.loads(process.stdout), self.document("fleet", self.job, "--heap", "main"))

    @unittest.skipIf(shutil.which(parts.MPIRUN) is None or not parts.MPI, "MPI is not installed")
    def test_processes_of_mpi_ask_about_it(self):
        process = subprocess.run([parts.MPIRUN, "-n", "2", parts.MPI, self.job, "-o", self.directory / "mpi", "--heap", "main", "--",
                                  "--json"], text=True, capture_output=True, env=parts.environment_of(parts.MPI_ENVIRONMENT))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(json.loads(process.stdout), self.document("fleet", self.job, "--heap", "main"))


if __name__ == "__main__":
    unittest.main()
