// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/trace_index.h"

#include <algorithm>
#include <protozero/exception.hpp>
#include <span>

#include "formats/reader/block_decoder.h"
#include "formats/reader/packet_decoder.h"
#include "formats/reader/table_decoder.h"
#include "formats/reader/trace_stream.h"

namespace memreel {
namespace {

using wire::PacketField;

constexpr std::uint64_t max_index_events = std::uint64_t{1} << 62U;  // of all traces of a file

/// One trace of a concatenation. Events and allocations are counted from the start of the file.
struct Part {
  RowSpace rows;
  std::uint64_t first_event = 0, end_event = 0;
  std::uint64_t first_allocation = 0, end_allocation = 0;
  std::size_t first_block = 0, end_block = 0;
};

/// The events of a block, numbered within the whole file.
struct LoadedBlock {
  std::uint64_t first_event = 0;
  EventColumns events;
};

}  // namespace

class TraceIndex::Impl {
 public:
  explicit Impl(std::shared_ptr<ByteFile> file)
      : file_(std::move(file)), memory_limit_(trace_memory_limit(file_->size())), tables_(memory_limit_) {}

  Result<void> build();
  const Tables& tables() const { return tables_.tables(); }
  const std::vector<Block>& blocks() const { return blocks_; }
  std::uint64_t event_count() const { return parts_.empty() ? 0 : parts_.back().end_event; }
  bool from_footer() const { return from_footer_; }
  Result<HeapSnapshot> state_after(std::uint64_t events) const;
  Result<HeapSnapshot> state_at(Nanoseconds time) const;

 private:
  // Building.
  Result<bool> build_from_footers();
  Result<void> build_by_scanning();
  Result<bool> add_part(const FooterSpan& span);
  void begin_part();
  void end_part();
  void add_packet(const RawPacket& packet);
  void add_block(const RawPacket& packet, bool is_keyframe, std::uint64_t event, Nanoseconds time);

  // Reading.
  std::span<const Block> blocks_of(const Part& part) const {
    return std::span(blocks_).subspan(part.first_block, part.end_block - part.first_block);
  }
  /// The result of `decode` for the message in a block's packet; none if the packet or message is damaged.
  template <class Decode>
  auto load_packet(const Block& block, PacketField kind, const Decode& decode) const
      -> Result<decltype(decode(std::string_view()))>;
  Result<std::optional<HeapSnapshot>> load_keyframe(const Part& part, const Block& block) const;
  Result<std::optional<LoadedBlock>> load_block(const Part& part, const Block& block, BlockDecoder& decoder) const;
  /// Applies to `live` the events of `part` before `end`; returns how many of them are missing.
  Result<std::uint64_t> apply(const Part& part, std::uint64_t end, LiveSet& live) const;

  std::shared_ptr<ByteFile> file_;
  Bytes memory_limit_;
  TableReader tables_;
  wire::Decompressor decompressor_;
  std::vector<Block> blocks_;
  std::vector<Part> parts_;
  bool from_footer_ = false;
};

void TraceIndex::Impl::begin_part() {
  tables_.begin_trace();
  const Part before = parts_.empty() ? Part{} : parts_.back();
  parts_.push_back({.first_event = before.end_event,
                    .end_event = before.end_event,
                    .first_allocation = before.end_allocation,
                    .end_allocation = before.end_allocation,
                    .first_block = blocks_.size()});
}

void TraceIndex::Impl::end_part() {
  if (parts_.empty()) return;
  parts_.back().rows = tables_.rows();
  parts_.back().end_block = blocks_.size();
}

void TraceIndex::Impl::add_block(const RawPacket& packet, bool is_keyframe, std::uint64_t event, Nanoseconds time) {
  blocks_.push_back({.offset = packet.offset,
                     .size = packet.size,
                     .first_event = parts_.back().first_event + event,
                     .first_time = time,
                     .is_keyframe = is_keyframe});
}

Result<void> TraceIndex::Impl::build() {
  auto done = build_from_footers();
  if (!done) return std::move(done).error();
  from_footer_ = *done;
  if (*done) return {};
  tables_ = TableReader(memory_limit_);
  blocks_.clear();
  parts_.clear();
  return build_by_scanning();
}

Result<bool> TraceIndex::Impl::build_from_footers() {
  std::vector<FooterSpan> spans;  // the last one first
  for (std::uint64_t end = file_->size(); end != 0;) {
    auto span = read_footer(*file_, end);
    if (!span) return std::move(span).error();
    if (!*span) return false;
    end = (*span)->begin;
    spans.push_back(**std::move(span));
  }
  std::ranges::reverse(spans);
  for (const FooterSpan& span : spans) {
    auto added = add_part(span);
    if (!added || !*added) return added;
  }
  return true;
}

/// False if the tables are damaged: only reading all packets in order shows what is missing.
Result<bool> TraceIndex::Impl::add_part(const FooterSpan& span) {
  begin_part();
  std::uint64_t offset = span.begin;
  std::string buffer;
  for (const auto& packet : span.footer.packets) {
    if (packet.kind == PacketField::tables) {
      auto raw = read_packet(*file_, offset, packet.size, buffer);
      if (!raw) return std::move(raw).error();
      if (!*raw) return false;
      try {
        const auto body = decode_body((*raw)->body);
        if (!body || body->kind != PacketField::tables || !tables_.add(body->message, decompressor_)) return false;
      } catch (const protozero::exception&) {
        return false;
      }
    } else if (packet.kind == PacketField::events || packet.kind == PacketField::keyframe) {
      add_block({.offset = offset, .size = packet.size}, packet.kind == PacketField::keyframe, packet.first_event,
                packet.first_time);
    }
    offset += packet.size;
  }
  if (parts_.back().end_event > max_index_events - span.footer.event_count) return false;
  parts_.back().end_event += span.footer.event_count;
  parts_.back().end_allocation += span.footer.allocation_count;
  end_part();
  return tables_.missing_rows() == 0;
}

Result<void> TraceIndex::Impl::build_by_scanning() {
  PacketStream packets(file_);
  for (;;) {
    auto packet = packets.next();
    if (!packet) return std::move(packet).error();
    if (!*packet) break;
    if (parts_.empty()) begin_part();
    try {
      add_packet(**packet);
    } catch (const protozero::exception&) {
      // Damaged; TraceReader reports it, here its events count as missing.
    }
  }
  end_part();
  return {};
}

void TraceIndex::Impl::add_packet(const RawPacket& packet) {
  const auto body = decode_body(packet.body);
  if (!body) return;
  Part& part = parts_.back();
  switch (body->kind) {
    case PacketField::header:
      if (packet.offset == 0) break;
      end_part();
      begin_part();
      break;
    case PacketField::tables:
      tables_.add(body->message, decompressor_);
      break;
    case PacketField::events: {
      const auto block = decode_block(body->message);
      if (!block || part.first_event + block->first_event < part.end_event ||
          part.first_allocation + block->first_allocation < part.end_allocation ||
          !tables_.fill_up_to(block->rows_before))
        break;
      add_block(packet, false, block->first_event, block->first_time);
      part.end_event = part.first_event + block->end_event();
      part.end_allocation = part.first_allocation + block->end_allocation();
      break;
    }
    case PacketField::keyframe: {
      const KeyframeMessage keyframe = decode_keyframe(body->message);
      if (part.first_event + keyframe.event == part.end_event) add_block(packet, true, keyframe.event, keyframe.time);
      break;
    }
    case PacketField::losses:
    case PacketField::folded:
    case PacketField::initial_heap:
    case PacketField::python_holders:
      break;
    case PacketField::footer:
      if (const auto footer = decode_footer(body->message)) {
        part.end_event = std::max(part.end_event, part.first_event + footer->event_count);
        part.end_allocation = std::max(part.end_allocation, part.first_allocation + footer->allocation_count);
      }
      break;
  }
}

template <class Decode>
auto TraceIndex::Impl::load_packet(const Block& block, PacketField kind, const Decode& decode) const
    -> Result<decltype(decode(std::string_view()))> {
  std::string buffer;
  auto packet = read_packet(*file_, block.offset, block.size, buffer);
  if (!packet) return std::move(packet).error();
  try {
    if (const auto body = *packet ? decode_body((*packet)->body) : std::nullopt; body && body->kind == kind)
      return decode(body->message);
  } catch (const protozero::exception&) {
    // treated as a missing packet
  }
  return decltype(decode(std::string_view())){};
}

Result<std::optional<HeapSnapshot>> TraceIndex::Impl::load_keyframe(const Part& part, const Block& block) const {
  return load_packet(block, PacketField::keyframe, [&](std::string_view message) -> std::optional<HeapSnapshot> {
    const KeyframeMessage keyframe = decode_keyframe(message);
    if (part.first_event + keyframe.event != block.first_event) return std::nullopt;
    wire::Decompressor decompressor;
    auto snapshot = decode_keyframe_rows(keyframe, decompressor);
    if (!snapshot) return std::nullopt;

    const auto resolve_origin = [&](OriginId& origin) {
      if (!part.rows.has(wire::Table::origins, index(origin))) return false;
      origin = OriginId{part.rows(wire::Table::origins, index(origin))};
      return true;
    };
    for (LiveAllocation& live : snapshot->allocations) {
      const std::uint64_t id = part.first_allocation + index(live.allocation);
      if (id >= index(AllocationId::none) || !resolve_origin(live.origin) ||
          !part.rows.has(wire::Table::stacks, index(live.stack)))
        return std::nullopt;
      live.allocation = AllocationId{static_cast<std::uint32_t>(id)};
      live.stack = StackId{part.rows(wire::Table::stacks, index(live.stack))};
    }
    for (LiveSegment& segment : snapshot->segments)
      if (!resolve_origin(segment.origin)) return std::nullopt;
    return snapshot;
  });
}

Result<std::optional<LoadedBlock>> TraceIndex::Impl::load_block(const Part& part, const Block& block,
                                                                BlockDecoder& decoder) const {
  return load_packet(block, PacketField::events, [&](std::string_view bytes) -> std::optional<LoadedBlock> {
    const auto message = decode_block(bytes);
    if (!message || part.first_event + message->first_event != block.first_event) return std::nullopt;
    LoadedBlock loaded{.first_event = block.first_event};
    const AllocationNumbers numbers(message->first_allocation, part.first_allocation);
    if (!decoder.decode(*message, part.rows, numbers, loaded.events).sound) return std::nullopt;
    return loaded;
  });
}

Result<std::uint64_t> TraceIndex::Impl::apply(const Part& part, std::uint64_t end, LiveSet& live) const {
  const auto blocks = blocks_of(part);
  std::uint64_t reached = part.first_event;
  std::size_t next = 0;
  for (std::size_t i = blocks.size(); i-- > 0;) {
    if (!blocks[i].is_keyframe || blocks[i].first_event > end) continue;
    auto keyframe = load_keyframe(part, blocks[i]);
    if (!keyframe) return std::move(keyframe).error();
    if (!*keyframe) continue;
    live.add(**keyframe);
    reached = blocks[i].first_event;
    next = i + 1;
    break;
  }

  std::uint64_t missing = 0;
  BlockDecoder decoder;
  for (; next < blocks.size() && blocks[next].first_event < end; ++next) {
    if (blocks[next].is_keyframe || blocks[next].first_event < reached) continue;
    auto loaded = load_block(part, blocks[next], decoder);
    if (!loaded) return std::move(loaded).error();
    if (!*loaded) continue;
    const LoadedBlock& block = **loaded;
    missing += block.first_event - reached;
    const auto count = std::min<std::uint64_t>(block.events.count(), end - block.first_event);
    for (std::size_t i = 0; i < count; ++i) {
      Event event = block.events[i];
      live.apply(event);
    }
    reached = block.first_event + count;
  }
  return missing + (end - reached);
}

Result<HeapSnapshot> TraceIndex::Impl::state_after(std::uint64_t events) const {
  events = std::min(events, event_count());
  LiveSet live(tables());
  std::uint64_t missing = 0;
  for (const Part& part : parts_) {
    if (part.first_event >= events) break;
    auto applied = apply(part, std::min(events, part.end_event), live);
    if (!applied) return std::move(applied).error();
    missing += *applied;
  }
  HeapSnapshot snapshot = live.snapshot();
  snapshot.event = events;
  snapshot.missing_events = missing;
  return snapshot;
}

Result<HeapSnapshot> TraceIndex::Impl::state_at(Nanoseconds time) const {
  const auto after = std::ranges::partition_point(blocks_, [time](const Block& b) { return b.first_time <= time; });
  const auto found = std::find_if(std::make_reverse_iterator(after), blocks_.rend(),
                                  [](const Block& block) { return !block.is_keyframe; });
  if (found == blocks_.rend()) return state_after(0);
  const auto part = std::ranges::upper_bound(parts_, found->first_event, {}, &Part::first_event);
  BlockDecoder decoder;
  auto loaded = load_block(*std::prev(part), *found, decoder);
  if (!loaded) return std::move(loaded).error();
  if (!*loaded) return state_after(found->first_event);
  const auto& times = (*loaded)->events.time;
  const auto last = std::find_if(times.rbegin(), times.rend(), [time](Nanoseconds t) { return t <= time; });
  return state_after(found->first_event + static_cast<std::uint64_t>(times.rend() - last));
}

TraceIndex::TraceIndex(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<TraceIndex> TraceIndex::open(std::shared_ptr<ByteFile> file, const std::string& name) {
  if (auto checked = check_beginning(*file, name); !checked) return std::move(checked).error();
  auto impl = std::make_shared<Impl>(std::move(file));
  if (auto built = impl->build(); !built) return std::move(built).error();
  return TraceIndex(std::move(impl));
}

const Tables& TraceIndex::tables() const { return impl_->tables(); }
const std::vector<TraceIndex::Block>& TraceIndex::blocks() const { return impl_->blocks(); }
std::uint64_t TraceIndex::event_count() const { return impl_->event_count(); }
bool TraceIndex::from_footer() const { return impl_->from_footer(); }
Result<HeapSnapshot> TraceIndex::state_after(std::uint64_t events) const { return impl_->state_after(events); }
Result<HeapSnapshot> TraceIndex::state_at(Nanoseconds time) const { return impl_->state_at(time); }

}  // namespace memreel
