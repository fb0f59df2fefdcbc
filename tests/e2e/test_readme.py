# SPDX-License-Identifier: Apache-2.0
"""Every memreel command in the README runs as written."""

import os
import pickle
import re
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, SAMPLES, ProgramTest
from scaled_program import training
from snapshot import snapshot


class Readme(ProgramTest):
    def test_commands_run_as_shown(self):
        # Recognized by what it contains: a whole training of twelve steps, which leaks and addresses can be judged in.
        self.file("snapshot.pickle", (SAMPLES / "gpt_default.reel").read_bytes())
        for name, batch in (("a", 1), ("b", 2), ("c", 4)):
            self.file(f"{name}.pickle", training(batch=batch).pickle())
        (self.directory / "job").mkdir()
        for rank in range(2):
            self.file(f"job/rank{rank}.pickle", pickle.dumps(snapshot()))
        environment = dict(os.environ, PATH=f"{Path(MEMREEL).parent}:{os.environ['PATH']}")
        blocks = re.findall(r"(?s)```sh\n(.*?)```", (REPOSITORY / "README.md").read_text())
        commands = re.findall(r"(?m)^memreel .*", "".join(blocks))
        self.assertGreater(len(commands), 5)
        for command in commands:
            with self.subTest(command):
                process = subprocess.run(["bash", "-c", command], cwd=self.directory, env=environment, text=True,
                                         capture_output=True)
                self.assertEqual(process.returncode, 0, process.stderr)

    def test_links_lead_somewhere(self):
        for document in [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/*.md"),
                         *REPOSITORY.glob("samples/**/*.md")]:
            for link in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
                with self.subTest(document=document.name, link=link):
                    self.assertTrue((document.parent / link).exists())


if __name__ == "__main__":
    unittest.main()
