# SPDX-License-Identifier: Apache-2.0
"""PyTorch without its caching allocator: torch_backends.py KIND, where KIND is async, uncached, plugged or native.

Allocates 100 tensors and frees them. compare_backend.py compares the trace with the output.
"""
import json
import subprocess
import sys
import tempfile

import torch

PLUGGED = """
#include <cuda_runtime_api.h>
#include <sys/types.h>
extern "C" void* plugged_malloc(ssize_t size, int, cudaStream_t) { void* p = nullptr; cudaMalloc(&p, size); return p; }
extern "C" void plugged_free(void* p, ssize_t, int, cudaStream_t) { cudaFree(p); }
"""

if sys.argv[1] == "plugged":
    folder = tempfile.mkdtemp()
    with open(f"{folder}/plugged.cu", "w", encoding="utf-8") as file:
        file.write(PLUGGED)
    subprocess.run(["nvcc", "-shared", "-Xcompiler", "-fPIC", "--cudart", "shared", "-o", f"{folder}/plugged.so",
                    f"{folder}/plugged.cu"], check=True)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(f"{folder}/plugged.so", "plugged_malloc", "plugged_free")
    torch.cuda.memory.change_current_allocator(allocator)

said = []
for n in range(100):
    tensor = torch.empty((n + 1) * 100_000, dtype=torch.uint8, device="cuda")
    said.append([tensor.data_ptr(), (n + 1) * 100_000])
    del tensor
torch.cuda.synchronize()
print(json.dumps(said))
