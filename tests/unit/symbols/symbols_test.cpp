// SPDX-License-Identifier: Apache-2.0
// Names for native code addresses, from what is left of a library's debug information.
#include "analyzer/symbols/symbols.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "analyzer/describe/own_frame.h"
#include "collector/stacks/module_table.h"
#include "formats/model/stack_text.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// An address in the fixture, as named by a recording of a program that loaded it.
struct Recorded {
  std::string path;
  Module module;
  std::uint64_t offset = 0;
  std::array<std::uint32_t, 3> lines{};
};

Recorded record_fixture() {
  void* const library = dlopen(FIXTURE, RTLD_NOW | RTLD_LOCAL);
  const auto place = reinterpret_cast<void* (*)()>(dlsym(library, "fixture_place"));
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(place()) - 1;
  stacks::ModuleTable modules;
  modules.refresh();
  const stacks::LoadedModule& loaded = modules[modules.find(address)];
  Recorded recorded{.path = loaded.path,
                    .module = {.build_id = loaded.build_id,
                               .base = {loaded.range.begin},
                               .size = {loaded.range.end - loaded.range.begin}},
                    .offset = address - loaded.range.begin};
  const auto* const lines = static_cast<const int*>(dlsym(library, "fixture_lines"));
  for (std::size_t i = 0; i < 3; ++i) recorded.lines.at(i) = static_cast<std::uint32_t>(lines[i]);
  dlclose(library);
  return recorded;
}

class Symbols : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_read_symbols()) GTEST_SKIP() << "built without libdw";
    fs::remove_all(directory);
    fs::create_directories(directory);
  }
  void TearDown() override { fs::remove_all(directory); }

  /// Puts a copy of a file below the directory.
  void put(const fs::path& file, const fs::path& where) const {
    const fs::path target = directory / where.relative_path();
    fs::create_directories(target.parent_path());
    fs::copy_file(file, target, fs::copy_options::overwrite_existing);
  }

  fs::path debug_path() const {
    std::string id;
    for (const char byte : recorded.module.build_id) {
      std::array<char, 3> digits{};
      std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
      id += digits.data();
    }
    return fs::path("usr/lib/debug/.build-id") / id.substr(0, 2) / (id.substr(2) + ".debug");
  }

  /// For a module whose recorded path does not exist on this machine.
  ModuleSymbols elsewhere(const std::string& path = "/opt/app/libfixture.so") const {
    return {path, recorded.module, {.sysroot = directory}};
  }

  const fs::path directory = fs::path(::testing::TempDir()) / ("memreel-symbols-" + std::to_string(getpid()));
  const Recorded recorded = record_fixture();
};

TEST_F(Symbols, InlinedCallsInnermostFirst) {
  ModuleSymbols symbols(recorded.path, recorded.module, {});
  const std::vector<SourceFrame> frames = symbols.at(recorded.offset);
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_THAT(frames[0].function, HasSubstr("inner"));
  EXPECT_THAT(frames[1].function, HasSubstr("run"));
  EXPECT_EQ(frames[2].function, "fixture_place");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(frames[i].file, FIXTURE_SOURCE);
    EXPECT_EQ(frames[i].line, recorded.lines.at(i));
  }
  EXPECT_EQ(symbols.found(), ModuleSymbols::Found::file);
}

TEST_F(Symbols, PlacesOutsideOfAllFunctionsHaveNoName) {
  ModuleSymbols symbols(recorded.path, recorded.module, {});
  EXPECT_TRUE(symbols.at(0).empty());
  EXPECT_TRUE(symbols.at(1U << 30U).empty());
  EXPECT_TRUE(symbols.at(~std::uint64_t{0}).empty());
}

TEST_F(Symbols, UnderASysroot) {
  put(FIXTURE, "/opt/app/libfixture.so");
  EXPECT_EQ(elsewhere().at(recorded.offset), ModuleSymbols(recorded.path, recorded.module, {}).at(recorded.offset));
  // Also when all libraries are in one directory.
  put(FIXTURE, "/libflat.so");
  EXPECT_EQ(elsewhere("/somewhere/libflat.so").at(recorded.offset).size(), 3U);
}

TEST_F(Symbols, OnlyRegularFilesAreOpened) {
  fs::create_directories(directory / "opt/app");
  ASSERT_EQ(::mkfifo((directory / "opt/app/libfixture.so").c_str(), 0600), 0);  // opening it would wait for a writer
  EXPECT_NE(elsewhere().found(), ModuleSymbols::Found::file);
  EXPECT_NE(ModuleSymbols("/dev/zero", recorded.module, {}).found(), ModuleSymbols::Found::file);
}

TEST_F(Symbols, NothingLeadsOutOfASysroot) {
  const fs::path outside = directory.string() + "-outside";
  fs::create_directories(outside);
  fs::copy_file(FIXTURE, outside / "libfixture.so", fs::copy_options::overwrite_existing);
  fs::create_directories(directory / "opt/app");
  const auto is_found = [&](const std::string& path) { return elsewhere(path).found() == ModuleSymbols::Found::file; };
  EXPECT_FALSE(is_found("/opt/../../" + outside.filename().string() + "/libfixture.so"));
  fs::create_symlink(outside / "libfixture.so", directory / "opt/app/libfixture.so");
  EXPECT_FALSE(is_found("/opt/app/libfixture.so"));
  fs::create_symlink("../../../" + outside.filename().string(), directory / "opt/app/up");
  EXPECT_FALSE(is_found("/opt/app/up/libfixture.so"));
  // Links are the recorded machine's: absolute ones begin at its root.
  put(FIXTURE, "/usr/lib/libreal.so");
  fs::create_symlink("/usr/lib/libreal.so", directory / "opt/app/liblinked.so");
  EXPECT_TRUE(is_found("/opt/app/liblinked.so"));
  fs::remove_all(outside);
}

TEST_F(Symbols, DebugInformationApartIsFoundByBuildId) {
  put(FIXTURE_STRIPPED, "/opt/app/libfixture.so");
  EXPECT_EQ(elsewhere().at(recorded.offset).front().function, "fixture_place") << "of the dynamic symbols";
  EXPECT_EQ(elsewhere().at(recorded.offset).front().line, 0U);
  put(FIXTURE_DEBUG, debug_path());
  EXPECT_EQ(elsewhere().at(recorded.offset), ModuleSymbols(recorded.path, recorded.module, {}).at(recorded.offset));
  // It is sufficient on its own.
  fs::remove(directory / "opt/app/libfixture.so");
  EXPECT_EQ(elsewhere().at(recorded.offset).size(), 3U);
}

TEST_F(Symbols, TheSymbolTableServesWhereThereIsNoDebugInformation) {
  put(FIXTURE_SYMTAB, "/opt/app/libfixture.so");
  EXPECT_EQ(elsewhere().at(recorded.offset), (std::vector<SourceFrame>{{.function = "fixture_place"}}));
}

TEST_F(Symbols, AnotherBuildIsSaidAndNotUsed) {
  put(FIXTURE_OTHER, "/opt/app/libfixture.so");
  ModuleSymbols symbols = elsewhere();
  EXPECT_TRUE(symbols.at(recorded.offset).empty());
  EXPECT_EQ(symbols.found(), ModuleSymbols::Found::another_build);
  EXPECT_THAT(symbols.mismatch(), HasSubstr((directory / "opt/app/libfixture.so").string() + " has build-id "));
}

TEST_F(Symbols, NothingFound) {
  ModuleSymbols symbols = elsewhere();
  EXPECT_TRUE(symbols.at(recorded.offset).empty());
  EXPECT_EQ(symbols.found(), ModuleSymbols::Found::nothing);
}

TEST_F(Symbols, DamagedFilesHaveNoNames) {
  std::FILE* const source = std::fopen(FIXTURE, "rb");
  std::string sound(fs::file_size(FIXTURE), '\0');
  ASSERT_EQ(std::fread(sound.data(), 1, sound.size(), source), sound.size());
  std::fclose(source);
  std::uint64_t state = 1;
  const auto below = [&](std::size_t limit) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state >> 33U) % limit;
  };
  fs::create_directories(directory / "opt/app");
  for (int round = 0; round < 60; ++round) {
    std::string damaged = sound;
    // The first page stays: it identifies the build.
    for (int i = 0; i < 30; ++i) damaged[4096 + below(damaged.size() - 4096)] = static_cast<char>(below(256));
    std::FILE* const file = std::fopen((directory / "opt/app/libfixture.so").c_str(), "wb");
    std::fwrite(damaged.data(), 1, below(4) == 0 ? below(damaged.size()) : damaged.size(), file);
    std::fclose(file);
    elsewhere().at(recorded.offset);
  }
}

/// A trace with one allocation whose stack is the fixture's address, called from Python.
class NamedFrames : public Symbols {
 protected:
  Tables tables(const std::string& module_path) const {
    Tables t;
    t.strings = {"", module_path, "train.py", "main"};
    t.modules.push_back(recorded.module);
    t.modules[1].path = StringId{1};
    t.frames.push_back({.function = StringId{3}, .file = StringId{2}, .line = 7});
    t.frames.push_back({.module = ModuleId{1}, .module_offset = recorded.offset});
    t.frames.push_back({.module = ModuleId{1}, .module_offset = 0});
    t.stacks.push_back({.frame = FrameId{1}});
    t.stacks.push_back({.frame = FrameId{2}, .caller = StackId{1}});
    t.stacks.push_back({.frame = FrameId{3}, .caller = StackId{2}});
    t.stacks.push_back({.frame = FrameId{2}, .caller = StackId{3}});
    return t;
  }

  void write(const fs::path& path) const { write(path, recorded.path); }
  void write(const fs::path& path, const std::string& module_path) const {
    Result<std::unique_ptr<LiveFile>> sink = live_file_sink(path);
    TraceWriter writer(*std::move(sink), {.producer = "test"});
    Tables t = tables(module_path);
    t.strings.emplace_back("cuda");
    t.heaps.push_back({.name = StringId{4}});
    t.origins.push_back({.heap = HeapId{1}});
    writer.extend_tables(t);
    for (std::uint32_t i = 0; i < 3; ++i)
      writer.append({.kind = EventKind::alloc,
                     .origin = OriginId{1},
                     .stack = StackId{2},
                     .time = Nanoseconds(i),
                     .address = {0x1000 * (i + 1)},
                     .size = 256_B});
    writer.append({.kind = EventKind::free_requested, .origin = OriginId{1}, .stack = StackId{1}, .address = {0x1000}});
    writer.set_losses({.ring_full = 3});
    ASSERT_TRUE(writer.finish());
  }

  static std::vector<std::string> functions_of(const Tables& t, StackId stack) {
    std::vector<std::string> functions;
    for (const FrameText& frame : frames_of(t, stack)) functions.emplace_back(frame.function);
    return functions;
  }
};

TEST_F(NamedFrames, InlinedCallsBecomeFrames) {
  Tables t = tables(recorded.path);
  const auto [now, findings] = name_frames(t, {}, Unnamed::module_and_offset);
  EXPECT_EQ(findings.native_frames, 2U);
  EXPECT_EQ(findings.named, 1U);
  ASSERT_EQ(now.size(), 5U);
  const std::vector<std::string> outer = functions_of(t, now[2]);
  ASSERT_EQ(outer.size(), 4U);
  EXPECT_THAT(outer[0], HasSubstr("inner"));
  EXPECT_THAT(outer[1], HasSubstr("run"));
  EXPECT_EQ(outer[2], "fixture_place");
  EXPECT_EQ(outer[3], "main");
  const std::vector<std::string> all = functions_of(t, now[4]);
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(all[3], fs::path(recorded.path).filename().string() + "+0x0");
  EXPECT_EQ(std::vector(all.begin() + 4, all.end()), outer);
  for (std::size_t s = 1; s < t.stacks.size(); ++s) EXPECT_LT(index(t.stacks[s].caller), s);

  // Frames that have names are unchanged.
  const Tables before = t;
  EXPECT_EQ(name_frames(t, {}, Unnamed::module_and_offset).second.native_frames, 0U);
  EXPECT_EQ(t, before);
}

TEST_F(NamedFrames, ABundledTraceNeedsNoModules) {
  const fs::path original = directory / "run.reel", bundled = directory / "named.reel";
  write(original);
  const Result<SymbolFindings> findings = bundle_symbols(original, bundled, {});
  ASSERT_TRUE(findings) << findings.error().message();
  EXPECT_EQ(findings->named, 1U);
  const Result<Trace> before = load(original), after = load(bundled);
  ASSERT_TRUE(before && after);
  EXPECT_TRUE(after->read.intact());
  EXPECT_EQ(after->losses, before->losses);
  ASSERT_EQ(after->events.count(), 4U);
  ASSERT_EQ(after->events.count(), before->events.count());
  for (std::size_t i = 0; i < after->events.count(); ++i) {
    EXPECT_EQ(after->events.allocation(i), before->events.allocation(i));
    EXPECT_EQ(after->events.address_or_value(i), before->events.address_or_value(i));
  }
  const std::vector<FrameText> frames = frames_of(after->tables, after->events.stack(0));
  ASSERT_EQ(frames.size(), 4U);
  EXPECT_EQ(frames[2].function, "fixture_place");
  EXPECT_EQ(frames[2].file, FIXTURE_SOURCE);
  EXPECT_EQ(frames[2].line, recorded.lines[2]);
  EXPECT_EQ(functions_of(after->tables, after->events.stack(3)), std::vector<std::string>{"main"});

  // In place, and repeated.
  ASSERT_TRUE(bundle_symbols(original, original, {}));
  ASSERT_TRUE(bundle_symbols(original, original, {}));
  EXPECT_EQ(load(original)->tables.frames, after->tables.frames);
}

TEST_F(NamedFrames, ATraceThatWasCutOffIsNotRewritten) {
  const fs::path path = directory / "run.reel";
  write(path);
  fs::resize_file(path, fs::file_size(path) - 3);
  const Result<SymbolFindings> findings = bundle_symbols(path, path, {});
  ASSERT_FALSE(findings);
  EXPECT_THAT(findings.error().message(), HasSubstr("can't be rewritten"));
}

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> part{};
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), size);
  pclose(pipe);
  return text;
}

TEST_F(NamedFrames, ReportShowsThem) {
  const fs::path path = directory / "run.reel";
  write(path);
  const std::string memreel = MEMREEL;
  const std::string report = output_of(memreel + " report --by stack " + path.string());
  EXPECT_THAT(report, HasSubstr("fixture_place (fixture.cpp:" + std::to_string(recorded.lines[2])));
  EXPECT_THAT(report, HasSubstr("main (train.py:7)"));
  EXPECT_THAT(output_of(memreel + " export --format jsonl " + path.string()),
              HasSubstr(R"("function":"fixture_place","file":")"));
  EXPECT_THAT(output_of(memreel + " symbols " + path.string()), HasSubstr("named 1 of 2 native frames"));
}

TEST_F(NamedFrames, ReportSaysWhyThereAreNone) {
  const fs::path path = directory / "run.reel";
  write(path, "/opt/app/libfixture.so");
  EXPECT_THAT(output_of(std::string(MEMREEL) + " report " + path.string()),
              AllOf(HasSubstr("not found on this machine: libfixture.so"), HasSubstr("libfixture.so+0x")));
  put(FIXTURE_OTHER, "/opt/app/libfixture.so");
  EXPECT_THAT(output_of(std::string(MEMREEL) + " report --sysroot " + directory.string() + " " + path.string()),
              HasSubstr("libfixture.so is not the file that was recorded"));
}

TEST(OwnFrame, OfNativeStacks) {
  const FrameText driver = testing::frame("cuMemAlloc_v2", "", 0, "/usr/lib/x86_64-linux-gnu/libcuda.so.1");
  const FrameText runtime = testing::frame("cudaMalloc", "", 0, "/opt/cuda/lib64/libcudart.so.12");
  const FrameText header = testing::frame("std::vector", "/usr/include/c++/12/bits/vector.h", 3, "/home/me/app");
  const FrameText own = testing::frame("load", "/home/me/load.cu", 12, "/home/me/app");
  const FrameText stripped = testing::frame("app+0x12", "", 0, "/home/me/app");
  const FrameText library = testing::frame("libnccl.so.2+0x9", "", 0, "/usr/lib/libnccl.so.2");
  EXPECT_EQ(own_frame({driver, runtime, header, own}).function, "load");
  EXPECT_EQ(own_frame({driver, runtime, stripped}).function, "app+0x12");
  EXPECT_EQ(own_frame({driver, runtime, library}).function, "libnccl.so.2+0x9");
  EXPECT_EQ(own_frame({driver, runtime}).function, "cuMemAlloc_v2");
}

}  // namespace
}  // namespace memreel
