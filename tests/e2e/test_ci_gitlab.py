# SPDX-License-Identifier: Apache-2.0
"""The GitLab template, included as in docs/ci.md: its scripts, executed as a runner would."""

import os
import re
import shutil
import subprocess
import unittest
from xml.etree import ElementTree

import stand_in_wheel
import yaml
from program import REPOSITORY, SAMPLES, ProgramTest

HEADER, TEMPLATE = yaml.safe_load_all((REPOSITORY / ".gitlab/memreel-check.yml").read_text())
INPUTS = HEADER["spec"]["inputs"]
DOCUMENT = (REPOSITORY / "docs/ci.md").read_text()
EXAMPLE = yaml.safe_load(re.search(r"## GitLab\n+```yaml\n(.*?)```", DOCUMENT, re.DOTALL)[1])


def filled_in(node, values):
    """Interpolates inputs, as GitLab does before anything else."""
    if isinstance(node, dict):
        return {filled_in(key, values): filled_in(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [filled_in(item, values) for item in node]
    return re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: values[found[1]], node) if isinstance(node, str) else node


class GitLab(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.included, = EXAMPLE["include"]

    def job(self, **inputs):
        values = {name: said["default"] for name, said in INPUTS.items() if "default" in said} | inputs
        self.assertLessEqual(set(values), set(INPUTS))
        (name, job), = filled_in(TEMPLATE, values).items()
        self.assertEqual(name, values["job"])
        return job

    def run_job(self, job):
        """Runs in a folder with the artifacts of the example's earlier job."""
        script = "\n".join(["set -e", *job["before_script"], *job["script"]])
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(self.directory), "CI": "true", "GITLAB_CI": "true", **job["variables"]}
        work = self.directory / "builds"
        work.mkdir(exist_ok=True)
        return subprocess.run(["sh", "-c", script], cwd=work, env=environment, text=True, capture_output=True), work

    def test_the_documents_example(self):
        self.assertEqual(self.included["local"], "/.gitlab/memreel-check.yml")
        work = self.directory / "builds"
        work.mkdir()
        recorded = EXAMPLE["record"]["artifacts"]["paths"]
        self.assertEqual(recorded, [self.included["inputs"]["trace"]])
        shutil.copy(SAMPLES / "gpt_default.reel", work / recorded[0])
        self.answer("check", work / recorded[0], "--write-baseline", work / "memory-baseline.json")
        job = self.job(**self.included["inputs"] | {"wheel": str(stand_in_wheel.make(self.directory))})
        done, _ = self.run_job(job)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(ElementTree.parse(work / job["artifacts"]["reports"]["junit"]).getroot().get("failures"), "0")
        for path in job["artifacts"]["paths"]:
            self.assertTrue((work / path).exists(), path)
        stages = EXAMPLE["stages"]  # the recording comes first
        self.assertLess(stages.index(EXAMPLE["record"]["stage"]), stages.index(job["stage"]))

    def test_a_failed_check_fails_the_job_and_keeps_its_reports(self):
        job = self.job(trace=str(SAMPLES / "gpt_default.reel"), arguments="--max-leaked 0\n--max-reserved 1GiB\n",
                       wheel=str(stand_in_wheel.make(self.directory)))
        done, work = self.run_job(job)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(job["artifacts"]["when"], "always")
        self.assertIn("max-reserved", (work / "memreel.md").read_text())
        self.assertNotEqual(ElementTree.parse(work / "memreel.xml").getroot().get("failures"), "0")

    def test_the_wheel_must_be_given(self):
        self.assertNotIn("default", INPUTS["wheel"])

    def test_names_and_limits_are_no_shell_code(self):
        job = self.job(trace=str(SAMPLES / "gpt_default.reel"), arguments="--max-reserved 7GiB; touch came $(touch through) *",
                       wheel=str(stand_in_wheel.make(self.directory)))
        for line in [*TEMPLATE["$[[ inputs.job ]]"]["before_script"], *TEMPLATE["$[[ inputs.job ]]"]["script"]]:
            self.assertNotIn("inputs.", line)
        work = self.directory / "builds"
        work.mkdir()
        (work / "memreel.md").write_text("an earlier result")
        done, _ = self.run_job(job)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(list(work.iterdir()), [])

    def test_what_cannot_be_installed_is_no_check_that_passed(self):
        done, _ = self.run_job(self.job(trace="any", wheel=str(self.directory / "memreel-9-py3-none-any.whl")))
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
