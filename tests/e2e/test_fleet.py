# SPDX-License-Identifier: Apache-2.0
"""memreel fleet: one answer for the ranks of a job, for real recordings and for broken ones."""

import json
import lzma
import os
import pickle
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

import fleet_job
import histories
import snapshot
import xspace
from program import MEMREEL, SAMPLES, SANITIZED, ProgramTest, run

FLEET16 = histories.SHARED / "fleet16"
SAMPLE = SAMPLES / "gpt_default.reel"
LEAK = SAMPLES / "leak.reel"
LONG = SAMPLES / "decode_default.reel"  # has more than one block of events


def size_text(size):
    """Human-readable: "1.25 GiB"."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} B"


def reels():
    return [FLEET16 / f"rank{rank}.reel" for rank in range(16)]


@unittest.skipUnless((FLEET16 / "truth.jsonl").exists(), "the recordings of 16 ranks are not here")
class Sixteen(ProgramTest):
    """Four pipeline stages with four replicas: rank 6 had one longer step, rank 9 leaks."""

    @classmethod
    def setUpClass(cls):
        cls.truth = [json.loads(line) for line in (FLEET16 / "truth.jsonl").read_text().splitlines()]
        process = run("fleet", *reels(), "--mesh", "pp=4,dp=4", "--json")
        cls.code, cls.errors = process.returncode, process.stderr
        cls.fleet = json.loads(process.stdout)

    def test_everybody_is_there(self):
        self.assertEqual(self.code, 0, self.errors)
        self.assertEqual(self.fleet["schema"], "memreel.fleet/1")
        self.assertEqual(self.fleet["world_size"], 16)
        self.assertEqual(self.fleet["missing_ranks"], [])
        self.assertEqual([row["rank"] for row in self.fleet["ranks"]], list(range(16)))
        self.assertEqual({row["status"] for row in self.fleet["ranks"]}, {"ok"})

    def test_peaks_are_those_that_pytorch_reported(self):
        for row, truth in zip(self.fleet["ranks"], self.truth):
            with self.subTest(rank=row["rank"]):
                self.assertEqual(row["peak_allocated_bytes"], truth["peak_allocated"])
                self.assertEqual(row["peak_reserved_bytes"], truth["peak_reserved"])

    def test_the_rank_with_the_highest_peak_decides(self):
        decider = max(self.truth, key=lambda rank: rank["peak_reserved"])["rank"]
        self.assertEqual(self.fleet["decides"]["rank"], decider)
        self.assertEqual(len(self.fleet["decides"]["next"]), 10)

    def test_replicas_are_classes(self):
        self.assertEqual([c["ranks"] for c in self.fleet["classes"]],
                         [[0, 1, 2, 3], [4, 5, 7], [6], [8, 10, 11], [9], [12, 13, 14, 15]])

    def test_outliers_are_compared_with_their_own_stage(self):
        outliers = {outlier["rank"]: outlier for outlier in self.fleet["outliers"]}
        self.assertEqual(sorted(outliers), [6, 9])
        self.assertIn(outliers[6]["neighbour"], (4, 5, 7))
        self.assertIn(outliers[9]["neighbour"], (8, 10, 11))
        by_rank = {rank["rank"]: rank["peak_reserved"] for rank in self.truth}
        self.assertEqual(outliers[6]["bytes"], by_rank[6] - by_rank[4])
        self.assertEqual(outliers[9]["bytes"], by_rank[9] - by_rank[8])
        self.assertTrue(outliers[9]["sites"][0]["stack"])

    def test_the_leak_and_no_other(self):
        self.assertEqual({leak["rank"] for leak in self.fleet["leaks"]}, {9})
        leaked = sum(leak["bytes"] for leak in self.fleet["leaks"])
        truth = sum(rank["leaked_bytes"] for rank in self.truth)
        self.assertAlmostEqual(leaked, truth, delta=0.05 * truth)
        self.assertEqual(self.fleet["leaks"][0]["stack"][0]["line"], 26)

    def test_stages_differ_and_replicas_hardly(self):
        axes = {axis["axis"]: axis for axis in self.fleet["imbalance"]["axes"]}
        self.assertEqual(set(axes), {"pp", "dp"})
        peaks = [rank["peak_reserved"] for rank in self.truth]
        mean = sum(peaks) / 16
        between = sum(4 * (sum(peaks[4 * s:4 * s + 4]) / 4 - mean) ** 2 for s in range(4))
        self.assertAlmostEqual(axes["pp"]["share_of_variance"], between / sum((p - mean) ** 2 for p in peaks), places=6)
        self.assertAlmostEqual(self.fleet["imbalance"]["max_over_mean"], max(peaks) / mean, places=6)

    def test_the_common_setting_is_replayed_on_every_class(self):
        setting = self.fleet["setting"]
        self.assertEqual([c["ranks"] for c in setting["classes"]], [c["ranks"] for c in self.fleet["classes"]])
        for c in setting["classes"]:
            with self.subTest(ranks=c["ranks"]):
                self.assertIsNone(c["problem"])
                replay = self.document("replay", FLEET16 / f"rank{c['replayed']}.reel", "--policy", "torch.native")
                self.assertEqual(c["recorded"]["peak_reserved_bytes"], replay["policies"][0]["peak_reserved_bytes"])
                self.assertGreater(c["allocations"], 0)
                self.assertEqual(c["address_matches"], c["allocations"])
                self.assertEqual(c["witness_address_matches"], c["witness_allocations"])
                self.assertEqual(c["witness"] is None, len(c["ranks"]) == 1)
                self.assertEqual([o["setting"] for o in c["outcomes"]], setting["candidates"])
        if setting["recommended"] is not None:
            chosen = setting["candidates"].index(setting["recommended"])
            after = max(c["outcomes"][chosen]["peak_reserved_bytes"] for c in setting["classes"])
            self.assertEqual(setting["max_peak_reserved_bytes"]["after"], after)
            self.assertLess(after, setting["max_peak_reserved_bytes"]["before"])

    def test_check_judges_the_device_as_fleet_does(self):
        rank = FLEET16 / "rank0.reel"  # 128.30 MiB of cuBLAS and cuDNN are beside PyTorch's 1.02 GiB
        for option in ("--capacity", "--max-reserved"):
            self.answer("check", rank, option, "1050MiB", code=1)
        self.answer("check", rank, "--max-reserved", 1_227_148_808)
        self.answer("check", rank, "--max-reserved", 1_227_148_807, code=1)

    def test_a_directory_with_other_files_and_second_recordings(self):
        fleet = self.document("fleet", FLEET16, "--no-setting")
        self.assertEqual([c["ranks"] for c in fleet["classes"]], [c["ranks"] for c in self.fleet["classes"]])
        duplicates = [row for row in fleet["ranks"] if row["status"] == "duplicate"]
        self.assertEqual([row["rank"] for row in duplicates], [0, 9])
        for row in duplicates:
            self.assertEqual(row["peak_reserved_bytes"], self.truth[row["rank"]]["peak_reserved"])
        self.assertTrue(any(name.endswith("truth.jsonl") for name in fleet["skipped_files"]))

    def test_missing_ranks_are_the_first_thing_said(self):
        files = [file for rank, file in enumerate(reels()) if rank not in (3, 4, 5)]
        process = self.answer("fleet", *files, "--no-setting", "--world-size", 17, code=1)
        self.assertEqual(process.stdout.splitlines()[0].split(";")[0], "4 of 17 ranks missing: 3-5, 16")
        self.answer("fleet", *files, "--no-setting", "--allow-incomplete")

    def test_a_smaller_device_says_who_fails_first(self):
        fleet = self.document("fleet", *reels(), "--no-setting", "--capacity", "1200MiB")
        fails = fleet["decides"]["fails_first"]
        self.assertEqual(fails["rank"], 6)
        self.assertLess(next(row["headroom_bytes"] for row in fleet["ranks"] if row["rank"] == 6), 0)

    def test_text_fits_a_terminal(self):
        text = self.answer("fleet", FLEET16, "--mesh", "pp=4,dp=4").stdout
        for line in text.splitlines():
            self.assertLessEqual(len(line), 100, line)
        for mention in ("all 16 ranks; 6 classes", "rank 6", "rank 9", "192.00 MiB", "train.py:26", "pp 0"):
            self.assertIn(mention, text)


class Broken(ProgramTest):
    """Whatever the files are, each is a row."""

    def job(self, **files):
        directory = self.directory / "job"
        directory.mkdir(exist_ok=True)
        for name, content in files.items():
            (directory / f"{name}.reel").write_bytes(content)
        return directory

    def fleet(self, *arguments, code=1):
        fleet = self.document("fleet", *arguments, "--no-setting", code=code)
        return fleet, {row["rank"]: row for row in fleet["ranks"] if row["status"] != "duplicate"}

    def test_each_kind_of_damage_is_a_row_with_its_reason(self):
        whole = LONG.read_bytes()
        damaged = bytearray(whole)
        for at in range(len(whole) * 9 // 10, len(whole) * 9 // 10 + 200):
            damaged[at] ^= 0x5A
        fleet, rows = self.fleet(self.job(rank0=whole, rank1=whole[:len(whole) * 9 // 10], rank2=bytes(damaged),
                                          rank3=b"nothing of the kind", rank5=whole))
        self.assertEqual({rank: row["status"] for rank, row in rows.items()},
                         {0: "ok", 1: "truncated", 2: "damaged", 3: "damaged", 4: "missing", 5: "ok"})
        for rank in (1, 2, 3, 4):
            self.assertTrue(rows[rank]["reason"])
        self.assertEqual(fleet["missing_ranks"], [3, 4])
        self.assertIsNone(rows[3]["peak_reserved_bytes"])
        self.assertGreater(rows[1]["peak_reserved_bytes"], 0)
        self.assertGreater(rows[2]["peak_reserved_bytes"], 0)
        self.assertEqual(fleet["losses"]["damaged"], 2)

    @unittest.skipIf(SANITIZED, "address space can't be limited under a sanitizer")
    def test_a_file_that_takes_too_much_memory_is_hostile(self):
        fleet, rows = self.fleet(self.job(rank0=LONG.read_bytes()), "--memory-limit", "12MiB")
        self.assertEqual(rows[0]["status"], "hostile")
        self.assertIsNone(fleet["decides"])

    def test_the_later_of_two_attempts_is_judged(self):
        job = self.job(rank0=SAMPLE.read_bytes())
        (job / "restart").mkdir()
        shutil.copy(LEAK, job / "restart/rank0.reel")
        fleet, rows = self.fleet(job, code=0)
        self.assertEqual([row["status"] for row in fleet["ranks"]], ["ok", "duplicate"])
        self.assertIn("is judged for this rank", fleet["ranks"][1]["reason"])

    def test_ranks_come_from_names(self):
        for name, rank in (("rank_3", 3), ("Rank-4", 4), ("5", 0), ("snapshot_6", 0)):  # one number alone says nothing
            with self.subTest(name):
                job = self.directory / name
                job.mkdir()
                shutil.copy(SAMPLE, job / f"{name}.reel")
                self.assertEqual(self.fleet(job, "--allow-incomplete", code=0)[0]["decides"]["rank"], rank)
        directory = self.directory / "worker/rank7"
        directory.mkdir(parents=True)
        shutil.copy(SAMPLE, directory / "snapshot.reel")
        self.assertEqual(self.fleet(directory, "--allow-incomplete", code=0)[0]["decides"]["rank"], 7)
        own = self.fleet(directory.parent, "--allow-incomplete", "--rank-pattern", "wor(k)er", code=0)[0]
        self.assertTrue(own["ranks"][0]["rank_assumed"])

    def test_no_pattern_makes_the_search_long(self):
        job = self.job(**{"a" * 200: SAMPLE.read_bytes()})
        for pattern in ("(.*)" * 60 + "x7", "(a*)*b7", "(a|aa)+7b"):
            fleet, _ = self.fleet(job, "--allow-incomplete", "--rank-pattern", pattern, code=0)
            self.assertTrue(fleet["ranks"][0]["rank_assumed"], pattern)

    def test_formats_may_be_mixed(self):
        job = self.job(rank0=SAMPLE.read_bytes())
        (job / "rank1.pickle").write_bytes(pickle.dumps(snapshot.snapshot()))
        (job / "rank2.xplane.pb").write_bytes(xspace.profile())
        shutil.copy(SAMPLES / "rmm_third_run.csv", job / "rank3.csv")
        fleet, rows = self.fleet(job, "--allow-incomplete", code=1)  # RMM's log ends in a failure
        self.assertEqual(sorted(rows), [0, 1, 2, 3])
        self.assertEqual(fleet["missing_ranks"], [])
        for rank, file in ((0, "rank0.reel"), (1, "rank1.pickle"), (2, "rank2.xplane.pb"), (3, "rank3.csv")):
            devices = self.document("info", job / file)["devices"]
            self.assertEqual(rows[rank]["peak_live_bytes"], max(device["peak_live_bytes"] for device in devices), file)
            self.assertTrue(rows[rank]["file"].endswith(file))
        self.assertEqual(fleet["decides"]["rank"], 3)

    def test_same_requests_are_one_class_whatever_the_file_is_called(self):
        fleet, _ = self.fleet(self.job(rank0=SAMPLE.read_bytes(), rank1=SAMPLE.read_bytes(), rank2=LEAK.read_bytes()),
                              code=0)
        self.assertEqual([c["ranks"] for c in fleet["classes"]], [[0, 1], [2]])

    def test_refusals(self):
        job = self.job(rank0=SAMPLE.read_bytes())
        for arguments, mention in (((self.directory / "nowhere",), "does not exist"),
                                   ((job, "--mesh", "pp4"), "pp=4,dp=4"),
                                   ((job, "--mesh", "pp=2", "--world-size", 3), "--mesh"),
                                   ((job, "--rank-pattern", "("), "--rank-pattern"),
                                   ((job, "--rank-pattern", "rank"), "parentheses"),
                                   ((job, "--rank-pattern", "(.*)" * 100), "256 bytes"),
                                   ((job, "--rank-pattern", "((a{900}){900})"), "invalid repetition"),
                                   ((job, "--rank-pattern", r"(a)\1"), "back references are not supported"),
                                   ((job, "--capacity", "much"), "--capacity")):
            with self.subTest(arguments=arguments):
                self.assert_refused(run("fleet", *arguments), mention)
        empty = self.directory / "empty"
        empty.mkdir()
        self.assert_refused(run("fleet", empty), "no recordings")
        self.job(rank9=SAMPLE.read_bytes())
        self.assert_refused(run("fleet", job, "--world-size", 4), "rank 9", "--world-size")

    def test_commands_for_one_recording_say_what_to_do_with_several(self):
        job = self.job(rank0=SAMPLE.read_bytes(), rank1=LEAK.read_bytes())
        for command in (("report", job), ("check", job, "--max-peak", "1GiB"), ("info", job)):
            self.assert_refused(run(*command), "holds 2 recordings", "memreel fleet", "check --fleet", "rank0.reel")


class Doubts(fleet_job.JobFolder, ProgramTest):
    """What operators really have: other devices, failures, names with numbers, two jobs, incomplete files."""

    def recorded(self, name, history, **header):
        """With what a launcher sets."""
        source = self.file("source.pickle", pickle.dumps(history.snapshot()))
        out = self.directory / "source.reel"
        self.answer("import", source, "-o", out)
        where = {"host": "node7", "process": 4711, "start_ns": 0, "environment": {}} | header
        (self.job / f"{name}.reel").write_bytes(fleet_job.with_header(out.read_bytes(), **where))

    def fleet(self, *arguments, code=0):
        return self.document("fleet", self.job, "--no-setting", *arguments, code=code)

    def first_line(self, *arguments, code=0):
        return self.answer("fleet", self.job, "--no-setting", *arguments, code=code).stdout.splitlines()[0]

    def test_equal_ranks_on_other_gpus_are_one_class_and_an_outlier_is_found(self):
        for rank in range(8):
            self.put(f"rank{rank}", fleet_job.history(rank // 4, device=rank, more=1024 if rank == 2 else 0))
        fleet = self.fleet()
        self.assertEqual([c["ranks"] for c in fleet["classes"]], [[0, 1, 3], [2], [4, 5, 6, 7]])
        self.assertEqual([(o["rank"], o["bytes"]) for o in fleet["outliers"]], [(2, 2**30)])

    def test_a_rank_that_ran_out_of_memory_decides(self):
        for rank in range(3):
            shutil.copy(SAMPLES / "gpt_default.reel", self.job / f"rank{rank}.reel")
        shutil.copy(SAMPLES / "oom_default.reel", self.job / "rank3.reel")
        fleet = self.fleet(code=1)
        self.assertEqual(fleet["decides"]["rank"], 3)
        self.assertEqual(fleet["decides"]["failed"], [3])
        self.assertEqual(fleet["decides"]["fails_first"]["rank"], 3)
        self.assertIn("rank 3 ran out of memory", self.first_line(code=1))
        failed = {c["name"]: c for c in self.document("check", "--fleet", self.job, "--max-reserved", "1TiB", code=1)["checks"]}
        self.assertEqual((failed["out-of-memory"]["value"], failed["out-of-memory"]["rank"]), (1, 3))
        self.assertFalse(failed["out-of-memory"]["passed"])
        self.fleet("--allow-incomplete", code=1)

    def ranks_of(self, names, *arguments):
        """The rank of each file, None if it is assumed."""
        for file in self.job.iterdir():
            file.unlink()
        for name in names:
            self.put(name, fleet_job.history(0, 0, weights=2, steps=1))
        process = run("fleet", self.job, "--no-setting", "--json", *arguments)
        rows = json.loads(process.stdout)["ranks"]
        return {row["file"].split("/")[-1][:-7]: None if row["rank_assumed"] else row["rank"] for row in rows if row["file"]}

    def test_numbers_in_names_are_ranks_only_where_the_names_make_them_so(self):
        for names, ranks in (
                (["rank7", "rank0"], [7, 0]), (["gpt_r01", "gpt_r00", "gpt_r02"], [1, 0, 2]), (["0", "2", "1"], [0, 2, 1]),
                (["worker-1", "worker-0"], [1, 0]), (["snapshot_w0_step_1000", "snapshot_w1_step_1000"], [0, 1]),
                (["lora_rank64_worker0", "lora_rank64_worker1"], [0, 1]),
                (["node01_Mar_18_12_00_05", "node02_Mar_18_12_00_07"], [None, None]),
                (["memreel-node7-4711-dump-1", "memreel-node7-4712-dump-1"], [None, None])):
            with self.subTest(names=names):
                self.assertEqual(self.ranks_of(names), dict(zip(names, ranks)))
        self.assertIn("--rank-pattern", run("fleet", self.job, "--no-setting").stdout)
        self.assertEqual(self.ranks_of(["a5_1", "a6_0"], "--rank-pattern", "_([0-9])"), {"a5_1": 1, "a6_0": 0})

    def test_a_pattern_looks_at_the_files_name_before_its_folders(self):
        self.job = self.job / "attempt_7"
        self.job.mkdir()
        self.assertEqual(self.ranks_of(["a5_1", "a6_0"], "--rank-pattern", "_([0-9])"), {"a5_1": 1, "a6_0": 0})
        self.assertEqual(self.ranks_of(["a5"], "--rank-pattern", "attempt_([0-9])/a"), {"a5": 7})

    def test_headers_come_before_names_and_contradictions_are_refused(self):
        for rank in range(2):
            self.recorded(f"rank{1 - rank}", fleet_job.history(0, 0), process=100 + rank,
                          environment={"RANK": rank, "WORLD_SIZE": 2})
        rows = self.fleet()["ranks"]
        self.assertTrue(rows[0]["file"].endswith("rank1.reel"))
        self.assert_refused(run("fleet", self.job, "--world-size", 3), "one of 2 ranks", "--world-size")
        self.assert_refused(run("fleet", self.job, "--mesh", "dp=4"), "one of 2 ranks", "--mesh")

    def test_a_dump_and_its_recording_are_one_rank(self):
        self.recorded("run", fleet_job.history(0, 0))
        self.recorded("run-dump-1", fleet_job.history(0, 0, steps=2))
        self.recorded("other", fleet_job.history(0, 1), process=4712)
        fleet = self.fleet()
        self.assertEqual(fleet["world_size"], 2)
        self.assertEqual(sorted((row["file"].split("/")[-1], row["status"]) for row in fleet["ranks"]),
                         [("other.reel", "ok"), ("run-dump-1.reel", "duplicate"), ("run.reel", "ok")])

    def test_two_jobs_are_two_answers(self):
        for job, ranks in (("100", (0, 1)), ("200", (0, 1, 3))):
            for rank in ranks:
                self.recorded(f"{job}_rank{rank}", fleet_job.history(0, rank), process=int(job) + rank,
                              environment={"RANK": rank, "WORLD_SIZE": 2 if job == "100" else 4, "SLURM_JOB_ID": job})
        fleet = self.fleet(code=1)
        self.assertEqual((fleet["job"], fleet["missing_ranks"]), ("200", [2]))
        self.assertEqual([(job["job"], job["world_size"], job["missing_ranks"]) for job in fleet["other_jobs"]], [("100", 2, [])])
        self.assertEqual(self.fleet("--job", "100")["other_jobs"], [])
        self.assert_refused(run("fleet", self.job, "--job", "300"), "--job", "100, 200")
        self.assert_refused(run("check", "--fleet", self.job, "--max-reserved", "1GiB"), "2 jobs", "--job")
        self.document("check", "--fleet", self.job, "--max-reserved", "1GiB", "--job", "100")

    def test_what_is_known_in_part_is_a_bound_and_may_decide(self):
        for rank in range(4):
            self.put(f"rank{rank}", fleet_job.history(0, rank), skip=12 if rank == 3 else 0)
        fleet = self.fleet("--capacity", "8GiB", code=1)
        self.assertEqual([row["at_least"] for row in fleet["ranks"]], [False, False, False, True])
        self.assertEqual(fleet["decides"]["may_decide_instead"], [3])
        self.assertEqual(fleet["outliers"], [])
        self.assertIn("rank 3 is known in part and may decide instead", self.first_line(code=1))
        failed = self.document("check", "--fleet", self.job, "--max-reserved", "8GiB", code=1)
        self.assertEqual(failed["checks"][0]["value"], 1)
        self.document("check", "--fleet", self.job, "--max-reserved", "8GiB", "--allow-incomplete")

    def test_what_is_not_entered_is_said(self):
        self.put("rank0", fleet_job.history(0, 0))
        elsewhere = self.directory / "elsewhere"
        elsewhere.mkdir()
        shutil.move(self.job / "rank0.pickle", elsewhere / "rank1.pickle")
        (self.job / "rank1").symlink_to(elsewhere)
        os.mkfifo(self.job / "rank2.pickle")
        (self.job / "rank3").symlink_to(self.directory / "nowhere")
        self.put("rank0", fleet_job.history(0, 0))
        skipped = [name.split("/")[-1] for name in self.fleet()["skipped_files"]]
        self.assertEqual(sorted(skipped), ["rank1", "rank2.pickle", "rank3"])
        self.assertIn("skipped", self.answer("fleet", self.job, "--no-setting").stdout)

    def test_a_folder_with_a_mounted_proc_ends(self):
        self.put("rank0", fleet_job.history(0, 0))
        proc = self.job / "proc"
        proc.mkdir()
        mounted = ["unshare", "-m", "sh", "-c", 'mount -t proc none "$0" && exec "$@"', proc]
        if shutil.which("unshare") is None or subprocess.run([*mounted, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("nothing can be mounted here")
        done = subprocess.run([*mounted, MEMREEL, "info", self.job], timeout=120, stdin=subprocess.DEVNULL, capture_output=True)
        self.assertIn(done.returncode, (0, 2), done.stderr)

    @unittest.skipUnless((FLEET16 / "rank00.pickle.xz").exists(), "the recordings of 16 ranks are not here")
    def test_sites_are_the_same_in_a_snapshot_and_in_a_recording(self):
        """Of one process: the snapshot has plain names of functions, the recording qualified ones."""
        (self.job / "rank0.pickle").write_bytes(lzma.decompress((FLEET16 / "rank00.pickle.xz").read_bytes()))
        shutil.copy(FLEET16 / "rank0.reel", self.job / "rank1.reel")
        state = [site for site in self.fleet()["sites"] if site["stack"] and site["stack"][0]["file"].endswith("adam.py")]
        self.assertEqual([(site["ranks"], site["bytes"]) for site in state], [(2, 2 * site["max_bytes"]) for site in state])
        self.assertEqual(len(state), 2)

    def test_thousands_of_missing_ranks_are_a_line(self):
        self.put("rank2047", fleet_job.history(0, 0))
        self.put("rank0", fleet_job.history(0, 0))
        lines = self.answer("fleet", self.job, "--no-setting", "--world-size", 2048, code=1).stdout.splitlines()
        self.assertIn("2,046 of 2,048 ranks missing", lines[0])
        self.assertLess(next(i for i, line in enumerate(lines) if line.startswith("decides")), 6)

    def test_a_process_on_two_gpus_is_judged_on_both(self):
        light, heavy = fleet_job.history(0, 0).snapshot(), fleet_job.history(1, 1).snapshot()
        light["device_traces"].append(heavy["device_traces"][1])
        light["segments"] += heavy["segments"]
        (self.job / "rank0.pickle").write_bytes(pickle.dumps(light))
        self.assertEqual([d["device"] for d in self.fleet()["ranks"][0]["devices"]], [1, 0])


class ManyHosts(ProgramTest):
    """A folder of a job as it is after the fact: tests/e2e/fleet_job.py makes one of any size."""

    def test_the_answer_is_right_and_complete(self):
        job = fleet_job.Job(self.directory / "job", ranks=32 if SANITIZED else 1024, seed=3)  # on 128 hosts
        truth = job.truth()
        fleet = self.document("fleet", job.directory, "--no-setting", code=1)
        self.assertEqual(fleet["world_size"], truth["world_size"])
        self.assertEqual(fleet["missing_ranks"], truth["missing_ranks"])
        self.assertFalse(any(row["rank_assumed"] for row in fleet["ranks"]))
        fleet_job.assert_told(self, fleet, truth)
        self.assertEqual([(other["job"], other["world_size"], other["missing_ranks"]) for other in fleet["other_jobs"]],
                         [("4712", 4, [3])])


class Page(ProgramTest):
    """The HTML page has the figures of the JSON document."""

    def setUp(self):
        super().setUp()
        job = self.directory / "job"
        job.mkdir()
        for rank, name in enumerate(("gpt_default", "leak", "gpt_default", "decode_default")):
            shutil.copy(SAMPLES / f"{name}.reel", job / f"rank{rank}.reel")
        page = self.directory / "fleet.html"
        self.fleet = self.document("fleet", job, "--mesh", "pp=2,dp=2", "--html", page)
        self.peaks = [row["peak_reserved_bytes"] for row in self.fleet["ranks"]]
        self.page = page.read_text()
        self.bars = re.findall(r"<title>(\d+) ranks?: (.*?) to (.*?)</title>", self.page)
        self.cells = re.findall(r"<rect x=([\d.]+) y=([\d.]+) [^>]*opacity:([\d.]+)\"><title>rank (\d+): (.*?)</title>", self.page)

    def test_the_histogram_has_every_rank(self):
        self.assertEqual(sum(int(count) for count, _, _ in self.bars), 4)
        self.assertEqual(max(int(count) for count, _, _ in self.bars), 2)
        self.assertEqual(self.bars[0][1], size_text(min(self.peaks)))
        self.assertEqual(self.bars[-1][2], size_text(max(self.peaks)))

    def test_the_heat_map_is_the_mesh(self):
        self.assertEqual([(int(rank), title) for _, _, _, rank, title in self.cells],
                         [(rank, f"{size_text(self.peaks[rank])}, pp {rank // 2}, dp {rank % 2}") for rank in range(4)])
        self.assertEqual(self.cells[0][1], self.cells[1][1])
        self.assertLess(float(self.cells[0][1]), float(self.cells[2][1]))  # the next stage is below
        self.assertLess(float(self.cells[0][0]), float(self.cells[1][0]))
        self.assertIn("By place, pp downwards and dp to the right", self.page)
        darkest = max(self.cells, key=lambda cell: float(cell[2]))
        self.assertEqual(int(darkest[3]), self.fleet["decides"]["rank"])

    def test_the_deciding_rank_is_drawn_beside_the_median(self):
        decider = self.fleet["decides"]["rank"]
        median = self.peaks.index(self.fleet["imbalance"]["median_peak_reserved_bytes"])
        self.assertIn(f"rank {decider}, reserved", self.page)
        self.assertIn(f"rank {median}, reserved (median)", self.page)
        # Heights of the paths: the plot is 200 high, the highest peak 190.
        for path, peak in ((r'class=reserved d="(.*?)"', max(self.peaks)), (r'non-scaling-stroke" d="(.*?)"', self.peaks[median])):
            top = min(float(y) for _, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", re.search(path, self.page)[1]))
            self.assertAlmostEqual(top, 200 - 190 * peak / max(self.peaks), delta=0.1)


class Check(ProgramTest):
    """memreel check --fleet: budgets and a baseline by class."""

    def setUp(self):
        super().setUp()
        self.job = self.directory / "job"
        self.job.mkdir()
        for rank in range(3):
            shutil.copy(SAMPLE, self.job / f"rank{rank}.reel")
        shutil.copy(LEAK, self.job / "rank3.reel")
        self.ranks = self.document("fleet", self.job, "--no-setting")["ranks"]
        self.peak = max(row["peak_reserved_bytes"] for row in self.ranks)

    def check(self, *arguments, code=0):
        return {check["name"]: check for check in self.document("check", "--fleet", self.job, *arguments, code=code)["checks"]}

    def test_each_budget_passes_at_its_figure_and_fails_beyond(self):
        mean = sum(row["peak_reserved_bytes"] for row in self.ranks) / 4
        headroom = 80 * 2**30 - self.peak
        for option, figure, beyond in (("--max-reserved", self.peak, self.peak - 1), ("--max-p99", self.peak, self.peak - 1),
                                       ("--max-imbalance", self.peak / mean + 1e-9, self.peak / mean - 1e-6)):
            with self.subTest(option):
                self.assertTrue(all(check["passed"] for check in self.check(option, figure).values()))
                failed = self.check(option, beyond, code=1)[option.lstrip("-")]
                self.assertFalse(failed["passed"])
                self.assertTrue(failed["reason"])
        least = self.check("--min-headroom", "1GiB", "--capacity", "80GiB")["min-headroom"]["value"]
        self.assertLessEqual(least, headroom)
        self.check("--min-headroom", least, "--capacity", "80GiB")
        self.check("--min-headroom", least + 1, "--capacity", "80GiB", code=1)

    def test_a_device_that_is_too_small_fails(self):
        check = self.check("--capacity", self.peak, "--max-reserved", "1TiB")["capacity"]
        self.assertEqual((check["value"], check["limit"], check["passed"]), (self.peak, self.peak, True))
        for more in ((), ("--max-reserved", "1TiB")):
            failed = self.check("--capacity", self.peak - 1, *more, code=1)["capacity"]
            self.assertEqual((failed["rank"], failed["unit"], failed["passed"]), (0, "bytes", False))
            self.assertIn("device memory of rank 0", failed["reason"])

    def test_leaks_name_the_rank(self):
        self.assertEqual(self.check("--max-leaked", "1MiB", code=1)["max-leaked"]["rank"], 3)

    def test_leaks_that_can_not_be_judged_do_not_pass(self):
        for rank in (1, 2):  # which make no steps
            shutil.copy(SAMPLES / "streams_default.reel", self.job / f"rank{rank}.reel")
        complete = self.check("--max-leaked", "1TiB", code=1)["complete"]
        self.assertEqual(complete["value"], 2)
        self.assertIn("leaks of ranks 1, 2, not judged: ", complete["reason"])
        self.check("--max-reserved", "1TiB")
        self.check("--max-leaked", "1TiB", "--allow-incomplete")
        fleet = self.document("fleet", self.job, "--no-setting")
        self.assertEqual([row["leaks_not_judged"] is None for row in fleet["ranks"]], [True, False, False, True])
        self.assertRegex(run("fleet", self.job, "--no-setting").stdout, r"leaks of ranks 1, 2, not judged: (?s:.*)\nleaks\n  rank 3: ")
        shutil.copy(SAMPLES / "streams_default.reel", self.job / "rank3.reel")
        text = run("fleet", self.job, "--no-setting").stdout
        self.assertIn("no other rank leaks", text)
        for rank in (0, 1, 2, 3):
            shutil.copy(SAMPLES / "streams_default.reel", self.job / f"rank{rank}.reel")
        self.assertNotRegex(run("fleet", self.job, "--no-setting").stdout, r"no (other )?rank leaks")

    def test_a_missing_rank_is_within_no_budget(self):
        (self.job / "rank1.reel").unlink()
        self.assertIn("rank 1 is missing", self.check("--max-reserved", "1TiB", code=1)["complete"]["reason"])
        self.assertTrue(self.check("--max-reserved", "1TiB", "--allow-incomplete")["complete"]["passed"])

    def test_a_damaged_second_recording_is_no_missing_rank(self):
        (self.job / "again").mkdir()
        (self.job / "again/rank0.reel").write_bytes(SAMPLE.read_bytes()[:30_000])
        self.assertTrue(self.check("--max-reserved", "1TiB")["complete"]["passed"])

    def test_the_last_rank_may_be_the_missing_one(self):
        self.check("--max-reserved", "1TiB", "--world-size", "4")
        self.assertIn("rank 4 is missing", self.check("--max-reserved", "1TiB", "--world-size", "5", code=1)["complete"]["reason"])

    def test_ranks_come_from_a_pattern(self):
        for file in sorted(self.job.iterdir()):
            file.rename(self.job / file.name.replace("rank", "worker"))
        (self.job / "worker3.reel").rename(self.job / "worker8.reel")
        leaked = self.check("--max-leaked", "1MiB", "--rank-pattern", "worker([0-9]+)", code=1)["max-leaked"]
        self.assertEqual(leaked["rank"], 8)
        self.assert_refused(run("check", "--fleet", self.job, "--max-reserved", "1GiB", "--rank-pattern", "x"), "--rank-pattern")

    def test_a_baseline_accepts_its_own_job_and_names_the_class_that_grew(self):
        baseline = self.directory / "baseline.json"
        self.check("--write-baseline", baseline)
        self.check("--baseline", baseline, "--tolerance", "0")
        document = json.loads(baseline.read_text())
        self.assertEqual([c["ranks"] for c in document["classes"]], [[0, 1, 2], [3]])
        document["classes"][0]["peak_reserved_bytes"] -= 2**20
        baseline.write_text(json.dumps(document))
        failed = self.check("--baseline", baseline, "--tolerance", "0", code=1)["baseline reserved, ranks 0-2"]
        self.assertIn("1.00 MiB more", failed["reason"])
        self.assertIn(failed["rank"], (0, 1, 2))

    def test_a_baseline_without_a_rank_does_not_pass_it(self):
        baseline = self.directory / "baseline.json"
        self.check("--write-baseline", baseline)
        shutil.copy(SAMPLE, self.job / "rank4.reel")
        unknown = self.check("--baseline", baseline, code=1)["baseline ranks"]
        self.assertEqual((unknown["value"], unknown["limit"], unknown["unit"]), (1, 0, "ranks"))
        self.assertIn("rank 4", unknown["reason"])

    def test_ranks_that_only_the_baseline_has_are_missing(self):
        baseline = self.directory / "baseline.json"
        self.check("--write-baseline", baseline)
        for gone in ("rank1", "rank3"):  # one of a class, and the last, which is a class
            (self.job / f"{gone}.reel").rename(self.directory / gone)
        complete = self.check("--baseline", baseline, code=1)["complete"]
        self.assertEqual((complete["value"], complete["limit"]), (2, 0))
        self.assertRegex(complete["reason"], r"ranks 1, 3 are missing")
        self.check("--baseline", baseline, "--world-size", "3", code=1)
        self.check("--baseline", baseline, "--allow-incomplete")

    def test_every_form_says_the_same_of_the_same_ranks(self):
        junit, markdown = self.directory / "job.xml", self.directory / "job.md"
        budgets = ("--max-reserved", self.peak - 1, "--max-p99", "1TiB", "--max-imbalance", "1", "--world-size", "9")
        text = self.answer("check", "--fleet", self.job, *budgets, "--junit", junit, "--markdown", markdown, code=1).stdout
        said = {words[1]: words[2:] for words in map(str.split, text.splitlines()) if words and words[0] in ("ok", "FAILED")}
        rows = {cells[1]: cells[2:] for line in markdown.read_text().splitlines() if line.startswith("|")
                for cells in [[cell.strip() for cell in line.strip("|").split("|")]]}
        for name in ("complete", "max-reserved", "max-p99", "max-imbalance"):
            self.assertEqual(" ".join(said[name]).split(), " ".join(rows[name]).split(), name)
        self.assertEqual(rows["max-reserved"][0], "0")
        names = {case.get("name") for case in ElementTree.parse(junit).getroot().iter("testcase")}
        self.assertEqual(names, {"complete", "out-of-memory", "max-reserved rank 0", "max-p99", "max-imbalance"})

    def test_refusals(self):
        self.assert_refused(run("check", "--fleet", self.job), "nothing to check")
        for words in (("--max-peak", "1GiB"), ("--valid",)):
            self.assert_refused(run("check", "--fleet", self.job, *words), words[0], "--max-p99")
        self.assert_refused(run("check", SAMPLE, "--min-headroom", "1GiB"), "--fleet")
        self.assert_refused(run("check", "--fleet", self.job, "--max-imbalance", "0.5"), "--max-imbalance")


if __name__ == "__main__":
    unittest.main()
