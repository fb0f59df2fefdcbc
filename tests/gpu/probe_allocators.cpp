// SPDX-License-Identifier: Apache-2.0
// Probes the GPU driver for the behavior of CUDA's own allocators, on which the models in analyzer/replay/policies are
// based.
//
//   probe_allocators script FILE             runs the commands of the file, one per line, and answers each (see Script)
//   probe_allocators record TRACE SPEC OUT   runs a trace with cuda.malloc or cuda.async{..} and writes a file for each
//                                            heap (OUT.0, OUT.1): for every request, the address that the driver gave
//                                            and the bytes reserved then, two 64-bit numbers
//   probe_allocators compare TRACE SPEC OUT  runs the model against what `record` wrote; needs no GPU
//   probe_allocators costs                   times every kind of call by size
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "analyzer/replay/device/gpu.h"
#include "analyzer/replay/device/real_pools.h"
#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/policies/cuda_async.h"
#include "analyzer/replay/policies/cuda_malloc.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/registry.h"
#include "formats/reader/trace_reader.h"
#include "tests/gpu/probe_script.h"

namespace memreel::gpu {
namespace {

int fail(const Error& error) {
  std::fprintf(stderr, "probe_allocators: error: %s\n", error.message().c_str());
  return 2;
}

double microseconds(auto&& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

/// Forwards everything to P and keeps the result of every request.
template <class P>
class Recording {
 public:
  explicit Recording(P& policy) : policy_(policy) {}

  bool allocate(std::uint32_t slot, Bytes size, std::uint32_t lane) {
    const bool served = policy_.allocate(slot, size, lane);
    rows_.push_back(served ? policy_.pointer_of(slot) : 0);
    rows_.push_back(policy_.use().reserved.count);
    return served;
  }
  void free(std::uint32_t slot, Bytes size) { policy_.free(slot, size); }
  void free_requested(std::uint32_t slot, Bytes size) { policy_.free_requested(slot, size); }
  void free_completed(std::uint32_t slot, Bytes size) { policy_.free_completed(slot, size); }
  void empty_cache() { policy_.empty_cache(); }
  const HeapUse& use() const { return policy_.use(); }
  Bytes largest_free() const { return policy_.largest_free(); }
  const DriverCalls& driver_calls() const { return policy_.driver_calls(); }
  const std::vector<std::uint64_t>& rows() const { return rows_; }

 private:
  P& policy_;
  std::vector<std::uint64_t> rows_;
};

template <class P>
int record(const Prepared& heap, Gpu& gpu, P& policy, const std::string& file) {
  Recording<P> recording(policy);
  const ReplayResult result = Replay<Recording<P>>(heap, recording, {}).run();
  if (gpu.error()) return fail(*gpu.error());
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(recording.rows().data()),
            static_cast<std::streamsize>(recording.rows().size() * sizeof(std::uint64_t)));
  std::cout << file << " live " << result.peak_live.count << " reserved " << result.peak_reserved.count << " end "
            << result.end_reserved.count << " failed " << result.failed_allocations << " seconds " << result.seconds;
  for (std::size_t i = 0; i < driver_call_kinds; ++i)
    if (const Tally& tally = gpu.tallies()[i]; tally.calls > 0)
      std::cout << ' ' << driver_call_names[i] << ' ' << tally.calls << ' ' << tally.seconds;
  std::cout << '\n';
  gpu.reset_tallies();
  return 0;
}

int record(Gpu& gpu, const std::string& trace_file, const std::string& spec_text, const std::string& out) {
  const auto trace = load(trace_file);
  if (!trace) return fail(trace.error());
  const auto specs = parse_policies(spec_text);
  if (!specs) return fail(specs.error());
  int device = 0;
  for (const Prepared& heap : prepare(*trace)) {
    const std::string file = out + "." + std::to_string(device++);
    int status = 0;
    if (specs->front().name == "cuda.malloc") {
      RealMalloc policy(heap, gpu, std::nullopt);
      status = record(heap, gpu, policy, file);
    } else {
      const auto bound = bind_policy(specs->front());
      if (!bound) return fail(bound.error());
      RealPool policy(heap, gpu, cuda_async_settings(bound->spec), std::nullopt);
      status = record(heap, gpu, policy, file);
    }
    if (status != 0) return status;
  }
  return 0;
}

template <class P, class Settings>
std::vector<std::uint64_t> rows_of_model(const Prepared& heap, const Settings& settings) {
  struct WithPointers : P {
    using P::P;
    DevicePointer pointer_of(std::uint32_t slot) const { return this->extent_of(slot).address.value; }
  };
  SimulatedDevice device({}, {});
  WithPointers policy(heap, settings, device);
  Recording<WithPointers> recording(policy);
  Replay<Recording<WithPointers>>(heap, recording, {}).run();
  return recording.rows();
}

int compare(const std::string& trace_file, const std::string& spec_text, const std::string& recorded) {
  const auto trace = load(trace_file);
  if (!trace) return fail(trace.error());
  const auto specs = parse_policies(spec_text);
  if (!specs) return fail(specs.error());
  const bool by_page = specs->front().name == "cuda.malloc";  // the driver may place its pages anywhere
  int device = 0;
  for (const Prepared& heap : prepare(*trace)) {
    const std::string file = recorded + "." + std::to_string(device++);
    std::vector<std::uint64_t> model;
    if (by_page) {
      model = rows_of_model<CudaMalloc>(heap, CudaMalloc::Settings{});
    } else {
      const auto bound = bind_policy(specs->front());
      if (!bound) return fail(bound.error());
      model = rows_of_model<CudaAsync>(heap, cuda_async_settings(bound->spec));
    }
    std::vector<std::uint64_t> real(model.size());
    std::ifstream(file, std::ios::binary)
        .read(reinterpret_cast<char*>(real.data()), static_cast<std::streamsize>(real.size() * sizeof(std::uint64_t)));
    std::size_t places = 0;
    std::size_t sizes = 0;
    std::optional<std::size_t> first;
    std::uint64_t real_peak = 0;
    std::uint64_t model_peak = 0;
    for (std::size_t i = 0; i < model.size(); i += 2) {
      const std::uint64_t base = real[0] - model[0];
      const std::uint64_t difference = real[i] - model[i] - base;
      const bool same_place = (by_page ? difference % CudaMalloc::page.count : difference) == 0;
      places += same_place ? 1U : 0U;
      sizes += real[i + 1] == model[i + 1] ? 1U : 0U;
      if (!first && (!same_place || real[i + 1] != model[i + 1])) first = i / 2;
      real_peak = std::max(real_peak, real[i + 1]);
      model_peak = std::max(model_peak, model[i + 1]);
    }
    std::printf("%s: %zu requests, placed alike %zu, reserved alike %zu, peak device %lu model %lu (%+.3f %%)",
                file.c_str(), model.size() / 2, places, sizes, real_peak, model_peak,
                100.0 * (static_cast<double>(model_peak) / static_cast<double>(real_peak) - 1));
    if (first) std::printf(", first difference at request %zu", *first);
    std::printf("\n");
  }
  return 0;
}

/// Median of the times of `count` calls.
class Times {
 public:
  void add(double value) { values_.push_back(value); }
  double median() {
    std::ranges::sort(values_);
    return values_.empty() ? 0 : values_[values_.size() / 2];
  }

 private:
  std::vector<double> values_;
};

void costs(Gpu& gpu) {
  const Driver& d = gpu.driver();
  constexpr std::uint64_t mib = 1U << 20U;
  std::printf("sync %.3f\n", [&] {
    Times times;
    for (int i = 0; i < 200; ++i) times.add(microseconds([&] { d->synchronize(); }));
    return times.median();
  }());
  std::printf("memory_info %.3f\n", [&] {
    Times times;
    for (int i = 0; i < 200; ++i) times.add(microseconds([&] { gpu.free_memory(); }));
    return times.median();
  }());
  for (const std::uint64_t size :
       std::vector<std::uint64_t>{512, 65536, 262144, mib / 2, mib, 2 * mib, 4 * mib, 8 * mib, 20 * mib, 32 * mib,
                                  64 * mib, 128 * mib, 256 * mib, 512 * mib, 1024 * mib, 4096 * mib}) {
    const int count = size >= 512 * mib ? 10 : 60;
    Times allocate, free, held, create, map, access, unmap, release;
    std::vector<DevicePointer> pointers;
    for (int i = 0; i < count; ++i) {
      DevicePointer pointer = 0;
      allocate.add(microseconds([&] { d->malloc(&pointer, size); }));
      free.add(microseconds([&] { d->free(pointer); }));
    }
    for (int i = 0; i < std::min(count, 20); ++i) {  // no frees in between: small ones find room in a page
      DevicePointer pointer = 0;
      held.add(microseconds([&] { d->malloc(&pointer, size); }));
      pointers.push_back(pointer);
    }
    Times held_free;
    for (const DevicePointer pointer : pointers) held_free.add(microseconds([&] { d->free(pointer); }));
    std::printf("malloc %lu alloc %.2f free %.2f held_alloc %.2f held_free %.2f\n", size, allocate.median(),
                free.median(), held.median(), held_free.median());
    if (size < 2 * mib) continue;
    DevicePointer address = 0;
    d->reserve_addresses(&address, size, 0, 0, 0);
    AllocationProperties properties;
    const Access rights;
    for (int i = 0; i < count; ++i) {
      AllocationHandle handle = 0;
      create.add(microseconds([&] { d->create(&handle, size, &properties, 0); }));
      map.add(microseconds([&] { d->map(address, size, 0, handle, 0); }));
      access.add(microseconds([&] { d->set_access(address, size, &rights, 1); }));
      unmap.add(microseconds([&] { d->unmap(address, size); }));
      release.add(microseconds([&] { d->release(handle); }));
    }
    d->free_addresses(address, size);
    std::printf("vmm %lu create %.2f map %.2f set_access %.2f unmap %.2f release %.2f\n", size, create.median(),
                map.median(), access.median(), unmap.median(), release.median());
  }
  StreamObject* const stream = gpu.create_stream();
  for (const std::uint64_t size :
       std::vector<std::uint64_t>{512, mib, 32 * mib, 64 * mib, 256 * mib, 1024 * mib, 4096 * mib}) {
    PoolObject* const pool = gpu.create_pool(std::nullopt, CudaAsyncSettings::never);
    Times first, give, warm, warm_free, trim;
    for (int i = 0; i < 20; ++i) {
      DevicePointer pointer = 0;
      first.add(microseconds([&] { d->malloc_async(&pointer, size, pool, stream); }));
      give.add(microseconds([&] { d->free_async(pointer, stream); }));
      for (int j = 0; j < 20; ++j) {
        warm.add(microseconds([&] { d->malloc_async(&pointer, size, pool, stream); }));
        warm_free.add(microseconds([&] { d->free_async(pointer, stream); }));
      }
      d->synchronize();
      trim.add(microseconds([&] { d->trim_pool(pool, 0); }));
    }
    std::printf("async %lu growing %.2f free %.2f warm %.2f warm_free %.2f trim %.2f\n", size, first.median(),
                give.median(), warm.median(), warm_free.median(), trim.median());
    d->destroy_pool(pool);
  }
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 4 && words[0] == "compare") return compare(words[1], words[2], words[3]);
  auto driver = Driver::load();
  if (!driver) return fail(driver.error());
  auto gpu = Gpu::open(*driver, 0);
  if (!gpu) return fail(gpu.error());
  if (words.size() == 2 && words[0] == "script") {
    std::ifstream file(words[1]);
    Script(**gpu).run(file);
    return 0;
  }
  if (words.size() == 4 && words[0] == "record") return record(**gpu, words[1], words[2], words[3]);
  if (words.size() == 1 && words[0] == "costs") {
    costs(**gpu);
    return 0;
  }
  return fail({.what = "usage: probe_allocators script FILE | record TRACE SPEC OUT | compare TRACE SPEC OUT | costs"});
}

}  // namespace
}  // namespace memreel::gpu

int main(int argc, char** argv) { return memreel::gpu::run({argv + 1, argv + argc}); }
