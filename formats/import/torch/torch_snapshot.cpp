// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/torch_snapshot.h"

#include <algorithm>

#include "formats/import/source/json_values.h"
#include "formats/import/source/log_lines.h"
#include "formats/import/source/unpickle.h"
#include "formats/import/source/value_arena.h"
#include "formats/import/torch/recorded_heap.h"
#include "formats/import/torch/snapshot_reader.h"
#include "formats/import/torch/snapshot_to_trace.h"

namespace memreel::torch {
namespace {

constexpr auto pickle_proto = std::byte{0x80};

bool is_pickle(std::span<const std::byte> beginning) { return !beginning.empty() && beginning[0] == pickle_proto; }

Result<Snapshot> read_snapshot(ByteCursor& bytes, ImportOutput& writer) {
  ValueArena arena(bytes.stored_size(), bytes.memory_limit());
  SnapshotReader reader(arena, writer);
  Result<Value> root = is_pickle(bytes.peek(1)) ? unpickle(bytes, arena, reader) : parse_json(bytes, arena, reader);
  if (!root) return std::move(root).error();
  return reader.finish(*root);
}

}  // namespace

bool looks_like_snapshot(std::span<const std::byte> beginning) {
  return is_pickle(beginning) || looks_like_json(beginning);
}

Result<void> import_snapshot(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "torch.snapshot";
  ImportOutput& writer = begin(header);
  Result<Snapshot> snapshot = read_snapshot(bytes, writer);
  if (!snapshot) {
    if (snapshot.error().where.empty()) snapshot.error().where = bytes.where();
    return std::move(snapshot).error();
  }
  write_trace(std::move(*snapshot), writer);
  return writer.finish();
}

Result<void> import_series(std::vector<Instant> instants, Header header, const BeginOutput& begin) {
  header.source = "torch.snapshot";
  ImportOutput& writer = begin(header);
  SnapshotSeries series(writer);
  for (Instant& instant : instants) {
    ByteCursor bytes(std::move(instant.file), {});
    Result<Snapshot> snapshot = read_snapshot(bytes, writer);
    Result<void> added = snapshot ? series.add(*snapshot, instant.name, instant.time_us) : snapshot.error();
    if (added) continue;
    Error error = std::move(added).error();
    if (error.where.empty()) error.where = bytes.where();
    return error;
  }
  write_trace(std::move(series).finish(), writer);
  return writer.finish();
}

namespace {

/// Consumes the text up to and including `mark`; false if it does not come.
bool skip_past(ByteCursor& text, std::string_view mark) {
  std::size_t matched = 0;
  for (auto byte = text.take(1); !byte.empty(); byte = text.take(1)) {
    const auto letter = std::to_integer<char>(byte[0]);
    // A mark's first character comes again at most as its last, so that a mismatch can only begin anew.
    matched = letter == mark[matched] ? matched + 1 : static_cast<std::size_t>(letter == mark[0]);
    if (matched == mark.size()) return true;
  }
  return false;
}

/// Decodes base64 (RFC 4648) up to the first character that is not of its alphabet.
class Base64Stream final : public ByteStream {
 public:
  explicit Base64Stream(ByteCursor& text) : text_(text) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    std::size_t count = 0;
    while (count < into.size() && !ended_) {
      const auto next = text_.take(1);
      const int digit = next.empty() ? -1 : digit_of(std::to_integer<char>(next[0]));
      if (digit < 0) {
        ended_ = true;
        break;
      }
      bits_ = bits_ << 6U | static_cast<std::uint32_t>(digit);
      bit_count_ += 6;
      if (bit_count_ < 8) continue;
      bit_count_ -= 8;
      into[count++] = static_cast<std::byte>(bits_ >> bit_count_ & 0xFFU);
    }
    if (text_.failure()) return *text_.failure();
    return count;
  }
  std::uint64_t stored_position() const override { return text_.position(); }

 private:
  static int digit_of(char letter) {
    if (letter >= 'A' && letter <= 'Z') return letter - 'A';
    if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9') return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
  }

  ByteCursor& text_;
  std::uint32_t bits_ = 0;
  unsigned bit_count_ = 0;
  bool ended_ = false;
};

constexpr std::size_t longest_beginning = 4096;  // of blanks before a page's first tag

bool is_markup(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first != std::string_view::npos && text[first] == '<';
}

}  // namespace

bool looks_like_viz_page(std::span<const std::byte> beginning) {
  const std::string_view text = text_of(beginning);
  if (!is_markup(text)) return false;
  return text.find("MemoryViz") != std::string_view::npos || text.find("add_local_files") != std::string_view::npos ||
         text.find("alloc_data") != std::string_view::npos || text.find("Memory Timeline") != std::string_view::npos;
}

Result<void> import_viz_page(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  if (!is_markup(text_of(bytes.peek(longest_beginning))))
    return Error{.what = "is not a page (HTML)",
                 .where = bytes.where(),
                 .offset = 0,
                 .remedy = "dump the snapshot itself, torch.cuda.memory._dump_snapshot()"};
  if (!skip_past(bytes, "\"base64\"") || !skip_past(bytes, "\"")) {
    if (bytes.failure()) return *bytes.failure();
    return Error{.what = "the page holds a picture, not the snapshot that it was made from",
                 .where = bytes.where(),
                 .remedy =
                     "dump the snapshot itself, torch.cuda.memory._dump_snapshot(), or use export_memory_timeline("
                     "\"x.raw.json.gz\")"};
  }
  ByteCursor pickle({.bytes = std::make_unique<Base64Stream>(bytes),
                     .stored_size = bytes.stored_size(),
                     .compressed = true,
                     .where = bytes.where() + " (the snapshot in it)",
                     .memory_limit = bytes.memory_limit(),
                     .file = {}},
                    {});
  return import_snapshot(pickle, std::move(header), begin);
}

namespace {

bool has_history(const Snapshot& snapshot) {
  return snapshot.host.recorded > 0 ||
         std::ranges::any_of(snapshot.devices, [](const auto& device) { return device.second.recorded > 0; });
}

/// Appends entries with the same time.
class Appender {
 public:
  Appender(DeviceHistory& history, std::int64_t time_us) : history_(history), time_us_(time_us) {}

  void add(Action action, PoolStreamId pool_stream, std::uint64_t address, Bytes size, StackId stack = StackId::none) {
    Entry entry{.time_us = time_us_, .address = address, .size = size.count, .stack = stack};
    entry.set(action, pool_stream);
    history_.entries.push_back(entry);
    ++history_.recorded;
  }
  void describe(StringId metadata) {
    if (metadata != StringId::none)
      history_.metadata.push_back({.entry = history_.entries.count() - 1, .address = std::nullopt, .text = metadata});
  }

 private:
  DeviceHistory& history_;
  std::int64_t time_us_;
};

bool is_same(const Segment& a, const Segment& b) {
  return a.size == b.size && a.pool_stream == b.pool_stream && a.expandable == b.expandable;
}

bool is_same(const std::pair<Block, PoolStreamId>& a, const std::pair<Block, PoolStreamId>& b) {
  return a.first.requested == b.first.requested && a.first.stack == b.first.stack && a.second == b.second &&
         a.first.metadata == b.first.metadata && a.first.pending <= b.first.pending;
}

/// Calls `visit(address, size, pool_stream)` for what `some` holds and `others` don't. As expandable segments grow and
/// shrink, it may be any part of one.
template <class Segments, class Visit>
void for_each_only_in(const Segments& some, const Segments& others, bool expandable, const Visit& visit) {
  RangeMap<bool> held;
  for (const auto& [address, segment] : others)
    if (expandable && segment.expandable) held.set(Range::of(address.value, segment.size.count), true);
  for (const auto& entry : some) {
    const Address address = entry.first;
    const auto& segment = entry.second;
    if (segment.expandable != expandable) continue;
    if (expandable) {
      held.for_each_gap(Range::of(address.value, segment.size.count),
                        [&](Range gap) { visit(gap.begin, Bytes{gap.end - gap.begin}, segment.pool_stream); });
      continue;
    }
    const auto other = others.find(address);
    if (other == others.end() || !is_same(segment, other->second))
      visit(address.value, segment.size, segment.pool_stream);
  }
}

}  // namespace

Result<void> SnapshotSeries::add(const Snapshot& snapshot, const std::string& name, std::int64_t time_us) {
  if (has_history(snapshot))
    return Error{.what = "has a history, so it can't be part of a series",
                 .where = name,
                 .remedy = "import it alone; a series consists of snapshots without traces (include_traces=False)"};
  if (devices_.empty()) {
    whole_.settings = snapshot.settings;
    whole_.device_type = snapshot.device_type;
  }
  whole_.cut_stacks += snapshot.cut_stacks;
  for (const auto& [ordinal, history] : snapshot.devices) devices_.try_emplace(ordinal);
  bool marked = false;
  for (auto& [ordinal, before] : devices_) {
    DeviceHistory& history = whole_.devices[ordinal];
    if (!std::exchange(marked, true)) {
      const MarkId mark = writer_.intern(Mark{.name = writer_.intern(name), .phase = MarkPhase::instant});
      Appender(history, time_us).add(Action::mark, whole_.pool_streams.id({}), index(mark), {});
    }
    const auto found = snapshot.devices.find(ordinal);
    Held now = found == snapshot.devices.end() ? Held{} : held_by(found->second, snapshot.pool_streams);
    add_changes(history, before, now, time_us);
    before = std::move(now);
  }
  Held now = held_by(snapshot.host, snapshot.pool_streams);
  add_changes(whole_.host, host_, now, time_us);
  host_ = std::move(now);
  return {};
}

SnapshotSeries::Held SnapshotSeries::held_by(const DeviceHistory& history, const PoolStreams& pool_streams) {
  Held held;
  for (const Segment& segment : history.segments) {
    const PoolStreamId pool_stream = whole_.pool_streams.id(pool_streams[segment.pool_stream]);
    held.segments[segment.address] = {.address = segment.address,
                                      .size = segment.size,
                                      .pool_stream = pool_stream,
                                      .expandable = segment.expandable,
                                      .blocks = {}};
    for (const Block& block : segment.blocks) held.blocks[block.address] = {block, pool_stream};
  }
  return held;
}

void SnapshotSeries::add_changes(DeviceHistory& history, const Held& before, const Held& now, std::int64_t time_us) {
  Appender entries(history, time_us);
  for (const auto& [address, old] : before.blocks) {
    const auto& [block, pool_stream] = old;
    const auto kept = now.blocks.find(address);
    const bool stays = kept != now.blocks.end() && is_same(old, kept->second);
    if (!block.pending && (!stays || kept->second.first.pending))
      entries.add(Action::free_requested, pool_stream, address.value, block.requested);
    if (!stays) entries.add(Action::free_completed, pool_stream, address.value, block.requested);
  }
  for (const bool expandable : {false, true})
    for_each_only_in(
        before.segments, now.segments, expandable, [&](std::uint64_t address, Bytes size, PoolStreamId pool_stream) {
          entries.add(expandable ? Action::segment_unmap : Action::segment_free, pool_stream, address, size);
        });
  for (const bool expandable : {false, true})
    for_each_only_in(
        now.segments, before.segments, expandable, [&](std::uint64_t address, Bytes size, PoolStreamId pool_stream) {
          entries.add(expandable ? Action::segment_map : Action::segment_alloc, pool_stream, address, size);
        });
  for (const auto& [address, fresh] : now.blocks) {
    const auto& [block, pool_stream] = fresh;
    const auto known = before.blocks.find(address);
    if (known != before.blocks.end() && is_same(known->second, fresh)) continue;
    entries.add(Action::alloc, pool_stream, address.value, block.requested, block.stack);
    entries.describe(block.metadata);
    if (block.pending) entries.add(Action::free_requested, pool_stream, address.value, block.requested);
  }
}

}  // namespace memreel::torch
