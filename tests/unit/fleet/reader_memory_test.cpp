// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/reader_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

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

}  // namespace
}  // namespace memreel
