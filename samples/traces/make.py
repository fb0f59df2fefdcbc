#!/usr/bin/env python3
"""Makes the traces of this directory anew from the original histories: make.py MEMREEL HISTORIES"""

import json
import subprocess
import sys
from pathlib import Path

# Recorded under JAX as they are; what truth.json says of them was found without memreel and stays.
PROFILES = ("jax_oom_growth", "jax_oom_fraction", "jax_crowded")
NAMES = ("gpt_default", "decode_default", "oom_default", "streams_default", "leak")
HERE = Path(__file__).resolve().parent


def main(memreel, histories):
    truth = json.loads((histories / "truth.json").read_text())
    for name in NAMES:
        target = HERE / f"{name}.reel"
        subprocess.run([memreel, "import", histories / f"{name}.pickle.xz", "-o", target], check=True)
        truth[name]["file"] = target.name
    known = json.loads((HERE / "truth.json").read_text())
    excerpt = {name: truth[name] for name in NAMES} | {name: known[name] for name in PROFILES}
    (HERE / "truth.json").write_text(json.dumps(excerpt, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
