// SPDX-License-Identifier: Apache-2.0
// Programs that are recorded indefinitely, for tests of the flight recorder.
//
//   flight_program MODE [NUMBER...]
//
//   churn EVENTS EVERY STEPS   EVENTS allocations and frees; one in EVERY is kept on the line "leaks"; after each of
//                              STEPS equal parts it prints a line and waits for one on standard input, if it is open
//   epoch EVENTS               churn inside a tag that opens before the first event and stays open to the end
//   fail COUNT                 COUNT requests that can't be met, among others that can
//   retry                      a request that is refused, then succeeds after memory was freed: no failure
//   grow MIB STEPS             allocates MIB mebibytes STEPS times, and waits for a line on standard input after each
//   spike MIB EVENTS           allocates and frees MIB mebibytes once, then EVENTS small blocks
//   handler                    handles SIGUSR2 itself: exit code 7 on receiving it
//   children COUNT             a failing request, then COUNT children, all of which it waits for: any other process,
//                              signal or open file that it finds makes it exit with a message
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collector/include/memreel/memreel.h"
#include "tests/fake/cuda_functions.h"

namespace {

using fake::DevicePointer, fake::Status;
using Numbers = std::vector<std::uint64_t>;

constexpr std::size_t kib = 1U << 10U, mib = 1U << 20U, tib = std::size_t{1} << 40U;

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "flight_program: %s\n", what);
  std::_Exit(99);
}

DevicePointer allocate(std::size_t bytes) {
  DevicePointer pointer = 0;
  must(cuMemAlloc_v2(&pointer, bytes) == fake::success, "cuMemAlloc failed");
  return pointer;
}

void release(DevicePointer pointer) { must(cuMemFree_v2(pointer) == fake::success, "cuMemFree failed"); }

bool fails(std::size_t bytes) {
  DevicePointer pointer = 0;
  return cuMemAlloc_v2(&pointer, bytes) != fake::success;
}

/// Announces itself with `word` and waits for a line on standard input.
void pause_for_test(const std::string& word) {
  std::printf("%s\n", word.c_str());
  std::fflush(stdout);
  int read = 0;
  do read = std::getchar();
  while (read != EOF && read != '\n');
}

int churn(const Numbers& n) {
  const std::uint64_t events = n.at(0), every = n.at(1), steps = n.at(2);
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
  std::vector<DevicePointer> open;
  std::vector<DevicePointer> kept;
  std::uint64_t done = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (; done < events * (step + 1) / steps; ++done) {
      if (every != 0 && done % every == every / 2) {
        kept.push_back(allocate(64));  // leaks
      } else if (open.size() < 16 || (open.size() < 256 && random() % 2 == 0)) {
        open.push_back(allocate(1 + random() % (256 * kib)));
      } else {
        std::swap(open[random() % open.size()], open.back());
        release(open.back());
        open.pop_back();
      }
    }
    pause_for_test("step " + std::to_string(step));
  }
  return 0;
}

int epoch(const Numbers& n) {
  memreel_tag_push("epoch");
  churn({n.at(0), 0, 1});
  memreel_tag_pop("epoch");
  return 0;
}

int fail(const Numbers& n) {
  const DevicePointer some = allocate(64 * mib);
  for (std::uint64_t i = 0; i < n.at(0); ++i) {
    must(fails(tib), "a request of 1 TiB was met");
    release(allocate(4 * kib));
  }
  pause_for_test("failed");
  release(some);
  return 0;
}

int retry(const Numbers&) {
  for (int i = 0; i < 5; ++i) {
    std::vector<DevicePointer> all;
    DevicePointer pointer = 0;
    while (cuMemAlloc_v2(&pointer, 1024 * mib) == fake::success) all.push_back(pointer);
    release(all.back());
    all.back() = allocate(1024 * mib);
    for (const DevicePointer one : all) release(one);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  pause_for_test("served");
  return 0;
}

int grow(const Numbers& n) {
  for (std::uint64_t i = 0; i < n.at(1); ++i) {
    allocate(n.at(0) * mib);
    pause_for_test("grown");
  }
  return 0;
}

int spike(const Numbers& n) {
  release(allocate(n.at(0) * mib));
  for (std::uint64_t i = 0; i < n.at(1); ++i) release(allocate(kib + i % 512));
  return 0;
}

volatile std::sig_atomic_t caught = 0;
std::atomic<int> ended_children = 0;

int handler(const Numbers&) {
  std::signal(SIGUSR2, [](int) { caught = 1; });
  release(allocate(mib));
  pause_for_test("ready");
  return caught != 0 ? 7 : 1;
}

/// The file descriptors that the program itself would have open.
std::set<int> open_files() {
  std::set<int> files;
  DIR* const directory = ::opendir("/proc/self/fd");
  must(directory != nullptr, "no /proc");
  const int own = ::dirfd(directory);
  while (const dirent* const entry = ::readdir(directory))  // NOLINT(concurrency-mt-unsafe)
    if (const int file = std::atoi(entry->d_name); file != own && file < 100) files.insert(file);
  ::closedir(directory);
  return files;
}

int children(const Numbers& n) {
  release(allocate(mib));
  std::signal(SIGCHLD, [](int) { ++ended_children; });
  const std::set<int> files = open_files();
  must(fails(tib), "a request of 1 TiB was met");
  std::set<pid_t> own;
  for (std::uint64_t i = 0; i < n.at(0); ++i) {
    const pid_t child = ::fork();
    must(child >= 0, "can't fork");
    if (child == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ::_exit(3);
    }
    own.insert(child);
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, &status, 0)) < 0 && errno == EINTR) {
    }
    must(own.erase(ended) == 1, "somebody else's child");
    must(WIFEXITED(status) && WEXITSTATUS(status) == 3, "another exit code");
  }
  must(::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD, "a child that is not its own");
  must(ended_children == static_cast<int>(n.at(0)), "SIGCHLD of somebody else");
  must(open_files() == files, "files that it has not opened");
  pause_for_test("waited");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  Numbers numbers;
  for (int i = 2; i < argc; ++i) numbers.push_back(std::strtoull(argv[i], nullptr, 10));
  must(cuInit(0) == fake::success, "cuInit failed");
  fake::Context* context = nullptr;
  must(cuDevicePrimaryCtxRetain(&context, 0) == fake::success && cuCtxSetCurrent(context) == fake::success,
       "no context");
  if (mode == "churn") return churn(numbers);
  if (mode == "epoch") return epoch(numbers);
  if (mode == "fail") return fail(numbers);
  if (mode == "retry") return retry(numbers);
  if (mode == "grow") return grow(numbers);
  if (mode == "spike") return spike(numbers);
  if (mode == "handler") return handler(numbers);
  if (mode == "children") return children(numbers);
  return 2;
}
