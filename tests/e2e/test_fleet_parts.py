# SPDX-License-Identifier: Apache-2.0
"""memreel fleet map, merge and memreel-fleet-mpi: the same bytes and the same answer, whichever process does the work."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

from processes import processes_below
from program import MEMREEL, REPOSITORY, SAMPLES, SANITIZED, ProgramTest, run

LONG = SAMPLES / "decode_default.reel"
MPI = os.environ.get("MEMREEL_FLEET_MPI", "")
MPIRUN = os.environ.get("MEMREEL_MPIRUN", "mpirun")
# mpirun as root in a container: Open MPI wants it confirmed twice.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "OMPI_MCA_plm_rsh_agent": "sh", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                   # Open MPI leaks at exit; LeakSanitizer would make that the process's exit code.
                   "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "RANK", "WORLD_SIZE", "JOB_COMPLETION")


def content_of(out, names="*"):
    """The contents of a directory of results: names and bytes. A killed process may leave files not yet renamed."""
    return {file.name: file.read_bytes() for file in sorted(out.glob(names)) if file.suffix != ".partial"}


class Recordings(ProgramTest):
    """Six recordings, one cut off, and the output of `fleet map` for them: self.expected."""

    def setUp(self):
        super().setUp()
        self.job = self.directory / "job"
        self.job.mkdir()
        samples = sorted(SAMPLES.glob("[!o]*.reel"), key=lambda file: file.stat().st_size)[:4]  # none that ran out of memory
        for rank in range(6):
            shutil.copy(samples[rank % 4], self.job / f"rank{rank}.reel")
        (self.job / "rank6.reel").write_bytes(samples[0].read_bytes()[:1000])
        self.expected = self.mapped("whole", "--shard", "0/1")

    def mapped(self, name, *arguments, environment=None):
        out = self.directory / name
        clean = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHERS)}
        process = subprocess.run([MEMREEL, "fleet", "map", self.job, "-o", out, *arguments], text=True,
                                 capture_output=True, env={**clean, **(environment or {})}, timeout=500)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.said = process.stdout
        return content_of(out)


class Limits(ProgramTest):
    def test_the_limit_of_all_is_not_that_of_each(self):
        entries = [{"action": "alloc", "addr": (1 << 40) + i * 512, "size": 512, "stream": 0, "time_us": 1, "frames": []} for i in range(50_000)]
        part = self.directory / "part.reel"
        self.answer("import", self.file("many.json", json.dumps({"segments": [], "device_traces": [entries]}).encode()), "-o", part)
        job = self.directory / "job"
        job.mkdir()
        (job / "rank0.reel").write_bytes(part.read_bytes() * 20)
        self.assertEqual(self.document("fleet", job, "--no-setting", "--max-memory", "1MiB")["ranks"][0]["status"], "ok")
        self.assert_refused(run("fleet", job, "--max-memory", "much"), "--max-memory")


class Parts(Recordings):
    def test_a_result_for_every_recording_and_nothing_else(self):
        self.assertEqual(len(self.expected), 7)
        self.assertTrue(all(name.endswith(".rank") for name in self.expected))

    def test_parts_make_the_same_bytes_in_any_order(self):
        for part in (2, 0, 1):
            parts = self.mapped("parts", "--shard", f"{part}/3")
        self.assertEqual(parts, self.expected)

    @unittest.skipIf(SANITIZED, "address space can't be limited under a sanitizer")
    def test_what_lacked_memory_is_read_again(self):
        self.mapped("small", "--shard", "0/1", "--memory-limit", "12MiB")
        self.assertEqual(self.mapped("small", "--shard", "0/1", "--resume"), self.expected)

    def test_the_part_comes_from_the_launcher(self):
        for name, variables in (("slurm", ("SLURM_PROCID", "SLURM_NTASKS")),
                                ("slurm-array", ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")),
                                ("kubernetes", ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS")),
                                ("openmpi", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")),
                                ("torchrun", ("RANK", "WORLD_SIZE")), ("mpich", ("PMI_RANK", "PMI_SIZE"))):
            with self.subTest(name):
                first = self.mapped(name, environment=dict(zip(variables, ("0", "2"))))
                self.assertLess(len(first), 7)
                self.assertIn(variables[0], self.said)
                self.assertEqual(self.mapped(name, environment=dict(zip(variables, ("1", "2")))), self.expected)

    def test_every_pod_of_the_documented_job_does_its_part(self):
        """samples/fleet/kubernetes.yaml, with the environment of an indexed job's pods."""
        page = (REPOSITORY / "samples/fleet/kubernetes.yaml").read_text()
        command = json.loads(re.search(r"command: (\[.*\])", page)[1])
        completions = int(re.search(r"completions: (\d+)", page)[1])
        environment = dict(re.findall(r"- name: (JOB_\w+)\n\s+value: \"(.*)\"", page))
        self.assertEqual(environment, {"JOB_COMPLETIONS": str(completions)})
        out = self.directory / "pods"
        here = {"memreel": MEMREEL, "/job/recordings": self.job, "/job/results": out}
        for index in reversed(range(completions)):
            subprocess.run([here.get(word, word) for word in command], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, **environment, "JOB_COMPLETION_INDEX": str(index)})
        self.assertEqual(content_of(out), self.expected)

    def test_resume_does_what_is_left_and_what_has_changed(self):
        out = self.directory / "whole"
        gone, broken, *_ = sorted(out.iterdir())
        gone.unlink()
        broken.write_bytes(b"half a resu")
        self.assertEqual(self.mapped("whole", "--resume"), self.expected)
        self.assertTrue(self.said.startswith("2 results"), self.said)
        self.mapped("whole", "--resume")
        self.assertTrue(self.said.startswith("0 results"), self.said)
        shutil.copy(self.job / "rank1.reel", self.job / "rank0.reel")
        os.utime(self.job / "rank0.reel", (time.time() + 10,) * 2)
        self.mapped("whole", "--resume")
        self.assertTrue(self.said.startswith("1 result "), self.said)

    def test_whatever_was_done_before_the_rest_makes_the_same_bytes(self):
        out = self.directory / "some"
        for done in range(len(self.expected)):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            for name, content in list(self.expected.items())[:done]:
                (out / name).write_bytes(content)
            self.assertEqual(self.mapped("some", "--resume"), self.expected)
            self.assertTrue(self.said.startswith(f"{len(self.expected) - done} result"), self.said)

    def test_a_full_disk_keeps_what_was_whole(self):
        """Writing fails as on a full disk: file size is limited, and exceeding it is an error instead of a signal."""
        largest = max(map(len, self.expected.values()))
        out = self.directory / "full"
        process = subprocess.run([MEMREEL, "fleet", "map", self.job, "-o", out, "--shard", "0/1"], text=True, capture_output=True,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, largest - 1)),
                                 restore_signals=False)  # Python ignores SIGXFSZ, and its children inherit that
        self.assert_refused(process, "can't write", "limit on the size of files")
        kept = content_of(out)
        self.assertEqual(kept, {name: self.expected[name] for name in kept})
        self.assertEqual([file.name for file in out.iterdir() if file.name not in kept], [])
        self.assertEqual(self.mapped("full", "--resume"), self.expected)

    def test_a_killed_worker_costs_only_what_it_had_in_hand(self):
        out = self.directory / "killed"
        worker = subprocess.Popen([MEMREEL, "fleet", "map", self.job, "-o", out, "--jobs", "1"], stdout=subprocess.DEVNULL)
        while worker.poll() is None and not (out.exists() and any(out.glob("*.rank"))):
            time.sleep(0.002)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.assertEqual(self.mapped("killed", "--resume"), self.expected)

    def test_merging_says_what_one_process_says(self):
        direct = self.document("fleet", self.job, "--no-setting", code=1)
        merged = self.document("fleet", "merge", self.directory / "whole", "--no-setting", code=1)
        self.assertEqual(merged, direct)

    def test_a_result_that_is_none_is_refused(self):
        out = self.directory / "whole"
        next(out.iterdir()).write_bytes(b"half a resu")
        self.assert_refused(run("fleet", "merge", out), "is not a rank summary", "fleet map")
        self.assert_refused(run("fleet", "merge", self.directory / "job"), "holds no results")
        self.assert_refused(run("fleet", "merge", self.directory / "nowhere"), "nowhere")

    def test_refusals(self):
        self.assert_refused(run("fleet", "map", self.job, "-o", self.directory / "x", "--shard", "3/3"), "--shard")
        (self.directory / "file").write_text("")
        self.assert_refused(run("fleet", "map", self.job, "-o", self.directory / "file/x"), "file/x")


@unittest.skipUnless(MPI and os.path.exists(MPI) and shutil.which(MPIRUN), "this build has no memreel-fleet-mpi")
class Mpi(Recordings):
    """The same with varying numbers of MPI processes."""

    def start(self, count, out, *arguments, files=None):
        return subprocess.Popen([MPIRUN, "-n", str(count), MPI, files or self.job, "-o", self.directory / out, *arguments],
                                env={**os.environ, **MPI_ENVIRONMENT}, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def mpirun(self, count, out, *arguments, files=None):
        process = self.start(count, out, *arguments, files=files)
        output, errors = process.communicate(timeout=500)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def test_four_processes_make_the_same_bytes_and_say_the_same(self):
        process = self.mpirun(4, "mpi", "--no-setting", "--", "--json")
        self.assertEqual(process.returncode, 1, process.stderr)  # one recording is cut off
        self.assertEqual(content_of(self.directory / "mpi"), self.expected)
        self.assertEqual(json.loads(process.stdout), self.document("fleet", self.job, "--no-setting", code=1))

    def test_resume(self):
        out = self.directory / "whole"
        next(out.iterdir()).unlink()
        process = self.mpirun(2, "whole", "--resume", "--no-setting")
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertEqual(content_of(out), self.expected)

    def test_what_a_lost_process_did_is_kept(self):
        for copy in range(2, 100):
            shutil.copy(LONG, self.job / f"rank{copy}.reel")
        expected = self.mapped("all", "--shard", "0/1")
        out = self.directory / "lost"
        job = self.start(4, "lost", "--no-setting")
        while job.poll() is None and not (out.exists() and any(out.glob("*.rank"))):
            time.sleep(0.002)
        # The first is one of the four; after it come the processes that it started to read recordings.
        worker = next(process for process, command in processes_below(job.pid) if command.startswith(MPI))
        os.kill(worker, signal.SIGKILL)
        job.communicate(timeout=500)
        self.assertNotEqual(job.returncode, 0)
        kept = content_of(out)
        self.assertLess(0, len(kept))
        self.assertLess(len(kept), len(expected))
        self.assertEqual(kept, {name: expected[name] for name in kept})
        self.mpirun(4, "lost", "--resume", "--no-setting")
        self.assertEqual(content_of(out), expected)

    def test_the_common_setting_is_found_in_two_rounds(self):
        (self.job / "rank6.reel").unlink()
        direct = self.document("fleet", self.job)["setting"]
        for count in (1, 3):
            process = self.mpirun(count, f"settings{count}", "--", "--json")
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertEqual(json.loads(process.stdout)["setting"], direct)
        self.assertEqual(content_of(self.directory / "settings1"), content_of(self.directory / "settings3"))

    def test_nothing_to_read_ends_every_process(self):
        for _ in range(5):  # a launcher that is told to abort may drop what it has not forwarded
            process = self.mpirun(2, "nothing", files=self.directory / "nowhere")
            self.assertEqual(process.returncode, 2)
            self.assertEqual(process.stderr.count("memreel-fleet-mpi: error: "), 1, process.stderr)
            self.assertRegex(process.stderr, r"memreel-fleet-mpi: error: .*nowhere.* does not exist")


if __name__ == "__main__":
    unittest.main()
