// SPDX-License-Identifier: Apache-2.0
// Frames as PyTorch's default recorder, memreel's own and pools' logs write them, on the systems that people use.
#include "formats/model/frame_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/model/stack_text.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using enum FrameKind;
using enum CodeOwner;
using ::testing::ElementsAre;

struct Case {
  std::string_view function, file;
  FrameKind kind;
  CodeOwner owner = library;
};

class KindOf : public ::testing::TestWithParam<Case> {};

TEST_P(KindOf, Frame) {
  const auto& [function, file, kind, owner] = GetParam();
  EXPECT_EQ(nature_of(function, file, "", false), (FrameNature{kind, owner})) << function << " " << file;
}

INSTANTIATE_TEST_SUITE_P(
    Python, KindOf,
    ::testing::Values(
        Case{"step", "/home/me/train.py", python, user}, Case{"step", "train.py", python, user},
        Case{"run", "/usr/local/bin/train", python, user}, Case{"<module>", "<string>", python, user},
        Case{"__init__", "<string>", python}, Case{"_run_code", "<frozen runpy>", python},
        Case{"<module>", "<stdin>", python, user}, Case{"<module>", "<ipython-input-3-5f2d>", python, user},
        Case{"f", "<eval_with_key>.12", python, generated},
        Case{"forward", "/home/me/.venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", python},
        Case{"forward", "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", python},
        Case{"forward", "/opt/pytorch/torch/nn/modules/linear.py", python},
        Case{"forward", "C:/projects/.venv/Lib/site-packages/torch/functional.py", python},
        Case{"run", "C:/Users/me/miniconda3/envs/x/lib/threading.py", python},
        Case{"step", "D:/lib/train.py", python, user}, Case{"<module>", "/home/me/bin/train.py", python, user},
        Case{"step", "/srv/app/python3.11/train.py", python, user},
        Case{"run", "/opt/py/lib/python3.12/runpy.py", python}, Case{"step", "/usr/src/app/train.py", python, user},
        Case{"step", "/build/train.py", python, user},
        Case{"call", "/tmp/torchinductor_me/xl/cxlfggreihdc7igjszimu4qy53wgjmtr5a74xbkv4kfftdkix7f5.py", python,
             generated},
        Case{"call", "/scratch/cache/xl/cxlfggreihdc7igjszimu4qy53wgjmtr5a74xbkv4kfftdkix7f5.py", python, generated}));

INSTANTIATE_TEST_SUITE_P(
    Interpreter, KindOf,
    ::testing::Values(Case{"_PyEval_EvalFrameDefault", "??", interpreter},
                      Case{"_PyEval_EvalFrameDefault", "/home/me/build-static/Python/bytecodes.c", interpreter},
                      Case{"_PyEval_EvalFrameDefault", "/usr/local/src/conda/python-3.8.18/Python/ceval.c",
                           interpreter},
                      Case{"do_call_core", "/usr/local/src/conda/python-3.12.7/Python/ceval.c", interpreter},
                      Case{"odd_name_of_a_helper", "/build/python3.11-x/Objects/call.c", interpreter},
                      Case{"PyObject_Call", "??", interpreter}, Case{"Py_RunMain", "main.c", interpreter},
                      Case{"method_vectorcall.llvm.18442652364721135083", "??", interpreter},
                      Case{"vectorcall_maybe.constprop.0", "", interpreter},
                      Case{"structseq_dealloc", "??", interpreter}, Case{"_start", "??", interpreter},
                      Case{"start_thread", "./nptl/pthread_create.c", interpreter},
                      Case{"__libc_start_main_impl", "/home/me/csu/libc-start.c", interpreter},
                      Case{"execute_native_thread_routine", "thread48.o", interpreter},
                      Case{"dynamo_eval_custom_code", "??", interpreter}));

INSTANTIATE_TEST_SUITE_P(
    PyTorch, KindOf,
    ::testing::Values(
        Case{"torch::unwind::unwind()", "??", allocator},
        Case{"torch::CapturedTraceback::gather(bool, bool, bool)", "??", allocator},
        Case{"torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp", allocator},
        Case{"c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(signed char, unsigned long, "
             "CUstream_st*)",
             "??", allocator},
        Case{"c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_<at::_ops::bmm::call>>"
             "::call(c10::OperatorKernel*)",
             "RegisterCUDA.cpp", dispatcher},
        Case{"at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA_bmm(at::Tensor const&)", "??", dispatcher},
        Case{"at::_ops::bmm::redispatch(c10::DispatchKeySet, at::Tensor const&)", "??", dispatcher},
        Case{"torch::autograd::THPVariable_linear(_object*, _object*, _object*)", "python_nn_functions.cpp",
             dispatcher},
        Case{"at::_ops::bmm::call(at::Tensor const&, at::Tensor const&)", "??", operation},
        Case{"torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)", "??", autograd_node},
        Case{"torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)", "??", autograd_node},
        Case{"torch::autograd::generated::BmmBackward0::release_variables()", "", native},
        Case{"torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", "??", native},
        // An allocator among the parameters does not make it one.
        Case{"at::detail::_empty_generic<long>(c10::ArrayRef<long>, c10::cuda::CUDACachingAllocator*)",
             "EmptyTensor.cpp", native}));

INSTANTIATE_TEST_SUITE_P(
    Others, KindOf,
    ::testing::Values(Case{"run_model", "/home/me/src/main.cu", native, user}, Case{"take", "pool.c", native, user},
                      Case{"call_function", "/home/me/src/Register.cpp", native, user},
                      Case{"MyCachingAllocator::malloc(unsigned long)", "/home/me/src/pool.cpp", native, user},
                      Case{"run_model", "/usr/src/app/main.cu", native, user},
                      Case{"read_block", "/usr/src/debug/zlib-1.2.11/inflate.c", native},
                      Case{"std::vector<int>::push_back(int)", "/usr/include/c++/12/bits/stl_vector.h", native},
                      Case{"ray::core::CoreWorker::ExecuteTask(ray::TaskSpecification const&)", "core_worker.cc",
                           native},
                      Case{preexisting_frame, "", unknown}, Case{"[backward of]", "", unknown}));

TEST(KindOfFrames, WhatStartsAProcessOfMultiprocessingIsNoUsers) {
  for (const bool is_process : {false, true}) {
    Tables tables;
    const auto string = [&](const char* text) {
      tables.strings.emplace_back(text);
      return StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)};
    };
    tables.frames.push_back({.function = string("<module>"), .file = string("<string>"), .line = 1});
    if (is_process)
      tables.frames.push_back(
          {.function = string("spawn_main"), .file = string("/usr/lib/python3.12/multiprocessing/spawn.py")});
    classify_frames(tables);
    EXPECT_EQ(tables.frames[1].owner, is_process ? library : user);
  }
}

TEST(KindOfFrames, TheScriptOfAPackagesCommandIsNoUsers) {
  Tables tables;
  const auto owner = [&](const char* function, const char* file, std::uint32_t line) {
    tables.strings.emplace_back(function);
    tables.strings.emplace_back(file);
    const auto last = static_cast<std::uint32_t>(tables.strings.size() - 1);
    tables.frames.push_back({.function = StringId{last - 1}, .file = StringId{last}, .line = line});
    classify_frames(tables, tables.frames.size() - 1);
    return tables.frames.back().owner;
  };
  EXPECT_EQ(owner("<module>", "/usr/local/bin/vllm", 8), library);
  EXPECT_EQ(owner("<module>", R"(C:\Python312\Scripts\vllm.exe\__main__.py)", 7), library);
  EXPECT_EQ(owner("<module>", "/home/me/bin/train", 41), user);
  EXPECT_EQ(owner("main", "/home/me/bin/train", 8), user);
  EXPECT_EQ(owner("<module>", "/home/me/bin/train.py", 8), user);
}

TEST(KindOfRecordedAddress, IsThatOfItsBinary) {
  const auto kind = [](std::string_view module) { return nature_of("", "", module, true); };
  EXPECT_EQ(kind("/usr/lib/x86_64-linux-gnu/libcuda.so.1"), (FrameNature{allocator, library}));
  EXPECT_EQ(kind("/x/site-packages/torch/lib/libc10_cuda.so"), (FrameNature{allocator, library}));
  EXPECT_EQ(kind("/usr/bin/python3.11"), (FrameNature{interpreter, library}));
  EXPECT_EQ(kind("/lib/x86_64-linux-gnu/libc.so.6"), (FrameNature{interpreter, library}));
  EXPECT_EQ(kind("/x/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so"), (FrameNature{native, library}));
  EXPECT_EQ(kind("/usr/lib/libnccl.so.2"), (FrameNature{native, library}));
  EXPECT_EQ(kind("/home/me/app"), (FrameNature{native, user}));
  EXPECT_EQ(kind(""), (FrameNature{native, library}));
}

TEST(NormalPath, OfWindowsAndNotebooks) {
  Tables tables;
  const auto path = [&](std::string_view file) {
    tables.strings.emplace_back(file);
    tables.frames.push_back({.file = StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)}});
    classify_frames(tables, tables.frames.size() - 1);
    return tables.strings.back();
  };
  EXPECT_EQ(path(R"(C:\projects\.venv\Lib\site-packages\torch\functional.py)"),
            "C:/projects/.venv/Lib/site-packages/torch/functional.py");
  EXPECT_EQ(path("/tmp/ipykernel_71/1784485557.py"), "<notebook cell 1784485557>");
  EXPECT_EQ(path(R"(C:\Users\me\AppData\Local\Temp\ipykernel_8\42.py)"), "<notebook cell 42>");
  EXPECT_EQ(tables.frames.back().owner, user);
  EXPECT_EQ(path(R"(/home/me/odd\name.py)"), R"(/home/me/odd\name.py)");
  EXPECT_EQ(path("/home/me/ipykernel_x/deep/a.py"), "/home/me/ipykernel_x/deep/a.py");
}

TEST(DisplayName, OfOperatorsAndNodes) {
  EXPECT_EQ(display_name(operation, "at::_ops::add__Tensor::call(at::Tensor&)"), "aten::add__Tensor");
  EXPECT_EQ(
      display_name(autograd_node, "torch::autograd::generated::LogSoftmaxBackward0::apply(std::vector<at::Tensor>&&)"),
      "backward of log_softmax (LogSoftmaxBackward0)");
  EXPECT_EQ(display_name(autograd_node, "torch::autograd::generated::ExpBackward0_apply_functional(int)"),
            "backward of exp (ExpBackward0)");
  EXPECT_EQ(display_name(autograd_node, "torch::autograd::AccumulateGrad::apply(int)"),
            "backward pass (AccumulateGrad)");
  EXPECT_EQ(display_name(python, "step"), "step");
}

TEST(PlainName, LeavesOutTypes) {
  EXPECT_EQ(plain_name("std::tuple<at::Tensor, at::Tensor> at::native::dropout_cuda<bool>(int)"),
            "at::native::dropout_cuda");
  EXPECT_EQ(plain_name("at::native::(anonymous namespace)::f(int)"), "at::native::(anonymous namespace)::f");
  EXPECT_EQ(plain_name("torch::autograd::Node::operator()(int)"), "torch::autograd::Node::operator()");
  EXPECT_EQ(plain_name("step"), "step");
}

TEST(HiddenFrames, LeaveEqualStacksEqual) {
  testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  // Before and since CPython 3.11: there, one evaluator runs several frames, and the rest follows "_start".
  build.alloc(
      origin, {1}, 1_KiB,
      build.stack({"torch::unwind::unwind()@??:0", "at::_ops::bmm::call(int)@??:0", "_PyEval_EvalFrameDefault@??:0",
                   "forward@/a/model.py:3", "_PyEval_EvalFrameDefault@??:0", "<module>@/a/train.py:9", "_start@??:0"}));
  build.alloc(
      origin, {2}, 1_KiB,
      build.stack({"torch::unwind::unwind()@??:0", "at::_ops::bmm::call(int)@??:0", "_PyEval_EvalFrameDefault@??:0",
                   "forward@/a/model.py:3", "_start@??:0", "<module>@/a/train.py:9"}));
  build.alloc(origin, {3}, 1_KiB, build.stack({"torch::unwind::unwind()@??:0", "_start@??:0"}));
  Trace& trace = build.trace();
  hide_frames(trace);
  std::vector<std::string> texts;
  for (const StackId stack : trace.events.stacks()) {
    std::string& text = texts.emplace_back();
    for (const FrameText& frame : frames_of(trace.tables, stack)) text += text_of(frame) + "; ";
  }
  const std::string shown = "aten::bmm; forward (/a/model.py:3); <module> (/a/train.py:9); ";
  EXPECT_THAT(texts, ElementsAre(shown, shown, "_start; "));
}

}  // namespace
}  // namespace memreel
