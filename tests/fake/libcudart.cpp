// SPDX-License-Identifier: Apache-2.0
// A fake libcudart.so: the runtime functions that the samples call, on top of the fake driver. The real one asks the
// driver for undocumented private tables, so it can't run on a fake driver.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "tests/fake/cuda_functions.h"
#include "tests/fake/cudart.h"

using fake::device, fake::Status, fake::noted, fake::use_context;

namespace {

thread_local Status last_error = fake::success;
thread_local int chosen_device = 0;

}  // namespace

namespace fake {

int current_device() { return chosen_device; }

void set_device(int number) {
  chosen_device = number;
  use_context();
}

void use_context() {
  static std::mutex mutex;
  static std::map<int, Context*> contexts;
  thread_local int current = -1;
  if (current == chosen_device) return;
  const std::lock_guard lock(mutex);
  cuInit(0);
  Context*& context = contexts[chosen_device];
  if (context == nullptr) cuDevicePrimaryCtxRetain(&context, chosen_device);
  cuCtxSetCurrent(context);
  current = chosen_device;
}

Status noted(Status status) {
  if (status != success) last_error = status;
  return status;
}

}  // namespace fake

extern "C" {

fake::Status cuMemPoolSetAttribute(fake::Pool* pool, fake::PoolAttribute attribute, void* value);
fake::Status cuMemPoolGetAttribute(fake::Pool* pool, fake::PoolAttribute attribute, void* value);

Status cudaMalloc(void** pointer, std::size_t size) {
  return use_context(), noted(cuMemAlloc_v2(device(pointer), size));
}
Status cudaFree(void* pointer) {
  use_context();
  return pointer == nullptr ? fake::success : noted(cuMemFree_v2(device(pointer)));
}
Status cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return use_context(), noted(cuMemGetInfo_v2(free, total));
}
Status cudaDeviceSynchronize() { return use_context(), noted(cuCtxSynchronize()); }
Status cudaGetLastError() {
  const Status status = last_error;
  last_error = fake::success;
  return status;
}
const char* cudaGetErrorString(Status status) { return status == fake::out_of_memory ? "out of memory" : "error"; }

Status cudaStreamCreate(fake::Stream** stream) { return use_context(), noted(cuStreamCreate(stream, 0)); }
Status cudaStreamDestroy(fake::Stream* stream) { return noted(cuStreamDestroy_v2(stream)); }
Status cudaStreamSynchronize(fake::Stream* stream) { return noted(cuStreamSynchronize(stream)); }
Status cudaStreamBeginCapture(fake::Stream* stream, int mode) { return noted(cuStreamBeginCapture_v2(stream, mode)); }
Status cudaStreamEndCapture(fake::Stream* stream, fake::Graph** graph) {
  return noted(cuStreamEndCapture(stream, graph));
}

Status cudaMallocAsync(void** pointer, std::size_t size, fake::Stream* stream) {
  return use_context(), noted(cuMemAllocAsync(device(pointer), size, stream));
}
Status cudaMallocFromPoolAsync(void** pointer, std::size_t size, fake::Pool* pool, fake::Stream* stream) {
  return use_context(), noted(cuMemAllocFromPoolAsync(device(pointer), size, pool, stream));
}
Status cudaFreeAsync(void* pointer, fake::Stream* stream) {
  return use_context(), noted(cuMemFreeAsync(device(pointer), stream));
}
Status cudaMemPoolCreate(fake::Pool** pool, const fake::PoolProperties* properties) {
  return use_context(), noted(cuMemPoolCreate(pool, properties));
}
Status cudaMemPoolDestroy(fake::Pool* pool) { return noted(cuMemPoolDestroy(pool)); }
Status cudaMemPoolSetAttribute(fake::Pool* pool, int attribute, void* value) {
  return noted(cuMemPoolSetAttribute(pool, static_cast<fake::PoolAttribute>(attribute), value));
}
Status cudaMemPoolGetAttribute(fake::Pool* pool, int attribute, void* value) {
  return noted(cuMemPoolGetAttribute(pool, static_cast<fake::PoolAttribute>(attribute), value));
}

Status cudaGraphInstantiate(fake::GraphExec** exec, fake::Graph* graph, unsigned long long flags) {
  return noted(cuGraphInstantiateWithFlags(exec, graph, flags));
}
Status cudaGraphLaunch(fake::GraphExec* exec, fake::Stream* stream) { return noted(cuGraphLaunch(exec, stream)); }
Status cudaGraphExecDestroy(fake::GraphExec* exec) { return noted(cuGraphExecDestroy(exec)); }
Status cudaGraphDestroy(fake::Graph* graph) { return noted(cuGraphDestroy(graph)); }
}
