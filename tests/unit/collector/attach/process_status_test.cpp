// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/process.h"

#include <gtest/gtest.h>

#include <string>

namespace memreel::attach {
namespace {

const ProcessStatus recorded{
    .recording = true,
    .trace = "/tmp/a trace.reel",
    .source = "cupti",
    .rank = "3",
    .events = 17,
    .lost = 2,
    .heaps =
        {{.device = 0, .level = Level::driver, .live = {100}, .peak = {200}, .reserved = {}, .name = "cuda.driver"},
         {.device = -1, .level = Level::framework, .live = {1}, .peak = {1}, .reserved = {4}, .name = "my own pool"}},
    .devices = {{.device = 1, .used = {1ULL << 40U}, .free = {5}}}};

Message travelled(const ProcessStatus& sent) {
  const auto received = parse_message(to_bytes(to_message(sent)));
  EXPECT_TRUE(received);
  return received ? *received : Message{};
}

TEST(ProcessStatus, ArrivesAsItWasSent) {
  EXPECT_EQ(process_status(travelled(recorded)), recorded);
  EXPECT_EQ(process_status(travelled({})), ProcessStatus{});
}

TEST(ProcessStatus, FitsIntoAMessageHoweverManyHeapsThereAre) {
  ProcessStatus many = recorded;
  many.heaps.assign(10'000, {.device = 127,
                             .level = Level::framework,
                             .live = {~0ULL},
                             .peak = {~0ULL},
                             .reserved = {~0ULL},
                             .name = std::string(5'000, 'x')});
  EXPECT_EQ(process_status(travelled(many)).heaps.size(), 256U);
}

TEST(ProcessStatus, LeavesOutWhatItCannotRead) {
  const Message answer{.word = "ok",
                       .fields = {{"recording", "1"},
                                  {"heap", ""},
                                  {"heap", "0 1 2"},
                                  {"heap", "0 1 2 3 four name"},
                                  {"heap", "0 1 99999999999999999999 3 4 name"},
                                  {"device", "0 used"},
                                  {"heap", "0 1 2 3 4"},
                                  {"colour", "blue"}}};
  const ProcessStatus read = process_status(answer);
  ASSERT_EQ(read.heaps.size(), 1U);
  EXPECT_EQ(read.heaps[0].name, "");
  EXPECT_TRUE(read.devices.empty());
}

}  // namespace
}  // namespace memreel::attach
