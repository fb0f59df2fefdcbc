// SPDX-License-Identifier: Apache-2.0
// Damaged or malicious pickles.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "formats/import/torch/snapshot_reader.h"
#include "formats/import/torch/snapshot_to_trace.h"
#include "tests/unit/import/history_document.h"
#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

using namespace std::string_literals;

std::string proto4(const std::string& body) { return "\x80\x04"s + body; }

TEST(Pickle, ExecutableOpcodesAreRefusedByNameAndByte) {
  const std::string global = refusal(proto4("cos\nsystem\nX\x02\x00\x00\x00id\x85R."s));
  EXPECT_NE(global.find("byte 2: refused opcode GLOBAL (0x63)"), std::string::npos) << global;
  EXPECT_NE(global.find("_dump_snapshot"), std::string::npos) << global;
  for (const auto& [code, name] : std::vector<std::pair<char, std::string>>{{'R', "REDUCE"},
                                                                            {'b', "BUILD"},
                                                                            {'i', "INST"},
                                                                            {'o', "OBJ"},
                                                                            {'\x81', "NEWOBJ"},
                                                                            {'\x92', "NEWOBJ_EX"},
                                                                            {'\x93', "STACK_GLOBAL"},
                                                                            {'\x82', "EXT1"},
                                                                            {'\x83', "EXT2"},
                                                                            {'\x84', "EXT4"},
                                                                            {'P', "PERSID"},
                                                                            {'Q', "BINPERSID"},
                                                                            {'\x97', "NEXT_BUFFER"},
                                                                            {'\x98', "READONLY_BUFFER"},
                                                                            {'\x96', "BYTEARRAY8"},
                                                                            {'I', "INT"}}) {
    const std::string message = refusal(proto4("}"s + code));
    EXPECT_NE(message.find("byte 3: refused opcode " + name + " "), std::string::npos) << message;
  }
  EXPECT_NE(refusal(proto4("\xFF"s)).find("0xFF is not an opcode"), std::string::npos);
}

TEST(Pickle, OldProtocolsAreRefusedWithARemedy) {
  EXPECT_NE(refusal("(dp0\nVsegments\np1\n(lp2\ns.").find("protocol=4"), std::string::npos);
  EXPECT_NE(refusal("}q\x00X\x08\x00\x00\x00segments]s."s).find("protocol=4"), std::string::npos);
}

TEST(Pickle, BrokenProgramsAreRefused) {
  EXPECT_NE(refusal(proto4("a"s)).find("too few values"), std::string::npos);
  EXPECT_NE(refusal(proto4("u"s)).find("too few values"), std::string::npos);
  EXPECT_NE(refusal(proto4("(u."s)).find("too few values"), std::string::npos);
  EXPECT_NE(refusal(proto4("\x94"s)).find("too few values"), std::string::npos);
  EXPECT_NE(refusal(proto4("h\x05."s)).find("memo index 5 is out of range"), std::string::npos);
  EXPECT_NE(refusal(proto4("j\xFF\xFF\xFF\xFF."s)).find("memo index 4294967295 is out of range"), std::string::npos);
  EXPECT_NE(refusal(proto4("}r\xFF\xFF\xFF\xFF."s)).find("out of range"), std::string::npos);
  EXPECT_NE(refusal(proto4("}K\x01K\x02"s + "a.")).find("APPEND meets an integer, expected a list"), std::string::npos);
  EXPECT_NE(refusal(proto4("]K\x01K\x02s."s)).find("SETITEM meets a list, expected a dict"), std::string::npos);
  EXPECT_NE(refusal(proto4("}(K\x01u."s)).find("a key that has no value"), std::string::npos);
  EXPECT_NE(refusal(proto4("}]Ns."s)).find("a list can't be the key of a dict"), std::string::npos);
  EXPECT_NE(refusal(proto4("."s)).find("STOP"), std::string::npos);
  EXPECT_NE(refusal(proto4("}}."s)).find("STOP"), std::string::npos);
  EXPECT_NE(refusal(proto4("\x8B\xFF\xFF\xFF\xFF."s)).find("negative size"), std::string::npos);
}

TEST(Pickle, WhatFollowsItsEndIsNotIgnored) {
  const std::string one = proto4("}X\x08\x00\x00\x00segments]s."s);
  const std::string two = refusal(one + one);
  EXPECT_NE(
      two.find("byte " + std::to_string(one.size()) + ": more follows the end of the pickle (write each snapshot"),
      std::string::npos)
      << two;
  for (const std::string& rest : {std::string(5'000'000, 'x'), "\n"s, std::string(4, '\0')}) {
    const std::string more = refusal(one + rest);
    EXPECT_NE(more.find("more follows the end of the pickle (the file is damaged"), std::string::npos) << more;
  }
  EXPECT_EQ(refusal(one + std::string(3, '\0')), refusal(one)) << "memory_viz pads with zeros";
}

TEST(Pickle, WhatIsWrongDoesNotDependOnWhatFollows) {
  // With enough bytes behind them these opcodes take a different code path.
  const std::string more(100, '0');
  const auto told = [](const std::string& body) {
    const std::string message = refusal(proto4(body));
    const std::size_t place = message.find("byte ");  // after the file name
    return place == std::string::npos ? message : message.substr(place);
  };
  for (const std::string& broken :
       {"\x94"s, "q\x00"s, "(\x94"s, "h\x05"s, "}q\x00h\x01"s, "j\xFF\xFF\xFF\xFF"s, "}r\xFF\xFF\xFF\xFF"s}) {
    EXPECT_TRUE(told(broken).starts_with("byte ")) << told(broken);
    EXPECT_EQ(told(broken + more), told(broken));
  }
}

TEST(Pickle, DeclaredSizesAreNotBelieved) {
  EXPECT_NE(refusal(proto4("\x8D\x00\x00\x00\x00\x00\x00\x00\x10x"s)).find("ends inside BINUNICODE8"),
            std::string::npos);
  EXPECT_NE(refusal(proto4("X\xFF\xFF\xFF\xFFx"s)).find("ends inside BINUNICODE"), std::string::npos);
  EXPECT_NE(refusal(proto4("\x8B\xFF\xFF\xFF\x7Fx"s)).find("ends inside LONG4"), std::string::npos);
  EXPECT_NE(refusal(proto4("\x95\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s)).find("ends without STOP"), std::string::npos);
}

TEST(Pickle, DeepNestingCostsNothing) {
  std::string nested = "\x80\x04}X\x08\x00\x00\x00segments"s;
  nested.append(1'000'000, ']');
  nested.append(999'999, 'a');
  nested += "s.";
  EXPECT_NE(refusal(nested).find("segments[0]: the segment is a list"), std::string::npos);
}

TEST(Pickle, ValuesThatContainThemselvesAreRefused) {
  // frames = []; frames.append(frames)
  EXPECT_NE(refusal("\x80\x02}(X\x0d\x00\x00\x00"
                    "device_traces](](}(X\x06\x00\x00\x00"
                    "actionX\x05\x00\x00\x00"
                    "alloc"
                    "X\x06\x00\x00\x00"
                    "frames]q\x00h\x00"
                    "aueeu."s)
                .find("a frame is a list, expected a dict"),
            std::string::npos);
  // segments = []; segments.append(segments)
  EXPECT_NE(refusal("\x80\x02}X\x08\x00\x00\x00segments]q\x00h\x00"
                    "as."s)
                .find("the segment is a list"),
            std::string::npos);
}

TEST(Pickle, SharedValuesAreNotReadAgainAndAgain) {
  // One segment of many blocks, referenced many times: reading it each time would take minutes.
  std::string pickle =
      "\x80\x02}X\x08\x00\x00\x00segments](}q\x00(X\x07\x00\x00\x00"
      "addressK\x01X\x0a\x00\x00\x00"
      "total_sizeK\x01"
      "X\x06\x00\x00\x00"
      "blocks]("s;
  for (int i = 0; i < 100'000; ++i) pickle += "}";
  pickle += "eu";
  for (int i = 0; i < 100'000; ++i) pickle += "h\x00"s;
  pickle += "es.";
  EXPECT_NE(refusal(pickle).find("read before"), std::string::npos);
}

TEST(Pickle, EntriesThatWereTakenCantComeBack) {
  // The same entry twice, in two batches.
  const std::string text_action =
      "X\x06\x00\x00\x00"
      "actionX\x08\x00\x00\x00snapshot"s;
  EXPECT_NE(refusal("\x80\x02}X\x0d\x00\x00\x00"
                    "device_traces](](}q\x00"s +
                    text_action + "se(h\x00"s + "h\x00"s + "ees.")
                .find("read before"),
            std::string::npos);
  // An entry that changes after it was taken.
  EXPECT_NE(refusal("\x80\x02}X\x0d\x00\x00\x00"
                    "device_traces](](}q\x00"s +
                    text_action + "seh\x00"s + text_action + "ses.")
                .find("complete before"),
            std::string::npos);
}

TEST(Pickle, LongListsWithoutBatchesAreStreamed) {
  // PyTorch's C++ pickler puts all items of a list between one MARK and one APPENDS.
  constexpr int entries = 20'000;
  std::string pickle =
      "\x80\x02}X\x0d\x00\x00\x00"
      "device_traces](]("s;
  for (int i = 0; i < entries; ++i) {
    pickle +=
        "}(X\x06\x00\x00\x00"
        "actionX\x05\x00\x00\x00"
        "allocX\x04\x00\x00\x00"
        "addrJ"s;
    const auto address = static_cast<std::uint32_t>(i) * 512;
    for (unsigned shift = 0; shift < 32; shift += 8) pickle += static_cast<char>((address >> shift) & 0xFFU);
    pickle += "X\x04\x00\x00\x00sizeK\x01u"s;
  }
  pickle += "ees.";
  const Result<Trace> trace = import_bytes(pickle);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(count(*trace, EventKind::alloc), static_cast<std::size_t>(entries));
  EXPECT_EQ(trace->events[entries - 1].address, Address{static_cast<std::uint64_t>(entries - 1) * 512});
}

TEST(Pickle, EveryPrefixIsRefused) {
  std::vector<Document> entries;
  for (int i = 0; i < 5; ++i)
    entries.push_back(with_frames(entry("alloc", static_cast<std::uint64_t>(i) << 40U, 100, 1 + i), {frame("f", i)}));
  const std::string whole = pickled(snapshot({}, entries));
  ASSERT_EQ(refusal(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string message = refusal(whole.substr(0, size));
    ASSERT_NE(message, "") << size << " bytes of " << whole.size();
    ASSERT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Pickle, FlippedBitsNeverCrash) {
  std::vector<Document> entries;
  for (int i = 0; i < 5; ++i)
    entries.push_back(with_frames(entry("alloc", static_cast<std::uint64_t>(i) << 40U, 100, 1 + i), {frame("f", i)}));
  const std::string whole = pickled(snapshot({segment(1U << 20U, 1U << 20U, {block(1U << 20U, 512, 3)})}, entries));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const Result<Trace> trace = import_bytes(damaged);
      if (!trace) {
        ASSERT_EQ(trace.error().message().find('\n'), std::string::npos);
      }
    }
  }
}

TEST(Pickle, RepeatedTextsArriveAsTheyAre) {
  // Strings as short as action names that differ in one byte, in length, or in trailing zeros.
  std::vector<std::string> texts{""s, "\0"s, "\0\0"s, "a"s, "a\0"s, "b"s};
  for (std::size_t length = 7; length <= 18; ++length) {
    texts.emplace_back(length, 'x');
    texts.push_back(std::string(length - 1, 'x') + '\0');
    texts.push_back('y' + std::string(length - 1, 'x'));
  }
  for (int i = 0; i < 1000; ++i) texts.push_back("text " + std::to_string(i % 300));
  std::string list = "](";
  std::vector<std::string> expected;
  for (int round = 0; round < 2; ++round)
    for (const std::string& text : texts) {
      list += '\x8c';
      list += static_cast<char>(text.size());
      list += text;
      expected.push_back(text);
    }
  const TemporaryFile file(proto4(list + "e."));
  const Document read = read_history(file.path());
  EXPECT_EQ(read.get<std::vector<std::string>>(), expected);
}

TEST(Pickle, OpcodesArriveWhereverAReadEnds) {
  const std::string row =
      "K\x07M\x34\x12J\xFE\xFF\xFF\xFF\x8a\x08\x08\x07\x06\x05\x04\x03\x02\x01\x8a\x01\xFF\x8c\x03"
      "abc\x94h\x00j\x01\x00\x00\x00N\x88\x89"s;
  constexpr std::size_t piece = std::size_t{1} << 18U;  // as much as one read returns
  constexpr std::size_t rows = 4;
  for (std::size_t shift = 0; shift < rows * row.size(); ++shift) {
    const std::size_t length = piece - shift;
    std::string list = "](X"s;
    for (unsigned byte = 0; byte < 4; ++byte) list += static_cast<char>(length >> (8 * byte));
    list += std::string(length, 'x') + '\x94';
    Document expected = Document::array({std::string(length, 'x')});
    for (std::size_t i = 0; i < rows; ++i) {
      list += row;
      for (const Document& value :
           {Document(7), Document(0x1234), Document(-2), Document(0x0102030405060708), Document(-1), Document("abc"),
            expected[0], Document("abc"), Document(nullptr), Document(true), Document(false)})
        expected.push_back(value);
    }
    const TemporaryFile file(proto4(list + "e."));
    ASSERT_EQ(read_history(file.path()), expected) << shift;
  }
}

TEST(Pickle, NumbersOfAllWidthsArrive) {
  // 2^63 + 5 as a stream handle takes nine bytes.
  Document wide = entry("alloc", 1, 1, 1);
  wide["stream"] = (std::uint64_t{1} << 63U) + 5;
  const Result<Trace> trace = import_document(snapshot({}, {wide}));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->tables[trace->tables[trace->events[0].origin].stream].handle, (std::uint64_t{1} << 63U) + 5);
  // A 20-byte integer under an unused key.
  const Result<Trace> huge =
      import_bytes("\x80\x04}(X\x08\x00\x00\x00segments]X\x01\x00\x00\x00x\x8A\x14"s + std::string(20, 'x') + "u.");
  EXPECT_TRUE(huge) << huge.error().message();
}

class StringStream final : public ByteStream {
 public:
  explicit StringStream(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::size_t count = std::min(into.size(), bytes_.size() - at_);
    std::memcpy(into.data(), bytes_.data() + at_, count);
    at_ += count;
    return count;
  }
  std::uint64_t stored_position() const override { return at_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

/// Has every entry read by the pickle's machine.
class ByMachine final : public DocumentSink {
 public:
  explicit ByMachine(torch::SnapshotReader& reader) : reader_(reader) {}
  std::string_view streamed_key() const override { return reader_.streamed_key(); }
  Result<void> take(std::size_t i, Value list, std::span<const Value> items) override {
    return reader_.take(i, list, items);
  }

 private:
  torch::SnapshotReader& reader_;
};

struct ReadPickle {
  bool good = false;
  std::string what;  // the trace, or the error

  friend bool operator==(const ReadPickle&, const ReadPickle&) = default;
};

ReadPickle read_pickle(const std::string& pickle, bool by_machine) {
  std::vector<std::byte> bytes;
  TraceWriter writer(memory_sink(bytes), Header{});
  ByteCursor cursor({.bytes = std::make_unique<StringStream>(pickle), .stored_size = pickle.size()}, {});
  ValueArena arena(pickle.size());
  torch::SnapshotReader reader(arena, writer);
  ByMachine machine(reader);
  Result<Value> root = unpickle(cursor, arena, by_machine ? static_cast<DocumentSink&>(machine) : reader);
  if (!root) return {.what = root.error().message()};
  Result<torch::Snapshot> snapshot = reader.finish(*root);
  if (!snapshot) return {.what = snapshot.error().message()};
  torch::write_trace(*std::move(snapshot), writer);
  if (Result<void> written = writer.finish(); !written) return {.what = written.error().message()};
  return {.good = true, .what = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
}

/// Entries of every shape that PyTorch's releases write, and some that they don't.
std::string pickle_of_many_shapes() {
  std::vector<Document> entries;
  for (int i = 0; i < 600; ++i) {
    const std::uint64_t address = base + static_cast<std::uint64_t>(i / 3) * 512;
    Document made = entry(i % 3 == 0   ? "alloc"
                          : i % 3 == 1 ? "free_requested"
                                       : "free_completed",
                          address, 512, 1000 + i);
    if (i % 7 != 0) made = with_frames(made, {frame("f" + std::to_string(i % 40), i % 5), frame("main", 1)});
    if (i % 7 == 1) made["frames"] = Document::array({frame("alone", i % 3)});
    if (i % 50 > 10) made["compile_context"] = i % 50 > 45 ? "Torch-Compiled Region: 0/0" : "N/A";
    if (i % 50 > 20) made["user_metadata"] = i % 11 == 0 ? "note " + std::to_string(i) : "";
    if (i % 50 > 30) made["segment_pool_id"] = Document::array({0, 0});
    if (i % 50 > 30) made["pool_id"] = Document::array({0, i % 2});
    if (i % 60 == 59) made["number"] = 0.5;
    if (i % 60 == 58) made["nothing"] = nullptr;
    if (i % 60 == 57) made["inside"] = Document{{"a", 1}, {"b", 2}};
    if (i % 60 == 56) made["frames"] = Document::array();
    if (i % 60 == 55) made["time_us"] = -5;
    entries.push_back(made);
  }
  return pickled(snapshot({}, entries));
}

TEST(Pickle, EntriesAreReadAlikeWithAndWithoutTheMachine) {
  const std::string whole = pickle_of_many_shapes();
  const ReadPickle read = read_pickle(whole, false);
  ASSERT_TRUE(read.good) << read.what;
  ASSERT_TRUE(read == read_pickle(whole, true));
  for (std::size_t size = 0; size < whole.size(); size += 211)
    ASSERT_EQ(read_pickle(whole.substr(0, size), false).what, read_pickle(whole.substr(0, size), true).what) << size;
}

TEST(Pickle, DamagedEntriesAreReadAlikeWithAndWithoutTheMachine) {
  const std::string whole = pickle_of_many_shapes();
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = whole;
    char& byte = damaged[random() % damaged.size()];
    byte = static_cast<char>(byte ^ (1 << (random() % 8)));
    const ReadPickle directly = read_pickle(damaged, false), by_machine = read_pickle(damaged, true);
    ASSERT_EQ(directly.good, by_machine.good) << directly.what << by_machine.what;
    ASSERT_TRUE(!directly.good || directly == by_machine);
  }
}

}  // namespace
}  // namespace memreel::test
