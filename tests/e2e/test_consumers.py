# SPDX-License-Identifier: Apache-2.0
"""What is installed for other projects: the headers through find_package, pkg-config and FetchContent; the pages."""

import os
import re
import shlex
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, ProgramTest

BUILD = Path(MEMREEL).parents[1]
PROGRAMS = REPOSITORY / "cmake/conan/test_package"

VERSION = re.search(r"project\(memreel VERSION (\d+\.\d+)", (REPOSITORY / "CMakeLists.txt").read_text())[1]

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C CXX)
{get}
add_executable(annotated uses_annotations.c)
add_executable(own_policy uses_policy.cpp)
foreach(program annotated own_policy)
  target_link_libraries(${{program}} PRIVATE memreel::headers)
endforeach()
"""


def run(*command, env=None):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, env=env)


def consume(directory, get, *arguments, env=None):
    """Configures, builds and runs a project in `directory` that gets memreel this way; returns its build folder."""
    directory.mkdir()
    (directory / "CMakeLists.txt").write_text(PROJECT.format(get=get))
    for program in ("uses_annotations.c", "uses_policy.cpp"):
        shutil.copy(PROGRAMS / program, directory)
    build = directory / "build"
    run("cmake", "-S", directory, "-B", build, *arguments, env=env)
    run("cmake", "--build", build, env=env)
    if run(build / "annotated").stdout != "not recorded\n":
        raise AssertionError("a program that nothing records takes itself for recorded")
    run(build / "own_policy")
    return build


def headers_in(prefix):
    """The installed files, except those that only Debian's packages have."""
    files = {str(path.relative_to(prefix)): path.read_bytes() for path in prefix.rglob("*") if path.is_file()}
    return {name: content for name, content in sorted(files.items()) if not name.startswith("share/doc/")}


NEEDS_BUILD = unittest.skipUnless(shutil.which("cmake") and (BUILD / "CMakeCache.txt").exists(), "needs CMake and the build")


@NEEDS_BUILD
class Documents(ProgramTest):
    def test_no_link_of_an_installed_page_is_dead(self):
        run("cmake", "--install", BUILD, "--prefix", self.directory, "--component", "docs")
        root = self.directory / "share/doc/memreel"
        pages = sorted(root.rglob("*.md"))
        self.assertIn(root / "README.md", pages)
        self.assertEqual(len(pages), 2 + len(list((REPOSITORY / "docs").rglob("*.md"))))
        links = 0
        for page in pages:
            for link in re.findall(r'(?:\]\(|(?:src|srcset)=")([^)#\s"]+)', page.read_text()):
                if ":" in link:
                    continue
                links += 1
                self.assertTrue((page.parent / link).exists(), f"{page.relative_to(root)}: {link}")
        self.assertGreater(links, 300)


@NEEDS_BUILD
class Consumers(ProgramTest):
    def setUp(self):
        super().setUp()
        self.prefix = self.directory / "prefix"
        run("cmake", "--install", BUILD, "--prefix", self.prefix, "--component", "headers")

    def test_find_package(self):
        consume(self.directory / "consumer", f"find_package(memreel {VERSION} CONFIG REQUIRED)", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_an_installed_memreel_says_where_its_headers_are(self):
        program = self.prefix / "bin/memreel"  # as in the wheel: memreel/_dist/bin/memreel
        program.parent.mkdir()
        shutil.copy(MEMREEL, program)
        cmake, includes, pkgconfig = (run(program, option).stdout.strip()
                                      for option in ("--cmake-dir", "--includes", "--pkgconfig-dir"))
        consume(self.directory / "consumer", "find_package(memreel CONFIG REQUIRED)", f"-Dmemreel_DIR={cmake}")
        run("cc", "-fsyntax-only", includes, PROGRAMS / "uses_annotations.c")
        self.assertTrue((Path(pkgconfig) / "memreel.pc").exists())
        if shutil.which("pkg-config"):
            found = run("pkg-config", "--cflags", "memreel", env=os.environ | {"PKG_CONFIG_PATH": pkgconfig}).stdout
            self.assertEqual(Path(shlex.split(found)[0].removeprefix("-I")).resolve(), Path(includes.removeprefix("-I")).resolve())
        shutil.rmtree(self.prefix / "include")
        alone = subprocess.run([program, "--includes"], capture_output=True, text=True)
        self.assertEqual((alone.returncode, alone.stdout), (2, ""))
        self.assertIn("the headers are not installed with this program", alone.stderr)

    def test_the_headers_are_installed_without_building_anything(self):
        alone = self.directory / "alone"
        run("cmake", "-S", REPOSITORY, "-B", self.directory / "build", "-D", "MEMREEL_HEADERS_ONLY=ON")
        run("cmake", "--install", self.directory / "build", "--prefix", alone)
        self.assertEqual(headers_in(alone), headers_in(self.prefix))

    def test_a_project_that_fetches_memreel_installs_the_headers_with_its_own(self):
        build = consume(self.directory / "consumer", f"add_subdirectory({REPOSITORY} memreel)")
        run("cmake", "--install", build, "--prefix", self.directory / "theirs")
        self.assertEqual(headers_in(self.directory / "theirs"), headers_in(self.prefix))

    def test_a_version_that_is_not_there_is_not_found(self):
        source = self.directory / "wrong"
        source.mkdir()
        (source / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(wrong LANGUAGES C)\n"
                                               "find_package(memreel 7.0 CONFIG REQUIRED)\n")
        refused = subprocess.run(["cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                                 capture_output=True, text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("requested version", refused.stderr)

    def test_fetch_content_takes_the_headers_and_builds_nothing_else(self):
        build = consume(self.directory / "consumer",
                        "include(FetchContent)\n"
                        f"FetchContent_Declare(memreel SOURCE_DIR {REPOSITORY})\n"
                        "FetchContent_MakeAvailable(memreel)")
        self.assertEqual([path.name for path in build.rglob("*.a")], [])

    @unittest.skipUnless(shutil.which("pkg-config"), "needs pkg-config")
    def test_pkg_config(self):
        environment = os.environ | {"PKG_CONFIG_PATH": str(self.prefix / "share/pkgconfig")}
        flags = shlex.split(run("pkg-config", "--cflags", "memreel", env=environment).stdout)
        self.assertEqual(run("pkg-config", "--modversion", "memreel", env=environment).stdout,
                         run(MEMREEL, "--version").stdout.split()[-1] + "\n")
        run("cc", "-std=c99", "-Wall", "-Werror", *flags, PROGRAMS / "uses_annotations.c", "-o", self.directory / "annotated")
        self.assertEqual(run(self.directory / "annotated").stdout, "not recorded\n")


if __name__ == "__main__":
    unittest.main()
