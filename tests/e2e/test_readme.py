# SPDX-License-Identifier: Apache-2.0
"""Every command in the README and the pages runs as written, or the reason why not is here."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, SAMPLES, SANITIZED, ProgramTest
from scaled_program import training


PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "SECURITY.md", *sorted((REPOSITORY / "docs").rglob("*.md")),
         *sorted((REPOSITORY / "samples").rglob("*.md"))]
# Commands of shell blocks that are not run here, each by its beginning, and what else runs them or why nothing does.
NOT_RUN = {
    "./dev ": "continuous integration runs it",
    "apt install ./dist/": "test_packages installs them",
    "cmake --install build/release --prefix": "test_consumers installs, elsewhere",
    "conda install": "needs conda; test_recipes runs the recipe's commands",
    "docker ": "needs Docker; test_recipes runs the image's steps",
    "memreel demo": "test_demo runs it",
    "memreel record -o 'job/%r.reel' -- torchrun": "needs PyTorch and GPUs; test_record_job does it with the fake one",
    "memreel record -o tests-%p.reel -- python -m pytest": "test_record_pytest runs it",
    "memreel record python train.py": "needs a GPU; test_record_events does it with the fake one",
    "memreel report run.sqlite": "test_doors_in reads such files",
    "memreel verify mine.jsonl --policy 'rmm.binning": "needs a log of that pool; test_rmm verifies some",
    "memreel view snapshot.pickle": "test_view opens it",
    "memreel view --serve": "goes on until it is ended; test_view_browser serves",
    "nsys ": "needs Nsight Systems; test_doors_in reads what it writes",
    "pip install dist/memreel-": "test_wheel installs it",
    "python3 tests/e2e/arm.py": "needs programs for that processor; test_arm runs them",
    "rattler-build": "test_recipes renders the recipe with it",
    "ssh ": "needs a server",
}
POOL_LOG = """{"op": "config", "kind": "rmm.pool"}
{"op": "up", "size": 4194304, "ptr": 65536}
{"op": "alloc", "id": 1, "size": 1024, "stream": 0, "ptr": 65536}
{"op": "free", "id": 1}
"""


def commands_of(page):
    """What a page's shell blocks, and the prompts of those with output, say; without comments."""
    text = page.read_text()
    lines = "".join(re.findall(r"(?s)```sh\n(.*?)```", text)).splitlines()
    lines += re.findall(r"(?m)^\$ (.*)$", "".join(re.findall(r"(?s)```console\n(.*?)```", text)))
    return [line.partition("  #")[0].strip() for line in lines if line and not line.startswith("#")]


class Readme(ProgramTest):
    def setUp(self):
        super().setUp()
        # Recognized by what it contains: a whole training of twelve steps, which leaks and addresses can be judged in.
        for name in ("snapshot.pickle", "before.reel", "today.reel"):
            self.file(name, (SAMPLES / "gpt_default.reel").read_bytes())
        for name, batch in (("a", 1), ("b", 2), ("c", 4)):
            self.file(f"{name}.pickle", training(batch=batch).pickle())
        self.file("mine.jsonl", POOL_LOG.encode())
        (self.directory / "job").mkdir()
        for rank in range(16):
            shutil.copy(SAMPLES / "gpt_default.reel", self.directory / f"job/rank{rank}.reel")

    def test_commands_run_as_shown(self):
        environment = dict(os.environ, PATH=f"{Path(MEMREEL).parent}:{os.environ['PATH']}")
        ran, excused = set(), set()
        for page in PAGES[:1] if SANITIZED else PAGES:  # the pages' other commands run the same code
            for command in commands_of(page):
                if reason := next((words for words in NOT_RUN if command.startswith(words)), None):
                    excused.add(reason)
                    continue
                if command in ran:
                    continue
                ran.add(command)
                with self.subTest(page=page.name, command=command):
                    for shard in range(8 if "--shard 0/8" in command else 1):
                        process = subprocess.run(["bash", "-c", command.replace("--shard 0/8", f"--shard {shard}/8")], text=True,
                                                 cwd=self.directory, env=environment, capture_output=True)
                        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        self.assertGreater(len(ran), 10)
        if not SANITIZED:
            self.assertEqual(excused, set(NOT_RUN), "no page has these any more")

    def test_links_lead_somewhere(self):
        for document in [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/*.md"),
                         *REPOSITORY.glob("samples/**/*.md")]:
            for link in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
                with self.subTest(document=document.name, link=link):
                    self.assertTrue((document.parent / link).exists())


if __name__ == "__main__":
    unittest.main()
