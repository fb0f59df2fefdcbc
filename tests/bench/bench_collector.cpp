// SPDX-License-Identifier: Apache-2.0
// What a recorded call costs the program's thread: as with CUPTI, each thread calls at the start and end of an
// allocation and of its free: two events with four callbacks. Meanwhile another thread drains the rings.
//
// items_per_second counts events. The baseline, in the same run, is empty callbacks: CUPTI's own dispatch costs are
// added to both.
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "collector/cuda/watch.h"
#include "collector/trace/trace_builder.h"
#include "formats/writer/trace_writer.h"

namespace memreel::cuda {
namespace {

agent::Recorder* current = nullptr;  // NOLINT: where the watch records, as in the library

/// A recorder whose rings are drained as fast as possible and discarded.
class Drained {
 public:
  explicit Drained(std::uint32_t depth)
      : recorder_(
            std::make_unique<agent::Recorder>(agent::Options{.when_full = agent::WhenFull::block, .depth = depth})),
        thread_([this] {
          std::vector<agent::Record> batch;
          while (!ending_) {
            recorder_->wait(std::chrono::milliseconds(1));
            batch.clear();
            recorder_->drain(batch);
            benchmark::DoNotOptimize(batch.data());
          }
        }) {
    current = recorder_.get();
  }
  Drained(const Drained&) = delete;
  Drained& operator=(const Drained&) = delete;
  ~Drained() {
    ending_ = true;
    thread_.join();
    recorder_->close();
    current = nullptr;
    [[maybe_unused]] const auto* const left = recorder_.release();  // threads that own its rings may be ending
  }

 private:
  std::unique_ptr<agent::Recorder> recorder_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

Watch& watch() {
  static Watch there([] { return current; });
  return there;
}

/// An allocation and its free, each as two calls, at its start and end.
void pair_of_calls(Watch& watching, std::uint64_t& address) {
  static constexpr KnownObjects::Known context{.number = 1, .device = 0};
  const params::MemAllocAsync alloc{&address, 4096, nullptr};
  const CallSite allocating{.call = Call::cuMemAllocAsync, .parameters = &alloc, .context = context};
  watching.exit(allocating, success, watching.enter(allocating));
  const params::MemFreeAsync free{address, nullptr};
  const CallSite freeing{.call = Call::cuMemFreeAsync, .parameters = &free, .context = context};
  watching.exit(freeing, success, watching.enter(freeing));
}

// NOLINTNEXTLINE(misc-no-recursion)
[[gnu::noinline]] void below(unsigned depth, Watch& watching, std::uint64_t& address) {
  if (depth == 0)
    pair_of_calls(watching, address);
  else
    below(depth - 1, watching, address);
  asm volatile("");  // NOLINT(hicpp-no-assembler): no tail call
}

std::unique_ptr<Drained> drained;  // NOLINT: of the benchmark that runs

/// `depth`: the stack depth option; `calls`: below the benchmark's own frames. The counter shows the total frames per
/// stack.
template <unsigned depth, unsigned calls>
void recorded(benchmark::State& state) {
  std::uint64_t address = 0x10000 * (1 + static_cast<std::uint64_t>(state.thread_index()));
  for ([[maybe_unused]] auto _ : state) below(calls, watch(), address);
  state.SetItemsProcessed(2 * state.iterations());
  if (state.thread_index() != 0) return;
  double frames = depth == 0 ? 0 : calls;
  for (auto key = current->capture_stack(); key != stacks::StackKey::none; key = current->stacks()[key].caller)
    ++frames;
  state.counters["frames"] = frames;
}

void empty(benchmark::State& state) {
  void (*volatile callback)(const void*) = [](const void* data) { benchmark::DoNotOptimize(data); };
  for ([[maybe_unused]] auto _ : state)
    for (int i = 0; i < 4; ++i) callback(&state);
  state.SetItemsProcessed(2 * state.iterations());
}

/// What the writer thread does with records: events, a trace, compression; the output is discarded.
void written(benchmark::State& state) {
  struct Nowhere final : ByteSink {
    Result<void> write(std::span<const std::byte> bytes) override {
      benchmark::DoNotOptimize(bytes.data());
      return {};
    }
    Result<void> close() override { return {}; }
  };
  agent::Recorder recorder({.depth = 0});
  TraceWriter writer(std::make_unique<Nowhere>(), {});
  agent::TraceBuilder builder(recorder, writer);
  constexpr std::size_t count = 4096;
  std::vector<agent::Record> records(count);
  std::uint64_t sequence = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t i = 0; i < count; ++i)
      records[i] = {.sequence = ++sequence,
                    .time = static_cast<std::int64_t>(1000 * sequence),
                    .address = 0x10000 + 512 * ((i / 2) % 100),
                    .size = 512,
                    .thread = 7,
                    .kind = i % 2 == 0 ? agent::RecordKind::alloc : agent::RecordKind::free};
    builder.add(records);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
}

template <unsigned depth>
void begin(const benchmark::State&) {
  drained = std::make_unique<Drained>(depth);
}
void end(const benchmark::State&) { drained.reset(); }

BENCHMARK(empty);
BENCHMARK(recorded<0, 0>)->Name("no stack")->ThreadRange(1, 16)->UseRealTime()->Setup(begin<0>)->Teardown(end);
BENCHMARK(recorded<64, 0>)->Name("shallow stack")->UseRealTime()->Setup(begin<64>)->Teardown(end);
BENCHMARK(recorded<64, 10>)->Name("10 calls more")->UseRealTime()->Setup(begin<64>)->Teardown(end);
BENCHMARK(recorded<64, 20>)->Name("20 calls more")->ThreadRange(1, 16)->UseRealTime()->Setup(begin<64>)->Teardown(end);
BENCHMARK(written)->Name("the writing thread");

}  // namespace
}  // namespace memreel::cuda

BENCHMARK_MAIN();
