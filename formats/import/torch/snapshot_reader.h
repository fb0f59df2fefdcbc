// Turns the values of a snapshot document (pickle or JSON) into a Snapshot.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/import/document_sink.h"
#include "formats/import/torch/snapshot.h"
#include "formats/import/torch/words.h"
#include "formats/import/values.h"
#include "formats/model/result.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

/// Takes trace entries while the document is read, the rest at its end. Accepts the keys of every PyTorch release from
/// 1.13 to 2.15; keys that it does not know are ignored.
///
/// Frames, stacks and mark names go to the tables of `writer` at once. A frame dict becomes a FrameId and a frame list
/// a StackId the first time it is seen, and every later reference to the same object costs one load.
class SnapshotReader final : public DocumentSink {
 public:
  SnapshotReader(ValueArena& arena, TraceWriter& writer) : arena_(arena), writer_(writer) {}

  std::string_view streamed_key() const override { return "device_traces"; }
  Result<void> take(std::size_t device, Value list, std::span<const Value> entries) override;

  /// Takes the whole document: a snapshot dict, or a plain list of segments. Called once.
  Result<Snapshot> finish(Value root);

 private:
  /// What a container was used as.
  enum class Became : std::uint32_t { trace, frame, stack, nothing };
  /// Where in the document the reader is, for errors.
  struct Location {
    std::string_view list;
    std::optional<std::size_t> device;
    std::size_t item = 0;
  };

  // Each read_ function returns false after a failure, which is then in failed_.
  bool read_root(Value root);
  bool read_traces(Value traces);
  bool read_entry(DeviceHistory& history, Value dict);
  bool read_segments(Value segments);
  bool read_segment(Value dict);
  bool read_block(Value dict, Segment& segment, std::uint64_t& address);
  bool read_block_history(Value history, Block& block);
  bool read_annotations(Value annotations);
  bool read_annotation(Value dict);
  bool read_settings(Value settings);
  bool read_setting(Word key, Value value);

  bool read_unsigned(Value value, std::string_view key, std::uint64_t& into);
  bool read_time(Value value, std::int64_t& into);
  bool read_device(Value value, std::int32_t& into);
  bool read_pool(Value value, std::optional<PoolKey>& into);
  bool read_stack(Value frames, StackId& into);
  bool read_frame(Value dict, FrameId& into);
  bool read_place(const Place& place, PlaceId& into);
  bool expect(Value value, ValueKind kind, std::string_view key);
  /// The items of a container that may be read only once, since reading shared ones again and again could take for
  /// ever.
  std::optional<std::span<const Value>> consume(Value container, ValueKind kind, std::string_view key);
  // Kept apart so that what calls them stays small.
  [[gnu::cold, gnu::noinline]] bool fail(const std::string& what);
  [[gnu::cold, gnu::noinline]] bool fail_kind(Value value, ValueKind wanted, std::string_view key);
  [[gnu::cold, gnu::noinline]] bool fail_number(Value value, std::string_view key);
  [[gnu::cold, gnu::noinline]] bool fail_used(std::string_view key);

  bool become(Value container, Became what, std::uint32_t id);
  std::optional<std::uint32_t> became(Value container, Became what) const;
  Word word(Value value);
  /// The beginning of `value` when it is a text: names beyond 4 KiB tell nobody anything.
  StringId name(Value value);
  MarkId mark(StringId name, Word stage);
  /// The mark of a `user_defined` entry, which is told by its only frame.
  MarkId mark_of(StackId stack);

  ValueArena& arena_;
  TraceWriter& writer_;
  Snapshot snapshot_;
  Location location_;
  std::vector<FrameId> frames_;                            // of the stack being read
  std::vector<std::pair<FrameId, StackId>> latest_stack_;  // outermost first
  std::optional<Error> failed_;
};

}  // namespace memreel::torch
