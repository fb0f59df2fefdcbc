// SPDX-License-Identifier: Apache-2.0
// Nsight Systems databases: what their rows mean together, and whatever else a database may contain.
#include <gtest/gtest.h>

#include <string>

#include "formats/model/stack_text.h"
#include "tests/unit/import/import_support.h"
#include "tests/unit/import/nsys_database.h"

namespace memreel::test {
namespace {

using enum EventKind;

TEST(Nsys, RowsAreSortedAndJoined) {
  const Result<Trace> trace = import_bytes(nsys_database());
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(kinds(*trace), (std::vector{mark, mark, alloc, alloc, mark, free_requested}));
  const std::vector<FrameText> frames = frames_of(trace->tables, trace->events.stack(2));
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].function, "f");
  EXPECT_EQ(frames[1].function, "main");
  EXPECT_EQ(trace->events.stack(3), StackId::none);
  EXPECT_EQ(trace->tables[trace->tables[trace->tables[trace->events.origin(3)].pool].name], "managed");
  EXPECT_EQ(trace->losses, Losses{});
}

TEST(Nsys, ColumnsMayBeMissingAndTypesWrong) {
  const std::string memory =
      "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start,globalPid,deviceId,address,bytes,memKind,memoryOperationType);"
      "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES";
  const Result<Trace> trace = import_bytes(
      database_of(memory + "(1,16777216,0,4096,512,2,0),('x',16777216,0,4096,512,2,0),(2,16777216,0,4096,NULL,2,0)"));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->events.count(), 1U);
  EXPECT_EQ(trace->losses.unknown_actions, 2U);
  EXPECT_NE(refusal(database_of(memory + "(1,16777216,0,-1,512,2,0)")).find("no device has"), std::string::npos);
  EXPECT_NE(refusal(database_of(memory + "(1,16777216,0,4096,-1,2,0)")).find("no device has"), std::string::npos);
}

TEST(Nsys, OtherDatabasesAreRefused) {
  EXPECT_NE(refusal(database_of("CREATE TABLE t(a)")).find("neither Nsight Systems nor rocprofv3"), std::string::npos);
  EXPECT_NE(refusal(database_of("CREATE TABLE StringIds(id, value)")).find("--cuda-memory-usage=true"),
            std::string::npos);
}

}  // namespace
}  // namespace memreel::test
