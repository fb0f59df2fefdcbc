# SPDX-License-Identifier: Apache-2.0
"""A model of fake modules on the fake GPU: modules_program.py DIRECTORY LIBC10_CUDA MODULE_DIR [named].

DIRECTORY has a torch/nn/modules/module.py. Prints a JSON list: for each tensor its size and the path of its module.
"""
import ctypes
import json
import sys

sys.path[:0] = [sys.argv[1], sys.argv[3]]
import memreel
from torch.nn.modules.module import Module

cuda = ctypes.CDLL("libcuda.so.1")
torch = ctypes.CDLL(sys.argv[2])
told = []
total = 0


def tensor(module, size):
    global total
    total += size
    told.append([size, module.path])
    address = 0x100000 + 0x10000 * len(told)
    torch.fake_report(ctypes.c_void_p(address), ctypes.c_int64(size), ctypes.c_size_t(total), 1, 0)


class Linear(Module):
    def forward(self, size):
        tensor(self, size)


class Mlp(Module):
    def __init__(self):
        super().__init__(up=Linear(), down=Linear())

    def forward(self, size):
        self.up(4 * size)
        self.down(size)
        tensor(self, 2 * size)


class Block(Module):
    def __init__(self):
        super().__init__(mlp=Mlp())

    def forward(self, size):
        self.mlp(size)


class Model(Module):
    def __init__(self):
        super().__init__(**{f"h{n}": Block() for n in range(3)})

    def forward(self, size):
        for part in self.parts.values():
            part(size)
        tensor(self, size)


def main():
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    model = Model()
    for path, module in model.named_modules():
        module.path = path or "Model"
    if "named" in sys.argv:
        memreel.name_modules(model)
    for step in range(3):
        model(512)
        memreel.step()
    print(json.dumps(told))


main()
