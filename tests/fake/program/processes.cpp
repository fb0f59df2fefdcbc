// SPDX-License-Identifier: Apache-2.0
// Modes that start processes or exec another program.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake/program/logged_calls.h"
#include "tests/fake/program/modes.h"

namespace fake_program {

/// The child of a program that uses CUDA can't use it; it must run and exit as if it were not recorded.
int fork_late(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  const pid_t child = fork();
  if (child == 0) {
    DevicePointer pointer = 0;
    std::exit(cuMemAlloc_v2(&pointer, 512) == fake::success ? 98 : 0);
  }
  churn(n[0], 2);
  return wait_for(child);
}

/// Parent and child each use CUDA, starting after the fork.
int fork_early(const Numbers& n) {
  const pid_t child = fork();
  use_gpu();
  churn(n[0], child == 0 ? 1 : 2);
  return child == 0 ? 0 : wait_for(child);
}

/// Children forked at random moments that load a library: they must not wait on a lock held at the fork.
int fork_often(const Numbers& n) {
  use_gpu();
  // More libraries make each walk through the loader's list take longer.
  for (const char* const library : {"libm.so.6", "libresolv.so.2", "librt.so.1", "libutil.so.1", "libanl.so.1"})
    dlopen(library, RTLD_NOW);
  int worst = 0;
  for (std::uint64_t i = 0; i < n[0]; ++i) {
    churn(2, i);
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(dlopen("libnone.so.1", RTLD_NOW) == nullptr && cuInit(0) != fake::success ? 0 : 98);
    }
    worst = std::max(worst, wait_for(child));
    if (worst != 0) break;
  }
  return worst;
}

int exec(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  // exec gives no notice: events of the last 100 ms may be missing from the trace.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const std::string count = std::to_string(n[0]);
  execl("/proc/self/exe", "fake_program", "single", count.c_str(), nullptr);
  return 97;
}

int spawn(const Numbers& n) {
  if (n[2] != 0) use_gpu();
  std::vector<pid_t> children;
  const std::string count = std::to_string(n[1]);
  for (std::uint64_t i = 0; i < n[0]; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("RANK", std::to_string(i).c_str(), 1);
      execl("/proc/self/exe", "fake_program", "single", count.c_str(), nullptr);
      _exit(97);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (const pid_t child : children) worst = std::max(worst, wait_for(child));
  return worst;
}

}  // namespace fake_program
