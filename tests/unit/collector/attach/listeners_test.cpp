// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/session.h"

#include <gmock/gmock.h>

namespace memreel::attach {
namespace {

using ::testing::ElementsAre;

TEST(Listeners, AreReadFromTheListOfSockets) {
  EXPECT_THAT(listeners_in("Num       RefCount Protocol Flags    Type St Inode Path\n"
                           "0000000000000000: 00000002 00000000 00010000 0005 01 24313 @memreel-control-42-981\n"
                           "0000000000000000: 00000003 00000000 00000000 0005 03 24314 @memreel-control-42-981\n"
                           "0000000000000000: 00000002 00000000 00010000 0001 01 16212 /run/memreel-control-1-1\n"
                           "0000000000000000: 00000002 00000000 00010000 0001 01 16213\n"
                           "0000000000000000: 00000002 00000000 00010000 0005 01 24399 @memreel-control-7-12"),
              ElementsAre(Listener{.number = 7, .start = 12}, Listener{.number = 42, .start = 981}));
}

TEST(Listeners, AreNotWhatOthersCallSo) {
  EXPECT_THAT(listeners_in("@memreel-control-\n@memreel-control-1\n@memreel-control-1-\n@memreel-control-x-1\n"
                           "@memreel-control-1-2x\n@memreel-control-99999999999999999999999-1\n\n"),
              ElementsAre());
}

}  // namespace
}  // namespace memreel::attach
