// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/value_reader.h"

#include <algorithm>
#include <limits>

#include "formats/model/quantity.h"

namespace memreel::torch {

bool ValueReader::fail_time(Value value) {
  if (arena_.as_signed(value)) return fail("'time_us' is out of range");
  return fail("'time_us' is " + std::string(described(arena_.kind(value))) + ", expected an integer");
}

bool ValueReader::read_device(Value value, std::int32_t& into) {
  const std::optional<std::int64_t> device = arena_.as_signed(value);
  if (!device || *device < -1 || *device >= most_devices) return fail("'device' is not a device's ordinal");
  into = static_cast<std::int32_t>(*device);
  return true;
}

bool ValueReader::read_device_type(Value value, std::string& into) {
  constexpr std::size_t longest = 32;
  if (!expect(value, ValueKind::text, "device_type")) return false;
  const std::string_view text = arena_.text(value);
  const bool good = !text.empty() && text.size() <= longest &&
                    std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
  if (!good) return fail("'device_type' is not the name of a device type, such as xpu");
  into = text;
  return true;
}

bool ValueReader::read_pool(Value value, std::optional<PoolKey>& into) {
  const ValueKind kind = arena_.kind(value);
  if (kind != ValueKind::tuple && kind != ValueKind::list)
    return fail("a pool id is " + std::string(described(kind)) + ", expected two integers");
  const auto items = arena_.items(value);
  if (items.size() != 2) return fail("a pool id has " + std::to_string(items.size()) + " items, expected two integers");
  PoolKey key;
  if (!read_unsigned(items[0], "pool_id", key.high) || !read_unsigned(items[1], "pool_id", key.low)) return false;
  into = key;
  return true;
}

bool ValueReader::fail_kind(Value value, ValueKind wanted, std::string_view key) {
  return fail(std::string(key) + " is " + std::string(described(arena_.kind(value))) + ", expected " +
              std::string(described(wanted)));
}

bool ValueReader::fail_number(Value value, std::string_view key) {
  const std::string_view kind = arena_.is(value, ValueKind::integer) ? "negative" : described(arena_.kind(value));
  return fail("'" + std::string(key) + "' is " + std::string(kind) + ", expected a non-negative integer");
}

bool ValueReader::fail_size(std::string_view key) {
  return fail("'" + std::string(key) + "' is more than " + text_of(max_allocation) + ", which no device has");
}

bool ValueReader::fail_address(std::string_view key) {
  return fail("'" + std::string(key) + "' is not an address: 2^62 is the highest");
}

bool ValueReader::fail_used(std::string_view key) { return fail(std::string(key) + " was read before"); }

bool ValueReader::fail(const std::string& what) {
  std::string place;
  if (!location_.list.empty()) {
    place = location_.list;
    if (location_.device) place += '[' + std::to_string(*location_.device) + ']';
    place += '[' + std::to_string(location_.item) + "]: ";
  }
  failed_ = Error{.what = place + what, .remedy = "memreel reads what torch.cuda.memory._dump_snapshot writes"};
  return false;
}

SnapshotKey ValueReader::look_up(Value value) {
  const SnapshotKey found = key_of(arena_.text(value));
  arena_.set_text_note(value, static_cast<std::uint8_t>(found));
  return found;
}

namespace {

constexpr std::size_t max_name = 4096;
constexpr std::string_view not_compiled = "N/A";

}  // namespace

bool TableReader::read_stack(Value frames, StackId& into) {
  if (values_.arena().is(frames, ValueKind::none)) return true;
  if (!values_.expect(frames, ValueKind::list, "frames")) return false;
  if (values_.arena().used(frames)) {
    const std::optional<std::uint32_t> known = values_.became(frames, ValueReader::Became::stack);
    if (!known) return values_.fail("'frames' is a list that was used as something else");
    into = static_cast<StackId>(*known);
    return true;
  }
  frames_.clear();
  const std::span<const Value> all = values_.arena().items(frames);
  if (all.size() > max_stack_depth) ++cut_stacks_;
  for (const Value frame : all.first(std::min<std::size_t>(all.size(), max_stack_depth)))
    if (!read_frame(frame, frames_.emplace_back())) return false;
  // PyTorch lists the innermost frame first; the tree grows from the outermost. Consecutive stacks share most of that.
  bool shared = true;
  StackId stack = StackId::none;
  for (std::size_t depth = 0; depth < frames_.size(); ++depth) {
    const FrameId frame = frames_[frames_.size() - 1 - depth];
    shared = shared && depth < latest_stack_.size() && latest_stack_[depth].first == frame;
    if (!shared) {
      latest_stack_.resize(depth);
      latest_stack_.emplace_back(frame, writer_.intern(Stack{.frame = frame, .caller = stack}));
    }
    stack = latest_stack_[depth].second;
  }
  into = stack;
  return values_.become(frames, ValueReader::Became::stack, index(stack));
}

bool TableReader::read_frame(Value dict, FrameId& into) {
  if (!values_.expect(dict, ValueKind::dict, "a frame")) return false;
  if (values_.arena().used(dict)) {
    const std::optional<std::uint32_t> known = values_.became(dict, ValueReader::Became::frame);
    if (!known) return values_.fail("a frame is a dict that was used as something else");
    into = static_cast<FrameId>(*known);
    return true;
  }
  Frame frame;
  const auto items = values_.arena().items(dict);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const Value value = items[i + 1];
    switch (values_.word(items[i])) {
      case SnapshotKey::name:
        frame.function = name(value);
        break;
      case SnapshotKey::filename:
        frame.file = name(value);
        break;
      case SnapshotKey::line: {
        std::uint64_t line = 0;
        if (!values_.read_unsigned(value, "line", line)) return false;
        frame.line =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(line, std::numeric_limits<std::uint32_t>::max()));
        break;
      }
      default:
        break;
    }
  }
  into = writer_.intern(frame);
  return values_.become(dict, ValueReader::Became::frame, index(into));
}

StringId TableReader::name(Value value) {
  if (!values_.arena().is(value, ValueKind::text)) return StringId::none;
  const std::string_view text = values_.arena().text(value);
  return text.empty() ? StringId::none : writer_.intern(text.substr(0, max_name));  // most events' metadata are empty
}

StringId TableReader::compiled_region(Value context) {
  if (!values_.arena().is(context, ValueKind::text)) return StringId::none;
  return values_.arena().text(context) == not_compiled ? StringId::none : name(context);
}

MarkId TableReader::mark(StringId name, SnapshotKey stage) {
  const MarkPhase phase = stage == SnapshotKey::start ? MarkPhase::begin
                          : stage == SnapshotKey::end ? MarkPhase::end
                                                      : MarkPhase::instant;
  return writer_.intern(Mark{.name = name, .phase = phase});
}

// PyTorch 2.4 recorded ranges as entries with a frame named START or END whose file name is the range's name (#124179).
MarkId TableReader::mark_of(StackId stack) {
  const Tables& tables = writer_.tables();
  const Frame& frame = tables[tables[stack].frame];
  return mark(frame.file, key_of(tables[frame.function]));
}

bool SegmentReader::read(Value segments, std::string_view list) {
  const auto items = values_.consume(segments, ValueKind::list, list);
  if (!items) return false;
  for (std::size_t i = 0; i < items->size(); ++i) {
    values_.at({.list = list, .item = i});
    if (!read_segment((*items)[i])) return false;
  }
  return true;
}

bool SegmentReader::read_segment(Value dict) {
  const auto items = values_.consume(dict, ValueKind::dict, "the segment");
  if (!items) return false;
  Segment segment;
  PoolStream pool_stream{.pool = PoolKey{}};
  std::int32_t device = 0;
  std::optional<Value> blocks;
  bool has_address = false;
  bool has_size = false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (values_.word((*items)[i])) {
      case SnapshotKey::device:
        good = values_.read_device(value, device);
        break;
      case SnapshotKey::device_type:
        good = values_.read_device_type(value, snapshot_.device_type);
        break;
      case SnapshotKey::address:
        good = values_.read_address(value, "address", segment.address.value);
        has_address = true;
        break;
      case SnapshotKey::total_size:
        good = values_.read_size(value, "total_size", segment.size.count);
        has_size = true;
        break;
      case SnapshotKey::stream:
        good = values_.read_unsigned(value, "stream", pool_stream.stream);
        break;
      case SnapshotKey::segment_pool_id:
        good = values_.read_pool(value, pool_stream.pool);
        break;
      case SnapshotKey::is_expandable:
        segment.expandable = values_.arena().as_boolean(value).value_or(false);
        break;
      case SnapshotKey::segment_type:
        segment.small = values_.word(value) == SnapshotKey::small;
        break;
      case SnapshotKey::blocks:
        blocks = value;
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  if (!has_address || !has_size) return values_.fail(has_address ? "has no 'total_size'" : "has no 'address'");
  if (!tables_.read_pool_stream(pool_stream, segment.pool_stream)) return false;
  if (blocks) {
    const auto list = values_.consume(*blocks, ValueKind::list, "blocks");
    if (!list) return false;
    std::uint64_t address = segment.address.value;
    for (const Value block : *list)
      if (!read_block(block, segment, address)) return false;
  }
  DeviceHistory& history = device < 0 ? snapshot_.host : snapshot_.devices[device];
  history.segments.push_back(std::move(segment));
  return true;
}

bool SegmentReader::read_block(Value dict, Segment& segment, std::uint64_t& address) {
  const auto items = values_.consume(dict, ValueKind::dict, "a block");
  if (!items) return false;
  Block block;
  std::uint64_t size = 0;
  std::optional<std::uint64_t> requested;
  SnapshotKey state = SnapshotKey::other;
  std::optional<Value> history;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (values_.word((*items)[i])) {
      case SnapshotKey::address:  // since 2.1; before, blocks are only known to be contiguous
        good = values_.read_address(value, "address", address);
        break;
      case SnapshotKey::size:
        good = values_.read_size(value, "size", size);
        break;
      case SnapshotKey::requested_size:
        good = values_.read_size(value, "requested_size", requested.emplace());
        break;
      case SnapshotKey::state:
        good = values_.expect(value, ValueKind::text, "state");
        if (good) state = values_.word(value);
        break;
      case SnapshotKey::frames:
        good = tables_.read_stack(value, block.stack);
        break;
      case SnapshotKey::history:
        history = value;
        break;
      case SnapshotKey::user_metadata:
        block.metadata = tables_.name(value);
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  block.address = {address};
  if (block.address > max_address) return values_.fail_address("address");
  address += size;
  block.pending = state == SnapshotKey::active_pending_free || state == SnapshotKey::active_awaiting_free;
  if (state != SnapshotKey::active_allocated && !block.pending) return true;
  block.requested = {requested.value_or(size)};
  block.size = {size};
  snapshot_.lists_allocations |= history.has_value();
  if (history && !read_block_history(*history, block)) return false;
  segment.blocks.push_back(block);
  return true;
}

// Up to 2.0 a block lists its allocations, latest first.
bool SegmentReader::read_block_history(Value history, Block& block) {
  const auto records = values_.consume(history, ValueKind::list, "history");
  if (!records || records->empty()) return records.has_value();
  const auto items = values_.consume(records->front(), ValueKind::dict, "a record of 'history'");
  if (!items) return false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const SnapshotKey key = values_.word((*items)[i]);
    if (key == SnapshotKey::real_size && !values_.read_size((*items)[i + 1], "real_size", block.requested.count))
      return false;
    if (key == SnapshotKey::frames && !tables_.read_stack((*items)[i + 1], block.stack)) return false;
  }
  return true;
}

}  // namespace memreel::torch
