// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/writer/trace_writer.h"

namespace memreel::attach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The bytes that were written, as a file.
class Written final : public ByteFile {
 public:
  explicit Written(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t count = std::min(into.size(), bytes_.size() - static_cast<std::size_t>(offset));
    std::memcpy(into.data(), bytes_.data() + offset, count);
    return count;
  }
  std::uint64_t size() override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

class AllocatedAt : public ::testing::Test {
 protected:
  OriginId heap(const char* name, Level level) {
    return writer_.intern(Origin{.heap = writer_.intern(Heap{.name = writer_.intern(name),
                                                             .level = level,
                                                             .device = 0,
                                                             .parent = HeapId::none,
                                                             .observes_completion = false})});
  }
  StackId stack(const char* function, const char* file, std::uint32_t line, StackId caller = StackId::none) {
    const FrameId frame =
        writer_.intern(Frame{.function = writer_.intern(function), .file = writer_.intern(file), .line = line});
    return writer_.intern(Stack{.frame = frame, .caller = caller});
  }
  AllocationId alloc(OriginId origin, std::uint64_t address, std::uint64_t size, StackId stack) {
    return writer_.append(
        {.kind = EventKind::alloc, .origin = origin, .stack = stack, .address = {address}, .size = {size}});
  }
  std::vector<std::uint64_t> found(const std::string& site, std::size_t most = 100) {
    EXPECT_TRUE(writer_.flush());
    auto reader = TraceReader::open(std::make_shared<Written>(bytes_), "test");
    const auto addresses = allocated_at(*reader, site, most);
    EXPECT_TRUE(addresses);
    std::vector<std::uint64_t> values;
    for (const Address address : *addresses) values.push_back(address.value);
    return values;
  }

  std::vector<std::byte> bytes_;
  TraceWriter writer_{memory_sink(bytes_), {}};
};

TEST_F(AllocatedAt, AnyFrameOfTheStackCountsAndWhatWasFreedDoesNot) {
  const OriginId torch = heap("torch.cuda", Level::framework);
  const StackId train = stack("train", "/home/me/train.py", 12);
  alloc(torch, 0x1000, 100, stack("forward", "C:\\models\\model.py", 7, train));
  const AllocationId gone = alloc(torch, 0x2000, 100, train);
  alloc(torch, 0x3000, 300, train);
  alloc(torch, 0x4000, 100, stack("train", "/home/me/train.py", 120));
  alloc(torch, 0x5000, 100, StackId::none);
  writer_.append({.kind = EventKind::free_requested, .origin = torch, .allocation = gone});

  EXPECT_THAT(found("train.py:12 train"), ElementsAre(0x3000, 0x1000));
  EXPECT_THAT(found("train.py:12"), ElementsAre(0x3000, 0x1000, 0x4000));  // a part of the text, as in Python
  EXPECT_THAT(found("model.py:7"), ElementsAre(0x1000));
  EXPECT_THAT(found("forward"), ElementsAre(0x1000));
  EXPECT_THAT(found("/home/me"), IsEmpty());
  EXPECT_THAT(found("train.py:12", 1), ElementsAre(0x3000));
}

TEST_F(AllocatedAt, ATensorAtTheBeginningOfItsSegmentIsOneAddress) {
  const StackId train = stack("train", "train.py", 12);
  alloc(heap("cuda.driver", Level::driver), 0x1000, 1000, train);
  alloc(heap("torch.cuda", Level::framework), 0x1000, 100, train);
  EXPECT_THAT(found("train.py:12"), ElementsAre(0x1000));
}

}  // namespace
}  // namespace memreel::attach
