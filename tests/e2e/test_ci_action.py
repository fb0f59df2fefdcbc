# SPDX-License-Identifier: Apache-2.0
"""The GitHub action, run step by step with what GitHub would give it; `gh` and the upload are stand-ins."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import stand_in_wheel
import yaml
from program import REPOSITORY, SAMPLES, ProgramTest

ACTION = REPOSITORY / ".github/actions/memreel-check"
DESCRIPTION = yaml.safe_load((ACTION / "action.yml").read_text())

# Keeps a pull request's comments in comments.json: {number: body}. Other people's begin with "theirs".
GH = """#!/usr/bin/env python3
import json, os, sys
arguments = sys.argv[1:]
if os.environ.get("GH_TOKEN") != "token":
    sys.exit("gh: HTTP 403: Resource not accessible by integration")
path = os.environ["COMMENTS"]
comments = json.load(open(path))
if arguments[:2] == ["pr", "view"]:
    own = [n for n, body in comments.items() if not body.startswith("theirs") and body.startswith(os.environ["MARKER"])]
    print(f"https://github.com/o/r/pull/7#issuecomment-{own[-1]}" if own else "")
elif arguments[:2] == ["pr", "comment"]:
    comments[str(1000 + len(comments))] = open(arguments[arguments.index("--body-file") + 1]).read()
elif arguments[:2] == ["api", "--silent"]:
    number = next(a for a in arguments if a.startswith("repos/")).rpartition("/")[2]
    assert number in comments, arguments
    comments[number] = open(next(a for a in arguments if a.startswith("body=@"))[6:]).read()
else:
    sys.exit(f"gh: unknown {arguments}")
json.dump(comments, open(path, "w"))
"""


class Action(ProgramTest):
    @classmethod
    def setUpClass(cls):
        """The runner's folders, with the wheel installed once: that takes longer than all checks."""
        folder = tempfile.TemporaryDirectory(prefix="memreel-action-")
        cls.addClassCleanup(folder.cleanup)
        cls.runner = Path(folder.name)
        (cls.runner / "tools").mkdir()
        (cls.runner / "tools/gh").write_text(GH)
        (cls.runner / "tools/gh").chmod(0o755)
        cls.path = cls.runner / "path"
        cls.path.write_text(f"{cls.runner / 'tools'}\n")
        cls.wheel = stand_in_wheel.make(cls.runner)
        cls.is_installed = False

    def setUp(self):
        super().setUp()
        self.workspace = self.directory / "workspace"
        self.workspace.mkdir()
        self.comments_file = self.file("comments.json", b"{}")
        self.artifacts = {}  # name -> its files
        self.summary = ""

    def value(self, text, contexts):
        """Replaces ${{ a.b.c }}, which is empty for what is not there."""
        def look_up(found):
            value = contexts
            for key in found[1].split("."):
                value = value.get(key, "") if isinstance(value, dict) else ""
            return str(value)
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", look_up, text)

    def holds(self, condition, contexts):
        terms = [re.sub(r"^([\w.-]+)", r"${{ \1 }}", term) for term in condition.split(" && ") if term != "always()"]
        def side(text):
            return text.strip("'") if text.startswith("'") else self.value(re.sub(r"^([\w.-]+)$", r"${{ \1 }}", text), contexts)
        results = []
        for term in terms:
            left, operator, right = re.fullmatch(r"(.+) (==|!=) (.+)", term).groups()
            results.append((side(left) == side(right)) == (operator == "=="))
        return all(results)

    def use(self, job="memory", index=0, event="pull_request", head="o/r", token="token", **inputs):
        """Uses the action once in a job; returns the exit code of the job, and what it printed."""
        given = {"trace": SAMPLES / "gpt_default.reel", "wheel": self.wheel, **inputs}
        for name, said in DESCRIPTION["inputs"].items():
            self.assertTrue(name in given or "default" in said, f"{name} is required")
        self.assertLessEqual(set(given), set(DESCRIPTION["inputs"]))
        github = {"job": job, "event_name": event, "repository": "o/r", "token": token,
                  "event": {"pull_request": {"number": 7, "head": {"repo": {"full_name": head}}}}}
        contexts = {"github": github, "strategy": {"job-index": index}, "steps": {}}
        contexts["inputs"] = {name: str(given.get(name, self.value(str(said.get("default", "")), contexts)))
                              for name, said in DESCRIPTION["inputs"].items()}
        code, printed = 0, ""
        for step in DESCRIPTION["runs"]["steps"]:
            if code != 0 and "always()" not in step.get("if", ""):
                continue
            if not self.holds(step.get("if", "'' == ''"), contexts):
                continue
            if "uses" in step:
                values = {name: self.value(str(value), contexts) for name, value in step["with"].items()}
                # actions/upload-artifact@v6: a name can be taken once, unless it overwrites.
                self.assertTrue(values["name"] not in self.artifacts or values.get("overwrite") == "True")
                self.assertRegex(values["name"], r'^[^":<>|*?\\/\r\n]+$')
                self.artifacts[values["name"]] = {path.name: path.read_text() for path in Path(values["path"]).iterdir()}
                continue
            if "install.sh" in step["run"] and given["wheel"] == self.wheel:
                if self.is_installed:
                    continue
                type(self).is_installed = True
            output, summary = self.directory / "output", self.directory / "summary"
            output.write_text("")
            summary.write_text("")
            environment = {"PATH": ":".join([*reversed(self.path.read_text().splitlines()), os.environ["PATH"]]), "HOME": str(self.directory),
                           "RUNNER_TEMP": str(self.runner), "GITHUB_PATH": str(self.path), "GITHUB_OUTPUT": str(output),
                           "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTION_PATH": str(ACTION), "GITHUB_REPOSITORY": "o/r",
                           "COMMENTS": str(self.comments_file),
                           **{name: self.value(str(value), contexts) for name, value in step.get("env", {}).items()}}
            # As GitHub runs `shell: bash`.
            done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=self.workspace,
                                  env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            code = code or done.returncode
            printed += done.stdout
            self.summary += summary.read_text()
            contexts["steps"][step.get("id", "")] = {"outputs": dict(line.split("=", 1) for line in output.read_text().splitlines())}
        return code, printed

    def comments(self):
        return json.loads(self.comments_file.read_text())

    def test_every_line_of_arguments(self):
        for arguments in ("--max-leaked 0\n--max-reserved 1GiB", "--max-leaked 0 --max-reserved 1GiB", "\n  --max-leaked 0\n\n--max-reserved\t1GiB\n"):
            with self.subTest(arguments):
                code, printed = self.use(arguments=arguments)
                self.assertEqual(code, 1, printed)
                for said in (self.summary, *self.comments().values()):
                    self.assertIn("max-reserved", said)
                    self.assertIn("6.02 GiB", said)
        code, printed = self.use(arguments="--max-leaked 0\n--max-reserved 7GiB")
        self.assertEqual(code, 0, printed)

    def test_a_run_within_its_limits(self):
        code, printed = self.use(arguments="--max-reserved 7GiB --max-leaked 0")
        self.assertEqual(code, 0, printed)
        (name, files), = self.artifacts.items()
        self.assertTrue(name.startswith("memreel-memory-0-"))
        self.assertEqual(sorted(files), ["memreel.md", "memreel.xml"])
        self.assertEqual(ElementTree.fromstring(files["memreel.xml"]).get("failures"), "0")
        (body,), = [self.comments().values()]
        self.assertTrue(body.endswith(files["memreel.md"]))
        self.assertEqual(self.summary, files["memreel.md"])
        self.assertEqual(list(self.workspace.iterdir()), [])

    def test_each_push_edits_the_comment_of_its_use_alone(self):
        self.comments_file.write_text(json.dumps({"1": "theirs, the last of the bot's"}))
        for _ in range(2):  # two pushes
            self.artifacts = {}  # of a workflow run
            for index in range(2):
                self.assertEqual(self.use(index=index, arguments="--max-reserved 1GiB")[0], 1)
                self.assertEqual(self.use(index=index, arguments="--max-reserved 7GiB")[0], 0)
            self.assertEqual(len(self.artifacts), 4)
        comments = self.comments()
        self.assertEqual(comments.pop("1"), "theirs, the last of the bot's")
        self.assertEqual(len(comments), 4)
        self.assertEqual(self.use(name="nightly / a100", arguments="--max-reserved 7GiB")[0], 0)
        self.assertIn("nightly---a100", self.artifacts)

    def test_what_could_not_be_judged_is_no_earlier_result(self):
        self.assertEqual(self.use(arguments="--max-reserved 7GiB")[0], 0)
        broken = self.file("broken.pickle", b"nothing")
        good = SAMPLES / "gpt_default.reel"
        trace = self.workspace / "trace"
        for first, second in ((good, broken), (broken, good)):
            self.artifacts = {}
            shutil.copy(first, trace)
            first_code, _ = self.use(trace="trace", arguments="--max-reserved 7GiB")
            shutil.copy(second, trace)
            self.summary = ""
            code, printed = self.use(trace="trace", arguments="--max-reserved 7GiB")
            self.assertEqual((first_code, code), (0, 2) if second is broken else (2, 0), printed)
            said = [self.summary, list(self.comments().values())[-1], self.artifacts[list(self.artifacts)[-1]]["memreel.md"]]
            for text in said:
                self.assertEqual("could not be judged" in text, code == 2, text)
                self.assertEqual("within" in text, code == 0, text)
            self.assertEqual("memreel.xml" in self.artifacts[list(self.artifacts)[-1]], code == 0)

    def test_pull_requests_from_forks(self):
        code, printed = self.use(head="stranger/r", token="reads only", arguments="--max-reserved 7GiB")
        self.assertEqual(code, 0, printed)
        self.assertEqual(self.comments(), {})
        self.assertIn("max-reserved", self.summary)

    def test_a_comment_that_is_refused_fails_no_job(self):
        code, printed = self.use(token="reads only", arguments="--max-reserved 7GiB")
        self.assertEqual(code, 0, printed)
        self.assertIn("::warning::", printed)

    def test_outside_pull_requests(self):
        self.assertEqual(self.use(event="push", arguments="--max-reserved 1GiB")[0], 1)
        self.assertEqual(self.comments(), {})
        self.assertEqual(len(self.artifacts), 1)

    def test_what_can_not_be_installed_is_no_check_that_passed(self):
        code, _ = self.use(wheel=self.directory / "none.whl", arguments="--max-reserved 7GiB")
        self.assertNotEqual(code, 0)
        self.assertEqual((self.comments(), self.artifacts), ({}, {}))

    def test_the_wheel_must_be_given(self):
        self.assertTrue(DESCRIPTION["inputs"]["wheel"]["required"])
        self.assertNotIn("default", DESCRIPTION["inputs"]["wheel"])

    def test_the_wheel_is_on_the_path_of_later_steps(self):
        self.use(arguments="--max-reserved 7GiB")
        environment = {"PATH": ":".join(reversed(self.path.read_text().splitlines()))}
        said = subprocess.run(["memreel", "--version"], env=environment, text=True, capture_output=True)
        self.assertEqual(said.stdout, self.answer("--version").stdout)

    def test_errors_in_a_log_are_explained(self):
        log = self.file("train.log", b"RuntimeError: CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB "
                                     b"already allocated; 19.75 MiB free; 13.71 GiB reserved in total by PyTorch)\n")
        code, printed = self.use(arguments="--max-reserved 7GiB --max-leaked 0", log=log)
        self.assertEqual(code, 0, printed)
        self.assertIn("fragmentation, 2.87 GiB requested", self.summary)
        self.summary = ""
        self.use(arguments="--max-leaked 0", log=self.file("fine.log", b"fine\n"))
        self.assertNotIn("errors in the log", self.summary)

    def test_names_and_limits_are_no_shell_code(self):
        code, _ = self.use(arguments="--max-reserved 7GiB; touch came $(touch through) *")
        self.assertEqual(code, 2)
        self.assertEqual(list(self.workspace.iterdir()), [])
        # The action itself does not paste its inputs into a script either.
        for step in DESCRIPTION["runs"]["steps"]:
            self.assertNotIn("${{", step.get("run", ""))

    def test_the_document_uses_inputs_that_the_action_has(self):
        example = (REPOSITORY / "docs/ci.md").read_text().split("uses: ./.github/actions/memreel-check", 1)[1].split("```", 1)[0]
        used = re.findall(r"^ {10}(\w+):", example, re.MULTILINE)
        self.assertLessEqual(set(used), set(DESCRIPTION["inputs"]))
        required = {name for name, said in DESCRIPTION["inputs"].items() if said.get("required")}
        self.assertLessEqual(required, set(used))


if __name__ == "__main__":
    unittest.main()
