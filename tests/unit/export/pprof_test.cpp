// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "formats/export/export.h"
#include "pprof.pb.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using test::pprof::Profile;
using ::testing::ElementsAre;
using testing::TraceBuilder;
using ::testing::UnorderedElementsAre;

std::string unzipped(std::string bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);  // gzip only
  std::string out(1UL << 24U, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());  // NOLINT
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());  // NOLINT
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0U);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

/// A sample with everything it references resolved.
struct Site {
  std::vector<std::string> stack;  // "function file:line", innermost first
  std::map<std::string, std::string> labels;
  std::map<std::string, std::int64_t> values;
};

class PprofTest : public ::testing::Test {
 protected:
  std::vector<Site> sites(const Trace& trace, const ExportOptions& options = {}) {
    std::ostringstream out;
    EXPECT_TRUE(export_trace(trace, "pprof", options, out));
    EXPECT_TRUE(profile_.ParseFromString(unzipped(out.str())));
    EXPECT_EQ(text(0), "");
    std::map<std::uint64_t, const test::pprof::Location*> locations;
    for (const auto& location : profile_.location())
      EXPECT_TRUE(location.id() != 0 && locations.emplace(location.id(), &location).second);
    std::map<std::uint64_t, const test::pprof::Function*> functions;
    for (const auto& function : profile_.function())
      EXPECT_TRUE(function.id() != 0 && functions.emplace(function.id(), &function).second);
    std::vector<Site> found;
    for (const auto& sample : profile_.sample()) {
      Site& site = found.emplace_back();
      for (const std::uint64_t id : sample.location_id()) {
        const auto& line = locations.at(id)->line(0);
        const auto& function = *functions.at(line.function_id());
        site.stack.push_back(text(function.name()) + " " + text(function.filename()) + ":" +
                             std::to_string(line.line()));
      }
      for (const auto& label : sample.label()) site.labels[text(label.key())] = text(label.str());
      EXPECT_EQ(sample.value_size(), profile_.sample_type_size());
      for (int v = 0; v < sample.value_size(); ++v)
        site.values[text(profile_.sample_type(v).type()) + " " + text(profile_.sample_type(v).unit())] =
            sample.value(v);
    }
    return found;
  }

  std::string text(std::int64_t number) const { return profile_.string_table(static_cast<int>(number)); }

  Profile profile_;
};

TEST_F(PprofTest, SamplesAreWhatStacksHoldAtThePeak) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1}, 0x10);
  const StackId kept = build.stack({"f@a.py:3", "main@m.py:9"}), brief = build.stack({"g@a.py:5"});
  build.free(build.alloc(origin, {0x1000}, 100_B, kept));
  build.alloc(origin, {0x1000}, 400_B, kept);
  const AllocationId last = build.alloc(origin, {0x2000}, 300_B, brief);  // the peak is here
  build.free(last);
  build.alloc(origin, {0x3000}, 1_B, brief);
  const std::vector<Site> found = sites(build.trace());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0].stack, ElementsAre("f a.py:3", "main m.py:9"));
  EXPECT_THAT(found[0].values,
              UnorderedElementsAre(std::pair("alloc_objects count", 2), std::pair("alloc_space bytes", 500),
                                   std::pair("inuse_objects count", 1), std::pair("inuse_space bytes", 400)));
  EXPECT_EQ(found[0].labels.at("stream"), "0x10");
  EXPECT_EQ(found[0].labels.at("heap"), "torch.cuda");
  EXPECT_EQ(found[0].labels.at("device"), "cuda:0");
  EXPECT_EQ(found[1].values.at("inuse_space bytes"), 300);
  EXPECT_EQ(text(profile_.default_sample_type()), "inuse_space");
}

TEST_F(PprofTest, AnInstantIsAfterSoManyEvents) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.free(build.alloc(origin, {0x1000}, 100_B, build.stack({"f@a.py:3"})));
  const std::vector<Site> before = sites(build.trace(), {.events = 1, .block_sizes = {}});
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0].values.at("inuse_space bytes"), 100);
  const std::vector<Site> after = sites(build.trace(), {.events = 3, .block_sizes = {}});
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].values.at("inuse_space bytes"), 0);
  EXPECT_EQ(after[0].values.at("alloc_space bytes"), 100);
  EXPECT_TRUE(sites(build.trace(), {.events = 0, .block_sizes = {}}).empty());
}

TEST_F(PprofTest, PoolsStreamsAndDevicesAreToldApart) {
  TraceBuilder build;
  build.trace().tables.pools.push_back({.key_high = 1, .key_low = 7});
  const StackId stack = build.stack({"f@a.py:3"});
  build.alloc(build.origin(HeapId{1}), {0x1000}, 10_B, stack);
  build.alloc(build.origin(HeapId{1}, 0x20, PoolId{1}), {0x2000}, 20_B, stack);
  build.alloc(build.origin(build.heap("torch.cuda", Level::framework, 1)), {0x1000}, 40_B, stack);
  std::vector<Site> found = sites(build.trace());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].labels.at("pool"), "default");
  EXPECT_EQ(found[0].labels.at("stream"), "default");
  EXPECT_EQ(found[1].labels.at("pool"), "(1, 7)");
  EXPECT_EQ(found[1].labels.at("stream"), "0x20");
  EXPECT_EQ(found[2].labels.at("device"), "cuda:1");
  EXPECT_EQ(found[2].values.at("inuse_space bytes"), 40);
}

TEST_F(PprofTest, WhatHasNoStackIsStillThere) {
  TraceBuilder build;
  build.alloc(build.origin(HeapId{1}), {0x1000}, 10_B);
  const std::vector<Site> found = sites(build.trace());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].stack, ElementsAre("(no stack) :0"));
}

TEST_F(PprofTest, NativeFramesKeepModuleAndAddress) {
  TraceBuilder build;
  Tables& tables = build.trace().tables;
  tables.modules.push_back(
      {.path = build.string("/lib/libx.so"), .build_id = "\x01\xab", .base = {0x7000}, .size = 0x1000_B});
  const StackId stack = build.stack({"x\xff@:0"});
  tables.frames.back().module = ModuleId{1};
  tables.frames.back().module_offset = 0x234;
  build.alloc(build.origin(HeapId{1}), {0x1000}, 10_B, stack);
  EXPECT_THAT(sites(build.trace())[0].stack, ElementsAre("x\xEF\xBF\xBD :0"));
  ASSERT_EQ(profile_.mapping_size(), 1);
  EXPECT_EQ(text(profile_.mapping(0).filename()), "/lib/libx.so");
  EXPECT_EQ(text(profile_.mapping(0).build_id()), "01ab");
  EXPECT_EQ(profile_.location(0).mapping_id(), profile_.mapping(0).id());
  EXPECT_EQ(profile_.location(0).address(), 0x7234U);
}

TEST_F(PprofTest, AProfileLargerThanTheBufferIsWhole) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  std::uint64_t random = 1;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    build.alloc(origin, {0x1000 * i}, {i + 1}, build.stack({"f" + std::to_string(random) + "@a.py:3"}));
  }
  std::int64_t total = 0;
  for (const Site& site : sites(build.trace())) total += site.values.at("inuse_space bytes");
  EXPECT_EQ(total, 2000 * 2001 / 2);
}

TEST_F(PprofTest, WhatOneStackMadeForDifferentPurposesIsDifferentSamples) {
  TraceBuilder build;
  const StackId stack = build.stack({"forward@model.py:7"});
  build.alloc(build.origin(HeapId{1}), {0x1000}, 500_B, stack);
  build.alloc(build.origin(HeapId{1}), {0x2000}, 100_B, stack);
  const std::vector<std::string_view> categories{"activation", "temporary"}, layers{"model.py:7", "model.py:7"},
      phases{"forward", "forward"};
  const std::vector<Site> samples =
      sites(build.trace(),
            {.events = {}, .block_sizes = {}, .notes = {.category = categories, .layer = layers, .phase = phases}});
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].labels.at("category"), "activation");
  EXPECT_EQ(samples[0].labels.at("layer"), "model.py:7");
  EXPECT_EQ(samples[0].labels.at("phase"), "forward");
  EXPECT_EQ(samples[0].values.at("inuse_space bytes"), 500);
  EXPECT_EQ(samples[1].labels.at("category"), "temporary");
}

}  // namespace
}  // namespace memreel
