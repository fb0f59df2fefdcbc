// SPDX-License-Identifier: Apache-2.0
// Texts of rendering, simulation, and the coding of images and video.

#include <array>

#include "analyzer/analysis/explain/failure.h"

namespace memreel::explain {
namespace {

void drjit_rule(Failure& failure) {
  if (failure.words["space"].starts_with("host")) return judge_as_the_hosts(failure);
  judge_by_figures(failure);
}

constexpr std::string_view direct3d = "DirectML, Direct3D";

const std::array texts_of_graphics{
    Grammar{.name = "dml.tensor",
            .framework = direct3d,
            .key = "notenoughgpuvideomemory",
            .head = R"(Could not allocate tensor with {requested}\. There is not enough GPU video memory)",
            .example = "RuntimeError: Could not allocate tensor with 377487360 bytes. There is not enough GPU video "
                       "memory available!",
            .meaning = "One tensor did not fit into the video memory; what that had is not in the text.",
            .printed_by = "torch-directml",
            .rule = judge_by_figures,
            .extent = 200},
    Grammar{.name = "dml.result",
            .framework = direct3d,
            .key = "8007000e",
            .head = R"((?:dml|d3d1[12]|dxgi|DirectML)[^\n]{0,200}8007000E)",
            .example =
                "d3d12: CreateCommittedResource 'Texture' (1920 x 1080) failed (8007000e). Local Budget: 5223 MB, "
                "CurrentUsage: 5183 MB",
            .meaning = "E_OUTOFMEMORY: a buffer or texture did not fit into the budget that Windows gives the program.",
            .printed_by = "Direct3D 12, ONNX Runtime's DirectML provider, Unity",
            .clauses = {R"(Local [^\n]{0,60}Budget: {capacity}, CurrentUsage: {used})"},
            .rule = judge_by_figures,
            .vague = true,
            .extent = 600},
    Grammar{.name = "wgpu.error",
            .framework = "wgpu",
            .key = "outofmemory",
            .head = R"(wgpu error\W{1,3}Out of Memory)",
            .example = "wgpu error: Out of Memory",
            .meaning = "The driver refused a buffer or texture; no figures.",
            .printed_by = "wgpu-core",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "unreal.rendering",
            .framework = "Unreal Engine",
            .key = "outofvideomemory",
            .head = R"(Out of video memory trying to allocate)",
            .example = "Fatal: Out of video memory trying to allocate a rendering resource.",
            .meaning = "A texture or buffer did not fit; no figures.",
            .printed_by = "D3D12RHI, VulkanRHI",
            .rule = judge_by_figures,
            .extent = 100},
    Grammar{.name = "nvenc.session",
            .framework = "NVENC",
            .releases = "FFmpeg, OBS",
            .key = "openencodesessionex",
            .head = R"(OpenEncodeSessionEx(?:\W{1,4}failed)?\W{1,4}(?:out of memory|10\b))",
            .example = "[h264_nvenc] OpenEncodeSessionEx failed: out of memory (10)",
            .meaning =
                "The device is full, or more sessions are open than the driver allows on this card: the text does "
                "not say which.",
            .printed_by = "libavcodec/nvenc.c",
            .rule = judge_by_figures,
            .extent = 300},
    Grammar{.name = "optix.exception",
            .framework = "OptiX",
            .key = "outofmemory",
            .head = R"(Encountered a CUDA error[^\n]{0,120}returned \(2\) : Out of memory)",
            .example = "optix::Exception: Memory allocation failed: Encountered a CUDA error: "
                       "CuDevicePrimaryCtxRetain() returned (2): Out of memory",
            .meaning = "The driver refused; no figures.",
            .printed_by = "OptiX, until 6",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 200},
    Grammar{.name = "physx.allocator",
            .framework = "PhysX",
            .key = "failtoallocatememory",
            .head = R"(Pxg\w{1,60} fail to allocate memory {requested})",
            .example = "PxgCudaDeviceMemoryAllocator fail to allocate memory 100663296 bytes!! Result = 2",
            .meaning = "One buffer of the simulation did not fit; what the device had is not in the text.",
            .printed_by = "PhysX, Isaac Sim",
            .rule = judge_by_figures,
            .extent = 200},
    Grammar{.name = "opencv.gpu",
            .framework = "OpenCV",
            .key = "gpuapicall",
            .head = R"(Gpu API call\W{1,4}out of memory)",
            .example = "error: (-217:Gpu API call) out of memory in function 'allocate'",
            .meaning = "The driver refused; no figures.",
            .printed_by = "modules/core/src/cuda/gpu_mat.cu of OpenCV",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "drjit.malloc",
            .framework = "Dr.Jit",
            .key = "couldnotallocate",
            .head = R"(jit_malloc\(\) : out of memory! Could not allocate {requested} of {space:[\w-]+} memory)",
            .example = "jit_malloc(): out of memory! Could not allocate 536870912 bytes of device memory.",
            .meaning = "One array did not fit, even after Dr.Jit gave back what it had cached.",
            .printed_by = "drjit-core/src/malloc.cpp",
            .rule = drjit_rule,
            .extent = 200},
};

}  // namespace

std::span<const Grammar> graphics_texts() { return texts_of_graphics; }

}  // namespace memreel::explain
