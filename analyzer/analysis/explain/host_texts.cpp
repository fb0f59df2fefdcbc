// SPDX-License-Identifier: Apache-2.0
// Texts of the host's memory, also where others end a process for want of it.

#include <array>

#include "analyzer/analysis/explain/failure.h"

namespace memreel::explain {
namespace {

void node_rule(Failure& failure) {
  const Figures& figures = failure.figures;
  failure.kind = Kind::host_memory;
  failure.because = in_words(figures[Field::used].value_or(0)) + " of the node's " +
                    in_words(figures[Field::capacity].value_or(0)) + " were in use: Ray ended the task";
}

void killed_rule(Failure& failure) {
  failure.kind = Kind::host_memory;
  failure.because = "a worker was killed from outside: nearly always by the kernel, for want of the host's memory";
}

constexpr std::string_view kernel = "mm/oom_kill.c of Linux", ray = "Ray";

const std::array texts_of_hosts{
    Grammar{.name = "host.torch",
            .framework = "PyTorch",
            .releases = "any, on the processor",
            .key = "defaultcpuallocator",
            .head = R"(DefaultCPUAllocator: (?:can.t allocate|not enough) memory: you tried to allocate {requested})",
            .example = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 116813856768 bytes.",
            .meaning = "A tensor in the host's memory, not the GPU's.",
            .printed_by = "c10/core/impl/alloc_cpu.cpp",
            .rule = judge_as_the_hosts,
            .aside = true,
            .extent = 200},
    Grammar{.name = "host.numpy",
            .framework = "NumPy",
            .key = "foranarraywithshape",
            .head = R"(Unable to allocate {requested} for an array with shape)",
            .example = "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 29.8 GiB for an array with shape "
                       "(4000000000,)",
            .meaning = "An array in the host's memory, not the GPU's.",
            .printed_by = "numpy/_core/_exceptions.py",
            .rule = judge_as_the_hosts,
            .aside = true,
            .extent = 200},
    Grammar{.name = "host.oom_killer",
            .framework = "Linux",
            .key = "outofmemory:kill",
            .head = R"(out of memory: Kill(?:ed)? process \d+)",
            .example = "Out of memory: Killed process 4711 (python) total-vm:98765432kB, anon-rss:63456789kB",
            .meaning = "The kernel ended the process: the host's memory, or the container's limit of it.",
            .printed_by = kernel,
            .clauses = {R"(anon-rss: {live})"},
            .rule = judge_as_the_hosts,
            .aside = true,
            .extent = 300},
    Grammar{.name = "host.slurm",
            .framework = "Slurm",
            .key = "oom_killevent",
            .head = R"(Detected \d+ oom_kill event)",
            .example = "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been "
                       "OOM Killed.",
            .meaning = "The job's limit of host memory (--mem), not the GPU's.",
            .printed_by = "slurm/src/slurmd",
            .rule = judge_as_the_hosts,
            .aside = true,
            .extent = 200},
    Grammar{.name = "host.slurm_events",
            .framework = "Slurm",
            .releases = "until 22.05",
            .key = "oom-killevent",
            .head = R"(Detected \d+ oom-kill event)",
            .example = "slurmstepd: error: Detected 1 oom-kill event(s) in step 1234567.batch cgroup.",
            .meaning = "The job's limit of host memory (--mem), not the GPU's.",
            .printed_by = "slurm/src/slurmd",
            .rule = judge_as_the_hosts,
            .aside = true,
            .extent = 200},
    Grammar{.name = "host.workers",
            .framework = "PyTorch",
            .releases = "data loading",
            .key = "workersareoutofsharedmemory",
            .head = R"(dataloader.s workers are out of shared memory)",
            .example = "It is possible that dataloader's workers are out of shared memory. Please try to raise your "
                       "shared memory limit.",
            .meaning = "/dev/shm is full: in a container, give it more (--shm-size), not the GPU.",
            .printed_by = "torch/utils/data/_utils/signal_handling.py",
            .rule = judge_as_the_hosts,
            .aside = true,
            .extent = 200},
    Grammar{.name = "host.data_loader",
            .framework = "PyTorch",
            .releases = "data loading",
            .key = "iskilledbysignal:killed",
            .head = R"(DataLoader worker \(pid[^)\n]{0,80}\) is killed by signal: Killed)",
            .example = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
            .meaning = "Nearly always the kernel did it, for want of the host's memory: see dmesg.",
            .printed_by = "torch/utils/data/_utils/signal_handling.py",
            .rule = killed_rule,
            .aside = true,
            .extent = 200},
    Grammar{
        .name = "host.ray",
        .framework = ray,
        .key = "exceedsthememoryusagethreshold",
        .head =
            R"(Memory on the node \([^)\n]{0,120}\) where [^\n]{0,200} was {used} / {capacity} \([\d.]+\), which exceeds the memory usage threshold)",
        .example =
            "Memory on the node (IP: 10.0.0.2, ID: 8c5a14) where the task (name=load, pid=548, memory "
            "used=12.18GB) was running was 31.91GB / 33.28GB (0.958834), which exceeds the memory usage threshold "
            "of 0.95. Ray killed this worker",
        .meaning = "The node's memory, not the GPU's: Ray ends a task before the kernel ends any process.",
        .printed_by = "ray/src/ray/raylet/node_manager.cc",
        .rule = node_rule,
        .aside = true,
        .extent = 600},
    Grammar{.name = "host.ray_workers",
            .framework = ray,
            .key = "killedduetomemorypressure",
            .head = R"(\b[1-9]\d* Workers[^\n]{0,40} killed due to memory pressure)",
            .example = "4 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other "
                       "reasons at node",
            .meaning = "The node's memory, not the GPU's: Ray ends tasks before the kernel ends any process.",
            .printed_by = "ray/src/ray/raylet/node_manager.cc",
            .rule = judge_as_the_hosts,
            .aside = true,
            .extent = 200},
    Grammar{
        .name = "host.kubernetes",
        .framework = "Kubernetes, Docker",
        .key = "oomkilled",
        .head =
            R"(Reason\W{1,30}OOMKilled|\d/\d\s+OOMKilled|\bOOMKilled\b(?:["']?\s*[:=]\s*true\b| \(exit code|[,;.!]|\s*(?:\n|$)))",
        .example = "Last State: Terminated Reason: OOMKilled Exit Code: 137",
        .meaning = "The container's limit of the host's memory, not the GPU's.",
        .printed_by = "kubelet, docker inspect",
        .rule = judge_as_the_hosts,
        .aside = true,
        .extent = 200},
    Grammar{.name = "host.opencv",
            .framework = "OpenCV",
            .key = "failedtoallocate",
            .head = R"(Insufficient memory\W{1,4}Failed to allocate {requested})",
            .example =
                "cv2.error: OpenCV alloc.cpp: error: (-4:Insufficient memory) Failed to allocate 6291456 bytes in "
                "function 'OutOfMemoryError'",
            .meaning = "A matrix in the host's memory, not the GPU's.",
            .printed_by = "modules/core/src/alloc.cpp of OpenCV",
            .rule = judge_as_the_hosts,
            .aside = true,
            .extent = 200},
};

}  // namespace

std::span<const Grammar> host_texts() { return texts_of_hosts; }

}  // namespace memreel::explain
