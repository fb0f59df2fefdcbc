"""Where the recorded histories are: those that $MEMREEL_HISTORIES names or that lie beside the checkout, or else the
samples inside it."""

import json
import os
from pathlib import Path

from program import REPOSITORY, SAMPLES

SHARED = Path(os.environ.get("MEMREEL_HISTORIES", REPOSITORY.parent / "shared/histories"))
IN_USE = SHARED if (SHARED / "truth.json").exists() else SAMPLES
TRUTH = json.loads((IN_USE / "truth.json").read_text())


def path(name):
    """The file of a history, or None when it is not among those in use."""
    for suffix in (".pickle.xz", ".reel", ".xplane.pb.gz"):
        file = IN_USE / (name + suffix)
        if file.exists():
            return file
    return None


if __name__ == "__main__":
    print(f"{len(TRUTH)} recorded histories in {IN_USE}")
