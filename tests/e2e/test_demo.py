# SPDX-License-Identifier: Apache-2.0
"""memreel demo: the first thing a new user sees."""

import re
import shutil
import subprocess
from pathlib import Path

from program import MEMREEL, SAMPLES, ProgramTest


class Demo(ProgramTest):
    def test_it_shows_what_the_commands_say_themselves(self):
        sample = SAMPLES / "gpt_default.reel"
        said = self.answer("demo").stdout
        for words in (["info"], ["report", "--summary"], ["verify"],
                      ["replay", "--policy", "bound.live,cuda.malloc,torch.native,fit.best"]):
            command, *options = words
            typed = re.search(rf"\$ memreel {command} (/\S+/gpt_default\.reel) {' '.join(options)}".rstrip() + "\n", said)
            self.assertEqual(Path(typed[1]).read_bytes(), sample.read_bytes(), "what is shown can be typed")
            self.assertIn(self.answer(command, sample, *options).stdout, said)

    def test_without_its_recording_it_says_so(self):
        alone = self.directory / "bin/memreel"
        alone.parent.mkdir()
        shutil.copy(MEMREEL, alone)
    
        process = subprocess.run([alone, "demo"], text=True, capture_output=True)
        self.assert_refused(process, "the sample recording is not installed", "share/memreel/samples")
