# SPDX-License-Identifier: Apache-2.0
"""A program to attach to, with PyTorch's allocator as it is for requests of 10 MiB and more: torch_attached.py LIBC10_CUDA [busy]

Segments are rounded up to 2 MiB; the smallest free block of the pool and stream serves, at the lowest address; more than
1 MiB that is left of it is split off; free neighbours merge. No requested size is a multiple of 512, as rounded ones are.
`busy`: the allocator is used while it is asked what it holds.
"""
import ctypes
import random
import sys
import time
import types

torch = ctypes.CDLL(sys.argv[1])
torch.fake_malloc.restype = ctypes.c_void_p
torch.fake_malloc.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] * 4 + [ctypes.c_uint64]
torch.fake_free.argtypes = [ctypes.c_void_p, ctypes.c_int]
torch.fake_complete.argtypes = [ctypes.c_void_p]
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
MIB = 1 << 20
PLACES = [(0, 0), (0x77, 0), (0, 5)]  # streams and pools


class Block:
    def __init__(self, place, size, address=None):
        self.place, self.size, self.address, self.requested, self.state = place, size, address, 0, "inactive"


segments = []  # lists of blocks
asked = 0


def malloc(requested, place):
    size = -requested // 512 * -512
    fits = [(block.size, block.address, segment, block) for segment in segments for block in segment
            if block.state == "inactive" and block.place == place and block.size >= size]
    if fits:
        _, _, segment, block = min(fits, key=lambda fit: fit[:2])
    else:
        block = Block(place, -size // (2 * MIB) * (-2 * MIB))
        segment = [block]
        segments.append(segment)
    whole, address = block.size, block.address
    if whole - size > MIB:
        block.size = size
        rest = Block(place, whole - size)
        segment.insert(segment.index(block) + 1, rest)
    block.requested, block.state = requested, "active_allocated"
    block.address = torch.fake_malloc(address, requested, block.size, 0 if fits else whole, *place)
    if whole > block.size:
        rest.address = block.address + block.size
    return block


def complete(block):
    block.state = "inactive"
    segment = next(segment for segment in segments if block in segment)
    kept = []
    for each in segment:
        if kept and kept[-1].state == each.state == "inactive":
            kept[-1].size += each.size
        else:
            kept.append(each)
    segment[:] = kept


def free(block, pending=False):
    torch.fake_free(block.address, int(pending))
    if pending:
        block.state = "active_awaiting_free"
    else:
        complete(block)


def snapshot():
    global asked
    asked += 1
    found = [{"device": 0, "address": segment[0].address, "total_size": sum(block.size for block in segment),
              "stream": segment[0].place[0], "segment_pool_id": (0, segment[0].place[1]), "segment_type": "large",
              "is_expandable": False, "blocks": [{"size": block.size, "requested_size": block.requested, "state": block.state}
                                                 for block in segment]} for segment in segments]
    torch.fake_snapshot()
    if "busy" in sys.argv and asked % 3 != 0:
        live.append(malloc(21 * MIB + 100, PLACES[asked % 3]))  # what is told is no longer true
    return found


module = types.ModuleType("torch.cuda")
module.is_initialized = lambda: True
module.memory_snapshot = snapshot
sys.modules["torch.cuda"] = module
torch.fake_use_native_allocator()

rng = random.Random(3)
live, pending = [], []


def step():
    kind = rng.random()
    if len(live) < 4 or kind < 0.45 and len(live) < 12:
        live.append(malloc(rng.randrange(10 * MIB, 40 * MIB) | 1, rng.choice(PLACES)))
    elif kind < 0.8:
        free(live.pop(rng.randrange(len(live))))
    elif kind < 0.9 and len(pending) < 3:
        block = live.pop(rng.randrange(len(live)))
        free(block, pending=True)
        pending.append(block)
    elif pending:
        block = pending.pop(0)
        torch.fake_complete(block.address)
        complete(block)


for _ in range(200):
    step()
print("ready", flush=True)
while True:
    step()
    time.sleep(0.001)
