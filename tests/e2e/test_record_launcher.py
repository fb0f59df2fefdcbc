# SPDX-License-Identifier: Apache-2.0
"""What `memreel record` does around a program: nothing that the program or its caller would notice, and clear messages."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest
from pathlib import Path

from program import MEMREEL, run
from recorded import PROGRAM, RecordTest


class Symbols(RecordTest):
    def test_names_can_travel_with_the_trace(self):
        def is_named(*options):
            program = shutil.copy(PROGRAM, self.directory / "program")
            self.record(program, "single", options=("-o", "run.reel", *options))
            os.unlink(program)
            text = self.answer("export", self.trace(), "--format", "jsonl").stdout
            self.trace().unlink()
            return '"main"' in text
        self.assertFalse(is_named("--quiet"))
        self.assertTrue(is_named("--quiet", "--bundle-symbols"))

    def test_a_module_is_opened_only_if_it_is_a_file(self):
        """A trace names any path: opening a FIFO waits for a writer, and a device may be read for ever."""
        program = shutil.copy(PROGRAM, self.directory / "program")
        self.record(program, "single", options=("--quiet",))
        os.unlink(program)
        root = self.directory / "root"
        module = root / Path(program).relative_to("/")
        module.parent.mkdir(parents=True)
        for make in (os.mkfifo, lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)), Path.mkdir):
            try:
                make(module)
            except PermissionError:
                continue  # only root makes devices
            text = self.answer("report", self.trace(), "--by", "stack", "--sysroot", root).stdout
            self.assertIn("program+0x", text)
            self.assertNotIn("main", text)
            module.rmdir() if module.is_dir() else module.unlink()


class ErrorLogs(RecordTest):
    """Where standard error is a file, what the program printed there is explained."""

    TEXT = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.03 "
            "GiB is free. Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated memory 77.00 GiB is "
            "allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated.")

    def log_of(self, text, code, mode="w", before="", options=()):
        log = self.directory / "train.log"
        log.write_text(before)
        with log.open(mode) as errors:
            process = subprocess.run([MEMREEL, "record", *options, "--", "sh", "-c", 'echo "$1" >&2; exit $2', "sh", text, str(code)],
                                     cwd=self.directory, env=self.environment(), stderr=errors, stdout=subprocess.PIPE, text=True)
        self.assertEqual((process.returncode, process.stdout), (code, ""))
        return log.read_text()

    def test_an_error_that_was_not_recorded(self):
        for mode in ("w", "a"):
            with self.subTest(mode):
                lines = self.log_of(self.TEXT, 3, mode).splitlines()
                self.assertEqual(lines[0], self.TEXT, "what the program wrote is left as it is")
                self.assertRegex(lines[1], "^memreel: sh ended with exit code 3 ")
                self.assertRegex("\n".join(lines[2:]), r"standard error:1: PyTorch, device 0: lack of memory, 2.00 GiB requested")

    def test_errors_of_an_earlier_run_are_not_this_ones(self):
        text = self.log_of("no luck", 1, "a", before=self.TEXT + "\n")
        self.assertNotIn("standard error:", text)
        self.assertIn("if it printed an out-of-memory error: memreel explain LOG", text)

    def test_a_program_that_succeeds_is_not_explained(self):
        self.assertNotIn("explain", self.log_of(self.TEXT, 0))
        self.assertEqual(self.log_of(self.TEXT, 1, options=("--quiet",)), self.TEXT + "\n")

    def test_a_pipe_is_the_programs_alone(self):
        errors = self.record("sh", "-c", 'echo "$0" >&2; exit 1', self.TEXT, code=1).stderr
        self.assertNotIn("standard error:", errors)
        self.assertIn("if it printed an out-of-memory error: memreel explain LOG", errors)


class PassedThrough(RecordTest):
    def test_exit_codes(self):
        for code in (0, 1, 2, 77, 255):
            with self.subTest(code):
                self.record_program("nothing", code, code=code)

    def test_output_and_input(self):
        process = subprocess.run([MEMREEL, "record", "cat", "-"], input="to be copied\n", text=True, cwd=self.directory,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment())
        self.assertEqual((process.returncode, process.stdout), (0, "to be copied\n"))

    def test_arguments_stay_the_programs(self):
        for words in (["-o", "--", "-h"], ["", "a b", "*", "--version"]):
            output = self.record(sys.executable, "-c", "import sys; print(sys.argv[1:])", *words).stdout
            self.assertEqual(output, f"{words}\n")
        process = subprocess.run([MEMREEL, "record", "-q", "echo", "-o", "--", "x"], text=True, env=self.environment(),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.directory)
        self.assertEqual((process.stdout, process.stderr), ("-o -- x\n", ""))

    def test_a_killed_program_kills_the_launcher_in_the_same_way(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT, signal.SIGPIPE):
            with self.subTest(number):
                process = self.start("sh", "-c", f"kill -{int(number)} $$")
                _, errors = process.communicate()
                self.assert_died_of(process, number)
                self.assertIn(f"was killed by {number.name}", errors)

    def test_what_a_killed_launcher_leaves_goes_with_the_next_one(self):
        folder = self.directory / "tmp"
        folder.mkdir()
        environment = self.environment(TMPDIR=str(folder))
        killed, going_on = (self.start("sh", "-c", "echo $$; exec sleep 60", environment=environment) for _ in range(2))
        child = int(self.ready_line(killed))
        self.ready_line(going_on)
        killed.kill()
        os.kill(child, signal.SIGKILL)
        killed.communicate()
        (folder / "memreel-journal-folder").mkdir()
        (folder / "memreel-journal-link").symlink_to("/etc/passwd")
        for file in folder.iterdir():
            os.utime(file, (0, 0), follow_symlinks=False)
        self.record("true", environment=environment)
        self.assertEqual(len(list(folder.iterdir())), 3)
        going_on.terminate()
        going_on.communicate()
        self.assertEqual({file.name for file in folder.iterdir()}, {"memreel-journal-folder", "memreel-journal-link"})

    def test_signals_reach_the_program(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            with self.subTest(number):
                process = self.start(PROGRAM, "handle-signal")
                self.assertEqual(self.ready_line(process), "ready\n")
                process.send_signal(number)
                process.communicate(timeout=60)
                self.assertEqual(process.returncode, int(number))

    def test_signals_that_the_program_does_not_handle(self):
        process = self.start(PROGRAM, "wait")
        self.ready_line(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assert_died_of(process, signal.SIGTERM)

    def test_stopping_and_continuing(self):
        # In a separate process group that is not orphaned: in an orphaned one the kernel ignores a stop from the terminal.
        process = self.start("sh", "-c", "echo $$; kill -TSTP $$; echo on", preexec_fn=os.setpgrp)
        child = int(process.stdout.readline())
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # the launcher stops with it
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
        self.assertEqual((output, process.returncode), ("on\n", 0))
        self.assertNotEqual(child, process.pid)

    def test_a_program_that_is_stopped_and_continued_alone(self):
        process = self.start("sh", "-c", "echo $$; kill -STOP $$; echo on")
        child = int(process.stdout.readline())
        while "\tT" not in Path(f"/proc/{child}/status").read_text():
            time.sleep(0.005)
        os.kill(child, signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
        self.assertEqual((output, process.returncode), ("on\n", 0))

    def test_ignored_signals_and_masks_are_inherited(self):
        def ignore():
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        script = "import signal; print(signal.getsignal(signal.SIGUSR1), signal.pthread_sigmask(signal.SIG_BLOCK, []))"
        bare = subprocess.run([sys.executable, "-c", script], preexec_fn=ignore, text=True, stdout=subprocess.PIPE)
        self.assertEqual(self.record(sys.executable, "-c", script, preexec_fn=ignore).stdout, bare.stdout)
        self.record("sh", "-c", "exit 4", preexec_fn=ignore, code=4)

    def ready_line(self, process):
        return process.stdout.readline()


class OddFolders(RecordTest):
    """What a folder is called is nobody's placeholder, and a trace there is found again."""

    def test_any_name_of_the_current_folder(self):
        for name in ("run%p", "50%%", "tab\there", "new\nline", "two words", "-o"):
            with self.subTest(name):
                folder = self.directory / name
                folder.mkdir()
                process = self.record(PROGRAM, "single", 3, cwd=folder, options=["-o", "a%r.reel"])
                self.assertTrue((folder / "anone.reel").exists())
                self.assertIn("events, none lost", process.stderr)

    def test_no_folder_for_temporary_files(self):
        for folder in ("", "/nowhere"):
            with self.subTest(folder):
                process = self.record(PROGRAM, "single", 3, options=["-o", "a.reel"], environment=self.environment(TMPDIR=folder))
                self.assertIn("a.reel (", process.stderr)
                self.trace().unlink()

    def test_a_name_like_an_option(self):
        process = self.record(PROGRAM, "single", 3, options=["-o", "-x.reel"])
        self.assertIn("memreel report ./-x.reel shows", process.stderr)


class ClearSentences(RecordTest):
    def refused(self, *arguments):
        return run("record", *arguments)

    def test_a_program_that_is_not_there(self):
        self.assert_refused(self.refused("--", "no-such-program"), "no-such-program", "No such file")
        self.assert_refused(self.refused("--", self.directory / "absent"), "absent", "No such file")
        self.assert_refused(self.refused("--", self.directory), self.directory, "directory")
        self.assert_refused(self.refused("--", ""), "can't run it")
        plain = self.file("plain", b"text")
        self.assert_refused(self.refused("--", plain), plain, "Permission denied")
        plain.chmod(0o755)
        self.assert_refused(self.refused("-o", self.directory / "x.reel", "--", plain), plain, "Exec format error", "#!")

    def test_bad_options(self):
        for arguments in (["--depth", "many", "true"], ["--depth", "5000", "true"], ["--when-full", "wait", "true"],
                          ["--nonsense", "true"], ["--ring-events", "-1", "true"], ["-o"], []):
            with self.subTest(arguments):
                self.assert_refused(self.refused(*arguments), "memreel record")

    def test_no_place_for_the_trace(self):
        self.assert_refused(self.refused("-o", "/no/such/directory/x.reel", "true"), "/no/such/directory", "-o")
        self.assert_refused(self.refused("-o", self.directory, "true"), "directory")

    def test_a_directory_that_can_not_be_written(self):
        self.directory.chmod(0o555)
        nobody = {"user": 65534} if os.geteuid() == 0 else {}  # root may write anywhere
        try:
            process = subprocess.run([MEMREEL, "record", "-o", self.directory / "x.reel", "true"], text=True, cwd="/",
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, **nobody)
        except PermissionError:
            self.skipTest("this checkout is where only its owner may go, and root may write anywhere")
        finally:
            self.directory.chmod(0o755)
        self.assert_refused(process, "Permission denied")

    def test_a_program_without_cuda(self):
        errors = self.record("true").stderr
        self.assertIn("true ended", errors)
        self.assertIn("without using CUDA", errors)
        self.assertEqual(self.traces(), [])

    def test_a_static_program(self):
        source = self.file("main.c", b"int main(void) { return 9; }")
        if shutil.which("cc") is None or subprocess.run(["cc", "-static", "-o", self.directory / "main", source],
                                                        stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no static libc here")
        errors = self.record(self.directory / "main", code=9).stderr
        self.assertIn("statically linked", errors)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a program another owner")
    def test_a_setuid_program(self):
        program = self.directory / "id"
        shutil.copy(shutil.which("id"), program)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755 | stat.S_IXOTH)
        self.assertIn("setuid", self.record(program).stderr)

    def test_another_tools_injection_is_mentioned(self):
        errors = self.record("true", environment=self.environment(CUDA_INJECTION64_PATH="/opt/other.so")).stderr
        self.assertIn("/opt/other.so", errors)

    def test_a_preload_list_is_kept(self):
        output = self.record("sh", "-c", "echo $LD_PRELOAD",
                             environment=self.environment(LD_PRELOAD="libm.so.6")).stdout
        self.assertRegex(output, r"/libmemreel-agent\.so:libm\.so\.6\n")

    def test_help(self):
        text = run("record", "--help").stdout
        for word in ("--output", "Examples:", "Exit code", "%r"):
            self.assertIn(word, text)

    def test_quiet(self):
        self.assertEqual(self.record("true", options=["-q"]).stderr, "")


if __name__ == "__main__":
    unittest.main()
