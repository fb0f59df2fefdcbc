// SPDX-License-Identifier: Apache-2.0
// Runs the import fuzzer's target over valid recordings and many damaged versions, without libFuzzer.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/corpus.h"
#include "tests/unit/import/import_support.h"
#include "tests/unit/import/nsys_database.h"
#include "tests/unit/import/xplane_encoder.h"

// The name that libFuzzer requires.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace memreel::test {
namespace {

void offer(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string small_profile() {
  constexpr std::uint64_t base = 0x302000000;
  AllocatorProfile gpu("GPU_0_bfc");
  return profile(
      {{.id = 1,
        .name = "python3",
        .start_ns = 5,
        .events = {{.name = "$f.py:1 f", .begin_ns = 1, .duration_ns = 50, .stats = {{"step_num", std::uint64_t{1}}}},
                   gpu.alloc(2, base, 4, 256, 0),
                   gpu.alloc(3, base + 256, 4, 256, 0),
                   {.name = "AllocatorRetry::AllocateRaw", .begin_ns = 4, .duration_ns = 2},
                   gpu.free(7, base, 4, 256, 0.000122085),
                   gpu.free(8, base + 4096, 4, 256, 0)}}});
}

std::vector<std::string> seeds() {
  constexpr std::uint64_t base = std::uint64_t{1} << 46U;
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  Document document = snapshot({segment(base, 2 * mib, {block(base, 512, 500), block(base + 512, 512, 20)})},
                               {with_frames(entry("alloc", base, 500, 5), {frame("f", 1), frame("g", 2)}),
                                with_frames(entry("free_requested", base + 4096, 9, 6), {frame("g", 2)}),
                                entry("free_completed", base + 4096, 9, 6), entry("segment_map", base, 20 * mib, 7),
                                entry("segment_unmap", base, 20 * mib, 8), entry("user_defined", 0, 0, 9)});
  document["allocator_settings"] = {{"max_split_size", -1}, {"roundup_power2_divisions", {{"1", 4}}}};
  document["external_annotations"] = {{{"stage", "START"}, {"name", "step"}, {"device", 0}, {"time_us", 6}}};
  const std::string log =
      "Thread,Time,Action,Pointer,Size,Stream\n7,23:59:59.999999,allocate,0x7f8a40000000,1024,0x2\n"
      "8,00:00:00.000001,allocate failure,(nil),99999,0x55d2c8a3f0e0\n7,00:00:01.000000,free,0x7f8a40000000,1024,0x2\n"
      "7,00:00:01.000002,allocate,0x7f8a40000000,1,0x0\n7,00:00:01.000003,allocate,0x7f8a40000400,18446744073709551615,"
      "0\n";
  const std::string pool =
      R"({"op": "config", "kind": "rmm.pool", "initial": "64KiB", "device": 1, "half": 0.5})"
      "\n"
      R"({"op": "up", "size": 65536, "ptr": 140489856647168})"
      "\n"
      R"({"op": "alloc", "id": 1, "size": 905, "stream": 2, "ptr": 140489856647168, "stack": [{"function": "f", "line": 3}]})"
      "\n"
      R"({"op": "alloc", "id": 2, "size": 1152921504606846976, "ptr": null, "time": 5, "metadata": "weights"})"
      "\n"
      R"({"op": "begin", "name": "step"})"
      "\n"
      R"({"op": "free", "id": 1, "thread": 7})"
      "\n"
      R"({"op": "sync", "stream": 2})"
      "\n"
      R"({"op": "trim"})"
      "\n"
      R"({"op": "down", "size": 65536, "ptr": 140489856647168})"
      "\n";
  const std::string profiled =
      R"({"schemaVersion": 1, "baseTimeNanoseconds": 1000000, "traceEvents": [{"ph": "i", "name": "[memory]", "pid": 1, )"
      R"("tid": 2, "ts": 15.5, "args": {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": 512, )"
      R"("Total Allocated": 1024}}, {"ph": "i", "name": "[memory]", "tid": 2, "ts": 16, "args": {"Device Type": 1, )"
      R"("Device Id": 0, "Addr": 4096, "Bytes": -512, "Total Allocated": 512}}, {"ph": "X", "cat": "python_function", )"
      R"("name": "f.py(3): f", "tid": 2, "ts": 1, "dur": 20}, {"ph": "X", "cat": "user_annotation", "name": "step", )"
      R"("tid": 2, "ts": 1, "dur": 20}], "distributedInfo": {"rank": 0}})";
  const std::string cupy = R"({"hook":"alloc","device_id":0,"mem_size":1024,"mem_ptr":4096})"
                           "\n"
                           R"({"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":4096,"pmem_id":"0x7f"})"
                           "\n"
                           R"({"hook":"free","device_id":0,"mem_size":512,"mem_ptr":4096,"pmem_id":"0x7f"})"
                           "\n"
                           R"({"hook":"alloc","device_id":0,"mem_size":1024,"mem_ptr":4608})"
                           "\n";
  const std::string paddle =
      "I1207 23:45:28.132860 7 a.cc:97] Allocate 100 bytes, aligned to 256, extra size 0\n"
      "I20231207 23:45:28.132863 7 a.cc:98] Not found and reallocate 1024(0x7f0000001000), and remaining 768\n"
      "I1207 23:45:28.132864 7 a.cc:99] Alloc 256 bytes, ptr = 0x7f0000001300\n"
      "I1207 23:45:28.132865 7 a.cc:9] Allocator instance: 0x5 Free 256 bytes, ptr = 0x7f0000001300, "
      "place=Place(gpu:0)\n"
      "I1207 23:45:28.132866 7 a.cc:99] Free chunk with size 1024\n";
  const std::string rocprof_csv =
      "\"Kind\",\"Operation\",\"Agent_Id\",\"Allocation_Size\",\"Address\",\"Correlation_Id\",\"Start_Timestamp\","
      "\"End_Timestamp\"\n\"MEMORY_ALLOCATION\",\"MEMORY_ALLOCATION_ALLOCATE\",\"Agent "
      "1\",1024,\"0x00001000\",1,10,20\n"
      "\"MEMORY_ALLOCATION\",\"MEMORY_ALLOCATION_FREE\",\"\",0,\"0x00001000\",2,30,40\n";
  const std::string rocprof_json =
      R"({"rocprofiler-sdk-tool": [{"metadata": {"pid": 7}, "agents": [{"id": {"handle": 5}, "type": 2, )"
      R"("logical_node_type_id": 1}], "buffer_records": {"memory_allocation": [{"operation": 1, "thread_id": 9, )"
      R"("start_timestamp": 10, "end_timestamp": 20, "agent_id": {"handle": 5}, "address": "0x1000", )"
      R"("allocation_size": 64}, {"operation": 3, "start_timestamp": 30, "end_timestamp": 40, "address": 4096}]}}]})";
  const std::string rocpd = database_of(
      "CREATE TABLE t(start,end,type,level,agent_type,agent_type_index,address,size,tid,pid);INSERT INTO t "
      "VALUES(1,2,'ALLOC','REAL','GPU',0,4096,512,9,7),(3,4,'FREE','REAL',NULL,NULL,4096,0,9,7);"
      "CREATE VIEW memory_allocations AS SELECT * FROM t");
  return {pool,
          profiled,
          rocprof_csv,
          rocprof_json,
          rocpd,
          cupy,
          paddle,
          nsys_database(),
          pickled(document, 2),
          pickled(document, 4),
          document.dump(),
          pickled(document["segments"]),
          log,
          "Time,Action,Pointer,Size,Stream\n" + log.substr(log.find("23:")),
          "id,lower,upper,size,gaps\n0,10,20,300,12-13\n1,15,30,4,\n2,0,99,4096,\n",
          small_profile()};
}

#ifdef __SANITIZE_ADDRESS__  // ten times slower
constexpr int rounds = 1500;
#else
constexpr int rounds = 5000;
#endif

TEST(FuzzImport, DamagedRecordingsAreHandled) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  for (const std::string& seed : seeds()) {
    offer(seed);
    for (int round = 0; round < rounds; ++round) {
      std::string input = seed;
      for (std::size_t changes = 1 + below(4); changes > 0 && !input.empty(); --changes) {
        const std::size_t at = below(input.size());
        switch (below(4)) {
          case 0:
            input[at] = static_cast<char>(below(256));
            break;
          case 1:
            input.erase(at, below(16));
            break;
          case 2:
            input.insert(at, input.substr(below(input.size()), below(32)));
            break;
          default:
            input.resize(at + 1);
            break;
        }
      }
      offer(input);
    }
  }
}

TEST(FuzzImport, SurvivesTheCorpus) {
  for (const auto& file : fuzz::files_in(MEMREEL_CORPUS_DIR "/fuzz_import")) {
    const fuzz::Input input = fuzz::content_of(file);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
}

}  // namespace
}  // namespace memreel::test
