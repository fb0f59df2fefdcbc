// Asks the driver now and then how much memory is used: of a device in all, which other processes and the driver itself
// take part in, and of its pools, which hold more than they give out.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "collector/cuda/known_objects.h"
#include "collector/recorder/recorder.h"
#include "collector/recorder/wakeup.h"

namespace memreel::cuda {

/// What the samples are of. Contexts and pools are the program's: none is ever created to ask.
struct Sampled {
  KnownObjects contexts;
  KnownObjects pools;                      // those that the program created
  std::atomic<std::uint64_t> ordered = 0;  // a bit for each device on which stream-ordered memory was asked for
};

/// A thread of its own: the driver may make it wait for a thread of the program, which may wait for the writing thread.
class Sampler {
 public:
  Sampler(const Sampled& sampled, agent::Recorder* (*recorder)()) : sampled_(&sampled), recorder_(recorder) {}
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler() = default;

  /// Does nothing when `period` is 0 or the driver is not there.
  void begin(std::chrono::milliseconds period);

  /// No question is asked of the driver any more, or is being asked. Gives up waiting after a second.
  void end();

  /// In a forked child: the thread is not there.
  void forget();

  // While a thread is between these two calls no question is asked: it destroys a context or a pool. The first waits
  // for a question that is being answered; the driver has no lock of the caller yet.
  void suspend();
  void resume() { suspended_.fetch_sub(1); }

  /// There is something new to ask about.
  void wake() { wakeup_.wake(); }

 private:
  struct Driver;
  void run();
  void ask();
  void ask_pool(const void* pool, std::uint64_t object, std::int16_t device);
  void emit(const agent::Record& sample);

  const Sampled* sampled_;
  agent::Recorder* (*recorder_)();
  const Driver* driver_ = nullptr;
  std::chrono::milliseconds period_{};
  pthread_t thread_{};
  bool running_ = false;
  std::atomic<bool> ending_ = false;
  agent::Wakeup wakeup_;
  std::atomic<int> suspended_ = 0;
  std::atomic<bool> asking_ = false;
  /// By what it is about: used and free.
  std::map<std::tuple<agent::Space, std::uint64_t, std::int16_t>, std::pair<std::uint64_t, std::uint64_t>> last_;
};

}  // namespace memreel::cuda
