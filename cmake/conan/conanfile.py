"""memreel.h and memreel/policy.h for Conan 2, from the tree that this recipe lies in: conan create cmake/conan"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

PACKAGED = ("CMakeLists.txt", "LICENSE", "cmake/MemreelHeaders.cmake", "cmake/memreel.pc.in", "analyzer/include/*", "collector/include/*")


class Memreel(ConanFile):
    name = "memreel"
    description = "Headers to tell memreel, a profiler of GPU memory, of one's own pools and policies"
    license = "Apache-2.0"
    topics = ("gpu", "cuda", "memory", "profiler", "allocator", "header-only")
    package_type = "header-library"
    implements = ["auto_header_only"]  # one package for all settings
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    @property
    def _tree(self):
        return Path(self.recipe_folder).parents[1]

    def set_version(self):
        self.version = re.search(r"project\(memreel VERSION ([\d.]+)", load(self, self._tree / "CMakeLists.txt"))[1]

    def export_sources(self):
        for pattern in PACKAGED:
            copy(self, pattern, self._tree, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["MEMREEL_HEADERS_ONLY"] = True
        toolchain.user_presets_path = False
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        # The package's own memreelConfig.cmake is found, not one that Conan writes.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/memreel"]
