// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/live_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/writer/trace_writer.h"

namespace memreel::attach {
namespace {

/// What has been written so far.
class GrowingFile final : public ByteFile {
 public:
  explicit GrowingFile(const std::vector<std::byte>& bytes) : bytes_(&bytes) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    if (offset >= bytes_->size()) return std::size_t{0};
    const std::size_t count = std::min(into.size(), bytes_->size() - static_cast<std::size_t>(offset));
    std::memcpy(into.data(), bytes_->data() + offset, count);
    return count;
  }
  std::uint64_t size() override { return bytes_->size(); }

 private:
  const std::vector<std::byte>* bytes_;
};

/// A growing trace: written and read at the same time.
class LiveMemoryTest : public ::testing::Test {
 protected:
  OriginId heap(const char* name, Level level, HeapId parent, std::int16_t device = 0) {
    last_ = writer_.intern(Heap{.name = writer_.intern(name),
                                .level = level,
                                .device = device,
                                .parent = parent,
                                .observes_completion = false});
    return writer_.intern(Origin{.heap = last_});
  }
  StackId stack(const char* function) {
    return writer_.intern(Stack{.frame = writer_.intern(Frame{.function = writer_.intern(function)})});
  }
  AllocationId alloc(OriginId origin, std::uint64_t address, std::uint64_t size, StackId stack) {
    return writer_.append(
        {.kind = EventKind::alloc, .origin = origin, .stack = stack, .address = {address}, .size = {size}});
  }
  void free(OriginId origin, AllocationId allocation) {
    writer_.append({.kind = EventKind::free_requested, .origin = origin, .allocation = allocation});
  }
  void step() {
    const MarkId mark = writer_.intern(Mark{.name = writer_.intern("step")});
    writer_.append({.kind = EventKind::mark, .value = index(mark)});
  }

  /// The result of reading everything written so far.
  LiveMemory& read() {
    EXPECT_TRUE(writer_.flush());
    if (!reader_) {
      reader_ = std::make_unique<TraceReader>(*TraceReader::open(std::make_shared<GrowingFile>(bytes_), "test"));
      memory_ = std::make_unique<LiveMemory>(reader_->tables());
    }
    EventBatch batch;
    for (auto more = reader_->next(batch); more && *more; more = reader_->next(batch)) memory_->add(batch);
    return *memory_;
  }

  std::vector<std::byte> bytes_;
  TraceWriter writer_{memory_sink(bytes_), {}};
  HeapId last_ = HeapId::none;
  std::unique_ptr<TraceReader> reader_;
  std::unique_ptr<LiveMemory> memory_;
};

TEST_F(LiveMemoryTest, WhoHoldsWhat) {
  const OriginId driver = heap("cuda.driver", Level::driver, HeapId::none);
  const OriginId torch = heap("torch.cuda", Level::framework, last_);
  alloc(driver, 0x1000, 1000, stack("segment"));
  const AllocationId first = alloc(torch, 0x1000, 100, stack("a"));
  alloc(torch, 0x1100, 200, stack("b"));
  alloc(torch, 0x1200, 50, stack("a"));
  const LiveMemory& memory = read();
  const auto heaps = memory.heaps();
  ASSERT_EQ(heaps.size(), 2U);
  EXPECT_EQ(heaps[1].name, "torch.cuda");
  EXPECT_EQ(heaps[1].live, Bytes{350});
  EXPECT_EQ(heaps[1].reserved, Bytes{1000});
  EXPECT_DOUBLE_EQ(heaps[1].fragmentation.value_or(0), 0.65);
  const auto top = memory.top(5);
  ASSERT_EQ(top.size(), 2U);  // of the tensors: the segment is what contains them
  EXPECT_EQ(top[0].live, Bytes{200});
  EXPECT_EQ(top[1].count, 2U);
  EXPECT_EQ(memory.top(1).size(), 1U);
  EXPECT_FALSE(memory.growth_per_step());

  free(torch, first);
  EXPECT_EQ(read().heaps()[1].live, Bytes{250});
  EXPECT_EQ(memory.top(5)[1].live, Bytes{50});
  EXPECT_EQ(memory.event_count(), 5U);
}

TEST_F(LiveMemoryTest, GrowthIsThatOfTheLastSteps) {
  const OriginId driver = heap("cuda.driver", Level::driver, HeapId::none);
  const OriginId host = heap("cuda.host", Level::driver, HeapId::none, -1);
  for (std::uint64_t i = 0; i < 100; ++i) {
    if (i >= 50) alloc(driver, 0x1000 * (i + 1), 10, stack("kept"));
    alloc(host, 0x1000 * (i + 1), 999, stack("host"));  // is not device memory
    step();
    if (i % 10 == 0) read();
  }
  EXPECT_DOUBLE_EQ(read().growth_per_step().value_or(0), 10);
}

}  // namespace
}  // namespace memreel::attach
