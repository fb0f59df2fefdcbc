// SPDX-License-Identifier: Apache-2.0
// Reads the values of a snapshot document as their expected types, and reports where one differs.
#pragma once

#include <span>

#include "formats/import/source/value_arena.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/result.h"
#include "formats/model/value_check.h"
#include "formats/writer/trace_output.h"

namespace memreel::torch {

/// Functions that return a bool return false after a failure, which is then in failure().
class ValueReader {
 public:
  /// What a container was used for.
  enum class Became : std::uint32_t { trace, frame, stack, nothing };
  /// The reader's position in the document, for errors.
  struct Location {
    std::string_view list;
    std::optional<std::size_t> device;
    std::size_t item = 0;
  };

  explicit ValueReader(ValueArena& arena) : arena_(arena) {}

  ValueArena& arena() { return arena_; }
  void at(const Location& location) { location_ = location; }
  void at_item(std::size_t item) { location_.item = item; }
  const std::optional<Error>& failure() const { return failed_; }
  void forget_failure() { failed_.reset(); }

  bool read_unsigned(Value value, std::string_view key, std::uint64_t& into) {
    const std::optional<std::uint64_t> number = arena_.as_unsigned(value);
    if (!number) return fail_number(value, key);
    into = *number;
    return true;
  }
  /// The size of an allocation or segment: limited to what a device can have.
  bool read_size(Value value, std::string_view key, std::uint64_t& into) {
    return read_unsigned(value, key, into) && (into <= max_allocation.count || fail_size(key));
  }
  bool read_address(Value value, std::string_view key, std::uint64_t& into) {
    return read_unsigned(value, key, into) && (into <= max_address.value || fail_address(key));
  }
  bool read_time(Value value, std::int64_t& into) {
    constexpr std::int64_t most = max_time.count() / 1000;
    const std::optional<std::int64_t> time = arena_.as_signed(value);
    if (!time || *time > most || *time < -most) return fail_time(value);
    into = *time;
    return true;
  }
  bool read_device(Value value, std::int32_t& into);
  bool read_device_type(Value value, std::string& into);
  bool read_pool(Value value, std::optional<PoolKey>& into);

  SnapshotKey word(Value value) {
    if (!arena_.is(value, ValueKind::text)) return SnapshotKey::other;
    const auto known = static_cast<SnapshotKey>(arena_.text_note(value));
    return known != SnapshotKey::not_looked_up ? known : look_up(value);
  }

  bool expect(Value value, ValueKind kind, std::string_view key) {
    return arena_.is(value, kind) || fail_kind(value, kind, key);
  }
  /// The items of a container that may be read only once, since reading shared ones repeatedly could take forever.
  std::optional<std::span<const Value>> consume(Value container, ValueKind kind, std::string_view key) {
    if (!expect(container, kind, key)) return std::nullopt;
    if (arena_.used(container)) {
      fail_used(key);
      return std::nullopt;
    }
    const std::span<const Value> items = arena_.items(container);
    become(container, Became::nothing, 0);
    return items;
  }

  bool become(Value container, Became what, std::uint32_t id) {
    if (id >= became_ids) return fail("more distinct stacks than memreel can address");
    arena_.use(container, static_cast<std::uint32_t>(what) << became_shift | id);
    return true;
  }
  std::optional<std::uint32_t> became(Value container, Became what) const {
    const std::optional<std::uint32_t> result = arena_.used(container);
    if (!result || *result >> became_shift != static_cast<std::uint32_t>(what)) return std::nullopt;
    return *result & (became_ids - 1);
  }

  // Out of line, to keep callers small.
  [[gnu::cold, gnu::noinline]] bool fail(const std::string& what);
  [[gnu::cold, gnu::noinline]] bool fail_size(std::string_view key);
  [[gnu::cold, gnu::noinline]] bool fail_address(std::string_view key);

 private:
  static constexpr unsigned became_shift = 30;
  static constexpr std::uint32_t became_ids = std::uint32_t{1} << became_shift;

  [[gnu::cold, gnu::noinline]] bool fail_kind(Value value, ValueKind wanted, std::string_view key);
  [[gnu::cold, gnu::noinline]] bool fail_time(Value value);
  [[gnu::cold, gnu::noinline]] bool fail_number(Value value, std::string_view key);
  [[gnu::cold, gnu::noinline]] bool fail_used(std::string_view key);
  SnapshotKey look_up(Value value);

  ValueArena& arena_;
  Location location_;
  std::optional<Error> failed_;
};

// Turns the repeated parts of a snapshot document into table rows: frames, stacks, names, marks and (pool, stream)
// pairs.

/// A frame dict becomes a FrameId and a frame list a StackId when first seen; every later reference to the same object
/// costs one load.
class TableReader {
 public:
  TableReader(ValueReader& values, ImportOutput& writer, PoolStreams& pool_streams)
      : values_(values), writer_(writer), pool_streams_(pool_streams) {}

  bool read_stack(Value frames, StackId& into);
  bool read_pool_stream(const PoolStream& pool_stream, PoolStreamId& into) {
    into = pool_streams_.id(pool_stream);
    return pool_streams_.count() <= max_pool_streams || values_.fail("too many streams and pools");
  }
  /// `value` cut to 4 KiB, if it is a text: longer names help nobody.
  StringId name(Value value);
  /// The torch.compile region that a compile_context names, as in "Torch-Compiled Region: 0/0"; none outside a region.
  StringId compiled_region(Value context);
  MarkId mark(StringId name, SnapshotKey stage);
  /// The mark of a `user_defined` entry, which is named by its only frame.
  MarkId mark_of(StackId stack);
  /// Stacks that were too deep and lack their outermost frames.
  std::uint64_t cut_stacks() const { return cut_stacks_; }

 private:
  bool read_frame(Value dict, FrameId& into);

  ValueReader& values_;
  ImportOutput& writer_;
  PoolStreams& pool_streams_;
  std::uint64_t cut_stacks_ = 0;
  std::vector<FrameId> frames_;                            // in the stack being read
  std::vector<std::pair<FrameId, StackId>> latest_stack_;  // outermost first
};

// Reads the lists `segments` and `host_segments` of a snapshot document: the reserved segments when the snapshot was
// taken, and their blocks.

class SegmentReader {
 public:
  SegmentReader(ValueReader& values, TableReader& tables, Snapshot& snapshot)
      : values_(values), tables_(tables), snapshot_(snapshot) {}

  /// Adds them to their devices' histories. `list`: its name in the document. Returns false after a failure, which is
  /// then in `values`.
  bool read(Value segments, std::string_view list = "segments");

 private:
  bool read_segment(Value dict);
  bool read_block(Value dict, Segment& segment, std::uint64_t& address);
  bool read_block_history(Value history, Block& block);

  ValueReader& values_;
  TableReader& tables_;
  Snapshot& snapshot_;
};

}  // namespace memreel::torch
