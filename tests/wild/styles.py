# SPDX-License-Identifier: Apache-2.0
"""Makes small snapshots in the styles in which people record PyTorch: C++ and Python frames interleaved, begun late, one
step, a full ring, one instant, several devices.

A Device places what a program allocates in segments, first fit, and keeps entries once it records."""

MIB = 1 << 20
BASE = 0x7F00_0000_0000
SEGMENT = 2 * MIB  # sizes of segments are multiples of it
TIME = 1_700_000_000_000_000


def frame(name, filename="??", line=0):
    return {"name": name, "filename": filename, "line": line}


UNWINDER = [frame("torch::unwind::unwind()"), frame("torch::CapturedTraceback::gather(bool, bool, bool)"),
            frame("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"),
            frame("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)",
                  "CUDACachingAllocator.cpp")]
START = [frame("PyEval_EvalCode", "/usr/local/src/conda/python-3.12.3/Python/ceval.c", 578),
         frame("Py_BytesMain", "/usr/local/src/conda/python-3.12.3/Modules/main.c", 768),
         frame("__libc_start_call_main", "./csu/../sysdeps/nptl/libc_start_call_main.h", 58), frame("_start")]
CALL = [frame("_PyEval_EvalFrame", "/usr/local/src/conda/python-3.12.3/Include/internal/pycore_ceval.h", 89),
        frame("slot_tp_call", "/usr/local/src/conda/python-3.12.3/Objects/typeobject.c", 8770)]
MODULE = "/usr/lib/python3.12/site-packages/torch/nn/modules/module.py"


def interleaved(operator, *python):
    """`operator`: "bmm"; `python`: (function, file, line), innermost first."""
    frames = UNWINDER + [frame(f"at::(anonymous namespace)::wrapper_CUDA_{operator}(at::Tensor const&)", "RegisterCUDA_0.cpp"),
                         frame(f"at::_ops::{operator}::call(at::Tensor const&)"), frame("cfunction_call")]
    for name, file, line in python:
        frames += [frame(name, file, line), *CALL]
    return frames + START


def layer(number, operator="bmm", line=39):
    """In a forward pass."""
    return interleaved(operator, ("forward", "/home/user/model.py", line), ("_call_impl", MODULE, 1750),
                       ("_wrapped_call_impl", MODULE, 1739), ("forward", "/home/user/model.py", 100 + number),
                       ("_call_impl", MODULE, 1750), ("_wrapped_call_impl", MODULE, 1739), ("<module>", "/home/user/train.py", 20))


def backward(node):
    """In autograd's thread, which runs no Python."""
    return UNWINDER + [frame("at::_ops::bmm::redispatch(c10::DispatchKeySet, at::Tensor const&, at::Tensor const&)"),
                       frame(f"torch::autograd::generated::{node}::apply(std::vector<at::Tensor>&&)", "Functions.cpp"),
                       frame("torch::autograd::Node::operator()(std::vector<at::Tensor>&&)", "function.cpp"),
                       frame("torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"),
                       frame("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"),
                       frame("start_thread", "./nptl/pthread_create.c", 447), frame("clone3")]


class Device:
    def __init__(self, number=0):
        self.number = number
        self.entries = []
        self.segments = []  # [address, size, {offset: (size, requested, frames)}]
        self.recording = False
        self.time = 0

    def record(self):
        self.recording = True

    def _add(self, action, address, size, frames):
        self.time += 10
        if self.recording:
            self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": TIME + self.time,
                                 "frames": frames})

    def reserve(self, size, frames=()):
        address = BASE + (self.number << 40) + sum(each[1] for each in self.segments)
        self.segments.append((address, size, {}))
        self._add("segment_alloc", address, size, list(frames))
        return self.segments[-1]

    def alloc(self, requested, frames=()):
        size = -(-requested // 512) * 512
        for segment in self.segments:
            address, total, blocks = segment
            begin = 0
            for offset in sorted(blocks):
                if offset - begin >= size:
                    break
                begin = offset + blocks[offset][0]
            if total - begin >= size:
                break
        else:
            segment, begin = self.reserve(-(-size // SEGMENT) * SEGMENT, frames), 0
            address, _, blocks = segment
        blocks[begin] = (size, requested, list(frames) if self.recording else [])
        self._add("alloc", address + begin, requested, list(frames))
        return address + begin

    def free(self, address, frames=()):
        for begin, total, blocks in self.segments:
            if begin <= address < begin + total:
                requested = blocks.pop(address - begin)[1]
        for action in ("free_requested", "free_completed"):
            self._add(action, address, requested, list(frames))

    def fail(self, requested, free, frames=()):
        self._add("oom", free, requested, list(frames))

    def state(self):
        def blocks_of(address, total, blocks):
            begin = 0
            for offset in [*sorted(blocks), total]:
                if offset > begin:
                    yield {"address": address + begin, "size": offset - begin, "requested_size": 0, "state": "inactive", "frames": []}
                if offset < total:
                    size, requested, frames = blocks[offset]
                    yield {"address": address + offset, "size": size, "requested_size": requested, "state": "active_allocated",
                           "frames": frames}
                    begin = offset + size

        for address, total, blocks in self.segments:
            active = sum(block[0] for block in blocks.values())
            yield {"device": self.number, "address": address, "total_size": total, "allocated_size": active, "active_size": active,
                   "requested_size": sum(block[1] for block in blocks.values()), "stream": 0, "segment_type": "large",
                   "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                   "blocks": list(blocks_of(address, total, blocks))}


def snapshot(*devices):
    return {"segments": [segment for device in devices for segment in device.state()],
            "device_traces": [device.entries for device in devices],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                                   "expandable_segments": False, "roundup_power2_divisions": {}},
            "external_annotations": []}


def model(device, layers=8, size=8 * MIB):
    """Parameters, made before or while recording."""
    made_at = interleaved("empty_memory_format", ("__init__", "/home/user/model.py", 12), ("<module>", "/home/user/train.py", 9))
    return [device.alloc(size, made_at) for _ in range(layers)]


def forward(device, layers=8, size=2 * MIB):
    """The activations that a forward pass leaves for the backward pass."""
    return [device.alloc(size, layer(number)) for number in range(layers)]
