// SPDX-License-Identifier: Apache-2.0
// Guarantees for recorders and importers.
#include "formats/writer/trace_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "formats/model/printable.h"
#include "formats/reader/trace_reader.h"
#include "tests/unit/formats/random_history.h"

namespace memreel {
namespace {

using testing::FileBytes;
namespace fs = std::filesystem;

/// An empty directory for one test.
class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "memreel-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() { fs::remove_all(path_); }

  fs::path operator/(const char* name) const { return path_ / name; }
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

TEST(Interning, EqualRowsHaveEqualIds) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const StringId a = writer.intern("a"), b = writer.intern("b");
  EXPECT_NE(a, b);
  EXPECT_EQ(writer.intern(std::string("a")), a);
  const FrameId frame = writer.intern(Frame{.function = a, .line = 3});
  EXPECT_NE(writer.intern(Frame{.function = a, .line = 4}), frame);
  EXPECT_EQ(writer.intern(Frame{.function = a, .line = 3}), frame);
  const StackId outer = writer.intern(Stack{.frame = frame});
  const StackId inner = writer.intern(Stack{.frame = frame, .caller = outer});
  EXPECT_NE(inner, outer);
  EXPECT_EQ(writer.intern(Stack{.frame = frame, .caller = outer}), inner);
  EXPECT_EQ(writer.tables().stacks.size(), 3U);
  const SettingsId settings = writer.intern(Settings{.entries = {{a, b}}});
  EXPECT_NE(writer.intern(Settings{.entries = {{b, a}}}), settings);
  EXPECT_EQ(writer.intern(Settings{.entries = {{a, b}}}), settings);
}

TEST(Interning, RowsOfDefaultsAreRowZero) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  EXPECT_EQ(writer.intern(""), StringId::none);
  EXPECT_EQ(writer.intern(Frame{}), FrameId::none);
  EXPECT_EQ(writer.intern(Stack{}), StackId::none);
  EXPECT_EQ(writer.intern(Stream{}), StreamId::default_stream);
  EXPECT_EQ(writer.intern(Origin{}), OriginId::none);
  EXPECT_EQ(writer.tables(), Tables{});
}

TEST(Interning, ManyRowsStayApart) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  for (int round = 0; round < 2; ++round)
    for (std::uint32_t i = 1; i < 50'000; ++i) {
      ASSERT_EQ(index(writer.intern("text " + std::to_string(i))), i);
      ASSERT_EQ(index(writer.intern(Frame{.function = StringId{i}})), i);
    }
}

TEST(Interning, LongTextsAreCut) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const StringId id = writer.intern(std::string(5U << 20U, 'x'));
  EXPECT_EQ(writer.tables()[id].size(), 1U << 20U);
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(load(memory_file(bytes), "trace")->tables, writer.tables());
}

TEST(Append, FreesFindTheirAllocationByAddress) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const HeapId heap = writer.intern(Heap{.name = writer.intern("heap")});
  const OriginId origin = writer.intern(Origin{.heap = heap});
  const AllocationId first = writer.append({.kind = EventKind::alloc, .origin = origin, .address = {64}, .size = 10_B});
  EXPECT_EQ(first, AllocationId{0});
  EXPECT_EQ(writer.live_at(heap, {64}), first);
  EXPECT_EQ(writer.live_at(heap, {65}), AllocationId::none);
  EXPECT_EQ(writer.live_at(HeapId::none, {64}), AllocationId::none);
  EXPECT_EQ(writer.append({.kind = EventKind::free_requested, .origin = origin, .address = {64}}), first);
  EXPECT_EQ(writer.live_at(heap, {64}), first) << "it lives until it is completed";
  EXPECT_EQ(writer.append({.kind = EventKind::free_completed, .origin = origin, .address = {64}}), first);
  EXPECT_EQ(writer.live_at(heap, {64}), AllocationId::none);
  EXPECT_EQ(writer.append({.kind = EventKind::free_requested, .origin = origin, .address = {64}, .size = 3_B}),
            AllocationId::none);
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  EXPECT_EQ(trace->losses.unmatched_frees, 1U);
  EXPECT_EQ(trace->events[3].address.value, 64U);
  EXPECT_EQ(trace->events[3].size, 3_B);
}

TEST(Append, FieldsThatAKindDoesNotHaveAreNotKept) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  writer.append({.kind = EventKind::empty_cache, .address = {5}, .size = 6_B, .value = 7});
  writer.append({.kind = EventKind::unknown});
  writer.append({.kind = EventKind::free_requested, .allocation = AllocationId{77}, .address = {8}});
  ASSERT_TRUE(writer.finish());
  const auto trace = load(memory_file(bytes), "trace");
  ASSERT_EQ(trace->events.count(), 2U);
  EXPECT_EQ(trace->events[0], (Event{.kind = EventKind::empty_cache}));
  EXPECT_EQ(trace->events[1], (Event{.kind = EventKind::free_requested, .address = {8}}));
}

TEST(Encoding, InTheBackgroundMakesTheSameFile) {
  const auto written = [](bool in_background) {
    FileBytes bytes;
    const WriterOptions options{
        .events_per_block = 256, .events_per_keyframe = 1000, .encode_in_background = in_background};
    TraceWriter writer(memory_sink(bytes), {}, options);
    testing::RandomHistory history(writer, 7);
    history.append(3000);
    EXPECT_TRUE(writer.flush());
    history.append(300);
    EXPECT_TRUE(writer.finish());
    return bytes;
  };
  EXPECT_EQ(written(true), written(false));
}

TEST(Encoding, InTheBackgroundAFlushReachesTheFile) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {}, {.encode_in_background = true});
  testing::RandomHistory history(writer, 8);
  history.append(100);
  ASSERT_TRUE(writer.flush());
  const Result<Trace> trace = load(memory_file(bytes), "unfinished");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.count(), 100U);
}

TEST(Encoding, AWriterMayBeGivenUpWhileABlockIsEncoded) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {}, {.events_per_block = 50, .encode_in_background = true});
  testing::RandomHistory history(writer, 9);
  history.append(120);
}

TEST(Losses, TheLastOnesCount) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  writer.set_losses({.ring_full = 1});
  writer.append({.kind = EventKind::empty_cache});
  ASSERT_TRUE(writer.flush());
  const Losses last{.ring_full = 2,
                    .stack_table_full = 3,
                    .hook_refused = 4,
                    .unknown_actions = 5,
                    .unmatched_frees = 6,
                    .preexisting_allocations = 7,
                    .began_late = true,
                    .history_overflowed = true,
                    .skipped = EventKinds{EventKind::free_requested}};
  writer.set_losses(last);
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(load(memory_file(bytes), "trace")->losses, last);
}

/// From now on, this process finds no file system that can have files without a name. False if that can't be arranged.
bool forbid_nameless_files() {
  constexpr auto flags = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t));
  constexpr auto nameless = static_cast<std::uint32_t>(O_TMPFILE & ~O_DIRECTORY);
  std::array<sock_filter, 6> code{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
       BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, nameless, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool has_nameless_files() {
  const int file = ::open(fs::temp_directory_path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  return file >= 0 && ::close(file) == 0;
}

/// Runs `act` in a child process, which ends with the test's result, and returns how it ended.
template <class Act>
int in_child(const Act& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    act();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

/// On a file system that can have files without a name, and on one that can't.
class AtomicFile : public ::testing::TestWithParam<bool> {
 protected:
  template <class Act>
  static void check(const Act& act) {
    if (GetParam() && !has_nameless_files()) GTEST_SKIP() << "needs a file system with O_TMPFILE";
    if (GetParam()) return act();
    EXPECT_EQ(in_child([&] {
                if (forbid_nameless_files()) act();
              }),
              0);
  }
};

INSTANTIATE_TEST_SUITE_P(FileSystem, AtomicFile, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "nameless" : "named"; });

TEST_P(AtomicFile, HasItsNameOnlyWhenComplete) {
  check([] {
    const Directory directory;
    const fs::path path = directory / "new.reel";
    {
      auto sink = atomic_file_sink(path);
      ASSERT_TRUE(sink);
      TraceWriter writer(*std::move(sink), {});
      writer.append({.kind = EventKind::empty_cache});
      ASSERT_TRUE(writer.flush());
      EXPECT_FALSE(fs::exists(path));
      EXPECT_EQ(directory.count(), GetParam() ? 0U : 1U);
      ASSERT_TRUE(writer.finish());
      EXPECT_TRUE(fs::exists(path));
    }
    EXPECT_EQ(directory.count(), 1U);
    EXPECT_EQ(load(path)->events.count(), 1U);
  });
}

TEST_P(AtomicFile, LeavesNothingWhenGivenUp) {
  check([] {
    const Directory directory;
    const fs::path path = directory / "kept.reel";
    std::ofstream(path) << "what was there before";
    {
      TraceWriter writer(*atomic_file_sink(path), {});
      writer.append({.kind = EventKind::empty_cache});
      ASSERT_TRUE(writer.flush());
    }
    EXPECT_EQ(directory.count(), 1U);
    EXPECT_EQ(fs::file_size(path), 21U);
  });
}

TEST(AtomicFileSink, LeavesNothingWhenItsProcessIsKilled) {
  if (!has_nameless_files()) GTEST_SKIP() << "needs a file system with O_TMPFILE";
  for (const bool exists : {false, true}) {
    const Directory directory;
    const fs::path path = directory / "new.reel";
    if (exists) std::ofstream(path) << "what was there before";
    const int status = in_child([&] {
      TraceWriter writer(*atomic_file_sink(path), {});
      writer.append({.kind = EventKind::empty_cache});
      static_cast<void>(writer.flush());
      ::raise(SIGKILL);
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(directory.count(), exists ? 1U : 0U);
  }
}

TEST(AtomicFileSink, SaysWhyNot) {
  const Directory directory;
  const auto sink = atomic_file_sink(directory / "missing" / "new.reel");
  ASSERT_FALSE(sink);
  EXPECT_NE(sink.error().message().find("No such file or directory"), std::string::npos);
  EXPECT_FALSE(atomic_file_sink(fs::temp_directory_path()));
}

TEST(AtomicFileSink, WritesThroughWhatIsNotAFile) {
  TraceWriter writer(*atomic_file_sink("/dev/null"), {});
  ASSERT_TRUE(writer.finish());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFileSink, ReplacesTheTargetOfALink) {
  const Directory directory;
  std::ofstream(directory / "target") << "old";
  fs::create_symlink(directory / "target", directory / "link");
  TraceWriter writer(*atomic_file_sink(directory / "link"), {});
  ASSERT_TRUE(writer.finish());
  EXPECT_TRUE(fs::is_symlink(directory / "link"));
  EXPECT_TRUE(load(directory / "target"));
}

fs::perms mode_of(const fs::path& path) { return fs::status(path).permissions(); }

TEST_P(AtomicFile, HasTheModeOfTheFileItReplaces) {
  check([] {
    const Directory directory;
    const fs::path path = directory / "new.reel";
    const auto write = [&](unsigned mode) { return TraceWriter(*atomic_file_sink(path, mode), {}).finish(); };
    const mode_t before = ::umask(027);
    ASSERT_TRUE(write(0666));
    ::umask(before);
    EXPECT_EQ(mode_of(path), fs::perms(0640));
    fs::permissions(path, fs::perms(0754));
    ASSERT_TRUE(write(private_mode));
    EXPECT_EQ(mode_of(path), fs::perms(0754));
    EXPECT_EQ(directory.count(), 1U);
  });
}

TEST_P(AtomicFile, LeavesOtherNamesOfTheFileItReplaces) {
  check([] {
    const Directory directory;
    std::ofstream(directory / "new.reel") << "old";
    fs::create_hard_link(directory / "new.reel", directory / "other");
    ASSERT_TRUE(TraceWriter(*atomic_file_sink(directory / "new.reel"), {}).finish());
    EXPECT_TRUE(load(directory / "new.reel"));
    EXPECT_EQ(fs::file_size(directory / "other"), 3U);
  });
}

TEST(AtomicFileSink, NobodyForeseesTheNameOfItsPart) {
  const int status = in_child([] {
    if (!forbid_nameless_files()) return;
    const Directory directory;
    std::set<std::string> names;
    for (int i = 0; i < 8; ++i) {
      const auto sink = atomic_file_sink(directory / "new.reel");
      for (const fs::directory_entry& entry : fs::directory_iterator(directory / ""))
        names.insert(entry.path().filename().string());
    }
    EXPECT_EQ(names.size(), 8U);
  });
  EXPECT_EQ(status, 0);
}

TEST(LiveFileSink, HasTheModeThatItIsGiven) {
  const Directory directory;
  ASSERT_TRUE(live_file_sink(directory / "private.reel"));
  EXPECT_EQ(mode_of(directory / "private.reel"), fs::perms(0600));
  ASSERT_TRUE(live_file_sink(directory / "shared.reel", 0664));
  EXPECT_EQ(mode_of(directory / "shared.reel"), fs::perms(0664));
}

TEST(LiveFileSink, SaysWhyNot) {
  const Directory directory;
  const auto sink = live_file_sink(directory / "missing" / "new.reel");
  ASSERT_FALSE(sink);
  EXPECT_NE(sink.error().message().find("No such file or directory (create its directory first)"), std::string::npos);
}

TEST(LiveFileSink, IsReadableWhileItGrowsAndNeverReplacesAFile) {
  const Directory directory;
  const fs::path path = directory / "live.reel";
  TraceWriter writer(*live_file_sink(path), {.producer = "live"});
  auto reader = TraceReader::open(*open_file(path), "live");
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->header().producer, "live");
  writer.append({.kind = EventKind::empty_cache});
  ASSERT_TRUE(writer.flush());
  EventBatch batch;
  EXPECT_TRUE(*reader->next(batch));
  const auto again = live_file_sink(path);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message().find("exists already"), std::string::npos);
}

TEST(FullDisk, TheFirstFailureIsKeptAndNothingMoreIsWritten) {
  /// Accepts some writes, then fails.
  class Failing final : public ByteSink {
   public:
    explicit Failing(int& writes, int good) : writes_(writes), good_(good) {}
    Result<void> write(std::span<const std::byte>) override {
      if (++writes_ > good_) return Error{.what = "failure " + std::to_string(writes_)};
      return {};
    }
    Result<void> close() override {
      ADD_FAILURE() << "closed, though it is not complete";
      return {};
    }

   private:
    int& writes_;
    int good_;
  };
  for (int good = 0; good < 5; ++good) {
    int writes = 0;
    TraceWriter writer(std::make_unique<Failing>(writes, good), {}, {.events_per_block = 10});
    testing::RandomHistory history(writer, 1);
    for (int i = 0; i < 100; ++i) writer.append({.kind = EventKind::empty_cache});
    const std::string expected = "failure " + std::to_string(good + 1);
    EXPECT_EQ(writer.flush().error().what, expected);
    EXPECT_EQ(writer.finish().error().what, expected);
    EXPECT_EQ(writes, good + 1);
  }
}

TEST(FullDisk, OfARealFile) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  TraceWriter writer(*atomic_file_sink("/dev/full"), {});
  const auto finished = writer.finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().message(),
            "/dev/full: can't write: No space left on device (free some space, or write to another disk)");
}

/// What one heap held: a segment, and two stretches of an expandable one.
InitialHeap initial_heap(HeapId heap, OriginId origin) {
  return {.heap = heap,
          .segments = {{.address = {1U << 21U},
                        .size = 2_MiB,
                        .origin = origin,
                        .small = true,
                        .range = {1U << 21U},
                        .blocks = {{512_B, InitialUse::allocated}, {2_MiB - 512_B, InitialUse::free}}},
                       {.address = {1U << 26U},
                        .size = 20_MiB,
                        .origin = origin,
                        .mapped = true,
                        .range = {1U << 25U},
                        .blocks = {{20_MiB, InitialUse::pending}}}}};
}

Trace with_initial_heap(const std::function<void(InitialHeap&)>& change) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const HeapId heap = writer.intern(Heap{.name = writer.intern("torch.cuda"), .level = Level::framework});
  const OriginId origin = writer.intern(Origin{.heap = heap});
  InitialHeap initial = initial_heap(heap, origin);
  change(initial);
  writer.add_initial_heap(initial);
  writer.append({.kind = EventKind::empty_cache, .origin = origin});
  EXPECT_TRUE(writer.finish());
  Result<Trace> trace = load(memory_file(bytes), "late");
  EXPECT_TRUE(trace) << trace.error().message();
  return *std::move(trace);
}

TEST(InitialHeap, IsReadAsWritten) {
  const Trace trace = with_initial_heap([](InitialHeap&) {});
  ASSERT_EQ(trace.initial_heaps.size(), 1U);
  EXPECT_EQ(trace.initial_heaps[0], initial_heap(HeapId{1}, OriginId{1}));
  EXPECT_TRUE(trace.read.intact());
}

TEST(InitialHeap, IsDamagedIfBlocksDontFillItsSegments) {
  const std::vector<std::function<void(InitialHeap&)>> damages{
      [](InitialHeap& heap) { heap.segments[0].blocks.pop_back(); },
      [](InitialHeap& heap) {
        heap.segments[0].blocks.push_back({512_B, InitialUse::free});
      },
      [](InitialHeap& heap) { heap.segments[0].blocks[0].size = {}; },
      [](InitialHeap& heap) { heap.segments[1].address = heap.segments[0].address; },
      [](InitialHeap& heap) { heap.segments[1].range = heap.segments[1].address + 1_B; },
      [](InitialHeap& heap) { heap.segments[1].origin = OriginId{77}; },
      [](InitialHeap& heap) { heap.heap = HeapId{77}; }};
  for (const auto& damage : damages) {
    const Trace trace = with_initial_heap(damage);
    EXPECT_TRUE(trace.initial_heaps.empty());
    EXPECT_EQ(trace.read.damaged_packets, 1U);
    EXPECT_EQ(trace.events.count(), 1U);
  }
}

PythonHolders python_holders() {
  return {.time = Nanoseconds(1'700'000'000'000'000'000),
          .took = Nanoseconds(350'000'000),
          .objects = 412'000,
          .note = "2 saved tensors not seen",
          .rows = {{.text = "`history` in `train` (train.py:12), list of 4,912",
                    .kind = "list",
                    .length = 4912,
                    .length_before = 4800,
                    .blocks = 4912,
                    .bytes = 3_GiB},
                   {.text = "`x`", .kind = {}, .length = 1, .blocks = 1, .bytes = 512_B}},
          .blocks = {{{0x1000}, 0}, {{0x2000}, 1}, {{0x7F00'0000'0000}, 0}}};
}

Trace with_python_holders(const PythonHolders& holders) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {});
  const HeapId heap = writer.intern(Heap{.name = writer.intern("torch.cuda"), .level = Level::framework});
  writer.append({.kind = EventKind::empty_cache, .origin = writer.intern(Origin{.heap = heap})});
  writer.set_python_holders(holders);
  EXPECT_TRUE(writer.finish());
  Result<Trace> trace = load(memory_file(bytes), "dump");
  EXPECT_TRUE(trace) << trace.error().message();
  return *std::move(trace);
}

TEST(PythonHolders, AreReadAsWritten) {
  const Trace trace = with_python_holders(python_holders());
  EXPECT_EQ(trace.python_holders, python_holders());
  EXPECT_TRUE(trace.read.intact());
  EXPECT_EQ(trace.read.unknown_packets, 0U);
  EXPECT_TRUE(with_python_holders({}).python_holders.empty());
}

TEST(PythonHolders, AreBoundedAndPrintable) {
  PythonHolders many = python_holders();
  many.rows.resize(100, {.text = std::string(1000, 'x') + "\x1b", .kind = "\n", .bytes = 1_B});
  many.blocks.push_back({{0x10}, 99});
  const PythonHolders read = with_python_holders(many).python_holders;
  ASSERT_EQ(read.rows.size(), PythonHolders::most_rows);
  EXPECT_LE(read.rows.back().text.size(), PythonHolders::longest_text + 3);
  EXPECT_TRUE(is_printable(read.rows.back().kind));
  EXPECT_EQ(read.blocks, python_holders().blocks);
}

TEST(PythonHolders, TheTextOfThePackageIsRead) {
  const PythonHolders read = parse_python_holders(
      "walk 1700000000000000000 350000000 412000\nnote 2 saved tensors not seen\n"
      "holder 3221225472 4912 4912 4800 list\t`history` in `train` (train.py:12), list of 4,912\n"
      "holder 512 1 1 0 \t`x`\nholder 1 2\nblock 139637976727552 0\nblock 8192 1\nblock 4096 0\nblock 5 2\nblock -1 "
      "0\nnew thing\n");
  EXPECT_EQ(read, python_holders());
  EXPECT_TRUE(parse_python_holders("").empty());
}

}  // namespace
}  // namespace memreel
