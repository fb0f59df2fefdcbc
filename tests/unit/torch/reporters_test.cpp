// SPDX-License-Identifier: Apache-2.0
// Reports of a stand-in for PyTorch, loaded with RTLD_LOCAL, as Python loads extensions. This program precedes it in
// symbol lookup, like a preloaded library.
#include "collector/torch/reporters.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "collector/recorder/recorder.h"
#include "collector/torch/diverted_calls.h"

namespace memreel::torch {
namespace {

using agent::Record;
using agent::RecordKind;
using agent::Space;

template <class Function>
Function* function(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();  // NOLINT(concurrency-mt-unsafe)
  return std::bit_cast<Function*>(dlsym(handle, name));
}

class Reporters : public ::testing::Test {
 public:
  Reporters() : recorder_(agent::Options{}) { agent::set_recorder(&recorder_); }
  ~Reporters() override { agent::set_recorder(nullptr); }

 protected:
  std::vector<Record> drained() {
    std::vector<Record> all, batch;
    recorder_.drain(batch);
    for (const Record& record : batch)
      if (record.kind != RecordKind::thread_began) all.push_back(record);
    return all;
  }

  agent::Recorder recorder_;
  void (*report_)(void*, std::int64_t, std::size_t, int,
                  int) = function<void(void*, std::int64_t, std::size_t, int, int)>(FAKE_C10_CUDA, "fake_report");
  void (*out_of_memory_)(std::int64_t, int) = function<void(std::int64_t, int)>(FAKE_C10_CUDA, "fake_out_of_memory");
  int (*reports_)() = function<int()>(FAKE_C10, "fake_c10_reports");
  int (*failures_)() = function<int()>(FAKE_C10, "fake_c10_failures");
  int object_ = 0;
};

TEST_F(Reporters, RecordsAllocationsAndFrees) {
  report_(&object_, 1024, 5000, 1, 0);
  report_(&object_, -1024, 3976, 1, 0);
  const auto records = drained();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].kind, RecordKind::alloc);
  EXPECT_EQ(records[1].kind, RecordKind::free);
  for (const Record& record : records) {
    EXPECT_EQ(record.space, Space::torch);
    EXPECT_EQ(record.address, std::bit_cast<std::uint64_t>(&object_));
    EXPECT_EQ(record.size, 1024U);
    EXPECT_NE(record.stack, stacks::StackKey::none);
  }
  EXPECT_EQ(records[0].object, 5000U);
  EXPECT_EQ(records[1].object, 3976U);
}

TEST_F(Reporters, PassesEverythingOn) {
  const int reports = reports_(), failures = failures_();
  report_(&object_, 64, 64, 1, 0);
  report_(&object_, 64, 64, 0, 0);
  out_of_memory_(1 << 30, 0);
  EXPECT_EQ(reports_(), reports + 2);
  EXPECT_EQ(failures_(), failures + 1);
  agent::set_recorder(nullptr);
  report_(&object_, -64, 0, 1, 0);
  EXPECT_EQ(reports_(), reports + 3) << "also when nothing is recorded";
}

TEST_F(Reporters, RecordsNothingOfTheHost) {
  report_(&object_, 64, 64, 0, 0);
  EXPECT_TRUE(drained().empty());
}

TEST_F(Reporters, KnowsTheStreamOfTheThread) {
  look();
  report_(&object_, 64, 64, 1, 0);
  report_(&object_, 64, 64, 1, 1);
  const auto records = drained();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].stream, 0U);
  EXPECT_EQ(records[0].device, 0);
  EXPECT_EQ(records[1].stream, 0x1000U + 33U);
  EXPECT_EQ(records[1].device, 1);
}

TEST_F(Reporters, RecordsFailures) {
  out_of_memory_(1 << 30, 1);
  const auto records = drained();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].kind, RecordKind::alloc_failed);
  EXPECT_EQ(records[0].size, 1U << 30U);
  EXPECT_EQ(records[0].device, 1);
}

TEST(Checksum, SeesWhatIsMissing) {
  Checksum checksum;
  EXPECT_TRUE(checksum.agrees(512, 10512));
  EXPECT_EQ(checksum.before(), 10000U);
  EXPECT_TRUE(checksum.agrees(-512, 10000));
  EXPECT_FALSE(checksum.agrees(512, 11024)) << "an allocation of 512 bytes was not seen";
  EXPECT_TRUE(checksum.agrees(-512, 10512)) << "each gap counts once";
}

}  // namespace
}  // namespace memreel::torch
