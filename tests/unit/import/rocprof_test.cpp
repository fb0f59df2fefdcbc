// SPDX-License-Identifier: Apache-2.0
// Records of rocprofv3 in each of its formats.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/import/import_support.h"
#include "tests/unit/import/nsys_database.h"

namespace memreel::test {
namespace {

using enum EventKind;

const std::string columns =
    R"("Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp")"
    "\n";

std::string csv_line(const std::string& operation, const std::string& agent, const std::string& size,
                     const std::string& address, const std::string& start, const std::string& end) {
  return R"("MEMORY_ALLOCATION","MEMORY_ALLOCATION_)" + operation + "\",\"" + agent + "\"," + size + ",\"" + address +
         "\",1," + start + "," + end + "\n";
}

TEST(RocProf, AFreeIsMatchedByItsAddress) {
  const Result<Trace> trace = import_bytes(columns + csv_line("FREE", "", "0", "0x2000", "50", "60") +
                                           csv_line("ALLOCATE", "Agent 3", "1024", "0x1000", "5", "10") +
                                           csv_line("VMEM_ALLOCATE", "Agent 4", "4096", "0x2000", "15", "20"));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(kinds(*trace), (std::vector{alloc, alloc, free_requested}));
  EXPECT_EQ(trace->events.time(0), Nanoseconds{10});
  EXPECT_EQ(trace->events.time(2), Nanoseconds{50});
  EXPECT_EQ(trace->events.allocation(2), trace->events.allocation(1));
  const Origin& origin = trace->tables[trace->events.origin(2)];
  EXPECT_EQ(trace->tables[origin.heap].device, 4);
  EXPECT_EQ(trace->tables[trace->tables[origin.pool].name], "virtual");
  EXPECT_EQ(trace->losses, Losses{});
}

TEST(RocProf, CountsWhatIsLost) {
  const Result<Trace> trace =
      import_bytes(columns + csv_line("ALLOCATE", "Agent 3", "1024", "0x1000", "5", "10") +
                   csv_line("ALLOCATE", "Agent 3", "512", "0x1000", "15", "20") +
                   csv_line("FREE", "", "0", "0x9000", "50", "60") + csv_line("FREE", "", "0", "?", "1", "1"));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(kinds(*trace), (std::vector{alloc, free_requested, alloc, free_requested}));
  EXPECT_EQ(trace->losses.hook_refused, 1U);
  EXPECT_EQ(trace->losses.unmatched_frees, 1U);
  EXPECT_EQ(trace->losses.unknown_actions, 1U);
}

TEST(RocProf, ImpossibleNumbersAreRefused) {
  for (const std::string& line : {csv_line("ALLOCATE", "Agent 3", "99999999999999", "0x1000", "5", "10"),
                                  csv_line("ALLOCATE", "Agent 3", "1", "0xffffffffffffffff", "5", "10"),
                                  csv_line("ALLOCATE", "Agent 4096", "1", "0x1000", "5", "10")})
    EXPECT_NE(refusal(columns + line).find("out of range"), std::string::npos) << line;
  EXPECT_NE(refusal(columns).find("no records"), std::string::npos);
}

TEST(RocProf, ProcessorsAreHostMemory) {
  const Result<Trace> trace = import_bytes(
      R"({"rocprofiler-sdk-tool": [{"agents": [{"id": {"handle": 5}, "type": 1}], "buffer_records": {)"
      R"("memory_allocation": [{"operation": 1, "start_timestamp": 1, "end_timestamp": 2, "agent_id": {"handle": 5}, )"
      R"("address": 4096, "allocation_size": 64}, {"operation": 9}]}}]})");
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->tables.heaps[1].device, -1);
  EXPECT_EQ(trace->losses.unknown_actions, 1U);
}

TEST(RocProf, DatabasesOfItAreToldByTheirView) {
  const Result<Trace> trace = import_bytes(database_of(
      "CREATE TABLE memory_allocations(start,end,type,level,agent_type,agent_type_index,address,size,tid,pid);"
      "INSERT INTO memory_allocations VALUES(1,2,'ALLOC','SCRATCH','GPU',2,4096,512,9,7),(3,4,'RECLAIM','SCRATCH',"
      "'GPU',2,4096,512,9,7);"));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->header.source, "rocpd");
  EXPECT_EQ(trace->tables.heaps[1].device, 2);
  EXPECT_EQ(trace->losses.unknown_actions, 1U);
}

}  // namespace
}  // namespace memreel::test
