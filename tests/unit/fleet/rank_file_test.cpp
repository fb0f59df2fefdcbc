// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/rank_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <protozero/pbf_writer.hpp>
#include <set>

#include "tests/unit/fleet/written_ranks.h"

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
              .frames = frames,
              .device = 1}};
  s.leaks_not_judged = "not judged: the recording holds no whole step";
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

/// Where the members of a message that `row` is or is part of end, by where they begin, and the fields' numbers.
struct Listed {
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> end_and_alignment;
  std::multiset<std::uint32_t> numbers;
};

template <class Row>
Listed listed() {
  const Row row{};
  Listed result;
  const auto add = [&]<class M>(const M& member) {
    const auto& value = row.*member.at;
    using Value = std::remove_cvref_t<decltype(value)>;
    const auto begin =
        static_cast<std::size_t>(reinterpret_cast<const char*>(&value) - reinterpret_cast<const char*>(&row));
    result.end_and_alignment[begin] = {begin + sizeof(value), alignof(Value)};
    if constexpr (M::coding == wire::Coding::inlined)
      result.numbers.merge(listed<Value>().numbers);
    else if constexpr (M::coding == wire::Coding::columns)
      result.numbers.merge(listed<typename Value::value_type>().numbers);
    else
      result.numbers.insert(member.number);
  };
  std::apply([&](const auto&... member) { (add(member), ...); }, wire::MembersOf<Row>::all);
  return result;
}

/// Whether nothing but padding lies between the listed members, and no number is given twice.
template <class Row>
void expect_all_listed() {
  const Listed members = listed<Row>();
  const auto rounded_up = [](std::size_t at, std::size_t alignment) {
    return (at + alignment - 1) / alignment * alignment;
  };
  std::size_t at = 0;
  for (const auto& [begin, end] : members.end_and_alignment) {
    EXPECT_EQ(begin, rounded_up(at, end.second)) << "a member of " << typeid(Row).name() << " is not listed";
    at = end.first;
  }
  EXPECT_EQ(sizeof(Row), rounded_up(at, alignof(Row))) << "the last member of " << typeid(Row).name();
  for (const std::uint32_t number : members.numbers) EXPECT_EQ(members.numbers.count(number), 1) << number;
}

TEST(RankFile, EveryMemberIsListed) {
  expect_all_listed<RankSummary>();
  expect_all_listed<Identity>();
  expect_all_listed<Coordinate>();
  expect_all_listed<RequestHash>();
  expect_all_listed<RequestChunk>();
  expect_all_listed<RankDevice>();
  expect_all_listed<RankSite>();
  expect_all_listed<RankLeak>();
  expect_all_listed<CodeFrame>();
}

void expect_refused(const std::string& bytes, const std::string& what) {
  const Result<RankSummary> read = decode_rank(bytes, "x.rank");
  ASSERT_FALSE(read) << what;
  EXPECT_THAT(read.error().message(), testing::AllOf(HasSubstr("x.rank"), HasSubstr(what)));
}

TEST(RankFile, RefusesWhatIsNone) {
  for (const std::string bytes : {"", "nothing", "\x08\x01"}) expect_refused(bytes, "is not a rank summary");
  expect_refused("\x08\x07", "newer memreel (version 7)");
}

TEST(RankFile, RefusesWhatIsCutOff) {
  const std::string bytes = encode_rank(full());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    expect_refused(bytes.substr(0, size), "is not a rank summary");
}

TEST(RankFile, ReadsResultsOfTheVersionBefore) {
  std::string bytes = encode_rank(full());
  bytes[1] = 2;
  bytes.resize(bytes.size() - 3);  // the mark that it is complete
  const Result<RankSummary> read = decode_rank(bytes, "x.rank");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, full());
}

TEST(RankFile, RefusesWhatExpandsWithoutLimit) {
  std::string bytes;
  protozero::pbf_writer message(bytes);
  message.add_uint32(1, 2);
  message.add_string(43, std::string(1U << 20U, 'x'));                               // a text
  message.add_string(44, "");                                                        // a frame
  message.add_string(44, std::string("\x08\x00", 2));                                // one of that function
  protozero::pbf_writer(message, 45).add_string(2, std::string(1U << 20U, '\x01'));  // a site with 2^20 such frames
  expect_refused(bytes, "is not a rank summary");
}

TEST(RankFile, IsReadWhateverIsChanged) {
  const std::string bytes = encode_rank(full());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    (void)decode_rank(changed, "x.rank");
  }
}

}  // namespace
}  // namespace memreel
