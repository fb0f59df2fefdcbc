// Ranges of a program that uses NVTX as shipped, where its headers are installed.
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

#include "collector/recorder/recorder.h"
#include "formats/model/tables.h"

namespace memreel::nvtx {
namespace {

struct Seen {
  std::string name;
  MarkPhase phase;

  friend bool operator==(const Seen&, const Seen&) = default;
};

constexpr auto begin = MarkPhase::begin, finish = MarkPhase::end, instant = MarkPhase::instant;

class Ranges : public ::testing::Test {
 public:
  Ranges() : recorder_(agent::Options{}) { agent::set_recorder(&recorder_); }
  ~Ranges() override { agent::set_recorder(nullptr); }

 protected:
  std::vector<Seen> seen() {
    std::vector<agent::Record> batch;
    recorder_.drain(batch, agent::Recorder::Draining::in_order);
    std::vector<Seen> all;
    for (const agent::Record& record : batch) {
      if (record.kind != agent::RecordKind::mark) continue;
      Seen mark{.name = {}, .phase = static_cast<MarkPhase>(record.status)};
      for (const std::byte byte : recorder_.names()[static_cast<std::uint32_t>(record.object)])
        mark.name.push_back(static_cast<char>(byte));
      all.push_back(mark);
    }
    return all;
  }

  agent::Recorder recorder_;
};

TEST_F(Ranges, PushedAndPopped) {
  EXPECT_EQ(nvtxRangePushA("outer"), 0);
  EXPECT_EQ(nvtxRangePushW(L"inner"), 1);
  EXPECT_EQ(nvtxRangePop(), 1);
  EXPECT_EQ(nvtxRangePop(), 0);
  EXPECT_LT(nvtxRangePop(), 0);
  EXPECT_EQ(seen(), (std::vector<Seen>{{"outer", begin}, {"inner", begin}, {"inner", finish}, {"outer", finish}}));
}

TEST_F(Ranges, StartedAndEndedInAnyOrder) {
  const nvtxRangeId_t a = nvtxRangeStartA("a");
  const nvtxRangeId_t b = nvtxRangeStartW(L"b \u00E4");
  EXPECT_NE(a, b);
  nvtxRangeEnd(a);
  nvtxRangeEnd(b);
  nvtxMarkA("m");
  EXPECT_EQ(seen(), (std::vector<Seen>{{"a", begin}, {"b ?", begin}, {"a", finish}, {"b ?", finish}, {"m", instant}}));
}

TEST_F(Ranges, OfDomains) {
  auto* const domain = nvtxDomainCreateA("library");
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "step";
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxDomainRangePop(domain);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainMarkEx(domain, &attributes);
  attributes.messageType = NVTX_MESSAGE_UNKNOWN;
  nvtxDomainMarkEx(domain, &attributes);  // has no name
  EXPECT_EQ(seen(), (std::vector<Seen>{{"step", begin}, {"step", finish}, {"registered", instant}}));
}

TEST_F(Ranges, DeeperThanAnybodyLooks) {
  for (int i = 0; i < 200; ++i) EXPECT_EQ(nvtxRangePushA("deep"), i);
  for (int i = 200; i-- > 0;) EXPECT_EQ(nvtxRangePop(), i);
  EXPECT_EQ(seen().size(), 256U);
}

TEST_F(Ranges, WithoutRecordingAreNothing) {
  agent::set_recorder(nullptr);
  nvtxRangePushA("unseen");
  agent::set_recorder(&recorder_);
  nvtxRangePop();
  EXPECT_TRUE(seen().empty());
}

}  // namespace
}  // namespace memreel::nvtx
