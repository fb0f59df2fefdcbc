# SPDX-License-Identifier: Apache-2.0
"""What a PyTorch memory snapshot says, read without memreel: the history is rewound from the final segments.

The snapshot's last state is known exactly. Undoing its entries from the last to the first gives what was live and reserved
before each of them, and at the beginning what is older than the history."""

import collections
import io
import lzma
import pickle

BACKWARD = ("torch::autograd::Engine::", "torch::autograd::Node::", "THPEngine_run_backward")


class _Refusing(pickle.Unpickler):
    """A stranger's pickle must not name anything to import."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"names {module}.{name}")


def read(path):
    data = path.read_bytes()
    return _Refusing(io.BytesIO(lzma.decompress(data) if path.suffix == ".xz" else data)).load()


def is_python(frame):
    """Python compiles from .py files, from strings and from notebook cells."""
    file = frame["filename"]
    return file.endswith(".py") or (file.startswith("<") and file.endswith(">"))


def runs_backward(frames):
    """In native frames, the engine; in Python's alone, the call: the engine's threads have no Python frames."""
    def is_call(frame):
        return frame["name"] == "backward" and frame["filename"].replace("\\", "/").endswith(("torch/_tensor.py", "torch/autograd/__init__.py"))

    return any(is_call(frame) or any(name in frame["name"] for name in BACKWARD) for frame in frames)


Block = collections.namedtuple("Block", "bytes frames")


class Heap:
    """One device of a snapshot."""

    def __init__(self, snapshot, device):
        self.device = device
        self.entries = snapshot["device_traces"][device] if device < len(snapshot["device_traces"]) else []
        self.segments = [segment for segment in snapshot["segments"] if segment.get("device", 0) == device]
        self._rewind(self._blocks_at_end())

    def _blocks_at_end(self):
        """Live blocks by address: their requested size, as far as it is known, and their frames."""
        live = {}
        for segment in self.segments:
            address = segment["address"]
            for block in segment["blocks"]:
                at = block.get("address", address)
                address = at + block["size"]
                if block["state"] != "active_allocated":
                    continue
                past = (block.get("history") or [{}])[0]  # before PyTorch 2.1
                live[at] = Block(past.get("real_size", block.get("requested_size", block["size"])),
                                 past.get("frames") or block.get("frames") or [])
        return live

    def _rewind(self, live):
        reserved = sum(segment["total_size"] for segment in self.segments)
        now = sum(block.bytes for block in live.values())
        self.live, self.reserved = [now], [reserved]  # from the end, after each entry
        frames = {at: block.frames for at, block in live.items()}
        live = {at: block.bytes for at, block in live.items()}
        for entry in reversed(self.entries):
            action, address, size = entry["action"], entry.get("addr"), entry.get("size", 0)
            if action == "alloc":
                now -= live.pop(address, 0)
                frames.pop(address, None)
            elif action in ("free_requested", "free"):
                live[address] = size
                now += size
            elif action in ("segment_alloc", "segment_map"):
                reserved -= size
            elif action in ("segment_free", "segment_unmap"):
                reserved += size
            self.live.append(now)
            self.reserved.append(reserved)
        self.live.reverse()
        self.reserved.reverse()
        self.older = {at: Block(size, frames.get(at, [])) for at, size in live.items()}

    @property
    def has_history(self):
        return any(entry["action"] == "alloc" for entry in self.entries)

    def tightest(self):
        """Of all instants at which most was reserved, the one with most live: (reserved, live)."""
        most = max(self.reserved)
        return most, max(live for live, reserved in zip(self.live, self.reserved) if reserved == most)

    def at_peak(self):
        """What is live when most is: (bytes, frames), older blocks first."""
        until = max(range(len(self.live)), key=lambda i: (self.live[i], -i))
        live = dict(self.older)
        for entry in self.entries[:until]:
            if entry["action"] == "alloc":
                live[entry["addr"]] = Block(entry["size"], entry.get("frames") or [])
            elif entry["action"] in ("free_requested", "free"):
                live.pop(entry["addr"], None)
        return list(live.values())

    def all_frames(self):
        for entry in self.entries:
            yield entry.get("frames") or []
        for block in self.older.values():
            yield block.frames

    def runs_backward(self):
        return any(runs_backward(frames) for frames in self.all_frames())


def heaps(snapshot):
    """Those of a snapshot's devices that hold or did something."""
    if not isinstance(snapshot, dict):  # a list of segments
        snapshot = {"segments": snapshot, "device_traces": []}
    devices = {segment.get("device", 0) for segment in snapshot["segments"]}
    devices |= {device for device, entries in enumerate(snapshot["device_traces"]) if entries}
    return [Heap(snapshot, device) for device in sorted(devices)]
