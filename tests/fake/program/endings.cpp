// SPDX-License-Identifier: Apache-2.0
// Modes that end in unusual ways, and modes that do unusual things to their own process.
#include <fcntl.h>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake/program/logged_calls.h"
#include "tests/fake/program/modes.h"

namespace fake_program {

/// Closes all files that it does not know, as programs do that become daemons, then opens its own.
int close_files(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  for (int file = 3; file < 4096; ++file) close(file);
  std::vector<int> own;
  for (std::uint64_t i = 0; i < n[1]; ++i)
    own.push_back(open(("own-" + std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < n[0]; ++i) {
      DevicePointer pointer = 0;
      must(cuMemAlloc_v2(&pointer, 512), "cuMemAlloc");
      must(cuMemFree_v2(pointer), "cuMemFree");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
  }
  int strange = 0;
  for (const int file : own) strange += lseek(file, 0, SEEK_END) == 0 ? 0 : 1;
  return strange == 0 ? 0 : 98;
}

/// Threads cancelled while they allocate: only at cancellation points, which driver calls are not.
int cancel(const Numbers& n) {
  fake::Context* const context = use_gpu();
  for (std::uint64_t t = 0; t < n[0]; ++t) {
    std::atomic<bool> leave = false;
    struct Work {
      fake::Context* context;
      std::atomic<bool>* leave;
    } work{context, &leave};
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void* argument) -> void* {
          const Work& its = *static_cast<Work*>(argument);
          cuCtxSetCurrent(its.context);
          for (DevicePointer pointer = 0; !*its.leave; cuMemFree_v2(pointer)) cuMemAlloc_v2(&pointer, 512);
          return nullptr;
        },
        &work);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pthread_cancel(thread);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    leave = true;
    void* result = nullptr;
    pthread_join(thread, &result);
    if (result != nullptr) return 98;
  }
  return 0;
}

/// Exits from a signal handler that may interrupt anything, including the call that initializes CUDA.
int exit_in_handler(const Numbers& n) {
  std::signal(SIGALRM, [](int) { std::exit(7); });
  const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = static_cast<suseconds_t>(n[0])}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  use_gpu();
  while (true) pause();
}

/// main() returns while other threads are inside calls.
int exit_inside(const Numbers& n) {
  fake::Context* const context = use_gpu();
  std::atomic<std::uint64_t> running{0};
  for (std::uint64_t t = 0; t < n[0]; ++t) {
    std::thread([&running, context, t] {
      cuCtxSetCurrent(context);
      ++running;
      // No ground truth: where each thread stops is random.
      for (DevicePointer pointer = 0;; cuMemFree_v2(pointer)) cuMemAlloc_v2(&pointer, 512 * (1 + t));
    }).detach();
  }
  while (running < n[0]) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  return 5;
}

int quick_exit(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  _exit(6);
}

int crash(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  std::raise(SIGSEGV);
  return 97;
}

int endless(const Numbers& n) {
  fake::Context* const context = use_gpu();
  for (std::uint64_t t = 1; t < n[0]; ++t) {
    std::thread([context, t] {
      cuCtxSetCurrent(context);
      churn(~0ULL, t);
    }).detach();
  }
  churn(~0ULL, 0);
  return 97;
}

namespace {

volatile std::sig_atomic_t caught = 0;

}  // namespace

/// Announces that it is ready, waits for a signal that it handles, and exits with its number.
int handle_signal(const Numbers&) {
  use_gpu();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, [](int s) { caught = s; });
  Block block;
  allocate(4096, block);
  std::puts("ready");
  std::fflush(stdout);
  while (caught == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  release(block);
  return caught;
}

/// The same without a handler.
int wait_for_signal(const Numbers&) {
  use_gpu();
  Block block;
  allocate(4096, block);
  std::puts("ready");
  std::fflush(stdout);
  while (true) pause();
}

int nothing(const Numbers& n) { return static_cast<int>(n[0]); }

}  // namespace fake_program
