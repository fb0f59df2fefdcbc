# SPDX-License-Identifier: Apache-2.0
"""Locates recorded histories: in $MEMREEL_HISTORIES or beside the checkout, and the samples inside it."""

import json
import os
from pathlib import Path

from program import REPOSITORY, SAMPLES

SHARED = Path(os.environ.get("MEMREEL_HISTORIES", REPOSITORY.parent / "shared/histories"))
IN_USE = [directory for directory in (SHARED, SAMPLES) if (directory / "truth.json").exists()]
TRUTH = {}
for directory in reversed(IN_USE):
    TRUTH |= json.loads((directory / "truth.json").read_text())


def path(name):
    """The file of a history, or None if it is not available."""
    for directory in IN_USE:
        for suffix in (".pickle.xz", ".reel", ".xplane.pb.gz"):
            file = directory / (name + suffix)
            if file.exists():
                return file
    return None


if __name__ == "__main__":
    print(f"{len(TRUTH)} recorded histories in {', '.join(map(str, IN_USE))}")
