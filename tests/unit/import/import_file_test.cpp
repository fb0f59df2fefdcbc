// SPDX-License-Identifier: Apache-2.0
// import_file() and open_any() as callers see them.
#include <gtest/gtest.h>

#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

std::string small_snapshot() { return pickled(snapshot({}, {entry("alloc", 4096, 100, 1)})); }

TEST(ImportFile, KnowsItsFormats) {
  ASSERT_FALSE(import_formats().empty());
  EXPECT_EQ(import_formats()[0].name, "torch.snapshot");
}

TEST(ImportFile, AnErrorLeavesNoOutput) {
  const TemporaryFile input(small_snapshot().substr(0, 100));
  const std::filesystem::path output = input.directory() / "out.reel";
  auto sink = atomic_file_sink(output);
  ASSERT_TRUE(sink) << sink.error().message();
  EXPECT_FALSE(import_file(input.path(), std::move(*sink)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(input.directory()), {}), 1) << "only the input is there";
}

TEST(ImportFile, ATraceIsOpenedAsItIs) {
  const TemporaryFile input(small_snapshot());
  const std::filesystem::path output = input.directory() / "out.reel";
  auto sink = atomic_file_sink(output);
  ASSERT_TRUE(sink) << sink.error().message();
  ASSERT_TRUE(import_file(input.path(), std::move(*sink)));
  const Result<Trace> from_trace = open_any(output);
  const Result<Trace> from_pickle = open_any(input.path());
  ASSERT_TRUE(from_trace) << from_trace.error().message();
  ASSERT_TRUE(from_pickle) << from_pickle.error().message();
  EXPECT_EQ(from_trace->events, from_pickle->events);
  EXPECT_EQ(from_trace->tables, from_pickle->tables);
  std::vector<std::byte> again;
  const Result<void> imported_again = import_file(output, memory_sink(again));
  ASSERT_FALSE(imported_again);
  EXPECT_NE(imported_again.error().message().find("already a memreel trace"), std::string::npos);
}

TEST(ImportFile, ErrorsNameTheFileAndARemedy) {
  EXPECT_NE(open_any("/nowhere/at/all.pickle").error().message().find("/nowhere/at/all.pickle: can't be opened"),
            std::string::npos);
  EXPECT_NE(open_any("/tmp").error().message().find("is a directory"), std::string::npos);
  EXPECT_NE(refusal("").find("the file is empty"), std::string::npos);
  EXPECT_NE(refusal("hello").find("available, also compressed"), std::string::npos);
  const TemporaryFile input(small_snapshot());
  EXPECT_NE(open_any(input.path(), {.format = "nonsense"}).error().message().find("available: torch.snapshot"),
            std::string::npos);
}

TEST(ImportFile, ProgressReachesTheEnd) {
  std::vector<Document> entries;
  for (std::uint64_t i = 0; i < 600'000; ++i) entries.push_back({{"action", "snapshot"}, {"addr", i << 33U}});
  const TemporaryFile input(pickled(snapshot({}, entries)));
  std::vector<ImportProgress> reports;
  const ImportOptions options{.on_progress = [&](ImportProgress progress) { reports.push_back(progress); }};
  const Result<Trace> trace = open_any(input.path(), options);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_GE(reports.size(), 3U);
  for (std::size_t i = 1; i < reports.size(); ++i) EXPECT_GE(reports[i].bytes_done, reports[i - 1].bytes_done);
  EXPECT_EQ(reports.back().bytes_total, std::filesystem::file_size(input.path()));
  EXPECT_EQ(reports.back().bytes_done, reports.back().bytes_total);
}

}  // namespace
}  // namespace memreel::test
