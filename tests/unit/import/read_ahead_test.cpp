#include "formats/import/source/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace memreel {
namespace {

constexpr std::size_t piece = std::size_t{1} << 18U;

std::byte byte_at(std::uint64_t i) { return static_cast<std::byte>(i * 31 % 251); }

/// Made-up bytes, and after them an error if one is wanted. Every two bytes are stored in one.
class MadeUp final : public ByteStream {
 public:
  MadeUp(std::uint64_t size, bool fails, std::atomic<int>* alive = nullptr)
      : size_(size), fails_(fails), alive_(alive) {
    if (alive_ != nullptr) ++*alive_;
  }
  ~MadeUp() override {
    if (alive_ != nullptr) --*alive_;
  }
  MadeUp(const MadeUp&) = delete;
  MadeUp& operator=(const MadeUp&) = delete;

  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::size_t count = std::min<std::uint64_t>(into.size(), size_ - at_);
    if (count < into.size() && fails_) return Error{.what = "broken", .offset = size_};
    for (std::size_t i = 0; i < count; ++i) into[i] = byte_at(at_ + i);
    at_ += count;
    return count;
  }
  std::uint64_t stored_position() const override { return at_ / 2; }

 private:
  std::uint64_t size_, at_ = 0;
  bool fails_;
  std::atomic<int>* alive_;
};

class ReadAheadOf : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(ReadAheadOf, GivesTheSameBytesInAnyPortions) {
  for (const std::size_t portion : {std::size_t{1000}, piece - 1, piece, 3 * piece + 5}) {
    const auto stream = read_ahead(std::make_unique<MadeUp>(GetParam(), false));
    std::vector<std::byte> into(portion);
    std::uint64_t total = 0;
    std::uint64_t stored = 0;
    for (;;) {
      const auto count = stream->read(into);
      ASSERT_TRUE(count);
      for (std::size_t i = 0; i < *count; ++i) ASSERT_EQ(into[i], byte_at(total + i)) << total + i;
      total += *count;
      ASSERT_GE(stream->stored_position(), stored);
      stored = stream->stored_position();
      if (*count < portion) break;
    }
    EXPECT_EQ(total, GetParam());
    EXPECT_EQ(stored, GetParam() / 2);
    EXPECT_EQ(*stream->read(into), 0U) << "the end stays the end";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ReadAheadOf,
                         ::testing::Values(0, 1, piece - 1, piece, piece + 1, 4 * piece, 9 * piece + 17));

TEST(ReadAhead, AnErrorComesAfterTheWholePiecesBeforeIt) {
  const auto stream = read_ahead(std::make_unique<MadeUp>(2 * piece + 9, true));
  std::vector<std::byte> into(piece);
  EXPECT_EQ(*stream->read(into), piece);
  EXPECT_EQ(*stream->read(into), piece);
  for (int i = 0; i < 2; ++i) {
    const auto failed = stream->read(into);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().what, "broken");
  }
}

TEST(ReadAhead, CanBeGivenUpAtAnyMoment) {
  std::atomic<int> alive = 0;
  for (int reads = 0; reads < 8; ++reads) {
    const auto stream = read_ahead(std::make_unique<MadeUp>(std::uint64_t{1} << 32U, false, &alive));
    std::vector<std::byte> into(piece / 2);
    for (int i = 0; i < reads; ++i) ASSERT_TRUE(stream->read(into));
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace memreel
