// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/map.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace memreel {
namespace {

TEST(Machine, IsThatOfALocalDisk) {
  EXPECT_FALSE(machine_of("/proc/self").empty());
  EXPECT_EQ(machine_of("/proc/self"), machine_of("/dev"));
  EXPECT_TRUE(is_network_file_system(NFS_SUPER_MAGIC));
  EXPECT_TRUE(is_network_file_system(CEPH_SUPER_MAGIC));
  EXPECT_FALSE(is_network_file_system(EXT4_SUPER_MAGIC));
  EXPECT_FALSE(is_network_file_system(OVERLAYFS_SUPER_MAGIC));
  EXPECT_FALSE(is_network_file_system(TMPFS_MAGIC));
}

class Claims : public ::testing::Test {
 protected:
  ~Claims() override { std::filesystem::remove(file_); }
  std::filesystem::path file_ = ::testing::TempDir() + "claim-" + std::to_string(::getpid());
};

TEST_F(Claims, AreOfOneAtATime) {
  {
    const auto claim = Claim::take(file_, std::chrono::seconds(60));
    ASSERT_TRUE(claim);
    EXPECT_FALSE(Claim::take(file_, std::chrono::seconds(60)));
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_TRUE(Claim::take(file_, std::chrono::seconds(60)));
}

TEST_F(Claims, OfProcessesThatAreGoneDoNotCount) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto claim = Claim::take(file_, std::chrono::seconds(60));
    ::_exit(claim ? 0 : 1);  // without the destructor
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(std::filesystem::exists(file_));
  EXPECT_TRUE(Claim::take(file_, std::chrono::seconds(60)));
}

TEST_F(Claims, WhereThereCanBeNoneTheWorkIsDoneAnyway) {
  EXPECT_TRUE(Claim::take("/no/such/directory/claim", std::chrono::seconds(60)));
}

}  // namespace
}  // namespace memreel
