# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch on top of the fake CUDA of tests/fake, in a separate environment below build/: its allocator is the real one.

The wheel is installed without NVIDIA's libraries, which are gigabytes and are stood in for (tests/lab/stubs.py).
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests/lab"))
import stubs  # noqa: E402

FAKE = Path(os.environ.get("MEMREEL_FAKE", REPOSITORY / "build/release/fake"))
ENVIRONMENT = Path(os.environ.get("MEMREEL_TORCH_PEER", Path(MEMREEL).resolve().parents[1] / "torch-peer"))
RELEASE = os.environ.get("MEMREEL_TORCH_RELEASE", "2.15.0")


def pip(*words):
    """Installs packages, or skips the test if there is no network."""
    done = subprocess.run([ENVIRONMENT / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise unittest.SkipTest(f"pip can't install {' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")


def packages():
    return next(ENVIRONMENT.glob("lib/python3*/site-packages"))


def install_torch():
    if not (ENVIRONMENT / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    metadata = packages() / f"torch-{RELEASE}.dist-info/METADATA"
    if not metadata.exists():
        pip("--no-deps", f"torch=={RELEASE}")
    # The next installation brings torch's dependencies, but must not bring NVIDIA's libraries.
    metadata.write_text(re.sub(r"(?m)^Requires-Dist: (nvidia|cuda|triton).*\n", "", metadata.read_text()))


def python_with_torch(*others):
    """An interpreter with PyTorch and `others` (pip arguments), and its environment variables."""
    if not shutil.which("gcc"):
        raise unittest.SkipTest("needs gcc")
    install_torch()
    pip(f"torch=={RELEASE}", *others)
    provided = [file for file in [*FAKE.glob("*.so.*"), *FAKE.glob("12/*.so.*")]
                if not file.is_symlink() or file.suffix in (".1", ".12", ".13")]
    preload = ENVIRONMENT / "stubs/libmemreel-stubs.so"
    if not preload.exists():
        stubs.make(packages() / "torch", provided, preload.parent)
    return ENVIRONMENT / "bin/python", {
        "LD_PRELOAD": str(preload), "LD_LIBRARY_PATH": f"{preload.parent}:{FAKE}:{FAKE / '12'}", "FAKE_CUDA_MEMORY": str(8 << 30),
        "PYTORCH_NVML_BASED_CUDA_CHECK": "0"}
