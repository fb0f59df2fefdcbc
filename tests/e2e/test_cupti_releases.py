# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own libcupti from 11.8 to 13.5, from PyPI, and its headers: what memreel assumes about each.

Without a GPU none of them can be subscribed to: they ask the driver for tables that the fake one does not have. What can
be seen is which one is found, what it exports, how its structures lie, and that a program goes on when it is refused.
"""

import os
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

from peers import ENVIRONMENTS
from program import REPOSITORY
from recorded import FAKE, RecordTest

# The wheels of CUPTI and of cuda.h, and what cuptiSubscribe returns without a real driver.
RELEASES = {
    "11.8": ("nvidia-cuda-cupti-cu11==11.8.87", "nvidia-cuda-runtime-cu11==11.8.89", 15),
    "12.0": ("nvidia-cuda-cupti-cu12==12.0.90", "nvidia-cuda-runtime-cu12==12.0.146", 15),
    "12.4": ("nvidia-cuda-cupti-cu12==12.4.127", "nvidia-cuda-runtime-cu12==12.4.127", 15),
    "12.9": ("nvidia-cuda-cupti-cu12==12.9.79", "nvidia-cuda-runtime-cu12==12.9.79", 15),
    "13.0": ("nvidia-cuda-cupti==13.0.85", "nvidia-cuda-runtime==13.0.96", 999),
    "13.1": ("nvidia-cuda-cupti==13.1.115", "nvidia-cuda-runtime==13.1.80", 999),
    "13.2": ("nvidia-cuda-cupti==13.2.86", "nvidia-cuda-runtime==13.2.86", None),
    "13.3": ("nvidia-cuda-cupti==13.3.75", "nvidia-cuda-runtime==13.3.29", 27),
    "13.4": ("nvidia-cuda-cupti==13.4.92", "nvidia-cuda-runtime==13.4.92", 27),
    "13.5": ("nvidia-cuda-cupti==13.5.25", "nvidia-cuda-runtime==13.5.37", 27),
}
ALWAYS = ["cuptiSubscribe", "cuptiUnsubscribe", "cuptiEnableCallback", "cuptiGetDeviceId"]
SINCE = {"cuptiSubscribe_v2": (13, 0), "cuptiActivityGetAttribute_v2": (13, 2), "cuptiIsTracingSessionRunning": (13, 3)}


def unpacked(release):
    """The folder of a release's wheels, as pip would install them; downloaded once."""
    folder = ENVIRONMENTS / "cupti" / release
    if folder.exists():
        return folder
    wheels = ENVIRONMENTS / "cupti/wheels" / release
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels,
                           *RELEASES[release][:2]], capture_output=True, text=True)
    if done.returncode != 0:
        raise unittest.SkipTest("pip can't download them: " + done.stderr.strip().splitlines()[-1])
    for wheel in wheels.iterdir():
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if "/include/" in name or "/libcupti.so" in name]
            archive.extractall(f"{folder}.new", names)
    os.rename(f"{folder}.new", folder)
    return folder


def only(paths):
    [path] = paths
    return path


class Releases(RecordTest):
    def for_each(self):
        for release in RELEASES:
            with self.subTest(release):
                yield release, unpacked(release)

    def test_exports(self):
        for release, folder in self.for_each():
            program = "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); print(*(hasattr(lib, n) for n in sys.argv[2:]))"
            done = subprocess.run([sys.executable, "-c", program, only(folder.rglob("libcupti.so*")), *ALWAYS, *SINCE],
                                  capture_output=True, text=True, check=True)
            version = tuple(map(int, release.split(".")))
            expected = [True] * len(ALWAYS) + [version >= since for since in SINCE.values()]
            self.assertEqual(done.stdout.split(), list(map(str, expected)))

    def test_headers(self):
        for release, folder in self.for_each():
            include = {only(folder.rglob(name)).parent for name in ("cuda.h", "cupti.h")}
            for check in ("collector/cuda/layout_check.cpp", "tests/fake/abi_check.cpp"):
                done = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-I", REPOSITORY,
                                       *(word for path in include for word in ("-isystem", path)), REPOSITORY / check],
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_found_among_python_packages(self):
        driver = self.directory / "driver"
        driver.mkdir()
        (driver / "libcuda.so.1").symlink_to(FAKE / "libcuda.so.1")
        for release, folder in self.for_each():
            # The wheel is in a site-packages folder; no CUPTI is newer than the driver.
            packages = self.directory / release / "site-packages"
            packages.parent.mkdir()
            packages.symlink_to(folder, target_is_directory=True)
            version = int(release.split(".")[0]) * 1000 + int(release.split(".")[1]) * 10
            environment = self.environment(LD_LIBRARY_PATH=driver, PYTHONPATH=packages, FAKE_CUDA_VERSION=version)
            answer = RELEASES[release][2]
            if answer is None:  # it is only called if the driver is as new as it is; here it would never return
                environment["FAKE_CUDA_VERSION"] = "13010"
            process = self.record_program("single", 20, environment=environment)
            tried = process.stderr.partition("CUPTI unusable: ")[2].partition("; intercepting")[0].split("; ")
            own = f"({answer})" if answer is not None else f"{packages}/nvidia/cu13/lib/libcupti.so.13 is from CUDA 13.2"
            self.assertTrue(any(own in text for text in tried), process.stderr)
            if not release.startswith("13"):
                self.assertNotIn("(999)", process.stderr)
                self.assertNotIn("(27)", process.stderr)
            self.assert_equals_truth()
            self.trace().unlink()
            self.truth_file.unlink()


if __name__ == "__main__":
    unittest.main()
