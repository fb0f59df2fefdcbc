// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/symbols.h"

#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel {
namespace {

struct Whole {
  Header header;
  Tables tables;
  Losses losses;
  FoldedHistory folded;
  std::vector<InitialHeap> initial_heaps;
  PythonHolders python_holders;
  ReadReport report;
};

/// Reads all of a trace except its events, which go to `visit` block by block.
template <class Visit>
Result<Whole> read(const std::filesystem::path& path, Visit visit) {
  Result<std::shared_ptr<ByteFile>> file = open_file(path);
  if (!file) return std::move(file).error();
  Result<TraceReader> reader = TraceReader::open(*file, path.string());
  if (!reader) return std::move(reader).error();
  EventBatch batch;
  for (;;) {
    const Result<bool> more = reader->next(batch);
    if (!more) return more.error();
    if (!*more) break;
    visit(batch);
  }
  return Whole{reader->header(),        reader->tables(),         reader->losses(), reader->folded(),
               reader->initial_heaps(), reader->python_holders(), reader->report()};
}

}  // namespace

Result<SymbolFindings> bundle_symbols(const std::filesystem::path& trace, const std::filesystem::path& output,
                                      const SymbolOptions& options,
                                      const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress) {
  // The output has all tables before its events, so read the tables first.
  Result<Whole> whole = read(trace, [](const EventBatch&) {});
  if (!whole) return std::move(whole).error();
  const ReadReport& report = whole->report;
  if (!report.intact() || report.unknown_packets != 0 || report.unknown_events != 0) {
    return Error{.what = "can't be rewritten: damaged, truncated, or newer than this version of memreel",
                 .where = trace.string(),
                 .remedy = "memreel info shows what is lost"};
  }
  if (!report.has_footer) {
    return Error{.what = "can't be rewritten: its recorder was killed or is still writing",
                 .where = trace.string(),
                 .remedy = "read it on the machine it was recorded on, or with --sysroot"};
  }
  auto [stack_now, findings] = name_frames(whole->tables, options, Unnamed::left_alone, on_progress);

  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(output, private_mode);
  if (!sink) return std::move(sink).error();
  TraceWriter writer(*std::move(sink), whole->header);
  writer.extend_tables(whole->tables);
  for (FoldedRow& row : whole->folded.rows) row.stack = stack_now[index(row.stack)];
  if (!whole->folded.empty()) writer.set_folded(whole->folded);
  for (InitialHeap& initial : whole->initial_heaps) writer.add_initial_heap(std::move(initial));
  writer.set_python_holders(whole->python_holders);
  const Result<Whole> again = read(trace, [&, &now = stack_now](const EventBatch& batch) {
    for (std::size_t i = 0; i < batch.events.count(); ++i) {
      Event event = batch.events[i];
      event.stack = now[index(event.stack)];
      writer.append(event);
    }
  });
  if (!again) return again.error();
  writer.set_losses(whole->losses);
  if (const Result<void> done = writer.finish(); !done) return done.error();
  return std::move(findings);
}

}  // namespace memreel
