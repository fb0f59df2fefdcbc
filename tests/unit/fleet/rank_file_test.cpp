// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/rank_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fleet/ranks.h"

namespace memreel {
namespace {

using testing::HasSubstr;

RankSummary full() {
  RankSummary s = rank_of(3, 0xFFFF'FFFF'FFFF'FFFF, 5_GiB);
  s.status = RankStatus::truncated;
  s.reason = "the file ends early";
  s.identity = {.job = "4711",
                .rank = 3,
                .world_size = 16,
                .local_rank = 0,
                .host = "node7",
                .process = 12,
                .start = Nanoseconds{1'700'000'000'000'000'000},
                .attempt = 2,
                .visible_devices = "2,3",
                .coordinates = {{"pp", 1}, {"dp", 0}}};
  s.source = "cupti";
  s.producer = "memreel 0.1.0";
  s.settings = {{"expandable_segments", "True"}, {"max_split_size", "-1"}};
  s.policy = "torch.native{expandable_segments=True}";
  s.heap = "main";
  s.heaps = {"cuda.driver", "main"};
  s.events = 9;
  s.failed_allocations = 1;
  s.device = -1;
  s.end_live = 1_GiB;
  s.end_reserved = 2_GiB;
  s.peak_reserved_time = Nanoseconds{77};
  s.other = 3_MiB;
  s.beside = 5_MiB;
  s.capacity = 80_GiB;
  s.least_free = 0_B;
  s.first_failure = 4_MiB;
  s.first_failure_time = Nanoseconds{66};
  s.devices = {{.device = 1, .peak_reserved = 2_GiB, .other = 3_MiB, .capacity = 40_GiB}, {.device = 7}};
  s.lost_events = 5;
  s.requests.sketch.push_back({0xFFFF'FFFF'FFFF'FFFF, 7});
  const std::vector<CodeFrame> frames{{"step", "/a/train.py", 41}, {"<module>", "/a/train.py", 7}};
  s.sites = {{.id = 1, .frames = frames, .at_peak = 1_GiB, .at_end = 2_B, .count_at_peak = 3},
             {.id = 2, .frames = {}, .at_peak = 0_B, .at_end = 1_B}};
  s.leaks = {{.verdict = "leak",
              .bytes = 192_MiB,
              .count = 96,
              .growth_bytes_per_step = 16.5,
              .steps = 12,
              .site = 1,
              .frames = frames}};
  return s;
}

TEST(RankFile, KeepsEverything) {
  for (const RankSummary& summary : {full(), RankSummary{}, rank_of(0, 1, 1_GiB)}) {
    const Result<RankSummary> read = decode_rank(encode_rank(summary), "x.rank");
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(*read, summary);
    EXPECT_EQ(encode_rank(*read), encode_rank(summary));
  }
}

TEST(RankFile, RefusesWhatIsNone) {
  for (const std::string& bytes : {std::string(), std::string("nothing"), encode_rank(full()).substr(0, 100)}) {
    const Result<RankSummary> read = decode_rank(bytes, "x.rank");
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message(), HasSubstr("x.rank"));
  }
}

TEST(RankFile, IsReadWhateverIsCutOffOrChanged) {
  std::string bytes = encode_rank(full());
  for (std::size_t size = 0; size < bytes.size(); ++size) (void)decode_rank(bytes.substr(0, size), "x.rank");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    (void)decode_rank(changed, "x.rank");
  }
}

}  // namespace
}  // namespace memreel
