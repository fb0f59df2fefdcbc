# SPDX-License-Identifier: Apache-2.0
"""The include check finds the violations it is meant to find."""

import importlib.util
import tempfile
import unittest
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "cmake/check_includes.py"
SPEC = importlib.util.spec_from_file_location("check_includes", FILE)
check_includes = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_includes)


class Includes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="memreel-e2e-")
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        for folder, include in (("formats/model", "vector"), ("formats/reader", "formats/model/event.h")):
            (self.root / folder).mkdir(parents=True)
            (self.root / folder / "event.h").write_text(f'#pragma once\n\n#include "{include}"\n')

    def findings(self, text):
        return list(check_includes.findings(self.root, check_includes.read_table(text)))

    def test_allowed_arrow(self):
        self.assertEqual(self.findings("formats/model:\nformats/reader:  # reads\n    formats/model\n"), [])

    def test_arrow_that_is_not_allowed(self):
        found = self.findings("formats/model:\nformats/reader:\n")
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("formats/reader/event.h:3: formats/reader may not include formats/model"), found)

    def test_header_that_includes_itself(self):
        (self.root / "formats/model/event.h").write_text('#include "formats/model/units.h"\n')
        (self.root / "formats/model/units.h").write_text('#include "formats/model/event.h"\n')
        found = self.findings("formats/model:\nformats/reader: formats/model\n")
        self.assertEqual(found, ["formats/model/event.h:1: includes itself: formats/model/event.h -> formats/model/units.h -> "
                                 "formats/model/event.h"])

    def test_header_that_repeats_what_comes_with_the_model(self):
        (self.root / "formats/model/event.h").write_text("#include <map>\n#include <vector>\n")
        (self.root / "formats/reader/block.h").write_text('#include <map>\n#include <vector>\n\n#include "formats/reader/event.h"\n')
        self.assertEqual(list(check_includes.repeated(self.root)),
                         ["formats/reader/block.h:2: repeats <vector>, which comes with formats/model/event.h"])

    def test_source_without_a_licence(self):
        (self.root / "formats/reader/event.h").write_text("// SPDX-License-Identifier: Apache-2.0\n#pragma once\n")
        found = list(check_includes.unlicensed(self.root))
        self.assertEqual(len(found), 1)
        self.assertIn("formats/model/event.h:1: add 'SPDX-License-Identifier: Apache-2.0'", found[0])

    def test_two_files_of_one_name(self):
        (self.root / "formats/reader/block.h").write_text("")
        (self.root / "formats/reader/__init__.py").write_text("")
        (self.root / "formats/model/__init__.py").write_text("")
        self.assertEqual(list(check_includes.namesakes(self.root)),
                         ["formats/reader/event.h:1: has the name of formats/model/event.h: say what differs"])

    def test_cycle_in_the_table(self):
        found = self.findings("formats/model: formats/reader\nformats/reader: formats/model\n")
        self.assertEqual(found, ["cmake/arrows.txt: a cycle: formats/model -> formats/reader -> formats/model"])

    def test_folder_that_is_not_there(self):
        found = self.findings("formats/model:\nformats/reader: formats/model formats/gone\n")
        self.assertIn("cmake/arrows.txt: formats/gone may be included and has no line of its own", found)


if __name__ == "__main__":
    unittest.main()
