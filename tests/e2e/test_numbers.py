# SPDX-License-Identifier: Apache-2.0
"""Numbers on command lines: every option of every program reads them alike, and refuses what is none or out of range."""

import re
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, SAMPLES, ProgramTest, run

SAMPLE = SAMPLES / "gpt_default.reel"
MPI = Path(MEMREEL).parent / "memreel-fleet-mpi"
VIEWER = Path(MEMREEL).parent / "memreel-view"
# The words before each command's options, and those after them.
COMMANDS = {
    ("report",): (SAMPLE,), ("replay",): (SAMPLE,), ("tune",): (SAMPLE,), ("check",): (SAMPLE,), ("diff",): (SAMPLE, SAMPLE),
    ("fleet",): (SAMPLE,), ("fleet", "map"): (SAMPLE, "-o", "/nowhere"), ("fleet", "merge"): ("/nowhere",),
    ("fleet", "settings"): ("/nowhere",), ("plan",): (SAMPLE,), ("predict",): (f"batch=1:{SAMPLE}",), ("view", "--serve"): (SAMPLE,),
    ("record",): ("--", "true"), ("attach",): ("1",), ("holders",): ("1",), ("dump",): ("1",), ("top",): ("--once",),
}
# Options without which another has no effect.
NEEDED = {("replay", "--gpu"): ("--on-device=cuda.malloc",), ("check", "--world-size"): ("--fleet",), ("record", "--dumps"): ("--flight=1MiB",),
          ("attach", "--dumps"): ("--flight=1MiB",), ("attach", "--interval"): ("--live",)}
NO_NUMBERS = ("+5", " 5", "5 ", "0x10", "nan", "inf", "-inf", "1e400", "5x", "five", "1,000", "99999999999999999999", "-1")
# Options whose values are sizes, shares, instants...: those above are none of any.
TEXTS = [("report", SAMPLE, "--capacity"), ("report", SAMPLE, "--max-memory"), ("report", SAMPLE, "--at"), ("report", SAMPLE, "--leaks", "--capacity"),
         ("replay", SAMPLE, "--capacity"), ("tune", SAMPLE, "--capacity"), ("tune", SAMPLE, "--what-if"),
         ("check", SAMPLE, "--max-peak"), ("check", SAMPLE, "--max-reserved"), ("check", SAMPLE, "--max-leaked"),
         ("check", SAMPLE, "--max-fragmentation"), ("check", SAMPLE, "--max-category"), ("check", SAMPLE, "--max-category=activation=1GiB", "--max-peak"),
         ("check", "--fleet", SAMPLE, "--max-imbalance"), ("check", "--fleet", SAMPLE, "--max-p99"), ("check", "--fleet", SAMPLE, "--min-headroom"),
         ("plan", SAMPLE, "--capacity"), ("export", SAMPLE, "--format", "pprof", "--at"), ("diff", SAMPLE, SAMPLE, "--map"),
         ("fleet", SAMPLE, "--mesh"), ("fleet", SAMPLE, "--capacity"), ("fleet", SAMPLE, "--memory-limit"),
         ("fleet", SAMPLE, "--host-memory"), ("fleet", "map", SAMPLE, "-o", "/nowhere", "--shard"),
         ("record", "--flight"), ("record", "--flight=1MiB", "--when"), ("record", "--mode"), ("record", "--dump-signal")]
# Which take any number that is large enough.
SIZES = ("--max-imbalance", "--capacity", "--max-memory", "--max-peak", "--max-reserved", "--max-leaked", "--max-p99", "--min-headroom", "--memory-limit",
         "--host-memory", "--flight")


def numeric_options(*command):
    """The options that take a number, by the help of the command."""
    help = subprocess.run([MEMREEL, *command, "--help"], text=True, capture_output=True, timeout=60).stdout
    return re.findall(r"^  (?:-\w,)?(--[\w-]+) N\b", help, re.MULTILINE)


class Numbers(ProgramTest):
    def refuse(self, option, value, command):
        with self.subTest(value, command=command):
            process = run(*command, timeout=60)
            self.assert_refused(process, option, "has an empty value" if value == "" else f"'{value}'")
            return process.stderr

    def test_every_option_that_takes_a_number(self):
        found = 0
        for command, after in COMMANDS.items():
            options = numeric_options(*command)
            found += len(options)
            for option in options:
                for value in (*NO_NUMBERS, "1e99"):
                    stated = self.refuse(option, value, (*command, f"{option}={value}", *NEEDED.get((command[0], option), ()), *after))
                    self.assertRegex(stated, r"is not a (whole )?number from \S+ to \S+ ")
        self.assertGreater(found, 35)

    def test_an_empty_value_is_no_number(self):
        for command, after in COMMANDS.items():
            for option in numeric_options(*command):
                for words in ((option, ""), (f"{option}=",)):
                    process = run(*command, *words, *after)
                    with self.subTest(command, words=words):
                        self.assert_refused(process, option)

    def test_whole_numbers_are_whole_and_decimal(self):
        for command in (("report", SAMPLE, "--top"), ("tune", SAMPLE, "--top"), ("plan", SAMPLE, "--threads"), ("record", "--depth")):
            for value in ("5.5", "1e2", "5."):
                self.refuse(command[-1], value, (*command[:-1], f"{command[-1]}={value}", "true"[:4 * (command[0] == "record")] or "--json"))
        ten, padded = (self.answer("report", SAMPLE, "--by", "stack", "--top", n).stdout for n in ("10", "010"))
        self.assertEqual(ten, padded)

    def test_values_that_contain_numbers(self):
        for *command, option in TEXTS:
            after = ("--", "true") if command[0] == "record" else ()
            for value in NO_NUMBERS:
                if value == "1,000" or (option in SIZES and value == "99999999999999999999"):
                    continue  # some are lists
                self.refuse(option, value, (*command, f"{option}={value}", *after))

    def test_a_ratio_may_be_huge(self):
        process = self.answer("check", "--fleet", SAMPLE, "--max-imbalance", "1e20")
        self.assertIn("100000000000000000000.00", process.stdout)

    def test_releases_of_pytorch(self):
        for command in ("replay", "verify", "tune"):
            for value in ("2.12junk", "2.12 ", "2.12.x", "2.12+", "2.", "12", "-2.12", "+2.12", "2.0x12", "nan"):
                self.refuse("--torch-version", value, (command, SAMPLE, f"--torch-version={value}"))
        for value in ("2.12", "2.12.1", "2.12.1+cu130", "2.12.0a0+32f93b1.nv26.2", "2.12.0.dev20260101", "2.12rc1"):
            with self.subTest(value):
                self.answer("verify", SAMPLE, "--torch-version", value, code=None)
                self.assertNotIn("--torch-version", self.answer("replay", SAMPLE, "--torch-version", value).stderr)

    def test_process_ids(self):
        for command in (("attach",), ("detach",), ("holders",), ("dump",), ("top", "--once")):
            for value in ("0", "+5", " 5", "0x10", "nan", "99999999999999999999"):
                with self.subTest(value, command=command):
                    self.assert_refused(run(*command, value), value)

    @unittest.skipUnless(VIEWER.exists(), "built without the viewer")
    def test_the_viewer(self):
        for option, value in (("--scale", "nan"), ("--scale", "+1"), ("--scale", "0x1"), ("--scale", "5"), ("--bench-frames", "-1"), ("--bench-frames", "1e3"),
                              ("--scale", ""), ("--max-memory", ""), ("--compare", ""), ("--screenshot", ""), ("--size", "+640x480"), ("--size", "")):
            self.refuse(option, value, ("view", SAMPLE, f"{option}={value}"))
        for option in ("--at", "--compare", "--max-memory"):
            self.refuse(option, "", ("browse", SAMPLE, f"{option}="))

    @unittest.skipUnless(MPI.exists(), "built without MPI")
    def test_the_program_for_mpi(self):
        for option, value in (("--jobs", "-1"), ("--jobs", "0x2"), ("--world-size", "+5"), ("--time-limit", "nan"), ("--mesh", ""), ("--capacity", "")):
            with self.subTest(option, value=value):
                process = subprocess.run([MPI, SAMPLE, "-o", self.directory, option, value], text=True, capture_output=True)
                self.assert_refused(process, option)


if __name__ == "__main__":
    unittest.main()
