# SPDX-License-Identifier: Apache-2.0
"""Reports the allocations of CuPy's memory pool to memreel.

    import cupy_memory, cupy

    with cupy_memory.Recorded():       # or Recorded().__enter__() once, for the whole program
        a = cupy.zeros(1000)

Needs the Python package memreel. CuPy calls its hooks in the thread that uses them, so every thread
that allocates enters its own. What CuPy's pool gives back to the driver has no hook; the driver's own events show it.
"""
import cupy
import memreel


class Recorded(cupy.cuda.MemoryHook):
    name = "memreel"
    _pools = {}

    def _pool(self, device):
        if device not in self._pools:
            self._pools[device] = memreel.pool(f"cupy.{device}", "caching", device=device)
        return self._pools[device]

    def alloc_postprocess(self, **call):
        """The pool got memory from the driver."""
        if call["mem_ptr"]:
            self._pool(call["device_id"]).segment_add(call["mem_ptr"], call["mem_size"])

    def malloc_postprocess(self, **call):
        """The pool handed out memory: `size` as requested, `mem_size` after rounding."""
        if call["mem_ptr"]:
            stream = cupy.cuda.get_current_stream(call["device_id"]).ptr
            self._pool(call["device_id"]).alloc(call["mem_ptr"], call["size"], stream)
        else:
            self._pool(call["device_id"]).oom(call["size"])

    def free_preprocess(self, **call):
        """Called before the memory can be handed out again."""
        self._pool(call["device_id"]).free(call["mem_ptr"])
