// SPDX-License-Identifier: Apache-2.0
// Turns the values of a snapshot document (pickle or JSON) into a Snapshot.
#pragma once

#include <span>

#include "formats/import/source/unpickle.h"
#include "formats/import/source/value_arena.h"
#include "formats/import/torch/snapshot.h"
#include "formats/import/torch/value_reader.h"
#include "formats/model/result.h"
#include "formats/writer/trace_output.h"

namespace memreel::torch {

// Values of allocator settings as text.

/// As Python prints it (True, 0.6, -1, None), but texts without quotes, and dicts and lists as "[key:value,...]" and
/// "[value,...]". None if it is nested more than three levels deep or longer than 4 KiB, as no setting is.
std::optional<std::string> settings_text(const ValueArena& arena, Value value);

/// Receives trace entries while the document is read, the rest at its end. Accepts the keys of every PyTorch release
/// from 1.13 to 2.15; ignores unknown keys.
///
/// Adds frames, stacks and mark names to the tables of `writer` immediately.
class SnapshotReader final : public DocumentSink {
 public:
  SnapshotReader(ValueArena& arena, ImportOutput& writer)
      : values_(arena), tables_(values_, writer, snapshot_.pool_streams), segments_(values_, tables_, snapshot_) {}

  // Its parts refer to one another.
  SnapshotReader(const SnapshotReader&) = delete;
  SnapshotReader& operator=(const SnapshotReader&) = delete;

  std::string_view streamed_key() const override { return "device_traces"; }
  Result<void> take(std::size_t device, Value list, std::span<const Value> entries) override;
  bool take_dict(std::span<const Value> items, bool same_keys) override;

  /// Receives the whole document: a snapshot dict, or a plain list of segments. Called once.
  Result<Snapshot> finish(Value root);

 private:
  // Each read_ function returns false after a failure, which is then in values_.
  bool read_root(Value root);
  bool read_traces(Value traces);
  bool read_host_traces(Value traces);
  bool read_entry(DeviceHistory& history, Value dict);
  /// With the meanings of the keys in keys_.
  bool read_entry(DeviceHistory& history, std::span<const Value> items);
  void look_up_keys(std::span<const Value> items);
  bool read_annotations(Value annotations);
  bool read_annotation(Value dict);
  bool read_settings(Value settings);
  bool read_setting(SnapshotKey key, Value value);
  void add_release();
  /// The release as it shows in the contents; empty if it doesn't. PyTorch's own snapshots don't name the release that
  /// wrote them, but each of these added something (histories recorded with each release, tests/lab/run): 2.2 times of
  /// trace entries, 2.3 the list of settings, 2.5 annotations, 2.12 pools in trace entries, 2.13 limits of the host's
  /// allocator among the settings, 2.14 the host's history. 2.3 and 2.4 differ in what a 1 in roundup_power2_divisions
  /// does.
  std::string_view shown_release() const;

  Snapshot snapshot_;
  DeviceHistory* latest_ = nullptr;  // of the latest take()
  std::vector<SnapshotKey> keys_;    // of an entry
  ValueReader values_;
  TableReader tables_;
  SegmentReader segments_;
};

}  // namespace memreel::torch
