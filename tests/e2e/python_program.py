# SPDX-License-Identifier: Apache-2.0
"""A Python program on the fake GPU that logs its stack at every event: python_program.py LIBC10_CUDA MODULE_DIR.

Prints a JSON list of [event, size, [[file, line, function], ... innermost first]].
"""
import ctypes
import json
import sys
import threading
import time

sys.path.insert(0, sys.argv[2])
import memreel

told = []
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
torch = ctypes.CDLL(sys.argv[1])


def here(event, size, frame):
    """Logs the event with its stack; the frames that make it come on top."""
    frames = []
    while frame:
        code = frame.f_code
        frames.append([code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name)])
        frame = frame.f_back
    told.append([event, size, frames])


def alloc(size):
    pointer = ctypes.c_uint64()
    here("driver", size, sys._getframe(1))
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer.value


total = 0


def tensor(address, size):
    global total
    total += size
    here("tensor", abs(size), sys._getframe(1))
    torch.fake_report(ctypes.c_void_p(address), ctypes.c_int64(size), ctypes.c_size_t(total), 1, 0)
    return size


class Model:
    def __call__(self, address):
        return self.forward(address)

    def forward(self, address):
        tensor(address, 512)
        yield from self.blocks(address)

    def blocks(self, address):
        for n in range(2):
            tensor(address + 4096 * (n + 1), 1024 * (n + 1))
            yield n


def worker():
    exec(compile("tensor(0x900000, 2048)", "<made up>", "exec"), globals())


def main():
    assert cuda.cuInit(0) == 0
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    alloc(1 << 20)
    for step in range(3):
        sorted(Model()(0x100000 * (step + 1)), key=lambda n: tensor(0x500000 + 0x10000 * step + n, 256))
        memreel.step()
    thread = threading.Thread(target=worker)
    thread.start()
    thread.join()
    with memreel.tag("evaluation"), memreel.pool("arena of the program", "arena", device=0) as pool:
        here("own", 100, sys._getframe())
        pool.alloc(0x700000, 100)
        pool.free(0x700000)
    tensor(0x100000, -512)
    torch.fake_out_of_memory(ctypes.c_int64(1 << 40), 0)
    print(json.dumps({"recording": memreel.recording(), "told": told}))


main()
