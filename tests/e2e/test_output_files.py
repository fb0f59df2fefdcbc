# SPDX-License-Identifier: Apache-2.0
"""Files that commands write are complete or absent, and nothing but the user's own regular files is overwritten."""

import os
import signal
import stat
import subprocess
import threading
import time
import unittest

from program import MEMREEL, SAMPLES, ProgramTest, run

SAMPLE = SAMPLES / "graphs_default.reel"
PICKLE = SAMPLES / "captures_s63_default.pickle.xz"
# Each writes the file appended as the last argument.
WRITERS = {
    "report": ("report", SAMPLE, "--format", "html", "-o"),
    "export": ("export", SAMPLE, "--format", "csv", "-o"),
    "import": ("import", PICKLE, "-o"),
    "symbols": ("symbols", SAMPLE, "-o"),
    "baseline": ("check", SAMPLE, "--write-baseline"),
    "junit": ("check", SAMPLE, "--max-peak", "1TiB", "--junit"),
    "markdown": ("check", SAMPLE, "--max-peak", "1TiB", "--markdown"),
}


def names_in(directory):
    try:
        return os.listdir(directory)
    except OSError:
        return []  # the process has ended


def is_in(directory, link):
    try:
        return os.readlink(link).startswith(f"{directory}/")
    except OSError:
        return False  # closed meanwhile


class OutputFiles(ProgramTest):
    def expected(self, arguments):
        plain = self.directory / "plain"
        self.answer(*arguments, plain)
        content = plain.read_bytes()
        plain.unlink()
        return content

    def test_symbolic_link_leads_to_the_file_that_is_written(self):
        for name, arguments in WRITERS.items():
            with self.subTest(name):
                target = self.file(f"{name}.target", b"old")
                link = self.directory / f"{name}.link"
                link.symlink_to(target.name)
                self.answer(*arguments, link)
                self.assertTrue(link.is_symlink())
                self.assertEqual(target.read_bytes(), self.expected(arguments))

    def test_link_to_a_file_that_is_not_there_yet(self):
        for name, arguments in WRITERS.items():
            with self.subTest(name):
                link = self.directory / f"{name}.link"
                link.symlink_to(f"{name}.absent")
                self.answer(*arguments, link)
                self.assertTrue(link.is_symlink())
                self.assertTrue((self.directory / f"{name}.absent").is_file())

    def test_links_in_a_circle_are_refused(self):
        link = self.directory / "link"
        link.symlink_to("link")
        for name, arguments in WRITERS.items():
            with self.subTest(name):
                self.assert_refused(run(*arguments, link), "symbolic links")

    def test_pipe_is_written_to(self):
        for name, arguments in WRITERS.items():
            with self.subTest(name):
                pipe = self.directory / f"{name}.pipe"
                os.mkfifo(pipe)
                received = []
                reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
                reader.start()
                self.answer(*arguments, pipe)
                reader.join(60)
                self.assertTrue(stat.S_ISFIFO(pipe.lstat().st_mode))
                self.assertEqual(received, [self.expected(arguments)])

    def test_device_is_written_to(self):
        device = self.directory / "full"
        device.symlink_to("/dev/full")
        try:
            own = self.directory / "null"
            os.mknod(own, stat.S_IFCHR | 0o600, os.makedev(1, 3))
            with open(own, "wb"):
                pass
        except OSError:
            own = None  # only root may
        for name, arguments in WRITERS.items():
            with self.subTest(name):
                self.assertEqual(run(*arguments, device).returncode, 2)
                self.assertTrue(device.is_symlink())
                if own:
                    self.answer(*arguments, own)
                    self.assertTrue(stat.S_ISCHR(own.lstat().st_mode))

    def test_mode_is_kept(self):
        for name, arguments in WRITERS.items():
            with self.subTest(name):
                target = self.file(name, b"old")
                target.chmod(0o640)
                self.answer(*arguments, target)
                self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o640)

    def test_input_is_never_the_output(self):
        trace = self.file("trace.reel", SAMPLE.read_bytes())
        link = self.directory / "link.reel"
        link.symlink_to(trace.name)
        for name, arguments in WRITERS.items():
            with self.subTest(name):
                if name == "symbols":
                    continue  # writes into the trace itself, by design
                self.assert_refused(run(*[trace if a in (SAMPLE, PICKLE) else a for a in arguments], link),
                                    "overwrite the input")
                self.assertEqual(trace.read_bytes(), SAMPLE.read_bytes())

    def test_no_recording_of_a_job_and_no_baseline_is_the_output(self):
        job = self.directory / "job"
        job.mkdir()
        for rank in (0, 1):
            (job / f"rank{rank}.reel").write_bytes(SAMPLE.read_bytes())
        rank = job / "rank1.reel"
        baseline = self.directory / "baseline.json"
        self.answer("check", SAMPLE, "--write-baseline", baseline)
        kept = baseline.read_bytes()
        check = ("check", "--fleet", job, "--max-reserved", "9GiB")
        for command in (("fleet", job, "--no-setting", "--html", rank), ("fleet", job / "rank0.reel", rank, "--no-setting", "--html", rank),
                        (*check, "--junit", rank), (*check, "--markdown", rank), (*check, "--write-baseline", rank),
                        ("check", SAMPLE, "--baseline", baseline, "--junit", baseline)):
            with self.subTest(command):
                self.assert_refused(run(*command), "overwrite the input")
        results = self.directory / "results"
        self.answer("fleet", "map", "-o", results, job)
        for input in (rank, next(results.iterdir())):
            self.assert_refused(run("fleet", "merge", results, "--no-setting", "--html", input), "overwrite the input")
        self.assertEqual((rank.read_bytes(), baseline.read_bytes()), (SAMPLE.read_bytes(), kept))
        self.answer("check", SAMPLE, "--baseline", baseline, "--write-baseline", baseline)  # renews it
        both = self.directory / "both"
        self.assert_refused(run("check", SAMPLE, "--max-peak", "1TiB", "--junit", both, "--markdown", both), "two outputs")
        self.answer("check", SAMPLE, "--max-peak", "1TiB", "--junit", "/dev/null", "--markdown", "/dev/null")

    def test_no_other_file_that_is_read_is_the_output(self):
        suppressions, costs = self.file("s.txt", b"leak:cache\n"), self.file("costs.json", b"{}")
        profile = self.file("run.xplane.pb", b"profile")
        trace = self.file("trace.reel", SAMPLE.read_bytes())
        leaks = ("--suppressions", suppressions)
        for command in (("check", SAMPLE, *leaks, "--max-leaked", "1MiB", "--junit", suppressions),
                        ("check", SAMPLE, *leaks, "--write-baseline", suppressions),
                        ("report", SAMPLE, *leaks, "--format", "json", "-o", suppressions),
                        ("import", SAMPLE, "--profile", profile, "-o", profile),
                        ("replay", SAMPLE, "--unit-costs", costs, "--write-unit-costs", costs),
                        ("replay", trace, "--write-unit-costs", trace)):
            with self.subTest(command):
                self.assert_refused(run(*command), "overwrite the input")
        self.assertEqual([file.read_bytes() for file in (suppressions, costs, profile, trace)],
                         [b"leak:cache\n", b"{}", b"profile", SAMPLE.read_bytes()])

    def test_two_outputs_never_share_a_file(self):
        tables = self.directory / "tables"
        page = self.directory / "q.x"
        recordings = (f"batch=1:{SAMPLE}", f"batch=2:{SAMPLES / 'gpt_default.reel'}")
        for command in (("predict", *recordings, "--to", "batch=4", "-o", page, "--html", page),
                        ("fleet", SAMPLE, "--no-setting", "--parquet", tables, "--html", tables / "ranks.parquet")):
            with self.subTest(command):
                self.assert_refused(run(*command), "two outputs would go to this file")
                self.assertFalse(page.exists() or tables.exists())

    def run_into(self, file, mode, *arguments):
        with open(file, mode) as out:
            return subprocess.run([MEMREEL, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True,
                                  timeout=500)

    def test_an_output_that_is_standard_output_has_it_for_itself(self):
        check = ("check", SAMPLE, "--max-peak", "1TiB")
        for arguments in ((*check, "--junit"), (*check, "--markdown"), ("check", SAMPLE, "--write-baseline"),
                          ("check", "--fleet", SAMPLE, "--max-reserved", "1TiB", "--junit"), ("fleet", SAMPLE, "--no-setting", "--html"),
                          ("symbols", SAMPLE, "-o")):
            with self.subTest(arguments):
                expected = self.expected(arguments)
                file = self.directory / "f"
                process = self.run_into(file, "wb", *arguments, "/dev/stdout")
                self.assertEqual((process.returncode, file.read_bytes()), (0, expected), process.stderr)
                process = self.run_into(file, "ab", *arguments, "/dev/stdout")
                self.assertEqual((process.returncode, file.read_bytes()), (0, expected * 2), process.stderr)
                with subprocess.Popen([MEMREEL, *map(str, arguments), "/dev/stdout"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                    self.assertEqual(process.stdout.read(), expected)
                self.run_into(file, "wb", *arguments, file)
                self.assertEqual(file.read_bytes(), expected)
                self.assert_refused(run(*arguments, "/dev/stdout", "--json"), "--json")
        # As a build server's log: one file for all, and more before and after.
        for name, arguments in WRITERS.items():
            for stdout in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
                with self.subTest(name, stdout=stdout):
                    expected = self.expected(arguments)
                    file = self.directory / "log"
                    words = " ".join(f"'{word}'" for word in (MEMREEL, *arguments, stdout))
                    subprocess.run(["bash", "-c", f"{{ echo before; {words}; echo after; }} >'{file}' 2>&1"], check=True, timeout=500)
                    log = file.read_bytes()
                    self.assertTrue(log.startswith(b"before\n") and log.endswith(b"after\n"), log[:40])
                    self.assertIn(expected, log)
        # What fails is still said.
        failed = self.run_into(self.directory / "f", "wb", "check", SAMPLE, "--max-peak", "1KiB", "--write-baseline", "/dev/stdout")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("failed: peak of live memory", failed.stderr)

    def test_a_limit_on_files_is_an_error_like_others(self):
        before = set(self.directory.iterdir())
        process = subprocess.run(["sh", "-c", 'ulimit -f 1; exec "$0" "$@"', MEMREEL, "report", SAMPLE, "-o", self.directory / "f.html"],
                                 text=True, capture_output=True)
        self.assert_refused(process, "File too large")
        self.assertEqual(set(self.directory.iterdir()), before)

    def test_an_option_without_its_value_is_not_as_if_it_were_absent(self):
        for command in (("check", SAMPLE, "--max-peak", "1TiB", "--max-reserved", ""), ("check", SAMPLE, "--max-peak="),
                        ("fleet", SAMPLE, "--mesh", ""), ("report", SAMPLE, "--heap="), ("report", SAMPLE, "-o", ""),
                        ("record", "--flight", "", "--", "true")):
            with self.subTest(command):
                self.assert_refused(run(*command), "has an empty value")

    def test_nothing_is_left_of_what_failed(self):
        damaged = self.file("damaged.pickle", b"\x80\x04]")
        before = set(self.directory.iterdir())
        for name, arguments in WRITERS.items():
            with self.subTest(name):
                run(*[damaged if a in (SAMPLE, PICKLE) else a for a in arguments], self.directory / "out")
                if name in ("junit", "markdown"):  # what a build server is to show
                    self.assertIn("damaged.pickle", (self.directory / "out").read_text())
                    (self.directory / "out").unlink()
                self.assertEqual(set(self.directory.iterdir()), before)

    def end_while_it_writes(self, end, *arguments):
        """Sends the signal `end` as soon as the command has a file open in the test's directory."""
        process = subprocess.Popen([MEMREEL, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        files = f"/proc/{process.pid}/fd"
        deadline = time.monotonic() + 60
        while not any(is_in(self.directory, f"{files}/{file}") for file in names_in(files)):
            self.assertIsNone(process.poll(), "it ended before it was seen to write")
            self.assertLess(time.monotonic(), deadline)
        process.send_signal(end)
        self.assertEqual(process.wait(60), -end)

    def test_nothing_is_left_of_what_was_killed(self):
        if not hasattr(os, "O_TMPFILE"):
            self.skipTest("needs O_TMPFILE")
        try:
            os.close(os.open(self.directory, os.O_TMPFILE | os.O_WRONLY))
        except OSError:
            self.skipTest("needs a file system with O_TMPFILE")
        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for old in ((), ("out",)):
                with self.subTest(end, old=old):
                    for name in old:
                        self.file(name, b"old")
                    self.end_while_it_writes(end, "import", PICKLE, "-o", self.directory / "out")
                    self.assertEqual(os.listdir(self.directory), list(old))
                    for name in old:
                        self.assertEqual((self.directory / name).read_bytes(), b"old")
                        (self.directory / name).unlink()

    @unittest.skipUnless(os.geteuid() == 0, "only root can make another user's files")
    def test_traps_in_a_shared_directory_are_refused(self):
        nobody = 65534
        shared = self.directory / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        precious = self.file("precious", b"precious")
        link, file = shared / "link.html", shared / "file.html"
        link.symlink_to(precious)
        file.write_bytes(b"theirs")
        for trap in (link, file):
            os.chown(trap, nobody, nobody, follow_symlinks=False)
            with self.subTest(trap.name):
                self.assert_refused(run("report", SAMPLE, "-o", trap), "put into a shared directory by another user")
        self.assertEqual((precious.read_bytes(), file.read_bytes()), (b"precious", b"theirs"))
        for mine in (link, file):
            os.chown(mine, 0, 0, follow_symlinks=False)
            self.answer("report", SAMPLE, "-o", mine)

    def test_name_of_the_unfinished_file_is_not_foreseeable(self):
        # An unrelated file under a name that an earlier version used is left alone.
        trap = self.directory / "out.html.partial"
        trap.symlink_to(self.file("precious", b"precious"))
        self.answer("report", SAMPLE, "-o", self.directory / "out.html")
        self.assertEqual((self.directory / "precious").read_bytes(), b"precious")
        self.assertTrue(trap.is_symlink())


class FullOutput(unittest.TestCase):
    def test_a_full_standard_output_is_an_error(self):
        commands = [["--help"], ["--version"], ["browse", "--help"], ["info", SAMPLE], ["report", SAMPLE], ["report", SAMPLE, "--json"],
                    ["report", SAMPLE, "--format", "html"], ["report", SAMPLE, "--format", "markdown"],
                    ["report", SAMPLE, "--leaks"], ["replay", SAMPLE, "--policy", "bound.live"], ["tune", SAMPLE],
                    ["verify", SAMPLE], ["check", SAMPLE, "--max-peak", "1TiB"], ["check", SAMPLE, "--max-peak", "1KiB"],
                    ["diff", f"{SAMPLE}@0s", "@end"], ["export", SAMPLE, "--format", "csv"]]
        for command in commands:
            with self.subTest(command), open("/dev/full", "wb") as full:
                process = subprocess.run([MEMREEL, *map(str, command)], stdin=subprocess.DEVNULL, stdout=full,
                                         stderr=subprocess.PIPE, text=True, timeout=500)
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertIn("standard output", process.stderr)


if __name__ == "__main__":
    unittest.main()
