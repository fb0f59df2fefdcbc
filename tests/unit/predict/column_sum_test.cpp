#include "analyzer/predict/column_sum.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

struct Recorded {
  std::uint64_t rows, columns;
  std::optional<SumScratch> scratch;
};

SumScratch scratch(std::uint64_t partial_sums, std::uint64_t semaphores) {
  return {.partial_sums = Bytes{partial_sums}, .semaphores = Bytes{semaphores}};
}

/// What PyTorch 2.11 asked for on an H100, in the backward passes of linear layers.
const std::vector<Recorded> all_recorded{
    {780, 384, std::nullopt},               // a vision transformer, 12 images of 65 tokens
    {1040, 384, scratch(3342336, 12)},      // 16 images
    {3120, 384, scratch(9633792, 12)},      // 48
    {1040, 1152, scratch(10027008, 36)},    //
    {3120, 1536, scratch(38535168, 48)},    //
    {1536, 64, std::nullopt},               // few columns: a mixer over the tokens, 4 images of 384 channels
    {3072, 64, scratch(393216, 4)},         // 8
    {18432, 64, scratch(2359296, 4)},       // 48
    {1536, 256, scratch(3145728, 8)},       //
    {768, 8192, std::nullopt},              // a language model's words: 8 x 96 of them
    {1536, 8192, scratch(100663296, 256)},  // 8 x 192
    {3072, 8192, scratch(138412032, 256)},  // 2 x 1536: as many blocks as the device runs at once
    {16384, 3072, scratch(138412032, 96)},  // 32 x 512
    {16384, 2304, scratch(139198464, 72)},  // no whole number of them
};

TEST(ColumnSum, TakesTheScratchThatWasRecorded) {
  for (const Recorded& recorded : all_recorded)
    EXPECT_EQ(scratch_of({.rows = recorded.rows, .columns = recorded.columns}), recorded.scratch)
        << recorded.rows << " x " << recorded.columns;
}

TEST(ColumnSum, OfManyRowsLimitsWhatAThreadAdds) {
  const std::uint64_t rows = std::uint64_t{1} << 24U;
  EXPECT_EQ(scratch_of({.rows = rows, .columns = 4096})->partial_sums, Bytes{rows / 4 / 256 * 4096 * 4 * 128});
}

TEST(ColumnSum, OfASmallerDeviceReachesTheLimitEarlier) {
  const ColumnSum sum{.rows = 16384, .columns = 3072};
  EXPECT_EQ(scratch_of(sum, {.count = 66, .threads = 2048})->partial_sums,
            Bytes{scratch_of(sum)->partial_sums.count / 2});
}

TEST(ColumnSum, RowsFollowFromItsScratch) {
  for (const Recorded& recorded : all_recorded) {
    if (!recorded.scratch || is_limited(recorded.columns, *recorded.scratch)) continue;
    const std::uint64_t rows = *rows_of_scratch(recorded.columns, *recorded.scratch);
    EXPECT_GE(rows, recorded.rows);
    EXPECT_EQ(scratch_of({.rows = rows, .columns = recorded.columns}), recorded.scratch);
    EXPECT_NE(scratch_of({.rows = rows + 1, .columns = recorded.columns}), recorded.scratch);
  }
}

TEST(ColumnSum, NoScratchIsOfOtherColumns) {
  EXPECT_FALSE(rows_of_scratch(384, scratch(3342336 + 4, 12)));
  EXPECT_FALSE(rows_of_scratch(384, scratch(3342336, 16)));
  EXPECT_FALSE(rows_of_scratch(0, scratch(3342336, 12)));
}

}  // namespace
}  // namespace memreel
