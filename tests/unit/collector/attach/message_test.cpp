// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/control_socket.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace memreel::attach {
namespace {

const Message question{.word = "start",
                       .fields = {{"MEMREEL_OUTPUT", "a=b\nc %p"}, {"MEMREEL_DEPTH", "64"}, {"x", ""}}};

TEST(Message, ComesBackAsItWasSent) {
  const auto read = parse_message(to_bytes(question));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, question);
  EXPECT_EQ((*read)["MEMREEL_OUTPUT"], "a=b\nc %p");
  EXPECT_EQ(read->number("MEMREEL_DEPTH"), 64U);
  EXPECT_EQ(read->number("MEMREEL_OUTPUT"), 0U);
  EXPECT_EQ((*read)["nothing"], "");
}

TEST(Message, ErrorsTravel) {
  const Error error{.what = "is recorded already", .where = "process 7", .remedy = "detach"};
  const auto read = parse_message(to_bytes(error_message(error)));
  ASSERT_TRUE(read);
  EXPECT_EQ(error_of(*read).message(), error.message());
}

TEST(Message, NamesAnotherVersion) {
  std::string bytes = to_bytes(question);
  bytes.replace(bytes.find("/1"), 2, "/2");
  const auto read = parse_message(bytes);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find("memreel-control/2"), std::string::npos);
}

TEST(Message, RefusesWhatIsNone) {
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string("\0", 1), std::string("memreel-control/1\0", 18),
        std::string("memreel-control/1\0status\0novalue\0", 33), std::string("memreel-control/1\0status\0=v\0", 28),
        std::string(largest_message + 1, '\0'), std::string("memreel-control/1\0status", 24)})
    EXPECT_FALSE(parse_message(bytes)) << bytes.size();
}

TEST(Message, DamagedBytesAreReadOrRefused) {
  std::mt19937 random(3);
  const std::string sound = to_bytes(question);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = sound.substr(0, random() % (sound.size() + 1));
    for (unsigned i = random() % 4; i > 0 && !bytes.empty(); --i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto read = parse_message(bytes)) {
      EXPECT_LE(to_bytes(*read).size(), bytes.size());
    }
  }
}

}  // namespace
}  // namespace memreel::attach
