// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/child_processes.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

TEST(ChildProcesses, AreAsManyAsAContainersQuotaAllows) {
  EXPECT_EQ(cores_within("200000 100000\n", 64), 2U);
  EXPECT_EQ(cores_within("150000 100000\n", 64), 1U);
  EXPECT_EQ(cores_within("50000 100000\n", 64), 1U);  // less than one: slowly
  EXPECT_EQ(cores_within("6400000 100000\n", 4), 4U);
  EXPECT_EQ(cores_within("max 100000\n", 64), 64U);
  EXPECT_EQ(cores_within("", 64), 64U);
}

}  // namespace
}  // namespace memreel
