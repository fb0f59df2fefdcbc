#include "formats/import/torch/snapshot_reader.h"

#include <algorithm>
#include <limits>

#include "formats/import/torch/settings_text.h"

namespace memreel::torch {
namespace {

constexpr unsigned became_shift = 30;
constexpr std::uint32_t became_ids = std::uint32_t{1} << became_shift;

// Nanoseconds since the epoch must fit 64 bits.
constexpr std::int64_t max_time_us = std::numeric_limits<std::int64_t>::max() / 1000;

constexpr std::size_t max_name = 4096;

std::optional<Action> action_of(Word word) {
  switch (word) {
    case Word::alloc:
      return Action::alloc;
    case Word::free_requested:
      return Action::free_requested;
    case Word::free_completed:
      return Action::free_completed;
    case Word::segment_alloc:
      return Action::segment_alloc;
    case Word::segment_free:
      return Action::segment_free;
    case Word::segment_map:
      return Action::segment_map;
    case Word::segment_unmap:
      return Action::segment_unmap;
    case Word::oom:
      return Action::oom;
    case Word::user_defined:
    case Word::annotate:
      return Action::mark;
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<void> SnapshotReader::take(std::size_t device, Value list, std::span<const Value> entries) {
  location_ = {.list = streamed_key(), .device = device};
  if (device > std::size_t{std::numeric_limits<std::int32_t>::max()}) {
    fail("more devices than there can be");
    return *failed_;
  }
  if (arena_.used(list) && became(list, Became::trace) != static_cast<std::uint32_t>(device)) {
    fail("is the history of two devices");
    return *failed_;
  }
  if (!become(list, Became::trace, static_cast<std::uint32_t>(device))) return *failed_;
  DeviceHistory& history = snapshot_.devices[static_cast<std::int32_t>(device)];
  for (const Value entry : entries) {
    location_.item = history.recorded++;
    if (!read_entry(history, entry)) return *failed_;
  }
  return {};
}

Result<Snapshot> SnapshotReader::finish(Value root) {
  if (!read_root(root)) return *failed_;
  for (auto& [ordinal, history] : snapshot_.devices) {
    std::sort(history.segments.begin(), history.segments.end(),
              [](const Segment& a, const Segment& b) { return a.address < b.address; });
    std::stable_sort(history.ranges.begin(), history.ranges.end(),
                     [](const Annotation& a, const Annotation& b) { return a.time_us < b.time_us; });
  }
  return std::move(snapshot_);
}

bool SnapshotReader::read_root(Value root) {
  location_ = {};
  if (arena_.is(root, ValueKind::list)) return read_segments(root);
  const auto items = consume(root, ValueKind::dict, "the document");
  if (!items) return false;
  bool is_snapshot = false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    bool good = true;
    switch (word((*items)[i])) {
      case Word::segments:
        is_snapshot = true;
        good = read_segments((*items)[i + 1]);
        break;
      case Word::device_traces:
        is_snapshot = true;
        good = read_traces((*items)[i + 1]);
        break;
      case Word::allocator_settings:
        good = read_settings((*items)[i + 1]);
        break;
      case Word::external_annotations:
        good = read_annotations((*items)[i + 1]);
        break;
      default:
        break;
    }
    if (!good) return false;
    location_ = {};
  }
  return is_snapshot || fail("is no PyTorch memory snapshot: it has neither 'segments' nor 'device_traces'");
}

// ---- histories

bool SnapshotReader::read_traces(Value traces) {
  if (!expect(traces, ValueKind::list, "device_traces")) return false;
  const auto lists = arena_.items(traces);
  for (std::size_t device = 0; device < lists.size(); ++device) {
    location_ = {.list = streamed_key(), .device = device};
    const Value list = lists[device];
    if (!expect(list, ValueKind::list, "the history")) return false;
    if (arena_.used(list)) {
      if (became(list, Became::trace) != static_cast<std::uint32_t>(device))
        return fail("is a list that was used as something else");
      continue;
    }
    if (!arena_.items(list).empty() && !take(device, list, arena_.items(list))) return false;
  }
  return true;
}

bool SnapshotReader::read_entry(DeviceHistory& history, Value dict) {
  const auto items = consume(dict, ValueKind::dict, "the entry");
  if (!items) return false;
  Word action_word = Word::other;
  Entry entry;
  Place place;
  bool has_address = false;
  bool has_size = false;
  Value metadata;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (word((*items)[i])) {
      case Word::action:
        good = expect(value, ValueKind::text, "action");
        if (good) action_word = word(value);
        break;
      case Word::addr:
      case Word::device_free:  // an oom has it in place of an address
        good = read_unsigned(value, "addr", entry.address);
        has_address = true;
        break;
      case Word::size:
        good = read_unsigned(value, "size", entry.size);
        has_size = true;
        break;
      case Word::stream:
        good = read_unsigned(value, "stream", place.stream);
        break;
      case Word::time_us:
        good = read_time(value, entry.time_us);
        break;
      case Word::frames:
        good = read_stack(value, entry.stack);
        break;
      case Word::pool_id:
        good = read_pool(value, place.pool);
        break;
      case Word::user_metadata:
        metadata = value;
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  const std::optional<Action> action = action_of(action_word);
  if (!action) {
    if (action_word != Word::snapshot) ++snapshot_.unknown_actions;
    return true;
  }
  if (torch::has_address(*action) && !has_address) return fail("has no 'addr'");
  if (*action != Action::mark && !has_size) return fail("has no 'size'");
  if (*action == Action::mark) {
    const MarkId id = action_word == Word::annotate ? mark(name(metadata), Word::other) : mark_of(entry.stack);
    entry.address = index(id);
  }
  PlaceId place_id{};
  if (!read_place(place, place_id)) return false;
  entry.set(*action, place_id);
  history.entries.push_back(entry);
  return true;
}

// ---- segments

bool SnapshotReader::read_segments(Value segments) {
  const auto list = consume(segments, ValueKind::list, "segments");
  if (!list) return false;
  for (std::size_t i = 0; i < list->size(); ++i) {
    location_ = {.list = "segments", .item = i};
    if (!read_segment((*list)[i])) return false;
  }
  return true;
}

bool SnapshotReader::read_segment(Value dict) {
  const auto items = consume(dict, ValueKind::dict, "the segment");
  if (!items) return false;
  Segment segment;
  Place place{.pool = PoolKey{}};
  std::int32_t device = 0;
  std::optional<Value> blocks;
  bool has_address = false;
  bool has_size = false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (word((*items)[i])) {
      case Word::device:
        good = read_device(value, device);
        break;
      case Word::address:
        good = read_unsigned(value, "address", segment.address.value);
        has_address = true;
        break;
      case Word::total_size:
        good = read_unsigned(value, "total_size", segment.size.count);
        has_size = true;
        break;
      case Word::stream:
        good = read_unsigned(value, "stream", place.stream);
        break;
      case Word::segment_pool_id:
        good = read_pool(value, place.pool);
        break;
      case Word::is_expandable:
        segment.expandable = arena_.as_boolean(value).value_or(false);
        break;
      case Word::blocks:
        blocks = value;
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  if (!has_address || !has_size) return fail(has_address ? "has no 'total_size'" : "has no 'address'");
  if (!read_place(place, segment.place)) return false;
  if (blocks) {
    const auto list = consume(*blocks, ValueKind::list, "blocks");
    if (!list) return false;
    std::uint64_t address = segment.address.value;
    for (const Value block : *list)
      if (!read_block(block, segment, address)) return false;
  }
  snapshot_.devices[device].segments.push_back(std::move(segment));
  return true;
}

bool SnapshotReader::read_block(Value dict, Segment& segment, std::uint64_t& address) {
  const auto items = consume(dict, ValueKind::dict, "a block");
  if (!items) return false;
  Block block;
  std::uint64_t size = 0;
  std::optional<std::uint64_t> requested;
  Word state = Word::other;
  std::optional<Value> history;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (word((*items)[i])) {
      case Word::address:  // since 2.1; before, blocks are only known to follow one another
        good = read_unsigned(value, "address", address);
        break;
      case Word::size:
        good = read_unsigned(value, "size", size);
        break;
      case Word::requested_size:
        good = read_unsigned(value, "requested_size", requested.emplace());
        break;
      case Word::state:
        good = expect(value, ValueKind::text, "state");
        if (good) state = word(value);
        break;
      case Word::frames:
        good = read_stack(value, block.stack);
        break;
      case Word::history:
        history = value;
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  block.address = {address};
  address += size;
  block.pending = state == Word::active_pending_free || state == Word::active_awaiting_free;
  if (state != Word::active_allocated && !block.pending) return true;
  block.requested = {requested.value_or(size)};
  if (history && !read_block_history(*history, block)) return false;
  segment.blocks.push_back(block);
  return true;
}

// Up to 2.0 a block lists what it was allocated for, latest first.
bool SnapshotReader::read_block_history(Value history, Block& block) {
  const auto records = consume(history, ValueKind::list, "history");
  if (!records || records->empty()) return records.has_value();
  const auto items = consume(records->front(), ValueKind::dict, "a record of 'history'");
  if (!items) return false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Word key = word((*items)[i]);
    if (key == Word::real_size && !read_unsigned((*items)[i + 1], "real_size", block.requested.count)) return false;
    if (key == Word::frames && !read_stack((*items)[i + 1], block.stack)) return false;
  }
  return true;
}

// ---- annotations and settings

bool SnapshotReader::read_annotations(Value annotations) {
  const auto list = consume(annotations, ValueKind::list, "external_annotations");
  if (!list) return false;
  for (std::size_t i = 0; i < list->size(); ++i) {
    location_ = {.list = "external_annotations", .item = i};
    if (!read_annotation((*list)[i])) return false;
  }
  return true;
}

bool SnapshotReader::read_annotation(Value dict) {
  const auto items = consume(dict, ValueKind::dict, "the annotation");
  if (!items) return false;
  Annotation annotation;
  std::int32_t device = 0;
  StringId range = StringId::none;
  Word stage = Word::other;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (word((*items)[i])) {
      case Word::name:
        range = name(value);
        break;
      case Word::stage:
        stage = word(value);
        break;
      case Word::device:
        good = read_device(value, device);
        break;
      case Word::time_us:
        good = read_time(value, annotation.time_us);
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  annotation.mark = mark(range, stage);
  snapshot_.devices[device].ranges.push_back(annotation);
  return true;
}

bool SnapshotReader::read_settings(Value settings) {
  location_ = {};
  const auto items = consume(settings, ValueKind::dict, "allocator_settings");
  if (!items) return false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    if (!expect((*items)[i], ValueKind::text, "a key of allocator_settings")) return false;
    std::string key(arena_.text((*items)[i]));
    std::optional<std::string> value = settings_text(arena_, (*items)[i + 1]);
    if (!value) return fail("allocator_settings: the value of '" + key + "' is no setting");
    snapshot_.settings.emplace_back(std::move(key), std::move(*value));
    if (!read_setting(word((*items)[i]), (*items)[i + 1])) return false;
  }
  return true;
}

bool SnapshotReader::read_setting(Word key, Value value) {
  if (key == Word::trace_alloc_max_entries)
    return read_unsigned(value, "trace_alloc_max_entries", snapshot_.ring_capacity);
  // One flag, or one for each device.
  if (key == Word::trace_alloc_overflowed)
    snapshot_.ring_overflowed = snapshot_.settings.back().second.find("True") != std::string::npos;
  return true;
}

// ---- stacks

bool SnapshotReader::read_stack(Value frames, StackId& into) {
  if (arena_.is(frames, ValueKind::none)) return true;
  if (!expect(frames, ValueKind::list, "frames")) return false;
  if (arena_.used(frames)) {
    const std::optional<std::uint32_t> known = became(frames, Became::stack);
    if (!known) return fail("'frames' is a list that was used as something else");
    into = static_cast<StackId>(*known);
    return true;
  }
  frames_.clear();
  for (const Value frame : arena_.items(frames))
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
  return become(frames, Became::stack, index(stack));
}

bool SnapshotReader::read_frame(Value dict, FrameId& into) {
  if (!expect(dict, ValueKind::dict, "a frame")) return false;
  if (arena_.used(dict)) {
    const std::optional<std::uint32_t> known = became(dict, Became::frame);
    if (!known) return fail("a frame is a dict that was used as something else");
    into = static_cast<FrameId>(*known);
    return true;
  }
  Frame frame;
  const auto items = arena_.items(dict);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const Value value = items[i + 1];
    switch (word(items[i])) {
      case Word::name:
        frame.function = name(value);
        break;
      case Word::filename:
        frame.file = name(value);
        break;
      case Word::line: {
        std::uint64_t line = 0;
        if (!read_unsigned(value, "line", line)) return false;
        frame.line =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(line, std::numeric_limits<std::uint32_t>::max()));
        break;
      }
      default:
        break;
    }
  }
  into = writer_.intern(frame);
  return become(dict, Became::frame, index(into));
}

// ---- small things

bool SnapshotReader::read_unsigned(Value value, std::string_view key, std::uint64_t& into) {
  const std::optional<std::uint64_t> number = arena_.as_unsigned(value);
  if (!number) return fail_number(value, key);
  into = *number;
  return true;
}

bool SnapshotReader::read_time(Value value, std::int64_t& into) {
  const std::optional<std::int64_t> time = arena_.as_signed(value);
  if (!time) return fail("'time_us' is " + std::string(described(arena_.kind(value))) + ", expected an integer");
  if (*time > max_time_us || *time < -max_time_us) return fail("'time_us' is out of range");
  into = *time;
  return true;
}

bool SnapshotReader::read_device(Value value, std::int32_t& into) {
  const std::optional<std::int64_t> device = arena_.as_signed(value);
  if (!device || *device < -1 || *device > std::numeric_limits<std::int32_t>::max())
    return fail("'device' is no CUDA ordinal");
  into = static_cast<std::int32_t>(*device);
  return true;
}

bool SnapshotReader::read_pool(Value value, std::optional<PoolKey>& into) {
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

bool SnapshotReader::read_place(const Place& place, PlaceId& into) {
  into = snapshot_.places.id(place);
  return snapshot_.places.count() <= max_places || fail("more streams and pools than there can be");
}

bool SnapshotReader::expect(Value value, ValueKind kind, std::string_view key) {
  return arena_.is(value, kind) || fail_kind(value, kind, key);
}

std::optional<std::span<const Value>> SnapshotReader::consume(Value container, ValueKind kind, std::string_view key) {
  if (!expect(container, kind, key)) return std::nullopt;
  if (arena_.used(container)) {
    fail_used(key);
    return std::nullopt;
  }
  const std::span<const Value> items = arena_.items(container);
  become(container, Became::nothing, 0);
  return items;
}

bool SnapshotReader::fail_kind(Value value, ValueKind wanted, std::string_view key) {
  return fail(std::string(key) + " is " + std::string(described(arena_.kind(value))) + ", expected " +
              std::string(described(wanted)));
}

bool SnapshotReader::fail_number(Value value, std::string_view key) {
  const std::string_view kind = arena_.is(value, ValueKind::integer) ? "negative" : described(arena_.kind(value));
  return fail("'" + std::string(key) + "' is " + std::string(kind) + ", expected an integer that is not negative");
}

bool SnapshotReader::fail_used(std::string_view key) { return fail(std::string(key) + " is one that was read before"); }

bool SnapshotReader::fail(const std::string& what) {
  std::string place;
  if (!location_.list.empty()) {
    place = location_.list;
    if (location_.device) place += '[' + std::to_string(*location_.device) + ']';
    place += '[' + std::to_string(location_.item) + "]: ";
  }
  failed_ = Error{.what = place + what, .remedy = "memreel reads what torch.cuda.memory._dump_snapshot writes"};
  return false;
}

bool SnapshotReader::become(Value container, Became what, std::uint32_t id) {
  if (id >= became_ids) return fail("more distinct stacks than memreel can address");
  arena_.use(container, static_cast<std::uint32_t>(what) << became_shift | id);
  return true;
}

std::optional<std::uint32_t> SnapshotReader::became(Value container, Became what) const {
  const std::optional<std::uint32_t> result = arena_.used(container);
  if (!result || *result >> became_shift != static_cast<std::uint32_t>(what)) return std::nullopt;
  return *result & (became_ids - 1);
}

Word SnapshotReader::word(Value value) {
  if (!arena_.is(value, ValueKind::text)) return Word::other;
  const auto known = static_cast<Word>(arena_.text_note(value));
  if (known != Word::not_looked_up) return known;
  const Word found = word_of(arena_.text(value));
  arena_.set_text_note(value, static_cast<std::uint8_t>(found));
  return found;
}

StringId SnapshotReader::name(Value value) {
  if (!arena_.is(value, ValueKind::text)) return StringId::none;
  return writer_.intern(arena_.text(value).substr(0, max_name));
}

MarkId SnapshotReader::mark(StringId name, Word stage) {
  const MarkPhase phase = stage == Word::start ? MarkPhase::begin
                          : stage == Word::end ? MarkPhase::end
                                               : MarkPhase::instant;
  return writer_.intern(Mark{.name = name, .phase = phase});
}

// PyTorch 2.4 recorded ranges as entries with a frame named START or END whose file name is the range's name (#124179).
MarkId SnapshotReader::mark_of(StackId stack) {
  const Tables& tables = writer_.tables();
  const Frame& frame = tables[tables[stack].frame];
  return mark(frame.file, word_of(tables[frame.function]));
}

}  // namespace memreel::torch
