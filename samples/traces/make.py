#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regenerates the traces of this directory: make.py MEMREEL HISTORIES [RECORDED]

HISTORIES has the histories and their truth.json. RECORDED is what tests/gpu/record_matrix.py recorded; without it, the
samples from there stay as they are.
"""

import json
import lzma
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

# JAX profiles as recorded; their entries in truth.json were found without memreel and are kept.
PROFILES = ("jax_oom_growth", "jax_oom_fraction", "jax_crowded")
NAMES = ("gpt_default", "decode_default", "oom_default", "streams_default", "leak", "oom_expandable", "graphs_default",
         "graphs_expandable")
# Kept as PyTorch wrote them, as samples for the importer.
RECORDED = ("captures_s63_default", "captures_s64_expandable", "capture_streams_s71_default", "mempools_s82_default",
            "mempools_s83_expandable", "borrow_s91_expandable", "pressure_s2_gc", "pressure_s7_expandable_maxsplit",
            "oom_s12_expandable_gc", "oom_s14_nonsplit", "streams_s32_expandable_pow2",
            "convnet_s2_default", "convnet_s2_pow2", "mixed_s5952_maxsplit_gc", "mixed_s23877_maxsplit_gc",
            "mixed_s70637_expandable", "mempools_s93428_segment", "mixed_s7792_expandable_gc", "peers_s80731_gc")
HERE = Path(__file__).resolve().parent


def counted(entries):
    """The totals of a device's history."""
    actions, sizes = {}, {}
    reserved = peak_reserved = live = peak_live = 0
    for entry in entries:
        action, size = entry["action"], entry["size"]
        actions[action] = actions.get(action, 0) + 1
        if action in ("segment_alloc", "segment_map"):
            reserved += size
        elif action in ("segment_free", "segment_unmap"):
            reserved -= size
        elif action == "alloc":
            sizes[entry["addr"]] = size
            live += size
        elif action == "free_requested":
            live -= sizes.pop(entry["addr"])
        peak_reserved, peak_live = max(peak_reserved, reserved), max(peak_live, live)
    return {"events": len(entries), "actions": actions, "peak_reserved_bytes": peak_reserved,
            "end_reserved_bytes": reserved, "peak_requested_live_bytes": peak_live, "end_requested_live_bytes": live,
            "end_live_allocations": len(sizes)}


def main(memreel, histories, recorded):
    known = json.loads((HERE / "truth.json").read_text())
    truth = json.loads((histories / "truth.json").read_text())
    excerpt = {}
    for name in NAMES:
        target = HERE / f"{name}.reel"
        subprocess.run([memreel, "import", histories / f"{name}.pickle.xz", "-o", target], check=True)
        excerpt[name] = truth[name] | {"file": target.name}
    for name in RECORDED:
        file = f"{name}.pickle.xz"
        if recorded is None:
            excerpt[name] = known[name]
            continue
        shutil.copyfile(recorded / file, HERE / file)
        snapshot = pickle.loads(lzma.open(HERE / file).read())
        devices = {str(i): counted(trace) for i, trace in enumerate(snapshot["device_traces"]) if trace}
        conf = snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"]
        excerpt[name] = {"file": file, "conf": conf, "devices": devices}
    excerpt |= {name: known[name] for name in PROFILES}
    (HERE / "truth.json").write_text(json.dumps(excerpt, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
