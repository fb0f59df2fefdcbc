// Files on their way to documents: sound, foreign, damaged, growing.
#include "viewer/model/source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "formats/import/import.h"
#include "tests/histories.h"
#include "tests/unit/formats/random_history.h"

namespace memreel::viewer {
namespace {

using namespace std::chrono_literals;

class SourceOf : public ::testing::Test {
 public:
  SourceOf() { std::filesystem::create_directories(directory_); }
  ~SourceOf() override { std::filesystem::remove_all(directory_); }

 protected:
  std::filesystem::path file(const std::string& name, std::span<const std::byte> bytes) {
    auto path = directory_ / name;
    append(path, bytes);
    return path;
  }
  static void append(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    std::ofstream stream(path, std::ios::binary | std::ios::app);
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  /// Whether `condition` comes true before long.
  static bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

 private:
  std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("memreel-source-" + std::to_string(::getpid()));
};

TEST_F(SourceOf, ATraceIsReadToItsEnd) {
  const auto bytes = memreel::testing::random_trace(1, 4'000, {.events_per_block = 300});
  const Source source(file("a.reel", bytes));
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_EQ(source.document()->event_count(), load(memory_file(bytes), "a")->events.count());
  EXPECT_TRUE(source.document()->complete);
  EXPECT_FALSE(source.status().followed);
  EXPECT_NE(source.file(), nullptr);
}

TEST_F(SourceOf, AnImportableFileIsImported) {
  const auto history = test::history("borrow_s91_expandable");
  ASSERT_TRUE(history);
  const Source source(*history);
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_EQ(source.document()->event_count(), open_any(*history)->events.count());
}

TEST_F(SourceOf, WhatIsNoTraceFailsWithItsReason) {
  const std::string text = "hello";
  const Source source(file("a.txt", std::as_bytes(std::span(text))));
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::failed; }));
  EXPECT_NE(source.status().error->message().find("a.txt"), std::string::npos);
  EXPECT_TRUE(source.document()->empty());
}

TEST_F(SourceOf, AGrowingFileIsFollowedToItsEnd) {
  const auto bytes = memreel::testing::random_trace(5, 6'000, {.events_per_block = 200});
  const auto half = std::span(bytes).first(bytes.size() / 2), rest = std::span(bytes).subspan(bytes.size() / 2);
  const auto path = file("a.reel", half);
  const Source source(path);
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_TRUE(source.status().followed);
  const auto before = source.document();
  const std::uint32_t events = before->event_count();
  EXPECT_GT(events, 1000U);
  append(path, rest);
  ASSERT_TRUE(eventually([&] {
    const SourceStatus status = source.status();
    return status.stage == Stage::complete && !status.followed;
  }));
  EXPECT_EQ(source.document()->event_count(), load(memory_file(bytes), "a")->events.count());
  EXPECT_EQ(before->event_count(), events) << "an earlier version is what it was";
}

TEST_F(SourceOf, CanBeGivenUpAtAnyTime) {
  const auto bytes = memreel::testing::random_trace(6, 20'000, {.events_per_block = 100});
  const auto path = file("a.reel", bytes);
  for (int i = 0; i < 10; ++i) {
    const Source source(path);
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
  }
}

}  // namespace
}  // namespace memreel::viewer
