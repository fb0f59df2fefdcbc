// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/kernel_requests.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

struct RecordedSums {
  std::uint64_t rows, columns;
  std::optional<SumScratch> scratch;
  SumLayout layout = SumLayout::rows;

  ColumnSums sums() const { return {.rows = rows, .columns = columns, .layout = layout}; }
};

SumScratch scratch(std::uint64_t partial_sums, std::uint64_t semaphores) {
  return {.partial_sums = Bytes{partial_sums}, .semaphores = Bytes{semaphores}};
}

/// What PyTorch 2.11 allocated on an H100, in the backward passes of linear layers and convolutions.
const std::vector<RecordedSums> recorded_sums{
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
    {3072, 8192, scratch(138412032, 256)},  // 2 x 1536: as many blocks as the device runs concurrently
    {16384, 3072, scratch(138412032, 96)},  // 32 x 512
    {16384, 2304, scratch(139198464, 72)},  // not a whole multiple of them
    {442368, 32, scratch(2176, 128), SumLayout::columns},  // channels of 48 images of 96 x 96
    {442368, 3, scratch(648, 12), SumLayout::columns},     // few channels: a block has its maximum width
    {1327104, 1, scratch(648, 4), SumLayout::columns},     // a single sum over everything
    {1327104, 1, scratch(648, 4)},                         // which is the same
    {110592, 1, std::nullopt, SumLayout::columns},         // 4 images
};

TEST(ColumnSums, TakesTheScratchThatWasRecorded) {
  for (const RecordedSums& recorded : recorded_sums)
    EXPECT_EQ(scratch_of(recorded.sums()), recorded.scratch) << recorded.rows << " x " << recorded.columns;
}

TEST(ColumnSums, OfManyRowsLimitsWhatAThreadAdds) {
  const std::uint64_t rows = std::uint64_t{1} << 24U;
  EXPECT_EQ(scratch_of({.rows = rows, .columns = 4096})->partial_sums, Bytes{rows / 4 / 256 * 4096 * 4 * 128});
}

TEST(ColumnSums, OfASmallerDeviceReachesTheLimitEarlier) {
  const ColumnSums sum{.rows = 16384, .columns = 3072};
  EXPECT_EQ(scratch_of(sum, {.multiprocessors = 66})->partial_sums, Bytes{scratch_of(sum)->partial_sums.count / 2});
}

TEST(ColumnSums, RowsFollowFromTheirScratch) {
  for (const RecordedSums& recorded : recorded_sums) {
    if (!recorded.scratch || is_limited(recorded.columns, recorded.layout, *recorded.scratch, {})) continue;
    ColumnSums sums = recorded.sums();
    sums.rows = *rows_of_scratch(sums.columns, sums.layout, *recorded.scratch);
    EXPECT_GE(sums.rows, recorded.rows);
    EXPECT_EQ(scratch_of(sums), recorded.scratch);
    ++sums.rows;
    EXPECT_NE(scratch_of(sums), recorded.scratch);
  }
}

TEST(ColumnSums, NoScratchIsOfOtherColumns) {
  EXPECT_FALSE(rows_of_scratch(384, SumLayout::rows, scratch(3342336 + 4, 12)));
  EXPECT_FALSE(rows_of_scratch(384, SumLayout::rows, scratch(3342336, 16)));
  EXPECT_FALSE(rows_of_scratch(0, SumLayout::rows, scratch(3342336, 12)));
  EXPECT_FALSE(rows_of_scratch(32, SumLayout::columns, scratch(2176, 64)));
}

}  // namespace
}  // namespace memreel
