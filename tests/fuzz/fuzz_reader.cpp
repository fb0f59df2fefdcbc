// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to the trace reader. It must not crash, hang or contradict itself.
//
// A randomly changed file fails its CRCs, so the reader's code behind them would never be reached. Therefore the first
// byte of an input selects the kind of the rest: a file, whose CRCs are fixed first; or a list of messages, from which
// a well-formed file is made around malformed content.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <protozero/pbf_builder.hpp>
#include <string>
#include <string_view>

#include "formats/reader/trace_index.h"
#include "formats/reader/trace_reader.h"
#include "formats/wire/framing.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"

namespace memreel {
namespace {

using protozero::pbf_builder;
using wire::PacketField;

void require(bool condition) {
  if (!condition) std::abort();
}

/// Recomputes the CRC of every packet.
std::string resealed(std::string_view file) {
  std::string result;
  while (!file.empty()) {
    const auto head = wire::parse_head(file);
    const std::size_t size = head && head->packet_size <= file.size() ? head->packet_size : 1;
    std::string part(file.substr(0, size));
    if (size > 1) wire::seal_packet(part);
    result += part;
    file.remove_prefix(size);
  }
  return result;
}

/// Takes numbers and strings from an input until it is used up.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  std::uint32_t number(std::size_t width) {
    std::uint32_t value = 0;
    for (const char byte : text(width)) value = (value << 8U) | static_cast<unsigned char>(byte);
    return value;
  }
  std::string_view text(std::size_t size) {
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(part.size());
    return part;
  }

 private:
  std::string_view bytes_;
};

template <class Field>
void add_zstd(pbf_builder<Field>& message, Field content_field, Field size_field, std::string_view content) {
  static wire::Compressor compressor(1);
  const std::string_view frame = compressor.compress(content);
  message.add_bytes(content_field, frame.data(), frame.size());
  message.add_uint32(size_field, static_cast<std::uint32_t>(content.size()));
}

/// Each packet: its kind, content length, numbers if it is a block, content.
std::string file_of_messages(Input input) {
  std::string file;
  std::uint64_t events = 0, allocations = 0;
  while (!input.empty()) {
    const auto kind = static_cast<PacketField>(input.number(1) % 8 + 2);
    const std::size_t size = input.number(2);
    std::string packet = wire::open_packet();
    {
      pbf_builder<PacketField> body(packet);
      if (kind == PacketField::tables) {
        pbf_builder<wire::TablesField> message(body, kind);
        add_zstd(message, wire::TablesField::rows_zstd, wire::TablesField::rows_size, input.text(size));
      } else if (kind == PacketField::keyframe) {
        pbf_builder<wire::KeyframeField> message(body, kind);
        message.add_uint64(wire::KeyframeField::event, events);
        add_zstd(message, wire::KeyframeField::rows_zstd, wire::KeyframeField::rows_size, input.text(size));
      } else if (kind == PacketField::events) {
        pbf_builder<wire::BlockField> message(body, kind);
        const std::uint32_t count = input.number(1), allocs = input.number(1);
        message.add_uint32(wire::BlockField::count, count);
        message.add_uint64(wire::BlockField::first_event, events);
        message.add_uint64(wire::BlockField::first_allocation, allocations);
        message.add_uint32(wire::BlockField::allocation_count, allocs);
        add_zstd(message, wire::BlockField::columns_zstd, wire::BlockField::columns_size, input.text(size));
        events += count;
        allocations += allocs;
      } else {
        body.add_bytes(kind, std::string(input.text(size)));
      }
    }
    wire::seal_packet(packet);
    file += packet;
  }
  return file;
}

void check_tables(const Tables& t) {
  for (std::size_t i = 1; i < t.stacks.size(); ++i) {
    require(index(t.stacks[i].caller) < i);
    require(index(t.stacks[i].frame) < t.frames.size());
  }
  for (const Frame& row : t.frames)
    require(index(row.function) < t.strings.size() && index(row.file) < t.strings.size() &&
            index(row.module) < t.modules.size());
  for (std::size_t i = 1; i < t.heaps.size(); ++i) require(index(t.heaps[i].parent) < i);
  for (const Origin& row : t.origins)
    require(index(row.heap) < t.heaps.size() && index(row.pool) < t.pools.size() &&
            index(row.stream) < t.streams.size() && index(row.thread) < t.threads.size());
}

void check_events(const Trace& trace) {
  const Events& e = trace.events;
  const Tables& t = trace.tables;
  std::size_t allocations = 0;
  for (std::size_t i = 0; i < e.count(); ++i) {
    const Event event = e[i];
    require(event.kind != EventKind::unknown && static_cast<std::size_t>(event.kind) < event_kind_count);
    require(index(event.origin) < t.origins.size() && index(event.stack) < t.stacks.size());
    if (event.kind == EventKind::alloc) {
      require(index(event.allocation) == allocations && trace.events.begin_of(AllocationId(allocations)) == i);
      ++allocations;
    } else {
      require(event.allocation == AllocationId::none || (is_free(event.kind) && index(event.allocation) < allocations));
    }
    require(event.kind != EventKind::mark || event.value < t.marks.size());
    require(event.kind != EventKind::settings || event.value < t.settings.size());
  }
  require(allocations == trace.events.allocation_count());
}

void check_streaming(const std::shared_ptr<ByteFile>& file, const Trace& trace) {
  auto reader = TraceReader::open(file, "input");
  require(static_cast<bool>(reader));
  EventBatch batch;
  std::size_t events = 0;
  while (*reader->next(batch)) events += batch.events.count();
  require(events == trace.events.count());
  require(reader->tables() == trace.tables);
  require(reader->report() == trace.read);
}

void check_index(const std::shared_ptr<ByteFile>& file) {
  const auto index = TraceIndex::open(file, "input");
  require(static_cast<bool>(index));
  for (const std::uint64_t quarter : {0U, 1U, 2U, 3U, 4U}) {
    const auto state = index->state_after(index->event_count() / 4 * quarter);
    require(state && state->event <= index->event_count());
  }
  require(static_cast<bool>(index->state_at(Nanoseconds(0))));
}

void read(const std::string& bytes) {
  const auto file = memory_file(std::as_bytes(std::span(bytes)));
  const auto trace = load(file, "input");
  if (!trace) return;
  check_tables(trace->tables);
  check_events(*trace);
  check_streaming(file, *trace);
  check_index(file);
}

void run(std::string_view input) {
  if (input.empty()) return;
  const bool is_file = input.front() % 2 == 0;
  input.remove_prefix(1);
  read(is_file ? resealed(input) : file_of_messages(Input(input)));
}

}  // namespace
}  // namespace memreel

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memreel::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
