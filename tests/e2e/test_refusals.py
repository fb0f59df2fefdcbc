# SPDX-License-Identifier: Apache-2.0
"""Wrong input of every kind: exit code 2 and one line that says what, where and how to fix it."""

import json
import os
import pickle
import random
import re
import shutil
import struct
import subprocess
import unittest

from program import MEMREEL, REPOSITORY, SAMPLES, SANITIZED, ProgramTest, run
from snapshot import snapshot

ANALYSES = ("info", "report", "verify", "replay", "tune")
SAMPLE = SAMPLES / "gpt_default.reel"
GIB = 1 << 30


class UnreadableInput(ProgramTest):
    def refuse_everywhere(self, path, *mentions):
        for command in ANALYSES:
            with self.subTest(command):
                self.assert_refused(run(command, path), path, *mentions)
        with self.subTest("import"):
            trace = self.directory / "out.reel"
            before = set(self.directory.iterdir())
            self.assert_refused(run("import", path, "-o", trace), path, *mentions)
            self.assertEqual(set(self.directory.iterdir()), before, "a partial output was left behind")

    def test_no_such_file(self):
        self.refuse_everywhere(self.directory / "absent.pickle")

    def test_directory(self):
        self.refuse_everywhere(self.directory)

    def test_a_recording_in_a_directory_is_named_where_it_is(self):
        within = self.directory / "a/b"
        within.mkdir(parents=True)
        for name in ("x.reel", "y.reel"):
            (within / name).write_bytes(SAMPLE.read_bytes())
            self.assert_refused(run("info", self.directory), within / "x.reel")

    def test_a_directory_of_much_else_is_not_searched_to_its_end(self):
        for name in ("x.reel", "y.reel"):
            self.file(name, SAMPLE.read_bytes())
        for i in range(10_000):
            (self.directory / f"{i}").touch()
        for directory in (self.directory, "/"):
            process = run("info", directory, timeout=100)
            self.assert_refused(process, f"{directory}: is a directory", "name a recording in it")
            self.assertNotIn("such as", process.stderr)

    def test_pipe(self):
        """A pipe, as from <(...): most commands read their input more than once."""
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        self.refuse_everywhere(pipe, "save it to a file")

    def test_empty_file(self):
        self.refuse_everywhere(self.file("empty.pickle", b""))

    def test_what_torch_save_writes(self):
        process = run("report", self.file("model.pt", b"PK\3\4" + bytes(26) + b"model/data.pkl" + bytes(100)))
        self.assert_refused(process, "model.pt: is a zip archive, such as torch.save() writes", "_dump_snapshot")
        self.assertNotIn("available", process.stderr)

    def test_of_no_known_format(self):
        self.refuse_everywhere(self.file("notes.txt", b"dear diary\n" * 100))

    def test_truncated_pickle(self):
        whole = pickle.dumps(snapshot(), protocol=4)
        for length in (1, 2, 11, len(whole) // 2, len(whole) - 1):
            with self.subTest(length):
                self.refuse_everywhere(self.file("cut.pickle", whole[:length]))

    def test_truncated_compressed_pickle(self):
        import lzma
        whole = lzma.compress(pickle.dumps(snapshot(), protocol=4))
        self.refuse_everywhere(self.file("cut.pickle.xz", whole[:len(whole) // 2]))

    def test_pickle_of_something_else(self):
        self.refuse_everywhere(self.file("weights.pickle", pickle.dumps({"layer.weight": [0.5] * 1000})))


class EndlessInput(ProgramTest):
    """What can't be of a format is refused where it begins, however much of it follows."""

    def setUp(self):
        super().setUp()
        self.noise = self.file("noise", random.Random(1).randbytes(8 << 20))

    def refuse(self, *command):
        for input in ("/dev/zero", self.noise):
            with self.subTest(input, command=command):
                process = run(*[input if word == "X" else word for word in command], memory_limit=2 * GIB, timeout=60)
                self.assert_refused(process, input)

    def test_every_format(self):
        named = run("import", "/dev/null", "--format", "none", "-o", self.directory / "x").stderr
        formats = re.search(r"available: (.*)\)", named).group(1).split(", ")
        self.assertGreater(len(formats), 15)
        for name in formats:
            self.refuse("import", "X", "--format", name, "-o", self.directory / "out.reel")
        self.assertEqual(os.listdir(self.directory), ["noise"])

    def test_every_command(self):
        for command in (("import", "X", "-o", self.directory / "out.reel"), ("report", "X"), ("info", "X"), ("verify", "X"), ("replay", "X"),
                        ("check", "X", "--max-peak", "1GiB"), ("diff", "X", "X"), ("explain", "X")):
            self.refuse(*command)

    def test_zeros_after_a_sound_beginning(self):
        for name, content in (("xplane", b"\x0a\x02\x12\x00" + bytes(1 << 20)), ("rmm.log", b"[\x01]" * 3000)):
            with self.subTest(name):
                file = self.file("file", content)
                process = run("import", file, "--format", name, "-o", self.directory / "out.reel")
                self.assert_refused(process, file, "byte ")

    def test_a_hole_at_the_beginning_of_a_log_is_none(self):
        """As logrotate's copytruncate leaves in the log of a program that writes on."""
        log = self.file("log", bytes(3 << 20) + b"\nRuntimeError: CUDA error: out of memory\n")
        self.assertEqual(len(self.document("explain", log, code=None)["failures"]), 1)


class FewOpenFiles(ProgramTest):
    def run_with(self, files, *command):
        return subprocess.run(["sh", "-c", f'ulimit -n {files}; exec "$0" "$@"', MEMREEL, *map(str, command)], text=True, timeout=100,
                              env=os.environ | {"COLUMNS": ""}, stdin=subprocess.DEVNULL, capture_output=True)

    def test_no_recording_of_a_job_is_blamed(self):
        job = self.directory / "job"
        job.mkdir()
        for rank in range(6):
            shutil.copy(SAMPLE, job / f"rank{rank}.reel")
        for files in (6, 8, 10, 12):
            process = self.run_with(files, "fleet", job, "--no-setting", "--jobs", 6)
            if SANITIZED or "shared libraries" in process.stderr:
                continue
            with self.subTest(files):
                self.assert_refused(process, f"only {files} files may be open", "ulimit -n")
        expected = self.answer("fleet", job, "--no-setting").stdout
        for files in (14, 16, 64):
            with self.subTest(files):
                process = self.run_with(files, "fleet", job, "--no-setting", "--jobs", 6)
                self.assertEqual((process.returncode, process.stdout), (0, expected), process.stderr)

    def test_a_recording_alone(self):
        for files in (4, 5):
            process = self.run_with(files, "report", SAMPLE)
            if process.returncode == 2:
                with self.subTest(files):
                    self.assert_refused(process, "Too many open files", "ulimit -n")


class WithoutTimes(ProgramTest):
    def test_nothing_is_said_of_time(self):
        plan = self.file("plan.csv", b"id,lower,upper,size\na,0,3,1024\nb,1,4,2048\n")
        self.assertRegex(self.answer("info", plan).stdout, r"events +4\n")
        self.assertRegex(self.answer("info", SAMPLE).stdout, r"events +\S+ over \S+ m?s\n")
        page = self.answer("report", plan, "--format", "html").stdout
        self.assertIn("4 events<", page)
        self.assertIn(" events over ", self.answer("report", SAMPLE, "--format", "html").stdout)


class HostilePickle(ProgramTest):
    def refuse(self, content, *mentions):
        path = self.file("hostile.pickle", content)
        process = run("info", path, memory_limit=2 * GIB, timeout=120)
        self.assert_refused(process, path, *mentions)

    def test_calls_are_refused_by_name_and_place(self):
        mark = self.directory / "executed"
        command = f"touch {mark}".encode()
        string = b"\x8c" + bytes([len(command)]) + command
        self.refuse(b"\x80\x04" + b"cposix\nsystem\n" + string + b"\x85R.", "GLOBAL", "byte 2")
        self.refuse(b"\x80\x04" + b"\x8c\x05posix\x8c\x06system\x93" + string + b"\x85R.", "STACK_GLOBAL", "byte 17")
        self.assertFalse(mark.exists())

    def test_call_hidden_in_an_otherwise_sound_snapshot(self):
        class Call:
            def __reduce__(self):
                return (print, ("executed",))
        content = snapshot()
        content["segments"][0]["address"] = Call()
        self.refuse(pickle.dumps(content, protocol=4), "GLOBAL")

    def test_huge_declared_sizes(self):
        for opcode in (b"\x8d", b"\x8e", b"\x96"):  # BINUNICODE8, BINBYTES8, BYTEARRAY8
            with self.subTest(opcode):
                self.refuse(b"\x80\x05" + opcode + struct.pack("<Q", 1 << 62) + b"abc.")
        self.refuse(b"\x80\x04\x8b" + struct.pack("<i", 0x7FFFFFFF) + b"\x01.")  # LONG4
        self.refuse(b"\x80\x04}r" + struct.pack("<I", 0xFFFFFFFF) + b".")  # LONG_BINPUT

    def test_deep_nesting(self):
        self.refuse(b"\x80\x04" + b"]" * 5_000_000 + b"a" * 4_999_999 + b".")

    def test_structure_that_contains_itself(self):
        self.refuse(b"\x80\x04]\x94h\x00a.")

    def test_exponentially_shared_structure(self):
        doubling = b"".join(b"](h" + bytes([i]) + b"h" + bytes([i]) + b"e\x94" for i in range(100))
        self.refuse(b"\x80\x04]\x94" + doubling + b".")

    def test_stack_underflow(self):
        for content in (b"\x80\x04.", b"\x80\x04a.", b"\x80\x04e.", b"\x80\x04u.", b"\x80\x04h\x07."):
            with self.subTest(content):
                self.refuse(content)


class DamagedTrace(ProgramTest):
    """A killed program leaves such a file: it opens, and memreel says what is missing."""

    def test_cut_trace_opens_and_says_so(self):
        whole = SAMPLE.read_bytes()
        events = self.document("info", SAMPLE)["events"]
        process = self.answer("info", self.file("cut.reel", whole[:len(whole) - 1]))
        self.assertIn("incomplete", process.stderr)
        self.assertEqual(self.document("info", self.directory / "cut.reel")["events"], events)

    def test_every_beginning_of_a_trace_opens(self):
        whole = (SAMPLES / "decode_default.reel").read_bytes()  # has more than one block
        most = 0
        for length in range(16, len(whole), len(whole) // 16):
            events = self.document("info", self.file("cut.reel", whole[:length]))["events"]
            self.assertGreaterEqual(events, most)
            most = events
        self.assertGreater(most, 0)

    def test_nothing_to_replay_is_said(self):
        path = self.file("cut.reel", SAMPLE.read_bytes()[:16])
        for command in ("replay", "tune", "verify"):
            with self.subTest(command):
                process = self.answer(command, path, code=2)
                self.assertIn(str(path), process.stderr.splitlines()[-1])

    def test_flipped_bit_is_reported(self):
        content = bytearray(SAMPLE.read_bytes())
        content[len(content) // 2] ^= 0x10
        process = self.answer("info", self.file("flipped.reel", bytes(content)))
        self.assertIn("damaged", process.stderr)


class BadUsage(ProgramTest):
    def test_unknown_policy_lists_the_known_ones(self):
        self.assert_refused(run("replay", SAMPLE, "--policy", "torch.natve"), "torch.natve", "torch.native", "bound.live")

    def test_policies_of_ones_own_that_are_none(self):
        self.assert_refused(run("replay", SAMPLE, "--policy", "./nowhere.so"), "./nowhere.so", "no such file")
        self.assert_refused(run("replay", SAMPLE, "--policy", SAMPLE), SAMPLE, "can't be loaded")

    def built(self, name, source, *options):
        if shutil.which("cc") is None:
            self.skipTest("there is no compiler here")
        library = self.directory / name
        subprocess.run(["cc", "-std=c99", "-O2", "-shared", "-fPIC", *options, "-I", REPOSITORY / "analyzer/include", source, "-o", library], check=True)
        return library

    def test_a_policy_of_ones_own_with_hidden_symbols(self):
        library = self.built("powers.so", REPOSITORY / "samples/policies/powers.c", "-fvisibility=hidden")
        policy, = self.document("replay", SAMPLE, "--policy", library)["policies"]
        self.assertGreater(policy["peak_reserved_bytes"], policy["peak_live_bytes"])

    def test_policies_of_ones_own_that_misbehave(self):
        library = self.built("liar.so", REPOSITORY / "tests/unit/analyzer/policies/own/liar.c", "-w")
        small = self.file("small.jsonl", b'{"op": "alloc", "id": 1, "size": 3000091, "ptr": 512}\n{"op": "alloc", "id": 2, "size": 3000091, "ptr": 4194304}\n')
        for lie, mention in (("exit", "it ended the process, with exit code 0"), ("crash", "it crashed: SIGABRT"),
                             ("overlap", "it put 3000091 bytes into 3000091 bytes at 0x"), ("small", "into 3000090 bytes at 0x")):
            with self.subTest(lie):
                self.assert_refused(run("check", small, "--policy", f"{library}{{lie={lie}}}", "--max-reserved", "1GiB"), library, mention, "at request")
        printed = run("check", small, "--policy", f"{library}{{lie=print}}", "--max-reserved", "1GiB", "--json")
        self.assertEqual((printed.returncode, json.loads(printed.stdout)["passed"]), (0, True), printed.stderr)

    def test_unknown_policy_parameter(self):
        self.assert_refused(run("replay", SAMPLE, "--policy", "torch.native{max_splt=1}"), "max_splt")

    def test_malformed_policy(self):
        for text in ("torch.native{", "torch.native}", "torch.native{a}", "{}", ",", ""):
            with self.subTest(text):
                self.assert_refused(run("replay", SAMPLE, "--policy", text))

    def test_malformed_size(self):
        for text in ("10XB", "GiB", "-1", "1e400", "", "99999999999999999999", "20000000TiB", "10 parsecs"):
            with self.subTest(text):
                self.assert_refused(run("replay", SAMPLE, "--policy", "fit.best", f"--capacity={text}"), "--capacity")

    def test_unknown_import_format(self):
        self.assert_refused(run("import", SAMPLE, "--format", "tensorflow", "-o", self.directory / "out.reel"), "tensorflow")

    def test_unknown_export_format(self):
        self.assert_refused(run("export", SAMPLE, "--format", "xlsx"), "xlsx", "csv", "jsonl")

    def test_unknown_command_option_and_missing_argument(self):
        for arguments in (["frobnicate"], ["info"], ["info", SAMPLE, "--frobnicate"], ["export", SAMPLE]):
            with self.subTest(arguments):
                process = run(*arguments)
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertNotEqual(process.stderr, "")

    def test_unknown_command_suggests_the_nearest(self):
        self.assert_refused(run("reprot", SAMPLE), "unknown command 'reprot'", "'report'")
        self.assert_refused(run("recrod", "true"), "'record'")
        self.assert_refused(run("frobnicate"), "unknown command 'frobnicate'", "memreel --help")
        self.assert_refused(run(SAMPLE), f"memreel report {SAMPLE}")

    def test_unknown_option_suggests_the_nearest(self):
        self.assert_refused(run("report", SAMPLE, "--leak"), "memreel report has no option '--leak'", "'--leaks'")
        self.assert_refused(run("replay", SAMPLE, "--capcity=24GiB"), "'--capacity'")
        self.assert_refused(run("info", SAMPLE, "--frobnicate"), "--frobnicate", "memreel info --help")

    def test_unknown_way_to_make_segments_lists_the_known_ones(self):
        self.assert_refused(run("replay", SAMPLE, "--segments-by", "x"), "--segments-by: 'x' is none of: malloc, map")

    def test_capacity_without_a_unit(self):
        for command in (["replay", SAMPLE], ["tune", SAMPLE], ["check", SAMPLE], ["report", SAMPLE], ["fleet", SAMPLE],
                        ["check", "--fleet", SAMPLE, "--min-headroom", "1GiB"],
                        ["predict", f"batch=1:{SAMPLE}", f"batch=2:{SAMPLES / 'gpt_default.reel'}", "--to", "batch=4"]):
            with self.subTest(" ".join(map(str, command))):
                self.assert_refused(run(*command, "--capacity", "24"), "24 bytes?", "write 24GiB")
        self.answer("replay", SAMPLE, "--policy", "fit.best", "--capacity", str(24 * GIB))

    def test_options_that_would_do_nothing(self):
        leak, page = SAMPLES / "leak.reel", self.directory / "page.html"
        job = ["--fleet", SAMPLE, "--max-reserved", "9GiB"]
        for command, option, other in (
                (["check", SAMPLE, "--max-peak", "9GiB", "--world-size", "4"], "--world-size", "without --fleet"),
                (["check", SAMPLE, "--max-peak", "9GiB", "--rank-pattern", "x"], "--rank-pattern", "without --fleet"),
                (["check", SAMPLE, "--max-peak", "9GiB", "--job", "y"], "--job", "without --fleet"),
                (["check", SAMPLE, "--max-p99", "9GiB"], "--max-p99", "without --fleet"),
                (["check", SAMPLE, "--max-peak", "9GiB", "--tolerance", "5%"], "--tolerance", "without --baseline"),
                (["check", *job, "--tolerance", "5%"], "--tolerance", "without --baseline"),
                (["check", SAMPLE, "--max-peak", "9GiB", "--suppress", "leak:x"], "--suppress",
                 "without --max-leaked, --baseline or --write-baseline"),
                (["check", SAMPLE, *job], "TRACE", "with --fleet"),
                (["check", *job, "--suppress", "leak:x"], "--suppress", "with --fleet"),
                (["check", *job, "--all-frames"], "--all-frames", "with --fleet"),
                (["replay", SAMPLE, "--gpu", "3"], "--gpu", "without --on-device or --write-unit-costs"),
                (["replay", SAMPLE, "--segments-by", "map"], "--segments-by", "without --on-device"),
                (["replay", SAMPLE, "--series"], "--series", "without --json"),
                (["fleet", SAMPLE, "-o", self.directory / "results"], "--output", "without --engine"),
                (["fleet", SAMPLE, "--resume"], "--resume", "without --engine"),
                (["report", leak, "--leaks", "-o", page, "--interactive"], "--leaks", "with --interactive"),
                (["record", "--when", "95%", "--", "true"], "--when", "without --flight"),
                (["record", "--dumps", "3", "--", "true"], "--dumps", "without --flight"),
                (["record", "--dump-signal", "USR1", "--", "true"], "--dump-signal", "without --flight"),
                (["record", "--no-holders", "--", "true"], "--no-holders", "without --flight"),
                (["attach", "4711", "--dumps", "3"], "--dumps", "without --flight"),
                (["attach", "4711", "--interval", "3"], "--interval", "without --live"),
                (["top", "--openmetrics", ":0", "--once"], "--once", "with --openmetrics")):
            with self.subTest(" ".join(map(str, command))):
                self.assert_refused(run(*command), f"error: {option}: has no effect {other}", f"memreel {command[0]} --help")
        self.assertEqual(os.listdir(self.directory), [])

    def test_the_same_options_where_they_do_something(self):
        leak = SAMPLES / "leak.reel"
        for command in (["report", leak, "--leaks", "--live", "--by", "stack"], ["report", leak, "--leaks", "--by", "layer"], ["report", leak, "--leaks", "--allocations"],
                        ["report", leak, "--tree", "--oom", "--at", "end"],
                        ["check", leak, "--max-leaked", "1GiB", "--suppress", "leak:x"],
                        ["replay", SAMPLE, "--series", "--json", "--policy", "fit.best"]):
            with self.subTest(" ".join(map(str, command))):
                self.answer(*command)

    def test_each_command_names_its_own_help(self):
        for command, problem in ((["report"], "TRACE is required"), (["export", SAMPLE], "--format is required"),
                                 (["report", SAMPLE, SAMPLE], "is more than memreel report takes"),
                                 (["report", SAMPLE, "--top", "x"], "--top: 'x' is not a whole number"),
                                 (["report", SAMPLE, "--top", "1", "--top", "2"], "--top is given more than once"),
                                 (["report", SAMPLE, "--top"], "--top needs a value"),
                                 (["fleet", "merge"], "OUT is required"), (["attach"], "PID is required"),
                                 (["attach", "1", "2"], "'2' is more than memreel attach takes"),
                                 (["record", "--backend", "cuda", "--", "true"], "--backend: 'cuda' is none of: auto, cupti, interpose"),
                                 (["browse"], "TRACE is required")):
            with self.subTest(" ".join(map(str, command))):
                name = "fleet merge" if command[:2] == ["fleet", "merge"] else command[0]
                self.assert_refused(run(*command), problem, f"(see memreel {name} --help)")
        for command, option in ((["attach", "--nonsense"], "--nonsense"), (["report", SAMPLE, "-x"], "-x"), (["top", "--nonsense"], "--nonsense"),
                                (["report", SAMPLE, "--help-all"], "--help-all")):
            with self.subTest(" ".join(map(str, command))):
                self.assert_refused(run(*command), f"memreel {command[0]} has no option '{option}'")

    def test_limits_without_a_unit(self):
        """As test_capacity_without_a_unit: nobody means 24 bytes."""
        for command in (["check", SAMPLE, "--max-reserved", "24"], ["check", SAMPLE, "--max-peak", "24"],
                        ["check", SAMPLE, "--max-category", "activation=24"],
                        ["check", "--fleet", SAMPLE, "--max-reserved", "24"], ["check", "--fleet", SAMPLE, "--min-headroom", "24"],
                        ["check", "--fleet", SAMPLE, "--max-p99", "24"]):
            with self.subTest(" ".join(map(str, command))):
                self.assert_refused(run(*command), "24 bytes?", "write 24GiB, or 24B")
        for few in ("0", "24"):  # a leak can be small
            self.answer("check", SAMPLE, "--max-leaked", few)
        self.answer("check", SAMPLE, "--max-peak", "24B", code=1)

    def test_cards_are_named_where_they_are_known(self):
        self.assert_refused(run("replay", SAMPLE, "--capacity", "H100-80GB"), "--capacity", "cards are for memreel predict and view")

    def test_a_dash_is_no_file(self):
        for command in (["report", SAMPLE, "--format", "html", "-o", "-"], ["report", "-"], ["check", SAMPLE, "--max-peak", "9GiB", "--markdown", "-"]):
            with self.subTest(" ".join(map(str, command))):
                self.assert_refused(run(*command), "'-' is no file", "/dev/stdout")

    def test_instants_beyond_the_end(self):
        for command in (["report", SAMPLE, "--at", "99999s"], ["diff", f"{SAMPLE}@99999s", "@end"], ["export", SAMPLE, "--format", "pprof", "--at", "99999s"]):
            with self.subTest(" ".join(map(str, command))):
                self.assert_refused(run(*command), "the trace ends after ")
        self.assert_refused(run("diff", "@end", SAMPLE), "@end: names no trace (write TRACE@end)")

    def test_one_rule_for_the_length_of_lists(self):
        for command in (["report", SAMPLE], ["diff", SAMPLE, SAMPLE], ["tune", SAMPLE], ["fleet", SAMPLE]):
            with self.subTest(command[0]):
                self.assert_refused(run(*command, "--top", "0"), "--top: '0' is not a whole number from 1")

    def test_a_report_goes_into_a_file_of_its_kind(self):
        page = self.directory / "run.html"
        self.assert_refused(run("report", SAMPLE, "-o", page, "--json"), page, "leave out --json")
        self.assert_refused(run("report", SAMPLE, "-o", page, "--format", "markdown"), page, "leave out --format")
        self.assert_refused(run("report", SAMPLE, "-o", self.directory / "run.txt"), "--output", ".html")
        self.assertEqual(os.listdir(self.directory), [])
        self.assertEqual(self.answer("report", SAMPLE, "-o", page).stdout, "")

    def test_placeholders_of_traces_that_stand_for_nothing(self):
        for name in ("%x.reel", "run-%", "%p-%q.reel"):
            with self.subTest(name):
                self.assert_refused(run("record", "-o", self.directory / name, "--", "true"), "stands for nothing", "%p is the process id")
        self.assertEqual(os.listdir(self.directory), [])

    def test_files_are_named_as_they_were_given(self):
        whole = SAMPLE.read_bytes()
        for folder in ("a", "b"):
            (self.directory / folder).mkdir()
            (self.directory / folder / "cut.reel").write_bytes(whole[:len(whole) - 1])
        files = [self.directory / folder / "cut.reel" for folder in ("a", "b")]
        process = self.answer("diff", *files)
        for file in files:
            self.assertIn(f"note: {file}: ", process.stderr)

    def test_unknown_question(self):
        self.assert_refused(run("tune", SAMPLE, "--what-if", "empty_cash"), "unknown question 'empty_cash'",
                            "available: empty_cache@step")

    def test_output_into_a_directory_that_does_not_exist(self):
        target = self.directory / "absent" / "out.reel"
        self.assert_refused(run("import", SAMPLE, "-o", target), target)
        self.assert_refused(run("export", SAMPLE, "--format", "csv", "-o", target), target)


if __name__ == "__main__":
    unittest.main()
