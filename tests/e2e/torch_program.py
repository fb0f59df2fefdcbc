# SPDX-License-Identifier: Apache-2.0
"""A script that mimics PyTorch's allocator on the fake GPU: torch_program.py LIBC10_CUDA [fail].

The script decides as PyTorch would, with all requests above 10 MiB: each has a segment of its own, rounded up to 2 MiB,
and takes all of it when at most 1 MiB would be left.
"""
import ctypes
import sys
import time

torch = ctypes.CDLL(sys.argv[1])
torch.fake_malloc.restype = ctypes.c_void_p
torch.fake_malloc.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] * 4 + [ctypes.c_uint64]
torch.fake_free.argtypes = [ctypes.c_void_p, ctypes.c_int]
torch.fake_complete.argtypes = [ctypes.c_void_p]
torch.fake_release.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MIB = 1 << 20
STREAM, POOL = 0x77, 5

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
other = ctypes.c_uint64()
assert cuda.cuMemAlloc_v2(ctypes.byref(other), ctypes.c_size_t(3 * MIB)) == 0  # outside PyTorch

torch.fake_use_native_allocator()
time.sleep(0.5)  # as long as an import takes
a = torch.fake_malloc(None, 11 * MIB + 1000, 12 * MIB, 12 * MIB, 0, 0)
b = torch.fake_malloc(None, 13 * MIB + 1, 14 * MIB, 14 * MIB, STREAM, 0)
torch.fake_free(a, 0)
assert torch.fake_malloc(a, 11 * MIB + 7, 12 * MIB, 0, 0, 0) == a  # from the cache
torch.fake_free(b, 1)
c = torch.fake_malloc(None, 13 * MIB + 1, 14 * MIB, 14 * MIB, STREAM, 0)  # b is not completed
torch.fake_complete(b)
in_pool = torch.fake_malloc(None, 15 * MIB + 3, 16 * MIB, 16 * MIB, 0, POOL)


def empty_cache():
    torch.fake_release(b, 14 * MIB)


empty_cache()
torch.fake_free(c, 0)
if "fail" in sys.argv:
    torch.fake_fail.argtypes = [ctypes.c_size_t] * 2
    torch.fake_fail(4 << 40, 60 << 30)
print(a, b, c, in_pool)
