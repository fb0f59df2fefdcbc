# SPDX-License-Identifier: Apache-2.0
"""memreel fleet map, merge and memreel-fleet-mpi: the same bytes and the same answer, whichever process does the work."""

import json
import os
import pickle
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import fleet_job
from processes import kill_unless_ended, processes_below
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
    return {file.name: file.read_bytes() for file in sorted(out.glob(names)) if file.suffix != ".part"}


def environment_of(launcher=None):
    """That of a process of this launcher: its variables, and none of those that started the tests."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHERS)}
    return {**clean, **(launcher or {})}


STANDS_IN_FOR_RAY = """
import types
class Task:
    def __init__(self, function): self.function = function
    def options(self, **_): return self
    def remote(self, *words): return self.function(*words)
def remote(**_): return Task
def is_initialized(): return False
def init(**_): print("(raylet) A worker died", flush=True)
def get(results): return results
def wait(pending): return pending[:1], pending[1:]
def nodes(): return []
def get_runtime_context(): return types.SimpleNamespace(get_node_id=lambda: "")
"""


def stand_in_for_ray(directory):
    """A folder with a package `ray` whose tasks run at once, and which says something on standard output, as Ray does."""
    (directory / "ray/util").mkdir(parents=True)
    (directory / "ray/util/__init__.py").write_text("")
    (directory / "ray/util/scheduling_strategies.py").write_text("NodeAffinitySchedulingStrategy = None\n")
    (directory / "ray/__init__.py").write_text(STANDS_IN_FOR_RAY)
    return directory


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
        process = subprocess.run([MEMREEL, "fleet", "map", self.job, "-o", out, *arguments], text=True,
                                 capture_output=True, env=environment_of(environment), timeout=500)
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
        # Several recordings in one file are not judged as one: the exit code says so.
        rank = self.document("fleet", job, "--no-setting", "--max-memory", "1MiB", code=1)["ranks"][0]
        self.assertEqual((rank["status"], rank["peak_reserved_bytes"]), ("overflowed", 25_600_000))
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

    def test_what_was_killed_is_read_again(self):
        for copy in range(7, 40):
            shutil.copy(LONG, self.job / f"rank{copy}.reel")
        expected = self.mapped("all", "--shard", "0/1")
        worker = subprocess.Popen([MEMREEL, "fleet", "map", self.job, "-o", self.directory / "killed"], stdout=subprocess.DEVNULL)
        killed = 0
        while worker.poll() is None and killed < 10:
            for process, _ in processes_below(worker.pid):
                killed += kill_unless_ended(process)
            time.sleep(0.01)
        self.assertEqual(worker.wait(), 0)
        rows = self.document("fleet", "merge", self.directory / "killed", "--no-setting", code=1)["ranks"]
        self.assertIn("reading it was ended by signal 9", [row["reason"] for row in rows])
        self.assertEqual(self.mapped("killed", "--resume"), expected)

    def test_another_pattern_reads_again(self):
        out = self.directory / "named"
        self.mapped("named", "--shard", "0/1")
        self.mapped("named", "--shard", "0/1", "--resume", "--rank-pattern", "ran(k)[0-9]")
        self.assertTrue(self.said.startswith("0 results"), "a pattern that fits nothing changes nothing")
        (self.job / "rank7-of-11.reel").write_bytes((self.job / "rank0.reel").read_bytes())
        self.mapped("named", "--shard", "0/1", "--resume")
        self.mapped("named", "--shard", "0/1", "--resume", "--rank-pattern", "of-([0-9]+)")
        self.assertTrue(self.said.startswith("1 result in"), self.said)
        self.assertEqual(self.document("fleet", "merge", out, "--no-setting", code=1)["ranks"][-1]["rank"], 11)

    @unittest.skipIf(SANITIZED, "address space can't be limited under a sanitizer")
    def test_one_limit_holds_for_all_readers_of_a_machine(self):
        """Only one fits at a time, of three processes with four readers each."""
        out = self.directory / "together"
        words = [MEMREEL, "fleet", "map", self.job, "-o", out, "--host-memory", "300MiB", "--jobs", "4"]
        workers = [subprocess.Popen([*words, "--shard", f"{part}/3"], stdout=subprocess.DEVNULL) for part in range(3)]
        most = 0
        while any(worker.poll() is None for worker in workers):
            most = max(most, sum(len(processes_below(worker.pid)) for worker in workers if worker.poll() is None))
        self.assertEqual([worker.returncode for worker in workers], [0, 0, 0])
        self.assertEqual(content_of(out), self.expected)
        self.assertLessEqual(most, 2, "one reads, and one may just have ended")
        self.assert_refused(run("fleet", "map", self.job, "-o", out, "--host-memory", "much"), "--host-memory")

    def test_what_is_not_read_is_said(self):
        elsewhere = self.directory / "elsewhere"
        elsewhere.mkdir()
        (self.job / "linked").symlink_to(elsewhere)
        (self.job / "gone.reel").symlink_to(elsewhere / "nothing")
        os.mkfifo(self.job / "pipe.reel")
        process = run("fleet", "map", self.job, "-o", self.directory / "whole", "--resume")
        self.assertEqual(process.returncode, 0)
        self.assertRegex(process.stderr, r"memreel: note: not read: .*gone.reel, .*linked.*, .*pipe.reel")

    def test_the_part_comes_from_the_launcher(self):
        for name, variables in (("slurm", ("SLURM_PROCID", "SLURM_NTASKS")),
                                ("slurm-array", ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")),
                                ("kubernetes", ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS")),
                                ("openmpi", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")),
                                ("torchrun", ("RANK", "WORLD_SIZE")), ("mpich", ("PMI_RANK", "PMI_SIZE"))):
            with self.subTest(name):
                # On a disk that other machines don't see, the first to come does what the others may not see.
                first = self.mapped(name, environment=dict(zip(variables, ("0", "2"))))
                self.assertEqual(first, self.expected)
                self.assertRegex(self.said, rf"7 results in .*, 3 of them of other parts; part 0 of 2 \({variables[0]}\)")
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

    def test_settings_are_those_of_the_heap(self):
        out = self.directory / "heap"
        self.mapped("heap", "--shard", "0/1", "--heap", "torch.cuda")
        self.answer("fleet", "settings", out, "--heap", "torch.cuda")
        kept = content_of(out)
        headings = {json.loads(content.splitlines()[0]).get("heap") for name, content in kept.items() if not name.endswith(".rank")}
        self.assertEqual(headings, {"torch.cuda"})
        merged = self.document("fleet", "merge", out, "--heap", "torch.cuda", code=1)
        self.assertEqual(content_of(out), kept, "nothing is replayed again")
        self.assertEqual(merged, self.document("fleet", self.job, "--heap", "torch.cuda", code=1))
        whole = self.document("fleet", self.job, code=1)  # these recordings have no other heap
        self.assertEqual(merged["setting"], whole["setting"])
        self.assertGreater(merged["setting"]["classes"][0]["address_matches"], 0)

    def test_results_of_deleted_recordings_are_named(self):
        merge = ("fleet", "merge", self.directory / "whole", "--no-setting")
        self.assertNotIn("deleted", run(*merge).stderr)
        (self.job / "rank3.reel").unlink()
        self.assertRegex(run(*merge).stderr, r"note: judged by its results, but deleted since: .*/job/rank3.reel \(")
        shutil.rmtree(self.job)  # as on a machine that does not have the job's disk
        self.assertNotIn("deleted", run(*merge).stderr)

    def test_ray_gets_a_list_of_files_and_its_words_are_not_in_the_answer(self):
        given = self.directory / "given.txt"
        chosen = self.file("chosen-python", f'#!/bin/sh\nprintf "%s\\n" "$@" >{shlex.quote(str(given))}\nexec {sys.executable} "$@"\n'.encode())
        chosen.chmod(0o755)
        out = self.directory / "ray"
        modules = f"{stand_in_for_ray(self.directory / 'modules')}:{REPOSITORY / 'collector/python_module'}"
        process = subprocess.run([MEMREEL, "fleet", "--engine", "ray", "-o", out, self.job, "--no-setting", "--json"], text=True,
                                 capture_output=True, env=environment_of({"MEMREEL_PYTHON": str(chosen), "PYTHONPATH": modules}))
        self.assertEqual(process.returncode, 1, process.stderr)  # one recording is cut off
        self.assertIn("A worker died", process.stderr)
        self.assertEqual(json.loads(process.stdout), self.document("fleet", self.job, "--no-setting", code=1))
        self.assertEqual({name: content for name, content in content_of(out).items() if name in self.expected}, self.expected)
        words = given.read_text().splitlines()
        self.assertIn("--files-from", words)
        self.assertFalse([word for word in words if word.endswith(".reel")])

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


@unittest.skipIf(os.geteuid() != 0, "mounting needs root")
class Machines(ProgramTest):
    """Two machines with disks of their own, which have the recordings at the same path."""

    def setUp(self):
        super().setUp()
        self.local = self.directory / "local"
        self.out = self.directory / "out"
        self.local.mkdir()
        samples = sorted(SAMPLES.glob("[!o]*.reel"), key=lambda file: file.stat().st_size)[:4]
        for machine in range(2):
            disk = self.directory / f"disk{machine}"
            disk.mkdir()
            (self.directory / f"boot{machine}").write_text(f"00000000-0000-0000-0000-00000000000{machine}\n")
            for i in range(3):
                shutil.copy(samples[i], disk / f"rank{3 * machine + i}.reel")
            shutil.copy(samples[3], disk / "rank6.reel" if machine else disk / "same.reel")
        shutil.copy(samples[2], self.directory / "disk1/same.reel")

    def on(self, machine, *command, **variables):
        script = 'mount --bind "$1" /proc/sys/kernel/random/boot_id && mount --bind "$2" "$3" && shift 3 && exec "$@"'
        process = subprocess.run(["unshare", "-m", "bash", "-c", script, "_", self.directory / f"boot{machine}",
                                  self.directory / f"disk{machine}", self.local, *map(str, command)], text=True, capture_output=True,
                                 env=environment_of(variables), timeout=300)
        if "mount" in process.stderr or "unshare" in process.stderr:
            self.skipTest(process.stderr.strip())
        return process

    def check(self, launcher):
        for machine in range(2):
            process = self.on(machine, MEMREEL, "fleet", "map", self.local, "-o", self.out, **launcher(machine))
            self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(len(list(self.out.iterdir())), 9, "both have a same.reel")
        files = sorted(row["file"] for row in self.document("fleet", "merge", self.out, "--no-setting", code=None)["ranks"] if row["file"])
        self.assertEqual(files, sorted([*(str(self.local / f"rank{rank}.reel") for rank in range(7)), *2 * [str(self.local / "same.reel")]]))

    def test_slurm(self):
        self.check(lambda machine: {"SLURM_PROCID": str(machine), "SLURM_NTASKS": "2"})

    def test_kubernetes(self):
        self.check(lambda machine: {"JOB_COMPLETION_INDEX": str(machine), "JOB_COMPLETIONS": "2"})

    def test_by_hand(self):
        self.check(lambda machine: {})

    def test_settings_are_replayed_where_the_recordings_are(self):
        self.test_slurm()
        with ThreadPoolExecutor() as pool:
            for process in pool.map(lambda machine: self.on(machine, MEMREEL, "fleet", "settings", self.out), range(2)):
                self.assertEqual(process.returncode, 0, process.stderr)
        setting = self.document("fleet", "merge", self.out, code=None)["setting"]
        self.assertEqual(setting["ranks_not_replayed"], 0, setting["why"])


class Distinct(ProgramTest):
    """More classes than propose settings: the others replay only those that helped."""

    def setUp(self):
        super().setUp()
        self.job, self.out = self.directory / "job", self.directory / "out"
        self.job.mkdir()
        for rank in range(20):
            history = varied_history(rank, blocks=2 if rank == 19 else 24)
            (self.job / f"rank{rank}.pickle").write_bytes(pickle.dumps(history.snapshot()))

    def test_parts_find_what_one_process_finds(self):
        direct = self.document("fleet", self.job)["setting"]
        self.assertTrue(direct["recommended"])
        self.assertEqual(direct["ranks_spared"], 1)
        outcomes = sorted({len(of["outcomes"]) for of in direct["classes"]})
        self.assertEqual(outcomes[0], 0)
        self.assertLessEqual(outcomes[1], 4)
        self.assertEqual(outcomes[-1], len(direct["candidates"]))
        self.answer("fleet", "map", self.job, "-o", self.out, "--shard", "0/1")
        parts = [subprocess.Popen([MEMREEL, "fleet", "settings", self.out, "--shard", f"{part}/3"], stdout=subprocess.PIPE, text=True)
                 for part in range(3)]
        said = [part.communicate(timeout=300)[0] for part in parts]
        self.assertEqual(sum(int(re.search(r"replayed on (\d+)", text)[1]) for text in said), 3, said)
        self.assertEqual(list(self.out.glob("*.claim")), [])
        shutil.rmtree(self.job)
        self.assertEqual(self.document("fleet", "merge", self.out)["setting"], direct)

    def test_what_a_lost_process_had_in_hand_is_taken_by_another(self):
        self.answer("fleet", "map", self.job, "-o", self.out, "--shard", "0/1")
        part = subprocess.Popen([MEMREEL, "fleet", "settings", self.out, "--jobs", "1"], stdout=subprocess.DEVNULL)
        while part.poll() is None and not list(self.out.glob("*.claim")):
            time.sleep(0.001)
        part.kill()
        part.wait()
        self.answer("fleet", "settings", self.out)
        self.assertEqual(list(self.out.glob("*.claim")), [])
        self.assertEqual(len(list(self.out.glob("*.replays"))), 19)


def varied_history(rank, blocks):
    """Steps whose blocks have other sizes each time."""
    history = fleet_job.History(0)
    for i in range(blocks):
        history.alloc((16 << 20) + (rank << 12) + (i << 21), line=i)
    for step in range(6):
        held = [history.alloc((1 + (rank * 7 + step * 5 + i * 3) % 23) << 21, line=30 + i) for i in range(blocks)]
        for address in held[::2] + held[1::2]:
            history.free(address)
    return history


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
        (out / "rank2.reel-0123456789abcdef.rank.4f2a.part").write_bytes(b"half of a result")  # as if killed while it wrote
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

    def test_a_setting_for_ranks_that_are_all_different(self):
        job = self.directory / "different"
        job.mkdir()
        for rank in range(18):
            (job / f"rank{rank}.pickle").write_bytes(pickle.dumps(varied_history(rank, 12).snapshot()))
        direct = self.document("fleet", job)["setting"]
        process = self.mpirun(3, "differing", "--", "--json", files=job)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(json.loads(process.stdout)["setting"], direct)

    def test_nothing_to_read_ends_every_process(self):
        for _ in range(5):  # a launcher that is told to abort may drop what it has not forwarded
            process = self.mpirun(2, "nothing", files=self.directory / "nowhere")
            self.assertEqual(process.returncode, 2)
            self.assertEqual(process.stderr.count("memreel-fleet-mpi: error: "), 1, process.stderr)
            self.assertRegex(process.stderr, r"memreel-fleet-mpi: error: .*nowhere.* does not exist")


if __name__ == "__main__":
    unittest.main()
