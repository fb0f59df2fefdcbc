#include "formats/import/torch/torch_snapshot.h"

#include <utility>

#include "formats/import/source/json_values.h"
#include "formats/import/source/unpickle.h"
#include "formats/import/source/value_arena.h"
#include "formats/import/torch/snapshot_reader.h"
#include "formats/import/torch/snapshot_series.h"
#include "formats/import/torch/snapshot_to_trace.h"

namespace memreel::torch {
namespace {

constexpr auto pickle_proto = std::byte{0x80};

bool is_pickle(std::span<const std::byte> beginning) { return !beginning.empty() && beginning[0] == pickle_proto; }

Result<Snapshot> read_snapshot(ByteCursor& bytes, TraceWriter& writer) {
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

Result<void> import_snapshot(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options) {
  header.source = "torch.snapshot";
  TraceWriter writer(std::move(sink), header, options);
  Result<Snapshot> snapshot = read_snapshot(bytes, writer);
  if (!snapshot) {
    if (snapshot.error().where.empty()) snapshot.error().where = bytes.where();
    return std::move(snapshot).error();
  }
  write_trace(std::move(*snapshot), writer);
  return writer.finish();
}

Result<void> import_series(std::vector<Instant> instants, Header header, std::unique_ptr<ByteSink> sink,
                           const WriterOptions& options) {
  header.source = "torch.snapshot";
  TraceWriter writer(std::move(sink), header, options);
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

}  // namespace memreel::torch
