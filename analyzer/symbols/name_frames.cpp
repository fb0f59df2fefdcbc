// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>

#include "analyzer/symbols/debug_info.h"
#include "analyzer/symbols/symbols.h"
#include "formats/model/frame_kind.h"
#include "formats/model/quantity.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel {
namespace {

/// Native and unnamed.
bool is_unnamed(const Frame& frame) {
  return frame.function == StringId::none && frame.file == StringId::none &&
         (frame.module != ModuleId::none || frame.module_offset != 0);
}

/// Frames in module order.
std::vector<FrameId> unnamed_frames(const Tables& tables) {
  std::vector<FrameId> frames;
  for (std::uint32_t f = 1; f < tables.frames.size(); ++f)
    if (is_unnamed(tables.frames[f])) frames.push_back(FrameId{f});
  std::sort(frames.begin(), frames.end(), [&](FrameId a, FrameId b) {
    return std::pair(tables[a].module, tables[a].module_offset) < std::pair(tables[b].module, tables[b].module_offset);
  });
  return frames;
}

/// Rows added to tables, each once.
class NewRows {
 public:
  explicit NewRows(Tables& tables) : tables_(&tables) {
    for (std::uint32_t s = 0; s < tables.strings.size(); ++s) strings_.try_emplace(tables.strings[s], StringId{s});
  }

  StringId string(const std::string& text) {
    const auto [position, is_new] = strings_.try_emplace(text, StringId(tables_->strings.size()));
    if (is_new) tables_->strings.push_back(text);
    return position->second;
  }

  FrameId frame(const Frame& frame) {
    const auto key =
        std::tuple(frame.function, frame.file, frame.line, frame.module, frame.module_offset, frame.instance);
    const auto [position, is_new] = frames_.try_emplace(key, FrameId(tables_->frames.size()));
    if (is_new) tables_->frames.push_back(frame);
    return position->second;
  }

 private:
  using FrameKey = std::tuple<StringId, StringId, std::uint32_t, ModuleId, std::uint64_t, StringId>;
  Tables* tables_;
  std::unordered_map<std::string, StringId> strings_;
  std::map<FrameKey, FrameId> frames_;
};

/// For a frame that became several: the callers of the innermost, which keeps the row; inner before outer.
using Inlined = std::unordered_map<std::uint32_t, std::vector<FrameId>>;

/// Inserts the callers of inlined functions into the stacks; returns the new id of each stack.
std::vector<StackId> expand_stacks(Tables& tables, const Inlined& inlined) {
  std::vector<StackId> now(tables.stacks.size());
  std::vector<Stack> stacks{Stack{}};
  // Several stacks may share the same expanded callers.
  std::map<std::pair<FrameId, StackId>, StackId> known;
  for (std::uint32_t s = 1; s < tables.stacks.size(); ++s) {
    const Stack& stack = tables.stacks[s];
    StackId caller = now[index(stack.caller)];
    if (const auto found = inlined.find(index(stack.frame)); found != inlined.end()) {
      for (auto frame = found->second.rbegin(); frame != found->second.rend(); ++frame) {
        const auto [position, is_new] = known.try_emplace({*frame, caller}, StackId(stacks.size()));
        if (is_new) stacks.push_back({.frame = *frame, .caller = caller});
        caller = position->second;
      }
    }
    now[s] = StackId(stacks.size());
    stacks.push_back({.frame = stack.frame, .caller = caller});
  }
  tables.stacks = std::move(stacks);
  return now;
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// Why frames of a module have no names, if the module is the cause.
class Problems {
 public:
  void add(const std::string& path, const ModuleSymbols& symbols, std::uint64_t frames) {
    if (symbols.found() == ModuleSymbols::Found::nothing) {
      missing_frames_ += frames;
      missing_.push_back(file_name(path));
    } else if (symbols.found() == ModuleSymbols::Found::another_build) {
      lines_.push_back(file_name(path) + " is not the file that was recorded: " + symbols.mismatch() + "; " +
                       std::to_string(frames) + (frames == 1 ? " frame in it stays" : " frames in it stay") +
                       " unnamed");
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> all = lines_;
    if (!missing_.empty()) {
      std::string names;
      constexpr std::size_t shown = 3;
      for (std::size_t i = 0; i < std::min(missing_.size(), shown); ++i) names += (i != 0 ? ", " : "") + missing_[i];
      if (missing_.size() > shown) names += " and " + std::to_string(missing_.size() - shown) + " more";
      all.push_back(std::to_string(missing_frames_) +
                    (missing_frames_ == 1 ? " native frame stays" : " native frames stay") +
                    " unnamed; not found on this machine: " + names +
                    " (give their directory with --sysroot, or record with --bundle-symbols)");
    }
    return all;
  }

 private:
  std::vector<std::string> lines_, missing_;
  std::uint64_t missing_frames_ = 0;
};

/// The row of a frame with a source position; module and offset stay.
Frame named(const Frame& frame, const SourceFrame& source, NewRows& rows) {
  Frame result = frame;
  result.function = rows.string(source.function);
  result.file = rows.string(source.file);
  result.line = source.line;
  return result;
}

std::string module_and_offset(const Tables& tables, const Frame& frame) {
  const std::string module = frame.module == ModuleId::none ? "" : file_name(tables[tables[frame.module].path]) + "+";
  return module + hexadecimal(frame.module_offset);
}

/// Names the rows of native frames, one module at a time.
class FrameNamer {
 public:
  FrameNamer(Tables& tables, const SymbolOptions& options, Unnamed unnamed)
      : tables_(&tables), options_(&options), unnamed_(unnamed), rows_(tables) {}

  /// `frames` must all be in one module. `on_frame` is called before each.
  void name(std::span<const FrameId> frames, const std::function<void()>& on_frame) {
    const ModuleId module = (*tables_)[frames.front()].module;
    const std::string path = (*tables_)[(*tables_)[module].path];
    // Code generated at run time, and the kernel's, is in no file.
    const bool in_a_file = !path.empty() && !path.starts_with('[');
    std::optional<ModuleSymbols> symbols;
    if (in_a_file && can_read_symbols()) symbols.emplace(path, (*tables_)[module], *options_);
    if (symbols) problems_.add(path, *symbols, frames.size());
    for (const FrameId frame : frames) {
      on_frame();
      name(frame, symbols ? symbols->at((*tables_)[frame].module_offset) : std::vector<SourceFrame>{});
    }
  }

  const Inlined& inlined() const { return inlined_; }
  std::uint64_t named_count() const { return named_; }
  std::vector<std::string> problems() const { return problems_.lines(); }

 private:
  void name(FrameId id, std::vector<SourceFrame> sources) {
    const Frame frame = (*tables_)[id];
    if (!sources.empty())
      ++named_;
    else if (unnamed_ == Unnamed::left_alone)
      return;
    else
      sources.push_back({.function = module_and_offset(*tables_, frame)});
    tables_->frames[index(id)] = named(frame, sources.front(), rows_);
    for (const SourceFrame& caller : std::span(sources).subspan(1))
      inlined_[index(id)].push_back(rows_.frame(named(frame, caller, rows_)));
  }

  Tables* tables_;
  const SymbolOptions* options_;
  Unnamed unnamed_;
  NewRows rows_;
  Inlined inlined_;
  Problems problems_;
  std::uint64_t named_ = 0;
};

}  // namespace

std::pair<std::vector<StackId>, SymbolFindings> name_frames(
    Tables& tables, const SymbolOptions& options, Unnamed unnamed,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress) {
  const std::vector<FrameId> frames = unnamed_frames(tables);
  SymbolFindings findings{.native_frames = frames.size()};
  if (frames.empty()) {
    std::vector<StackId> same;
    for (std::uint32_t s = 0; s < tables.stacks.size(); ++s) same.push_back(StackId{s});
    return {std::move(same), std::move(findings)};
  }
  FrameNamer namer(tables, options, unnamed);
  std::uint64_t done = 0;
  const auto on_frame = [&] {
    if (on_progress) on_progress(done++, frames.size());
  };
  for (auto begin = frames.begin(); begin != frames.end();) {
    const ModuleId module = tables[*begin].module;
    const auto end = std::find_if(begin, frames.end(), [&](FrameId frame) { return tables[frame].module != module; });
    namer.name({begin, end}, on_frame);
    begin = end;
  }
  classify_frames(tables);
  shorten_paths(tables);
  findings.named = namer.named_count();
  findings.problems = namer.problems();
  if (!can_read_symbols())
    findings.problems.emplace_back("native frames stay unnamed: memreel was built without libdw");
  if (options.debuginfod && !can_ask_servers())
    findings.problems.emplace_back("no debuginfod server was queried: libdebuginfod.so.1 is not installed");
  return {expand_stacks(tables, namer.inlined()), std::move(findings)};
}

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
  if (!report.later.empty()) {
    return Error{.what = "can't be rewritten: it holds several recordings, one after the other",
                 .where = trace.string(),
                 .remedy = "add symbols to each before they are concatenated"};
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
