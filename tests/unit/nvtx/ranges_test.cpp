// SPDX-License-Identifier: Apache-2.0
// Ranges of a program that uses NVTX as shipped, where its headers are installed.
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collector/nvtx/nvtx.h"
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
  std::vector<Seen> seen() { return seen_by(recorder_); }

  static std::vector<Seen> seen_by(agent::Recorder& recorder) {
    std::vector<agent::Record> batch;
    recorder.drain(batch, agent::Recorder::Draining::in_order);
    std::vector<Seen> all;
    for (const agent::Record& record : batch) {
      if (record.kind != agent::RecordKind::mark) continue;
      Seen mark{.name = {}, .phase = static_cast<MarkPhase>(record.status)};
      for (const std::byte byte : agent::Recorder::names()[static_cast<std::uint32_t>(record.object)])
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

// A recorder follows another when the program forks, or is attached to again with other options.
TEST_F(Ranges, AndTheirNamesOutliveARecorder) {
  nvtxMarkA("a name that only the first one saw");
  auto* const registered = nvtxDomainRegisterStringA(nullptr, "registered");
  const nvtxRangeId_t started = nvtxRangeStartA("started");
  nvtxRangePushA("pushed");
  const auto next = std::make_unique<agent::Recorder>(agent::Options{.depth = 16});
  agent::set_recorder(next.get());
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = registered;
  nvtxDomainMarkEx(nullptr, &attributes);
  nvtxRangePop();
  nvtxRangeEnd(started);
  EXPECT_EQ(seen_by(*next), (std::vector<Seen>{{"registered", instant}, {"pushed", finish}, {"started", finish}}));
}

TEST_F(Ranges, OfStringsRegisteredWhileNothingWasRecorded) {
  agent::set_recorder(nullptr);
  auto* const registered = nvtxDomainRegisterStringW(nullptr, L"early");
  agent::set_recorder(&recorder_);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = registered;
  nvtxDomainMarkEx(nullptr, &attributes);
  EXPECT_EQ(seen(), (std::vector<Seen>{{"early", instant}}));
}

// In a process of its own: what fills the table stays.
TEST_F(Ranges, WhoseNamesHaveNoRoomAreMarksWithoutOne) {
  const auto fill_and_mark = [this] {
    for (int i = 0; i < 70'000; ++i) nvtx::number_of(std::to_string(i));
    auto* const registered = nvtxDomainRegisterStringA(nullptr, "new, registered");
    nvtxRangePushA("new, pushed");
    nvtxRangePop();
    nvtxRangeEnd(nvtxRangeStartA("new, started"));
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = registered;
    nvtxDomainMarkEx(nullptr, &attributes);
    const std::vector<Seen> nameless{{"", begin}, {"", finish}, {"", begin}, {"", finish}, {"", instant}};
    std::_Exit(seen() == nameless ? 7 : 1);
  };
  EXPECT_EXIT(fill_and_mark(), ::testing::ExitedWithCode(7), "");
}

/// NCCL's way: a payload that holds the communicator, declared by a schema.
struct OfNccl {
  std::uint64_t communicator;
  int ranks;
};

std::uint64_t declare(std::uint64_t id, const char* first_entry) {
  nvtxPayloadSchemaEntry_t entries[2]{};
  entries[0].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64;
  entries[0].name = first_entry;
  entries[1].type = NVTX_PAYLOAD_ENTRY_TYPE_INT;
  entries[1].name = "No. of ranks";
  nvtxPayloadSchemaAttr_t schema{};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 2;
  schema.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + id;
  return nvtxPayloadSchemaRegister(nullptr, &schema);
}

void push_with(const char* name, const nvtxPayloadData_t& data) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  attributes.reserved0 = 1;
  attributes.payload.ullValue = reinterpret_cast<std::uintptr_t>(&data);
  nvtxDomainRangePushEx(nullptr, &attributes);
}

TEST_F(Ranges, OfNcclNameTheirCommunicator) {
  const std::uint64_t schema = declare(5, "NCCL communicator ID"), other = declare(9, "Message size [bytes]");
  EXPECT_EQ(schema, NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5U);
  const OfNccl payload{.communicator = 0x1234abcd, .ranks = 2};
  const nvtxPayloadData_t data{schema, sizeof payload, &payload}, size_only{other, sizeof payload, &payload};
  push_with("ncclAllReduce", data);
  nvtxRangePop();
  push_with("ncclSend", size_only);  // NCCL 2.24 and older
  nvtxRangePop();
  push_with("theirs", data);  // another library, whose schema has the same number
  nvtxRangePop();
  nvtxRangePushA("ncclCommInitRankConfig");
  EXPECT_EQ(nvtxRangePopPayload(nullptr, &data, 1), 0);
  EXPECT_EQ(seen(), (std::vector<Seen>{{"ncclAllReduce, communicator 0x000000001234abcd", begin},
                                       {"ncclAllReduce, communicator 0x000000001234abcd", finish},
                                       {"ncclSend", begin},
                                       {"ncclSend", finish},
                                       {"theirs", begin},
                                       {"theirs", finish},
                                       {"ncclCommInitRankConfig", begin},
                                       {"ncclCommInitRankConfig, communicator 0x000000001234abcd", instant},
                                       {"ncclCommInitRankConfig", finish}}));
}

TEST_F(Ranges, WithOnlyAPayloadCountButHaveNoName) {
  const nvtxPayloadData_t nothing{0, 0, nullptr};
  EXPECT_EQ(nvtxRangePushPayload(nullptr, &nothing, 1), 0);
  EXPECT_EQ(nvtxRangePushA("inner"), 1);
  EXPECT_EQ(nvtxRangePop(), 1);
  EXPECT_EQ(nvtxRangePopPayload(nullptr, &nothing, 1), 0);
  nvtxRangeEndPayload(nullptr, nvtxRangeStartPayload(nullptr, &nothing, 1), &nothing, 1);
  EXPECT_EQ(seen(), (std::vector<Seen>{{"inner", begin}, {"inner", finish}}));
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
