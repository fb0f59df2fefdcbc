# SPDX-License-Identifier: Apache-2.0
"""Hardening of the installed binaries, as shown by readelf: bugs in them are hard to exploit (cmake/MemreelHardening.cmake)."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, ProgramTest

BUILD = Path(MEMREEL).parents[1]
ROOMS = ("formats", "analyzer", "collector", "viewer")
OPTIMISED = os.environ.get("MEMREEL_BUILD_TYPE") != "Debug"
MARKS = re.compile(r"x86 feature:.*\bIBT\b.*\bSHSTK\b")


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout


def shortcomings(file):
    """What a program or library lacks, one line each."""
    segments, dynamic = readelf("-hl", file), readelf("-d", file)
    symbols = set(re.findall(r" ([\w]+)@", readelf("--dyn-syms", file)))
    if not re.search(r"Type:\s+DYN", segments):
        yield "is loaded at a fixed address"
    if "GNU_RELRO" not in segments:
        yield "has no RELRO"
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b|\(BIND_NOW\)", dynamic):
        yield "does not bind its symbols at once"
    if not re.search(r"GNU_STACK.*\bRW\b", segments):
        yield "has an executable stack"
    if re.search(r"LOAD.*\bRWE\b", segments) or "TEXTREL" in dynamic:
        yield "has memory that can be written and run"
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        yield "looks for libraries where it was built"
    if "__stack_chk_fail" not in symbols:
        yield "has no stack protector"
    if OPTIMISED and not any(re.fullmatch(r"__\w+_chk", name) for name in symbols):
        yield "has no fortified call"


def unmarked(files):
    """The object files, or archives with an object, not marked as built for IBT and SHSTK."""
    notes = readelf("-n", *files)
    if len(files) == 1:
        notes = f"File: {files[0]}\n{notes}"
    return sorted(part.split("\n")[0] for part in notes.split("File: ")[1:] if not MARKS.search(part))


def start_files():
    """Objects of the C library that the compiler links into every program."""
    compiler = os.environ.get("CXX") or "g++"
    return [subprocess.run([compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
            for name in ("Scrt1.o", "crti.o", "crtn.o")]


class Hardening(ProgramTest):
    def setUp(self):
        super().setUp()
        if not all(map(shutil.which, ("cmake", "readelf"))) or not (BUILD / "cmake_install.cmake").exists():
            self.skipTest("not run from a build")

    def installed(self):
        """Every ELF file that `cmake --install` writes."""
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.directory], check=True, stdout=subprocess.DEVNULL)
        files = [file for file in self.directory.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
        self.assertLessEqual({"memreel", "memreel-record", "memreel-attach", "memreel-top", "libmemreel-agent.so"}, {f.name for f in files})
        return sorted(files)

    def test_programs_and_libraries(self):
        found = [f"{file.name} {line}" for file in self.installed() for line in shortcomings(file)]
        self.assertEqual(found, [])

    def test_a_plain_program_is_found_out(self):
        source = self.directory / "plain.c"
        source.write_text("int main(void) { return 0; }\n")
        program = self.directory / "plain"
        subprocess.run([os.environ.get("CXX") or "g++", "-x", "c", source, "-o", program, "-no-pie", "-Wl,-z,lazy,-z,norelro",
                        "-z", "execstack", "-Wl,-rpath,/tmp"], check=True)
        self.assertEqual([line.split()[0] for line in shortcomings(program)], ["is", "has", "does", "has", "looks", "has", "has"])

    @unittest.skipUnless(os.uname().machine == "x86_64", "what marks objects is of x86-64")
    def test_control_flow_protection(self):
        objects = [file for room in ROOMS for file in (BUILD / room).rglob("*.o")]
        self.assertGreater(len(objects), 20)
        self.assertEqual(unmarked(objects), [])
        # The linker marks a program if every object in it is marked. Some in Debian's C library are not.
        if not unmarked(start_files()):
            self.assertEqual(unmarked(self.installed()), [])


if __name__ == "__main__":
    unittest.main()
