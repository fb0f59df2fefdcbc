# SPDX-License-Identifier: Apache-2.0
"""Programs recorded indefinitely, in bounded space: what is kept, and when it is written out."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, SAMPLES
from recorded import RecordTest
from schema import defects

FLIGHT_PROGRAM = os.environ.get("MEMREEL_FLIGHT_PROGRAM", str(REPOSITORY / "build/release/bin/flight_program"))
SOURCE = (REPOSITORY / "tests/fake/flight_program.cpp").read_text().splitlines()
LEAKING_LINE = next(i for i, line in enumerate(SOURCE, 1) if line.endswith("// leaks"))
MIB = 1 << 20


class Flight:
    """A running `memreel record --flight`, controlled through the program's standard input and output."""

    def __init__(self, test, *mode, options=(), before=(), output="run.reel", record=(MEMREEL, "record"), **variables):
        self.test = test
        self.errors = test.directory / "errors"
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                [*before, *record, "--flight", "1MiB", "--when-full", "block", "-o", output, *map(str, options), "--", FLIGHT_PROGRAM,
                 *map(str, mode)], text=True, cwd=test.directory, env=test.environment(**variables),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        test.addCleanup(self.end)

    def said(self):
        """The next line of the program's output."""
        return self.process.stdout.readline().strip()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def pid(self):
        """The PID of the program, once it runs."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def finish(self, code=0):
        """Waits for its end; returns its standard error."""
        self.process.communicate(timeout=300)
        self.test.assertEqual(self.process.returncode, code, self.errors.read_text())
        return self.errors.read_text()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def wait_for(condition, what):
    """Waits until a condition holds; busy machines may take long."""
    deadline = time.monotonic() + 120
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never came: {what}")
        time.sleep(0.01)
    return result


class FullDisk(RecordTest):
    def begin(self, *mode):
        """A program recorded on a disk of 4 MiB of its own; returns it and that disk's folder, as others see it."""
        unshare = shutil.which("unshare")
        if unshare is None or subprocess.run([unshare, "-m", "mount", "-t", "tmpfs", "none", "/mnt"], stderr=subprocess.DEVNULL,
                                             check=False).returncode != 0:
            self.skipTest("no disk can be mounted here")
        (self.directory / "disk").mkdir()
        flight = Flight(self, *mode, output="disk/run.reel",
                        before=[unshare, "-m", "sh", "-c", 'mount -t tmpfs -o size=4m none disk && exec "$@"', "sh"])
        self.assertRegex(flight.said(), "step")
        disk = Path(f"/proc/{flight.process.pid}/root{self.directory}/disk")
        wait_for(lambda: (disk / "run.reel").stat().st_size > 50_000, "the first step's events")
        return flight, disk

    def fill(self, disk):
        with open(disk / "others", "ab", buffering=0) as file:
            with self.assertRaises(OSError):
                while True:
                    file.write(bytes(4096))

    def run_short_of_space(self, flight, disk, steps):
        """Until it says so: a second trace that is given up leaves some space."""
        for _ in range(steps):
            self.fill(disk)
            flight.go_on()
            flight.said()
        wait_for(lambda: "the disk is full" in flight.errors.read_text(), "a word about the disk")

    def test_a_disk_that_is_full_for_a_while(self):
        flight, disk = self.begin("churn", 400_000, 10_000, 8)
        self.run_short_of_space(flight, disk, 4)
        (disk / "others").unlink()
        wait_for(lambda: "has space again" in flight.errors.read_text(), "another one")
        flight.go_on()
        flight.said()
        answer = subprocess.run([MEMREEL, "dump", str(flight.pid())], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for name in ("run.reel", "run-dump-1.reel"):
            shutil.copy(disk / name, self.directory / name)
            info = self.document("info", self.directory / name)
            self.assertEqual((info["losses"]["unmatched_frees"], info["losses"]["ring_full"]), (0, 0))
            self.assertGreater(info["losses"]["folded_events"], 150_000, "older events are summed up")
        for _ in range(2):
            flight.go_on()
            flight.said()
        flight.go_on()
        self.assertNotIn("stopped", flight.finish())

    def test_a_disk_that_stays_full(self):
        flight, disk = self.begin("churn", 400_000, 10_000, 5)
        self.run_short_of_space(flight, disk, 4)
        self.fill(disk)
        shutil.copy(disk / "run.reel", self.directory / "run.reel")
        flight.go_on()
        errors = flight.finish()
        self.assertIn("free some space", errors)
        self.assertGreaterEqual(int(re.search(r"([\d,]+) lost", errors)[1].replace(",", "")), 80_000, "the last step's")
        self.assertGreater(self.document("info", self.directory / "run.reel")["events"], 1000, "what was there stays readable")


class Kept(RecordTest):
    def size_on_disk(self):
        """The files of the recording: one, and the one that will replace it."""
        size = 0
        for path in self.directory.glob("run.reel*"):
            try:
                size += path.stat().st_size
            except FileNotFoundError:
                pass
        return size

    def test_the_bound_is_kept_and_a_leak_is_named_long_after(self):
        flight = Flight(self, "churn", 1_500_000, 20_000, 15)
        for _ in range(15):
            self.assertRegex(flight.said(), "step")
            self.assertLessEqual(self.size_on_disk(), MIB)
            time.sleep(0.8)  # intervals of the sums are a second long at first: a leak is judged over eight
            flight.go_on()
        flight.finish()
        trace = self.trace()
        self.assertLessEqual(trace.stat().st_size, MIB)
        self.assertFalse(Path(f"{trace}.next").exists())
        info = self.document("info", trace)
        self.assertGreater(info["losses"]["folded_events"], 500_000)
        self.assertEqual(info["losses"]["unmatched_frees"], 0)
        report = self.document("report", trace, "--leaks")
        self.assertIn(LEAKING_LINE, [frame["line"] for leak in report["leaks"] if leak["verdict"] == "leak"
                                     for frame in leak["stack"]])
        self.assertIn("older events are summed up", self.answer("report", trace).stderr)

    def test_a_peak_that_is_older_than_its_events_is_known(self):
        said = Flight(self, "spike", 3072, 400_000).finish()
        self.assertIn("peak at least 3.00 GiB", said)
        trace = self.trace()
        info = self.document("info", trace)["devices"][0]
        self.assertLess(info["peak_live_bytes"], MIB)
        self.assertEqual(info["folded_peak_live_bytes"], 3072 * MIB)
        self.assertEqual(self.document("report", trace)["summary"]["devices"][0]["folded_peak_live_bytes"], 3072 * MIB)
        first = self.answer("report", trace).stdout.splitlines()[0]
        self.assertRegex(first, r"^peak +at least 3\.00 GiB live before the events that are kept")
        # One of a job is not undone by its window either, and its stacks have the program's name.
        fleet = self.document("fleet", trace, "--no-setting", code=1)
        self.assertEqual(fleet["ranks"][0]["peak_reserved_bytes"], 3072 * MIB)
        self.assertTrue(fleet["ranks"][0]["at_least"])
        self.assertNotIn("libcuda", json.dumps(fleet["sites"]))

    def test_what_is_live_is_what_the_program_has(self):
        plain = self.record(FLIGHT_PROGRAM, "churn", 300_000, 10_000, 1, options=["--when-full", "block", "-o", "plain.reel"])
        flight = Flight(self, "churn", 300_000, 10_000, 1)
        flight.said()
        flight.go_on()
        flight.finish()
        live = [sorted((block["bytes"], block["count"]) for block in
                       self.document("report", self.directory / name, "--by", "line")["live_at_end"][0]["groups"])
                for name in ("plain.reel", "run.reel")]
        self.assertEqual(live[0], live[1], plain.stderr)

    def test_killed_at_any_moment_it_leaves_a_sound_file(self):
        chance = random.Random(1)
        for number in range(int(os.environ.get("MEMREEL_FLIGHT_KILLS", "20"))):
            flight = Flight(self, "churn", 100_000_000, 10_000, 1)
            trace = self.directory / "run.reel"
            wait_for(lambda: trace.exists() and trace.stat().st_size > 1000, "the first events")
            time.sleep(0.4 * chance.random())  # several times as long as the file takes to be replaced
            os.kill(flight.pid(), signal.SIGKILL)
            errors = flight.finish(-signal.SIGKILL)
            info = self.document("info", trace)
            self.assertGreater(info["events"], 0, errors)
            losses = info["losses"]
            self.assertEqual([losses["unmatched_frees"], losses["damaged_packets"]], [0, 0], losses)
            self.assertEqual([path.name for path in self.directory.glob("*.next")], [])
            trace.unlink()

    def test_a_crash_leaves_what_had_happened(self):
        flight = Flight(self, "churn", 50_000, 10_000, 1)
        flight.said()
        time.sleep(0.2)
        os.kill(flight.pid(), signal.SIGSEGV)
        flight.finish(-signal.SIGSEGV)
        self.assertEqual(self.document("info", self.trace())["kinds"]["alloc"] > 1000, True)


class Dumps(RecordTest):
    def dumps(self):
        return sorted(path.name for path in self.directory.glob("run-dump-*.reel"))

    def dump(self, name="run-dump-1.reel"):
        wait_for(lambda: name in self.dumps(), name)
        trace = self.directory / name
        self.assertNotIn("no footer", self.answer("info", trace).stderr)
        return trace

    def test_a_storm_of_failures_is_one_dump_and_three_lines(self):
        flight = Flight(self, "fail", 500)
        self.assertEqual(flight.said(), "failed")
        trace = self.dump()
        flight.go_on()
        errors = flight.finish()
        self.assertEqual(self.dumps(), ["run-dump-1.reel"])
        lines = [line for line in errors.splitlines() if line.startswith("memreel: ")]
        self.assertRegex(lines[0], r"^memreel: out of memory on GPU 0: 1\.00 TiB refused, 64\.00 MiB live, held by \S+")
        self.assertRegex(lines[1], r"^memreel: larger than the device \(.*\); no setting would have served it$")
        self.assertRegex(lines[2], r"^memreel: dump: .*run-dump-1\.reel \(memreel report --oom .+\)$")
        self.assertTrue(any(re.search(r"\d+ more requests failed after .+run-dump-1.reel was written", line)
                            for line in lines), errors)
        self.assertEqual(self.document("report", trace, "--oom")["ooms"][0]["requested_bytes"], 1 << 40)

    def test_a_program_that_cannot_write_dumps_still_leaves_them(self):
        """As where a library of memreel's is missing, or the kernel kills it to free memory."""
        for number, body in enumerate(("exit 127", "kill -9 $$", "echo dump > $2; kill -9 $$")):
            with self.subTest(body):
                installed = self.directory / f"installed{number}"
                for program in ("bin/memreel-record", "lib/libmemreel-agent.so"):
                    (installed / program).parent.mkdir(parents=True)
                    shutil.copy(Path(MEMREEL).parents[1] / program, installed / program)
                (installed / "bin/memreel").write_text(f"#!/bin/sh\n{body}\n")
                (installed / "bin/memreel").chmod(0o755)
                name = f"run{number}-dump-1.reel"
                flight = Flight(self, "fail", 500, output=f"run{number}.reel", record=[installed / "bin/memreel-record"])
                self.assertEqual(flight.said(), "failed")
                wait_for((self.directory / name).exists, name)
                flight.go_on()
                errors = flight.finish()
                self.assertRegex(errors, rf"memreel: out of memory on GPU 0: 1\.00 TiB refused; dump: .*{name}\n")
                self.assertNotIn("no dump", errors)
                if "echo" in body:
                    self.assertEqual((self.directory / name).read_text(), "dump\n", "what it wrote stays")
                else:
                    self.assertEqual(self.document("report", self.directory / name, "--oom")["ooms"][0]["requested_bytes"], 1 << 40)

    def test_a_request_that_is_served_in_the_end_is_no_failure(self):
        flight = Flight(self, "retry", FAKE_CUDA_MEMORY=4 << 30)
        self.assertEqual(flight.said(), "served")
        flight.go_on()
        errors = flight.finish()
        self.assertEqual(self.dumps(), [], errors)
        self.assertGreater(self.document("info", self.trace())["kinds"]["alloc_failed"], 0)

    def test_the_signal_and_the_command(self):
        flight = Flight(self, "churn", 10_000, 0, 1)
        flight.said()
        os.kill(flight.pid(), signal.SIGUSR2)
        self.dump()
        process = self.answer("dump", flight.pid())
        self.assertEqual(process.stdout, str(self.directory / "run-dump-2.reel") + "\n")
        self.dump("run-dump-2.reel")
        document = self.document("dump", flight.pid())
        self.assertEqual(defects(document), [])
        self.assertEqual(document["dumps"][0]["dump"], str(self.directory / "run-dump-3.reel"))
        flight.go_on()
        flight.finish()
        self.assertEqual(len(self.dumps()), 3)

    def test_a_dump_has_the_range_that_began_before_the_events_that_are_kept(self):
        flight = Flight(self, "epoch", 400_000)
        flight.said()
        dump = self.answer("dump", flight.pid()).stdout.strip()
        self.assertGreater(self.document("info", dump)["losses"]["folded_events"], 0)
        self.answer("report", dump, "--at", "range:epoch")
        self.answer("report", dump, "--at", "range:another", code=2)
        flight.go_on()
        flight.finish()

    def test_ranks(self):
        flight = Flight(self, "churn", 1000, 0, 1, RANK=3, WORLD_SIZE=8)
        flight.said()
        self.assertEqual([dump["rank"] for dump in self.document("dump", "rank:[3]")["dumps"]
                          if dump["dump"].startswith(str(self.directory))], ["3"])
        flight.go_on()
        flight.finish()

    def test_only_so_many_dumps_are_kept(self):
        flight = Flight(self, "churn", 1000, 0, 1, options=["--dumps", 2, "--json", "record.json"])
        flight.said()
        for _ in range(4):
            self.answer("dump", flight.pid())
        self.file("run-dump-5.reel", (SAMPLES / "leak.reel").read_bytes())  # a dump of another recording
        flight.go_on()
        errors = flight.finish()
        self.assertEqual(self.dumps(), [f"run-dump-{i}.reel" for i in (3, 4, 5)])
        self.assertRegex(errors, r"run\.reel \(.*; dumps run-dump-3\.reel, run-dump-4\.reel(;|\n)")
        [trace] = json.loads((self.directory / "record.json").read_text())["traces"]
        self.assertEqual(trace["dumps"], [str(self.directory / f"run-dump-{i}.reel") for i in (3, 4)])

    def test_a_handler_of_the_programs_own_comes_first(self):
        flight = Flight(self, "handler")
        self.assertEqual(flight.said(), "ready")
        wait_for(lambda: "handles signal USR2 itself" in flight.errors.read_text(), "the note")
        os.kill(flight.pid(), signal.SIGUSR2)
        time.sleep(0.1)
        flight.go_on()
        flight.finish(7)
        self.assertEqual(self.dumps(), [])

    def test_limits(self):
        flight = Flight(self, "grow", 512, 6, options=["--when", "50%,+1GiB/h", "--sample-ms", 5],
                        FAKE_CUDA_MEMORY=4 << 30)
        for _ in range(6):
            flight.said()
            time.sleep(0.3)
            flight.go_on()
        errors = flight.finish()
        self.assertEqual(self.dumps(), ["run-dump-1.reel", "run-dump-2.reel"], errors)
        self.assertRegex(errors, r"GPU 0's memory use grew by 1\.\d+ GiB in")
        self.assertRegex(errors, r"% of GPU 0's memory is used")

    def test_the_programs_children_signals_and_files_stay_its_own(self):
        flight = Flight(self, "children", 40)
        self.assertEqual(flight.said(), "waited", flight.errors.read_text())
        self.dump()
        flight.go_on()
        flight.finish()

    def test_who_is_not_recorded_that_way(self):
        process = self.start(FLIGHT_PROGRAM, "churn", 1000, 0, 1)
        process.stdout.readline()
        refused = subprocess.run([MEMREEL, "dump", str(process.pid)], text=True, capture_output=True)
        self.assert_refused(refused, "is not being recorded with --flight")
        process.communicate()
        self.assert_refused(subprocess.run([MEMREEL, "dump", "rank:x"], text=True, capture_output=True),
                            "no process recorded on this machine has a matching rank")
        for words in (["--flight", "10parsecs"], ["--flight", "1KiB"], ["--flight", "1MiB", "--when", "110%"],
                      ["--flight", "1MiB", "--dump-signal", "KILL"]):
            self.assert_refused(subprocess.run([MEMREEL, "record", *words, "--", "true"], text=True,
                                               capture_output=True), words[-2])


if __name__ == "__main__":
    unittest.main()
