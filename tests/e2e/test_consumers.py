"""What is installed for others: the headers by find_package, pkg-config and FetchContent; the pages."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, ProgramTest

BUILD = Path(MEMREEL).parents[1]

ANNOTATED = """
#include <memreel/memreel.h>
#include <stdio.h>
int main(void) {
  memreel_pool pool = memreel_pool_create("activations", MEMREEL_POOL_CACHING, MEMREEL_DEVICE, 0);
  memreel_alloc(pool, (const void*)4096, 512, 0);
  memreel_free(pool, (const void*)4096);
  printf("%s\\n", pool == 0 ? "not recorded" : "recorded");
  return 0;
}
"""

OWN_POLICY = """
#include <memreel/policy.h>
int main() { return MEMREEL_POLICY_VERSION == 0; }
"""

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C CXX)
{get}
add_executable(annotated annotated.c)
add_executable(own_policy own_policy.cpp)
foreach(program annotated own_policy)
  target_link_libraries(${{program}} PRIVATE memreel::headers)
endforeach()
"""


def run(*command, env=None):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, env=env)


NEEDS_BUILD = unittest.skipUnless(shutil.which("cmake") and (BUILD / "CMakeCache.txt").exists(), "needs CMake and the build")


@NEEDS_BUILD
class Documents(ProgramTest):
    def test_no_link_of_an_installed_page_is_dead(self):
        run("cmake", "--install", BUILD, "--prefix", self.directory, "--component", "docs")
        root = self.directory / "share/doc/memreel"
        pages = sorted(root.rglob("*.md"))
        self.assertIn(root / "README.md", pages)
        self.assertEqual(len(pages), 2 + len(list((REPOSITORY / "docs").glob("*.md"))))
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

    def consumes(self, get, *arguments):
        """Configures, builds and runs a project that gets memreel so."""
        source = self.directory / "consumer"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT.format(get=get))
        (source / "annotated.c").write_text(ANNOTATED)
        (source / "own_policy.cpp").write_text(OWN_POLICY)
        run("cmake", "-S", source, "-B", source / "build", *arguments)
        run("cmake", "--build", source / "build")
        self.assertEqual(run(source / "build/annotated").stdout, "not recorded\n")
        run(source / "build/own_policy")
        return source / "build"

    def test_find_package(self):
        self.consumes("find_package(memreel 0.1 CONFIG REQUIRED)", f"-DCMAKE_PREFIX_PATH={self.prefix}")

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
        build = self.consumes("include(FetchContent)\n"
                              f"FetchContent_Declare(memreel SOURCE_DIR {REPOSITORY})\n"
                              "FetchContent_MakeAvailable(memreel)")
        self.assertEqual([path.name for path in build.rglob("*.a")], [])

    @unittest.skipUnless(shutil.which("pkg-config"), "needs pkg-config")
    def test_pkg_config(self):
        environment = os.environ | {"PKG_CONFIG_PATH": str(self.prefix / "share/pkgconfig")}
        flags = run("pkg-config", "--cflags", "memreel", env=environment).stdout.split()
        self.assertEqual(run("pkg-config", "--modversion", "memreel", env=environment).stdout,
                         run(MEMREEL, "--version").stdout.split()[-1] + "\n")
        source = self.directory / "annotated.c"
        source.write_text(ANNOTATED)
        run("cc", "-std=c99", "-Wall", "-Werror", *flags, source, "-o", self.directory / "annotated")
        self.assertEqual(run(self.directory / "annotated").stdout, "not recorded\n")


if __name__ == "__main__":
    unittest.main()
