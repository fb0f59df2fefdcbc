# SPDX-License-Identifier: Apache-2.0
"""Makes snapshots in the format of torch.cuda.memory._snapshot(), for cases that no available recording covers.

As a program, writes them in every encoding into the given directory, as seeds for the fuzzers."""

import json
import pickle
import sys
from pathlib import Path

BASE = 0x7F0000000000
SMALL_SEGMENT = 2 << 20
FRAME = {"name": "step", "filename": "train.py", "line": 7}


class Recorder:
    """Appends trace entries, one microsecond apart."""

    def __init__(self):
        self.entries = []

    def add(self, action, address, size, line=7):
        self.entries.append({
            "action": action, "addr": address, "size": size, "stream": 0, "time_us": 1_700_000_000_000_000 + len(self.entries),
            "frames": [dict(FRAME, line=line), {"name": "<module>", "filename": "train.py", "line": 20}]})

    def free(self, address, size):
        self.add("free_requested", address, size)
        self.add("free_completed", address, size)


def block(address, size, requested, state):
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": []}


def snapshot(second_offset=512):
    """Two small allocations, one of them freed. PyTorch would put the second 512 bytes after the first: any other
    `second_offset` makes a history that its allocator can't have produced."""
    recorder = Recorder()
    recorder.add("segment_alloc", BASE, SMALL_SEGMENT)
    recorder.add("alloc", BASE, 500, line=8)
    recorder.add("alloc", BASE + second_offset, 1024, line=9)
    recorder.free(BASE, 500)
    blocks = [block(BASE, second_offset, 0, "inactive"),
              block(BASE + second_offset, 1024, 1024, "active_allocated"),
              block(BASE + second_offset + 1024, SMALL_SEGMENT - second_offset - 1024, 0, "inactive")]
    segment = {"device": 0, "address": BASE, "total_size": SMALL_SEGMENT, "allocated_size": 1024, "active_size": 1024,
               "requested_size": 1024, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
               "is_expandable": False, "frames": [], "blocks": blocks}
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                "expandable_segments": False, "roundup_power2_divisions": {}}
    return {"segments": [segment], "device_traces": [recorder.entries], "allocator_settings": settings,
            "external_annotations": [
                {"name": "step", "stage": "START", "device": 0, "time_us": 1_700_000_000_000_000},
                {"name": "step", "stage": "END", "device": 0, "time_us": 1_700_000_000_000_004}]}


def encodings(document):
    """The document in every form that PyTorch and its viewer write: (file name, content)."""
    for protocol in (2, 3, 4, 5):
        yield f"protocol{protocol}.pickle", pickle.dumps(document, protocol=protocol)
    yield "snapshot.json", json.dumps(document).encode()


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in encodings(snapshot()):
        (directory / name).write_bytes(content)
