// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/child_processes.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

namespace memreel {
namespace {

class ReaderMemoryOf : public ::testing::Test {
 protected:
  ReaderMemoryOf() : file_(::testing::TempDir() + "host-memory-" + std::to_string(::getpid())) {
    std::filesystem::remove(file_);
  }
  ~ReaderMemoryOf() override { std::filesystem::remove(file_); }

  std::filesystem::path file_;
  pid_t self_ = ::getpid(), parent_ = ::getppid();  // two that live
};

TEST_F(ReaderMemoryOf, AllTogetherHaveAtMostTheTotal) {
  const ReaderMemory memory(100_MiB, file_);
  EXPECT_TRUE(memory.take(60_MiB, self_, false));
  EXPECT_FALSE(memory.take(60_MiB, parent_, false));
  EXPECT_TRUE(memory.take(40_MiB, parent_, false));
  memory.give_back(self_);
  EXPECT_TRUE(memory.take(60_MiB, self_, false));
}

TEST_F(ReaderMemoryOf, WhoNeedsMoreThanThereIsRunsAlone) {
  const ReaderMemory memory(100_MiB, file_);
  EXPECT_TRUE(memory.take(500_MiB, self_, false));
  EXPECT_FALSE(memory.take(1_MiB, parent_, false));
}

TEST_F(ReaderMemoryOf, NobodyOvertakesWhoWaits) {
  const ReaderMemory memory(100_MiB, file_);
  const pid_t third = 1;
  EXPECT_TRUE(memory.take(50_MiB, self_, false));
  EXPECT_FALSE(memory.take(90_MiB, parent_, true));
  EXPECT_FALSE(memory.take(10_MiB, third, false)) << "it would fit, but then the other might never";
  memory.give_back(self_);
  EXPECT_TRUE(memory.take(90_MiB, parent_, true));
}

TEST_F(ReaderMemoryOf, TheDeadHaveNone) {
  const ReaderMemory memory(100_MiB, file_);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  EXPECT_TRUE(memory.take(100_MiB, child, false));
  EXPECT_FALSE(memory.take(1_MiB, self_, false)) << "not waited for yet";
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(memory.take(100_MiB, self_, false));
}

TEST_F(ReaderMemoryOf, ADamagedListIsAnEmptyOne) {
  {
    FILE* const file = std::fopen(file_.c_str(), "w");
    std::fputs("nonsense 1 2 3", file);
    std::fclose(file);
  }
  EXPECT_TRUE(ReaderMemory(100_MiB, file_).take(100_MiB, self_, false));
}

TEST_F(ReaderMemoryOf, NothingIsLeftOnceNobodyHasAny) {
  const ReaderMemory memory(100_MiB, file_);
  EXPECT_TRUE(memory.take(60_MiB, self_, false));
  EXPECT_TRUE(std::filesystem::exists(file_));
  memory.give_back(self_);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(ReaderMemoryOf, OneOfManyHasItAtATimeWhileTheListComesAndGoes) {
  void* const shared =
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const holders = new (shared) std::atomic<int>(0);
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    const ReaderMemory memory(100_MiB, file_);
    bool alone = true;
    for (int taken = 0; taken < 200;) {
      if (!memory.take(60_MiB, ::getpid(), false)) continue;
      ++taken;
      alone = alone && holders->fetch_add(1) == 0;
      holders->fetch_sub(1);
      memory.give_back(::getpid());
    }
    ::_exit(alone ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
  ::munmap(shared, sizeof(std::atomic<int>));
}

}  // namespace
}  // namespace memreel
