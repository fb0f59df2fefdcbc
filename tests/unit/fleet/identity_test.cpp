#include "analyzer/fleet/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/fleet/mesh.h"

namespace memreel {
namespace {

TEST(RankNames, FindTheNumber) {
  const RankNames names;
  EXPECT_EQ(names.rank_of("/job/rank3.reel"), 3U);
  EXPECT_EQ(names.rank_of("/job/rank09.pickle.xz"), 9U);
  EXPECT_EQ(names.rank_of("/job/Rank_12/snapshot.pickle"), 12U);
  EXPECT_EQ(names.rank_of("/job/17.reel"), 17U);
  EXPECT_EQ(names.rank_of("/rank2/snapshot_5.pickle"), 2U);  // a number after a dash says less than a rank
  EXPECT_EQ(names.rank_of("/job/snapshot-5.pickle"), 5U);
  EXPECT_EQ(names.rank_of("/job/train.reel"), std::nullopt);
  EXPECT_EQ(names.rank_of("/job/rank99999999.reel"), std::nullopt);
}

TEST(RankNames, TakeAPatternOfTheUser) {
  const Result<RankNames> names = RankNames::pattern("worker-([0-9]+)");
  ASSERT_TRUE(names);
  EXPECT_EQ(names->rank_of("/job/rank3/worker-7.reel"), 7U);
  EXPECT_EQ(names->rank_of("/job/rank3.reel"), std::nullopt);
  EXPECT_FALSE(RankNames::pattern("worker"));
  EXPECT_FALSE(RankNames::pattern("("));
}

TEST(Identity, AProcessIdIsNoRank) {
  EXPECT_EQ(identify({.process = 4711}, "/job/memreel-host-4711.reel", {}).rank, std::nullopt);
}

TEST(Mesh, CountsFromTheSlowestAxis) {
  const Result<Mesh> mesh = Mesh::parse("pp=4,dp=2,tp=3");
  ASSERT_TRUE(mesh);
  EXPECT_EQ(mesh->size(), 24U);
  EXPECT_THAT(mesh->coordinates(11),
              testing::ElementsAre(Coordinate{"pp", 1}, Coordinate{"dp", 1}, Coordinate{"tp", 2}));
}

TEST(Mesh, RefusesWhatIsNone) {
  for (const char* text : {"", "pp", "pp=", "=4", "pp=0", "pp=4,pp=2", "pp=4,,dp=2", "pp=2000000"})
    EXPECT_FALSE(Mesh::parse(text)) << text;
}

TEST(Mesh, IsReadFromNames) {
  EXPECT_THAT(coordinates_in("/job/pp0_dp3/rank.reel"), testing::ElementsAre(Coordinate{"pp", 0}, Coordinate{"dp", 3}));
  EXPECT_THAT(coordinates_in("/tp1/run/tp-2.reel"), testing::ElementsAre(Coordinate{"tp", 2}));
  EXPECT_THAT(coordinates_in("/job/help2/app3/rank1.reel"), testing::IsEmpty());
}

}  // namespace
}  // namespace memreel
