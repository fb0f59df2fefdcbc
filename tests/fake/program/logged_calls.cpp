// SPDX-License-Identifier: Apache-2.0
#include "tests/fake/program/logged_calls.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace fake_program {

void must(Status status, const char* what) {
  if (status == fake::success) return;
  std::fprintf(stderr, "fake_program: %s failed: %d\n", what, status);
  std::_Exit(99);
}

fake::Context* use_gpu() {
  must(cuInit(0), "cuInit");
  fake::Context* context = nullptr;
  must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return context;
}

std::uint64_t random_size(Random& random) {
  return std::uniform_int_distribution<std::uint64_t>(1, 1ULL << (6 + random() % 17))(random);
}

bool allocate(std::uint64_t size, Block& block) {
  block.size = size;
  if (cuMemAlloc_v2(&block.pointer, size) != fake::success) {
    truth::failed("linear", size);
    return false;
  }
  truth::allocated("linear", block.pointer, size);
  return true;
}

void release(const Block& block) {
  truth::freeing("linear", block.pointer, block.size);
  must(cuMemFree_v2(block.pointer), "cuMemFree");
}

void churn(std::uint64_t count, std::uint64_t seed, bool keep) {
  Random random(seed);
  std::vector<Block> held;
  for (std::uint64_t i = 0; i < count; ++i) {
    Block block;
    if (allocate(random_size(random), block)) held.push_back(block);
    while (held.size() > 40 || (!held.empty() && random() % 3 == 0)) {
      std::swap(held[random() % held.size()], held.back());
      release(held.back());
      held.pop_back();
    }
  }
  if (!keep)
    for (const Block& block : held) release(block);
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace fake_program
