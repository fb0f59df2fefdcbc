"""Where the recorded histories are: all of them beside the checkout, or else the samples inside it."""

import json

from program import REPOSITORY, SAMPLES

SHARED = REPOSITORY.parent / "shared/histories"
IN_USE = SHARED if (SHARED / "truth.json").exists() else SAMPLES
TRUTH = json.loads((IN_USE / "truth.json").read_text())


def path(name):
    """The file of a history, or None when it is not among those in use."""
    for suffix in (".pickle.xz", ".reel"):
        file = IN_USE / (name + suffix)
        if file.exists():
            return file
    return None


if __name__ == "__main__":
    print(f"histories: {len(TRUTH)} in {IN_USE}")
