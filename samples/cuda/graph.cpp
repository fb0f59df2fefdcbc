// SPDX-License-Identifier: Apache-2.0
// Memory nodes of a CUDA graph: capturing an allocation allocates nothing, and the address is the same in every launch.
//
//   memreel record ./graph && memreel report memreel-*.reel
#include <cstdint>

#include "check.h"
#include "ground_truth.h"

namespace {

constexpr std::size_t mib = 1 << 20;

/// A temporary buffer and one that outlives the graph's launch.
struct Nodes {
  void* temporary = nullptr;
  void* result = nullptr;
};

Nodes capture(cudaStream_t stream, cudaGraph_t& graph) {
  Nodes nodes;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  check(cudaMallocAsync(&nodes.temporary, 24 * mib, stream), "cudaMallocAsync");
  truth::say("node", "graph", truth::number(nodes.temporary), 24 * mib);
  check(cudaMallocAsync(&nodes.result, 8 * mib, stream), "cudaMallocAsync");
  truth::say("node", "graph", truth::number(nodes.result), 8 * mib);
  truth::say("free_node", "graph", truth::number(nodes.temporary), 24 * mib);
  check(cudaFreeAsync(nodes.temporary, stream), "cudaFreeAsync");
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return nodes;
}

}  // namespace

int main() {
  cudaStream_t stream{};
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  void* weights = nullptr;
  check(cudaMalloc(&weights, 16 * mib), "cudaMalloc");
  truth::allocated("linear", weights, 16 * mib);

  cudaGraph_t graph{};
  cudaGraphExec_t exec{};
  const Nodes nodes = capture(stream, graph);
  check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  for (int launch = 0; launch < 3; ++launch) {
    check(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
    // The result belongs to the launcher, which frees it like any stream-ordered memory.
    check(cudaFreeAsync(nodes.result, stream), "cudaFreeAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  std::printf("three launches, each with 32 MiB at the same addresses\n");
  check(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  truth::freeing("linear", weights, 16 * mib);
  check(cudaFree(weights), "cudaFree");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}
