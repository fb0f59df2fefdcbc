# SPDX-License-Identifier: Apache-2.0
"""Text output: help with examples, and tables whose columns line up."""

import itertools
import re
import unittest

from program import SAMPLES, ProgramTest, run
from scaled_program import training

SAMPLE = SAMPLES / "gpt_default.reel"
COMMANDS = ("import", "info", "export", "report", "replay", "tune", "verify", "diff", "check", "symbols",
            "explain", "plan", "predict", "fleet", "policies", "demo")
SIBLINGS = ("record", "attach", "detach", "dump", "holders", "top", "browse", "view")  # separate programs


class Help(ProgramTest):
    def test_each_command_shows_examples(self):
        for command in COMMANDS:
            with self.subTest(command):
                text = self.answer(command, "--help").stdout
                self.assertIn("example", text.lower())
                self.assertIn(f"memreel {command} ", text)

    def test_program_lists_its_commands(self):
        text = self.answer("--help").stdout
        for command in COMMANDS + SIBLINGS:
            self.assertRegex(text, rf"(?m)^  {command}\s+[A-Z]\w+ \w+")
        self.assertNotIn("Subcommands", text, "every command is in a group that says what it is for")

    def test_help_fits_the_terminal(self):
        commands = [[], ["fleet", "map"], ["fleet", "merge"], ["view", "--serve"], *([name] for name in COMMANDS + SIBLINGS)]
        for command, columns in itertools.product(commands, (70, 80, 100)):
            with self.subTest(command, columns=columns):
                text = run(*command, "--help", environment={"COLUMNS": str(columns)}).stdout
                self.assertIn("--help", text)
                for line in re.sub(r"(?m)^Examples:\n(  .*\n)+", "", text).splitlines():
                    # A name that is longer than its column stays with what it excludes and needs.
                    if not re.match(r"  -.* (Needs|Excludes): ", line):
                        self.assertLessEqual(len(line), columns, line)

    def test_version(self):
        self.assertRegex(self.answer("--version").stdout, r"\d+\.\d+\.\d+")


class Words(ProgramTest):
    """docs/glossary.md has the terms; these are the words that they replaced."""
    REPLACED = re.compile(r"\b(holes?|hostages?|pinn(ed(?! host memory)|ing)|tails?|let go of|given up on|known are|is no [a-z]+|nothing tried)\b")

    def test_help_and_reports_use_the_words_of_the_glossary(self):
        oom, leak = SAMPLES / "oom_default.reel", SAMPLES / "leak.reel"
        commands = [[command, "--help"] for command in COMMANDS]
        for trace in (SAMPLE, oom, leak):
            commands += [["report", trace], ["report", trace, "--leaks"], ["report", trace, "--fragmentation"],
                         ["report", trace, "--oom"], ["report", trace, "--format", "markdown"],
                         ["report", trace, "--format", "html"], ["tune", trace], ["replay", trace], ["verify", trace]]
        for command in commands:
            with self.subTest(command):
                process = run(*command)
                self.assertEqual(self.REPLACED.findall(process.stdout + process.stderr), [])


class Tables(ProgramTest):
    POLICIES = ("bound.live", "cuda.malloc", "torch.native", "fit.best")

    def test_columns_of_replay_line_up(self):
        text = self.answer("replay", SAMPLE, "--policy", ",".join(self.POLICIES)).stdout
        rows = [line for line in text.splitlines() if line.split()[-1:] and line.split()[-1] in self.POLICIES]
        self.assertEqual(len(rows), len(self.POLICIES), text)
        ends = [[match.end() for match in re.finditer(r"\S+( \S+)*", row)] for row in rows]
        for row in ends:
            self.assertEqual(row[:-1], ends[0][:-1], text)

    def test_lines_fit_a_terminal_and_have_no_trailing_blanks(self):
        oom, leak = SAMPLES / "oom_default.reel", SAMPLES / "leak.reel"
        policies = ",".join(self.POLICIES)
        for command in (["info", SAMPLE], ["verify", SAMPLE], ["replay", SAMPLE, "--policy", policies],
                        ["replay", SAMPLE, "--policy", policies, "--capacity", "4GiB"], ["report", SAMPLE],
                        ["report", SAMPLE, "--summary"], ["report", SAMPLE, "--by", "stack"],
                        ["report", SAMPLE, "--fragmentation"], ["report", leak], ["report", leak, "--leaks"],
                        ["report", oom], ["report", oom, "--oom"], ["tune", SAMPLE],
                        ["tune", SAMPLE, "--capacity", "5GiB"], ["tune", oom], ["diff", f"{SAMPLE}@step:1", "@end"],
                        ["check", SAMPLE, "--max-peak", "1TiB", "--max-reserved", "1TiB"]):
            with self.subTest(command):
                for line in self.answer(*command).stdout.splitlines():
                    self.assertEqual(line, line.rstrip())
                    if not line.startswith("export "):  # for copying
                        self.assertLessEqual(len(line), 80, line)

    def test_prose_fits_narrow_terminals_and_columns(self):
        rank = ["fleet", SAMPLE, "--no-setting", "--capacity", "8GiB"]
        recordings = [f"batch={batch}:" + str(self.file(f"{batch}.pickle", training(batch=batch).pickle())) for batch in (2, 4, 8)]
        for columns in (60, 80, 100):
            for command in (["plan", SAMPLE, "--step", "2", "--effort", "1000", "--capacity", "1GiB"], ["demo"], rank,
                            ["predict", *recordings, "--to", "batch=16", "--capacity", "1GiB"], ["tune", SAMPLE]):
                with self.subTest(command, columns=columns):
                    process = run(*command, environment={"COLUMNS": str(columns)})
                    self.assertEqual(process.stderr.count("error:"), 0, process.stderr)
                    for line in process.stdout.splitlines():
                        # Tables don't shrink below their numbers, and what can be copied stays on one line.
                        if not re.match(r"\$ |export |memreel |.*(\S {2,}|─)\S?", line):
                            self.assertLessEqual(len(line), columns, line)

    def test_a_wide_terminal_is_used(self):
        leak = SAMPLES / "leak.reel"
        wide = run("report", leak, "--leaks", environment={"COLUMNS": "200"}).stdout
        self.assertGreater(max(map(len, wide.splitlines())), 100)

    def test_nothing_but_the_answer_on_standard_output(self):
        process = run("info", SAMPLE, "--json")
        self.assertTrue(process.stdout.lstrip().startswith("{"))
        self.assertEqual(process.stderr, "")

    def test_closed_pipe_is_no_drama(self):
        import subprocess
        from program import MEMREEL
        pipeline = f"'{MEMREEL}' export '{SAMPLE}' --format csv | head -n 1"
        process = subprocess.run(["bash", "-c", pipeline], text=True, capture_output=True)
        self.assertEqual(len(process.stdout.splitlines()), 1)
        self.assertEqual(process.stderr, "")


if __name__ == "__main__":
    unittest.main()
