// SPDX-License-Identifier: Apache-2.0
// Periodically queries how much memory is used: on each device in total, including other processes and the driver
// itself, by memory pools, which hold more than they give out, and, more rarely, by the process itself on the host.
#pragma once

#include <pthread.h>

#include <atomic>
#include <map>
#include <tuple>

#include "collector/cuda/decoder.h"
#include "collector/recorder/recorder.h"
#include "collector/recorder/thread_ring.h"

namespace memreel::cuda {

/// What is sampled. Contexts and pools are the program's: none is ever created for sampling.
struct Sampled {
  KnownObjects contexts;
  KnownObjects pools;                      // those the program created
  std::atomic<std::uint64_t> ordered = 0;  // one bit per device on which stream-ordered memory was requested ...
  std::atomic<std::uint64_t> graphs = 0;   // ... or graphs got nodes that allocate
};

/// Has its own thread: the driver may make it wait for a thread of the program, which may in turn wait for the writing
/// thread.
class Sampler {
 public:
  Sampler(const Sampled& sampled, agent::Recorder* (*recorder)()) : sampled_(&sampled), recorder_(recorder) {}
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler() = default;

  /// Does nothing if `period` is 0 or the driver is absent.
  void begin(std::chrono::milliseconds period);

  /// After this, no query runs or starts. Stops waiting after a second.
  void end();

  /// In a forked child, where the thread does not exist.
  void forget();

  // While a thread is between these two calls, which destroys a context or a pool, no query runs. suspend() waits for a
  // running query; the caller holds no driver lock at that point.
  void suspend();
  void resume();

  /// The ends of calls that are under way will not be seen: resume() may come for those, or not.
  void forget_calls();

  /// There is something new to sample.
  void wake() { wakeup_.wake(); }

 private:
  struct Driver;
  void run();
  void ask();
  void ask_process();
  void ask_pool(const void* pool, std::uint64_t object, std::int16_t device);
  void ask_graphs(std::int16_t device);
  void emit(const agent::Record& sample);

  const Sampled* sampled_;
  agent::Recorder* (*recorder_)();
  const Driver* driver_ = nullptr;
  std::chrono::milliseconds period_{};
  pthread_t thread_{};
  bool running_ = false;
  std::atomic<bool> ending_ = false;
  agent::Wakeup wakeup_;
  std::atomic<std::uint64_t> suspended_ = 0;  // lower half: how many calls; upper: which set of calls is counted
  std::atomic<bool> asking_ = false;
  std::uint32_t until_process_ = 0;  // number of queries before the process is asked about again
  /// Used and free bytes, by what was sampled.
  std::map<std::tuple<agent::Space, std::uint64_t, std::int16_t>, std::pair<std::uint64_t, std::uint64_t>> last_;
};

}  // namespace memreel::cuda
