// SPDX-License-Identifier: Apache-2.0
// Traces as the viewer holds them, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"
#include "viewer/model/document_builder.h"

namespace memreel::viewer {

struct Opened {
  Trace trace;
  std::vector<std::shared_ptr<const Document>> versions;  // after each block
  const Document& last() const { return *versions.back(); }
};

/// `interval`: events between keyframes.
inline Opened open(const std::shared_ptr<ByteFile>& file, std::uint32_t interval = keyframe_interval) {
  Opened opened;
  auto trace = load(file, "trace");
  auto reader = TraceReader::open(file, "trace");
  EXPECT_TRUE(trace && reader);
  opened.trace = *std::move(trace);
  DocumentBuilder builder(interval);
  Events events;
  const auto so_far = [&] { return std::make_shared<const Trace>(trace_so_far(*reader, events, {file->size()})); };
  EventBatch batch;
  for (;;) {
    const auto more = reader->next(batch);
    EXPECT_TRUE(more);
    if (!more || !*more) break;
    events.append(batch.events);
    builder.add(batch.events, events, reader->tables());
    opened.versions.push_back(builder.publish(so_far(), false));
  }
  opened.versions.push_back(builder.publish(so_far(), true));
  return opened;
}

/// The file of a synthetic trace, with its ids unchanged.
inline std::vector<std::byte> written(const Trace& trace) {
  std::vector<std::byte> bytes;
  TraceWriter writer(memory_sink(bytes), trace.header);
  const auto intern = [&](const auto& rows) {
    for (std::size_t i = 1; i < rows.size(); ++i) static_cast<void>(writer.intern(rows[i]));
  };
  intern(trace.tables.strings);
  intern(trace.tables.frames);
  intern(trace.tables.stacks);
  intern(trace.tables.heaps);
  intern(trace.tables.streams);
  intern(trace.tables.pools);
  intern(trace.tables.marks);
  intern(trace.tables.origins);
  for (std::size_t i = 0; i < trace.events.count(); ++i) static_cast<void>(writer.append(trace.events[i]));
  EXPECT_TRUE(writer.finish());
  return bytes;
}

}  // namespace memreel::viewer
