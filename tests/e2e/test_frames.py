# SPDX-License-Identifier: Apache-2.0
"""What reports say of a snapshot does not depend on how its stacks were recorded: PyTorch's default has C++ and Python frames
interleaved, in the styles of interpreters and systems."""

import json
import pickle
import unittest

from program import ProgramTest
from snapshot import BASE, SMALL_SEGMENT, Recorder, block

MIB = 1 << 20
TORCH = "/opt/venv/lib/python3.11/site-packages/torch/"


def py(name, file, line):
    return {"name": name, "filename": file, "line": line}


def cpp(name, file="??", line=0):
    return {"name": name, "filename": file, "line": line}


RECORDER = [cpp("torch::unwind::unwind()"), cpp("torch::CapturedTraceback::gather(bool, bool, bool)"),
            cpp("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"),
            cpp("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(signed char, unsigned long, CUstream_st*)",
                "CUDACachingAllocator.cpp"),
            cpp("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)", ""),
            cpp("at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)")]


def operator(name):
    return [cpp(f"at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA_{name}(at::Tensor const&)", "RegisterCUDA.cpp"),
            cpp(f"at::_ops::{name}::redispatch(c10::DispatchKeySet, at::Tensor const&)"),
            cpp(f"at::_ops::{name}::call(at::Tensor const&)")]


THREAD = [cpp("torch::autograd::Node::operator()(std::vector<at::Tensor>&&)", ""),
          cpp("torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"),
          cpp("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"),
          cpp("execute_native_thread_routine", "thread48.o"), cpp("start_thread", "./nptl/pthread_create.c", 442), cpp("__clone")]

# Per interpreter: frames between two of Python, frames that start the program, and whether Python's outermost frames follow them
# (CPython 3.11 and newer run several in one evaluator; PyTorch appends the rest).
INTERPRETERS = {
    "python": None,
    "debian": ([cpp("_PyEval_EvalFrameDefault"), cpp("_PyObject_Call_Prepend"), cpp("slot_tp_call")],
               [cpp("Py_RunMain"), cpp("Py_BytesMain"), cpp("__libc_start_main"), cpp("_start")], True),
    "conda38": ([cpp("_PyEval_EvalFrameDefault", "/usr/local/src/conda/python-3.8.18/Python/ceval.c", 3500),
                 cpp("method_vectorcall", "/usr/local/src/conda/python-3.8.18/Objects/classobject.c", 60),
                 cpp("do_call_core", "/usr/local/src/conda/python-3.8.18/Python/ceval.c", 5010)],
                [cpp("pymain_run_python", "/usr/local/src/conda/python-3.8.18/Modules/main.c", 597),
                 cpp("__libc_start_main_impl", "../csu/libc-start.c", 392), cpp("_start")], False),
    "uv313": ([cpp("_PyEval_EvalFrameDefault", "/build/Python/generated_cases.c.h", 813),
               cpp("method_vectorcall.llvm.10362965574131577162")],
              [cpp("pymain_main.llvm.4360704852277135573"), cpp("main"), cpp("__libc_start_call_main", "../sysdeps/nptl/libc_start_call_main.h", 58)],
              True),
}


def stack(python, native=(), interpreter="python"):
    """`python`, innermost first, below an operator's frames."""
    if INTERPRETERS[interpreter] is None:
        return list(python)
    between, starts, appended = INTERPRETERS[interpreter]
    frames = RECORDER + list(native)
    last = len(python) // 2 if appended else len(python)
    for frame in python[:last]:
        frames += [frame, *between]
    return frames + starts + list(python[last:])


class Style:
    """Where a program's files are."""

    def __init__(self, interpreter="python", own="/home/me/project/", packages="/opt/venv/lib/python3.11/site-packages/", wrap=None):
        self.interpreter, self.own, self.packages, self.wrap = interpreter, own, packages, wrap

    def path(self, folder, file):
        path = folder + file
        return path.replace("/", "\\") if "\\" in folder else path

    def frame(self, name, file, line):
        own = not file.startswith(("torch/", "accelerate/"))
        return py(name, self.path(self.own if own else self.packages, file), line)

    def module(self):
        between = [] if self.wrap is None else [self.frame(*self.wrap)]
        return [*between, self.frame("_call_impl", "torch/nn/modules/module.py", 1527),
                self.frame("_wrapped_call_impl", "torch/nn/modules/module.py", 1518)]

    def forward(self, line=30):
        return stack([self.frame("forward", "torch/nn/modules/linear.py", 114), *self.module(), self.frame("forward", "model.py", line),
                      *self.module(), self.frame("step", "train.py", 12), self.frame("<module>", "train.py", 40)],
                     operator("addmm"), self.interpreter)

    def parameters(self):
        return stack([self.frame("<lambda>", "torch/nn/modules/module.py", 911), self.frame("_apply", "torch/nn/modules/module.py", 820),
                      self.frame("cuda", "torch/nn/modules/module.py", 911), self.frame("<module>", "train.py", 35)],
                     operator("_to_copy"), self.interpreter)

    def backward(self):
        if self.interpreter == "python":
            return []
        node = "torch::autograd::generated::BmmBackward0"
        return RECORDER + operator("bmm") + [cpp(f"{node}::apply(std::vector<at::Tensor>&&)")] + THREAD


def document(style, with_backward=True):
    """Parameters, then a forward pass of eight layers and, if asked, a backward pass."""
    recorder = Recorder()
    blocks, end = [], BASE
    recorder.add("segment_alloc", BASE, 128 * MIB)

    def alloc(size, frames):
        nonlocal end
        recorder.add("alloc", end, size)
        recorder.entries[-1]["frames"] = frames
        blocks.append([end, size, frames, "active_allocated"])
        end += size
        return blocks[-1]

    def free(one, frames):
        recorder.free(one[0], one[1])
        for entry in recorder.entries[-2:]:
            entry["frames"] = frames
        one[3] = "inactive"

    for _ in range(8):
        alloc(3 * MIB, style.parameters())
    activations = [alloc(4 * MIB, style.forward(30 + layer)) for layer in range(8)]
    if with_backward:
        for activation in reversed(activations):
            alloc(3 * MIB, style.backward())
            free(activation, style.backward())
    listed = [block(address, size, size if state == "active_allocated" else 0, state) for address, size, _, state in blocks]
    listed.append(block(end, BASE + 128 * MIB - end, 0, "inactive"))
    live = sum(b["size"] for b in listed if b["state"] == "active_allocated")
    segment = {"device": 0, "address": BASE, "total_size": 128 * MIB, "allocated_size": live, "active_size": live,
               "requested_size": live, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
               "frames": [], "blocks": listed}
    return {"segments": [segment], "device_traces": [recorder.entries], "allocator_settings": {}}


class Frames(ProgramTest):
    def snapshot(self, style, **how):
        return self.file("snapshot.pickle", pickle.dumps(document(style, **how)))

    def assert_names_program(self, text):
        for noise in ("??", "unwind", "CachingAllocator", "_PyEval", "vectorcall", "RegisterCUDA", "ceval", "_start"):
            self.assertNotIn(noise, text)

    def lines(self, path):
        return [(group["label"], group["bytes"]) for group in
                self.document("report", path, "--by", "line")["live_at_peak"][0]["groups"]]

    STYLES = {
        "python": Style(),
        "debian": Style("debian"),
        "conda": Style("conda38"),
        "uv": Style("uv313", packages="/home/me/project/.venv/lib/python3.13/site-packages/"),
        "accelerate": Style("conda38", wrap=("new_forward", "accelerate/hooks.py", 166)),
        "windows": Style(own="C:\\work\\project\\", packages="C:\\work\\env\\Lib\\site-packages\\"),
    }

    def test_forward_pass_alone(self):
        expected = None
        for name, style in self.STYLES.items():
            with self.subTest(name):
                path = self.snapshot(style, with_backward=False)
                text = self.answer("report", path).stdout
                self.assert_names_program(text)
                self.assertNotIn("backward", text)
                self.assertNotIn("gradient", text)
                said = self.lines(path)
                expected = expected or said
                self.assertEqual(said, expected)
                self.assertTrue(all(label.startswith(("train.py:35", "model.py:3")) for label, _ in said), said)

    def test_phases_and_layers(self):
        expected = None
        for name, style in self.STYLES.items():
            with self.subTest(name):
                path = self.snapshot(style)
                said = [[(group["label"], group["bytes"]) for group in
                         self.document("report", path, "--by", by)["live_at_peak"][0]["groups"]]
                        for by in ("phase", "category", "layer")]
                expected = expected or said
                self.assertEqual(said, expected)

    def test_backward_pass_is_named_by_its_node(self):
        path = self.snapshot(self.STYLES["debian"])
        self.assertIn(("backward of bmm (BmmBackward0)", 3 * MIB), self.lines(path))
        self.assertIn(("backward of bmm (BmmBackward0)", 3 * MIB),
                      [(group["label"], group["bytes"]) for group in
                       self.document("report", path, "--by", "stack")["live_at_peak"][0]["groups"]])

    def test_all_frames_are_shown_on_request(self):
        path = self.snapshot(self.STYLES["debian"])
        self.assert_names_program(self.answer("report", path, "--by", "stack").stdout)
        self.assertIn("_PyEval_EvalFrameDefault", self.answer("report", path, "--by", "stack", "--all-frames").stdout)

    def test_export_for_pytorch_keeps_all_frames(self):
        style = self.STYLES["conda"]
        output = self.directory / "again.pickle"
        self.answer("export", "--format", "torch", self.snapshot(style), "-o", output)
        entries = [entry for entry in pickle.loads(output.read_bytes())["device_traces"][0] if entry["action"] == "alloc"]
        self.assertEqual([frame["name"] for frame in entries[-1]["frames"]], [frame["name"] for frame in style.backward()])

    def test_notebook(self):
        cell = "/tmp/ipykernel_71/1784485557.py"
        kernel = [py(f"frame_{i}", f"/usr/lib/python3.10/site-packages/ipykernel/kernelbase.py", i) for i in range(1, 70)]
        style = Style("conda38")
        style.forward = lambda line=30: stack(
            [py("forward", TORCH + "nn/modules/linear.py", 114), py("_call_impl", TORCH + "nn/modules/module.py", 1527),
             py("<module>", cell, 21), *kernel, py("_run_code", "/usr/lib/python3.10/runpy.py", 86)], operator("addmm"), "conda38")
        path = self.snapshot(style, with_backward=False)
        self.assertIn(("<notebook cell 1784485557>:21", 32 * MIB), self.lines(path))
        page = self.answer("report", path, "--format", "html").stdout
        self.assertIn("&lt;notebook cell 1784485557&gt;:21", page[page.index("class=flame"):])

    def test_generated_code_names_its_caller_and_the_region(self):
        generated = "/tmp/torchinductor_me/xl/cxlfggreihdc7igjszimu4qy53wgjmtr5a74xbkv4kfftdkix7f5.py"
        style = Style("debian")
        style.forward = lambda line=30: stack(
            [py("call", generated, 100 + line), py("run", TORCH + "_inductor/utils.py", 2476), py("_fn", TORCH + "_dynamo/eval_frame.py", 655),
             py("step", "/home/me/project/train.py", 12), py("<module>", "/home/me/project/train.py", 40)], operator("empty"), "debian")
        self.assertIn(("train.py:12, compiled cxlfggre", 32 * MIB), self.lines(self.snapshot(style, with_backward=False)))

    def test_rows_of_tables_are_one_line(self):
        style = Style(own="/home/me/" + "a_long_name_of_a_folder/" * 4 + "project/")
        text = self.answer("report", self.snapshot(style)).stdout
        for line in text.splitlines():
            self.assertNotIn("a_long_name_of_a_folder", line)
            self.assertLessEqual(len(line), 80)

    def test_baseline_attributes_growth_to_the_program(self):
        baseline = self.directory / "baseline.json"
        path = self.snapshot(self.STYLES["debian"], with_backward=False)
        self.answer("check", path, "--write-baseline", baseline)
        sites = json.dumps(json.loads(baseline.read_text()))
        self.assert_names_program(sites)
        self.assertIn("model.py", sites)


if __name__ == "__main__":
    unittest.main()
