# SPDX-License-Identifier: Apache-2.0
"""The vcpkg port and the Conan recipe of the headers."""

import json
import os
import re
import shutil
import unittest
from pathlib import Path

import peers
from program import REPOSITORY, ProgramTest
from test_consumers import consume, run

PORT = REPOSITORY / "cmake/vcpkg"
RECIPE = REPOSITORY / "cmake/conan"
PACKAGED = {"include/memreel/memreel.h", "include/memreel/policy.h", "share/memreel/memreelConfig.cmake",
            "share/memreel/memreelConfigVersion.cmake", "share/pkgconfig/memreel.pc", "share/memreel/copyright", "share/memreel/usage"}

# Stand-ins for the functions that the port calls, as documented by vcpkg for a package without libraries.
VCPKG = r"""
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${CURRENT_BUILDTREES_DIR} ${arg_OPTIONS}
    -D CMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${CURRENT_BUILDTREES_DIR} --target install COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" CONFIG_PATH "")
  file(RENAME ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH} ${CURRENT_PACKAGES_DIR}/share/${PORT})
  file(READ ${CURRENT_PACKAGES_DIR}/share/${PORT}/memreelConfig.cmake text)  # which lies one folder higher now
  string(REGEX REPLACE "(get_filename_component\\(_IMPORT_PREFIX [^\n]*\n)+"
    "get_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)\n" text "${text}")
  file(WRITE ${CURRENT_PACKAGES_DIR}/share/${PORT}/memreelConfig.cmake "${text}")
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  file(INSTALL ${arg_FILE_LIST} DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT} RENAME copyright)
endfunction()
include(${PORT_DIRECTORY}/portfile.cmake)
"""


def version():
    return re.search(r"project\(memreel VERSION ([\d.]+)", (REPOSITORY / "CMakeLists.txt").read_text())[1]


class PortTest(ProgramTest):
    def check(self, package):
        self.assertEqual({str(file.relative_to(package)) for file in package.rglob("*") if file.is_file()}, PACKAGED)
        usage = (package / "share/memreel/usage").read_text()
        self.assertIn("target_link_libraries(main PRIVATE memreel::headers)", usage)
        consume(self.directory / "consumer", re.search(r"find_package\(.*\)", usage)[0], f"-DCMAKE_PREFIX_PATH={package}")


@unittest.skipUnless(shutil.which("cmake"), "needs CMake")
class Vcpkg(PortTest):
    def test_the_manifest(self):
        manifest = json.loads((PORT / "vcpkg.json").read_text())
        self.assertEqual((manifest["name"], manifest["version"]), ("memreel", version()))
        # A port needs a helper for each family of functions that it calls.
        called = set(re.findall(r"^(vcpkg_cmake_config|vcpkg_cmake)", (PORT / "portfile.cmake").read_text(), re.MULTILINE))
        self.assertEqual({helper["name"].replace("-", "_") for helper in manifest["dependencies"]}, called)

    def test_the_port_packages_the_headers(self):
        script = self.directory / "vcpkg.cmake"
        script.write_text(VCPKG)
        package = self.directory / "package"
        run("cmake", "-D", "PORT=memreel", "-D", f"PORT_DIRECTORY={PORT}", "-D", f"CURRENT_PACKAGES_DIR={package}",
            "-D", f"CURRENT_BUILDTREES_DIR={self.directory}/build", "-P", script)
        self.check(package)


@unittest.skipUnless("VCPKG_ROOT" in os.environ, "VCPKG_ROOT names no checkout of vcpkg")
class VcpkgsOwn(PortTest):
    def test_its_scripts_run_the_port(self):
        root = Path(os.environ["VCPKG_ROOT"])
        triplet = self.directory / "here.cmake"
        triplet.write_text((root / "triplets/x64-linux.cmake").read_text() + "set(VCPKG_FIXUP_ELF_RPATH OFF)\n")
        helpers = ";".join(f"{root}/ports/{name}/vcpkg-port-config.cmake" for name in ("vcpkg-cmake", "vcpkg-cmake-config"))
        package = self.directory / "package"
        values = {"CMD": "BUILD", "PORT": "memreel", "CURRENT_PORT_DIR": PORT, "TARGET_TRIPLET": "here", "HOST_TRIPLET": "here",
                  "TARGET_TRIPLET_FILE": triplet, "VCPKG_ROOT_DIR": root, "VCPKG_BASE_VERSION": "2999-12-31", "VCPKG_CONCURRENCY": 1,
                  "VCPKG_PORT_CONFIGS": helpers, "NINJA": shutil.which("ninja"), "_VCPKG_INSTALLED_DIR": self.directory / "installed",
                  "CURRENT_BUILDTREES_DIR": self.directory / "build", "CURRENT_PACKAGES_DIR": package}
        run("cmake", *(f"-D{name}={value}" for name, value in values.items()), "-P", root / "scripts/ports.cmake")
        (package / "BUILD_INFO").unlink()
        self.check(package)


class Conan(ProgramTest):
    def test_created_and_consumed(self):
        conan = Path(peers.python_with("conan")).parent / "conan"
        environment = os.environ | {"CONAN_HOME": str(self.directory / "conan")}
        before = set(RECIPE.rglob("*"))
        run(conan, "profile", "detect", env=environment)
        done = run(conan, "create", RECIPE, "--no-remote", "-c", f"tools.cmake.cmake_layout:test_folder={self.directory}/programs",
                   env=environment)
        self.assertIn("not recorded", done.stdout + done.stderr)
        self.assertEqual(set(RECIPE.rglob("*")), before)
        listed = json.loads(run(conan, "list", f"memreel/{version()}:*", "--format", "json", env=environment).stdout)
        revision, = listed["Local Cache"][f"memreel/{version()}"]["revisions"].values()
        identity, = revision["packages"]
        self.assertEqual(revision["packages"][identity]["info"], {})  # the same for every compiler
        folder = Path(run(conan, "cache", "path", f"memreel/{version()}:{identity}", env=environment).stdout.strip())
        packaged = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
        self.assertEqual(packaged - {"conaninfo.txt", "conanmanifest.txt"},
                         {"include/memreel/memreel.h", "include/memreel/policy.h", "share/cmake/memreel/memreelConfig.cmake",
                          "share/cmake/memreel/memreelConfigVersion.cmake", "share/pkgconfig/memreel.pc", "licenses/LICENSE"})


if __name__ == "__main__":
    unittest.main()
