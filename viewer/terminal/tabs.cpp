// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/tabs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/analysis/insight/kept_by.h"
#include "analyzer/replay/tune/search_space.h"
#include "formats/model/printable.h"
#include "formats/model/python_holders.h"
#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/terminal/terminal_timeline.h"

namespace memreel::viewer::terminal {
namespace {

double number(Bytes bytes) { return static_cast<double>(bytes.count); }
double number(std::uint64_t count) { return static_cast<double>(count); }

constexpr int bar_width = 10;

/// "███▌": a share of its width, in halves of a character; never nothing.
std::string bar_text(double share) {
  const int halves = std::clamp(static_cast<int>(std::lround(share * bar_width * 2)), 1, bar_width * 2);
  std::string bar;
  for (int i = 0; i < halves / 2; ++i) bar += "\u2588";
  return halves % 2 == 0 ? bar : bar + "\u258C";
}

bool passes(const Session& session, StackId stack) { return !session.sieve() || session.sieve()->passes(stack); }

}  // namespace

List holders_list(const HolderTree& tree, const HolderView& view, const std::vector<HolderRow>& rows, const Look& look,
                  const std::string& scope, TreeLook tree_look) {
  const bool has_bars = tree_look == TreeLook::bars;
  List list;
  list.columns = {{"bytes", 10}, {"share", 7}, {"count", 8}};
  if (has_bars) list.columns.push_back({"", bar_width, false});
  list.columns.push_back({"who", 0, false, true});
  list.empty = scope.empty() ? "Nothing is held at the cursor." : "Nothing was allocated in the range.";
  const auto focus = node_at(tree, view.focus).value_or(0);
  const Holder& whole = tree.nodes[focus];
  list.caption = scope;
  if (focus != 0) list.caption += (scope.empty() ? "only " : "   only ") + whole.label + "   (Esc: everything)";
  for (const HolderRow& row : rows) {
    const Holder& holder = tree.nodes[row.node];
    const std::string sign = holder.parts.empty() ? "  " : row.is_open ? "\u25BE " : "\u25B8 ";
    ListRow shown;
    const double share = share_of(holder.bytes, tree.root().bytes);
    shown.cells = {text_of(holder.bytes), text_of_share(share), text_of(holder.count)};
    if (has_bars) shown.cells.push_back(bar_text(share));
    shown.cells.push_back(sign + holder.label);
    shown.indent = 2 * row.depth;
    shown.stack = holder.stack;
    if (holder.category && row.depth == 0) {
      shown.swatch = look.category(*holder.category);
      shown.letter = letter_of(*holder.category);
    }
    shown.copied = text_of(holder.bytes) + "\t" + text_of(holder.count) + "\t" + holder.label;
    list.rows.push_back(std::move(shown));
  }
  return list;
}

namespace {

/// Part of a segment that one character shows: who has most of it.
struct BarPart {
  std::uint64_t held = 0, pending = 0;
  std::array<std::uint64_t, category_count> by_category{};
};

std::vector<BarPart> bar_parts(const HeapAt& heap, const HeldSegment& segment, const Classification* known,
                               double per_part, int width) {
  std::vector<BarPart> parts(static_cast<std::size_t>(width));
  for (std::uint32_t i = segment.first_block; i < segment.first_block + segment.blocks; ++i) {
    const HeldBlock& block = heap.blocks[i];
    const auto category =
        static_cast<std::size_t>(known != nullptr ? known->category(block.allocation) : Category::unknown);
    const auto from = static_cast<double>((block.address - segment.address).count);
    const double to = from + static_cast<double>(block.taken.count);
    for (auto p = static_cast<std::size_t>(from / per_part); p < parts.size(); ++p) {
      const double begin = std::max(from, static_cast<double>(p) * per_part);
      const double end = std::min(to, static_cast<double>(p + 1) * per_part);
      if (end <= begin) break;
      const auto bytes = static_cast<std::uint64_t>(end - begin);
      parts[p].held += bytes;
      if (block.pending) parts[p].pending += bytes;
      parts[p].by_category.at(category) += bytes;
    }
  }
  return parts;
}

/// `share`: of the part that is held.
Cell bar_cell(const BarPart& part, double share, bool is_classified, const Look& look) {
  if (share < 0.02) return {U'\u00B7', {.ink = look.faint()}};
  const auto category = static_cast<Category>(std::ranges::max_element(part.by_category) - part.by_category.begin());
  const Style style{.ink = look.category(category)};
  const bool is_pending = 2 * part.pending > part.held;
  if (look.uses_letters())
    return {is_pending ? U'w' : is_classified ? static_cast<char32_t>(letter_of(category)) : U'#', style};
  return {is_pending ? U'\u2591' : share > 0.66 ? U'\u2588' : share > 0.33 ? U'\u2593' : U'\u2592', style};
}

std::vector<Cell> bar_of(const Session& session, const HeapAt& heap, const HeldSegment& segment, const Look& look,
                         int width) {
  const Classification* const known = session.classification().get();
  const double per_part = static_cast<double>(segment.size.count) / width;
  std::vector<Cell> bar;
  for (const BarPart& part : bar_parts(heap, segment, known, per_part, width))
    bar.push_back(bar_cell(part, static_cast<double>(part.held) / per_part, known != nullptr, look));
  return bar;
}

}  // namespace

List heap_list(const Session& session, const Look& look, int width) {
  const HeapAt& heap = *session.heap();
  List list;
  list.columns = {{"segment", 10}, {"held", 10}, {"largest free", 12}, {"blocks", 7}, {"", 0, false}};
  list.empty = heap.blocks.empty() ? "Nothing is held at the cursor." : "No segments were recorded.";
  if (heap.reserved > 0_B) {
    const Bytes held = heap.live + heap.pending + heap.rounding.value_or(0_B);
    list.caption = text_of(heap.reserved) + " reserved in " + counted(heap.segments.size(), "segment") + ", " +
                   text_of(held < heap.reserved ? heap.reserved - held : 0_B) + " of them free" +
                   (heap.rounding ? ", " + text_of(*heap.rounding) + " rounding" : " or rounding");
    if (heap.pending > 0_B) list.caption += ", " + text_of(heap.pending) + " awaiting free";
    if (heap.largest_gap)
      list.caption += ", largest free " + text_of(heap.segments[*heap.largest_gap].largest_gap_size);
  }
  constexpr int before_bar = 10 + 10 + 12 + 7 + 4 * 2;
  constexpr std::size_t most_segments = 20'000;
  for (const HeldSegment& segment : heap.segments) {
    if (list.rows.size() == most_segments) break;
    ListRow row;
    row.cells = {text_of(segment.size), text_of(segment.held), text_of(segment.largest_gap_size),
                 text_of(std::uint64_t{segment.blocks}), ""};
    row.numbers = {number(segment.size), number(segment.held), number(segment.largest_gap_size),
                   number(std::uint64_t{segment.blocks})};
    row.picture = bar_of(session, heap, segment, look, std::clamp(width - before_bar, 8, 400));
    const HeldBlock* largest = nullptr;
    for (std::uint32_t i = segment.first_block; i < segment.first_block + segment.blocks; ++i)
      if (largest == nullptr || heap.blocks[i].size > largest->size) largest = &heap.blocks[i];
    if (largest != nullptr) row.stack = session.document().stack_of(largest->allocation);
    row.copied = address_text(segment.address) + "\t" + row_text(row);
    list.rows.push_back(std::move(row));
  }
  return list;
}

List leaks_list(const Session& session, const Look& look) {
  List list;
  list.columns = {{"verdict", 10, false}, {"bytes", 10}, {"count", 7}, {"per step", 10}, {"who", 0, false}};
  list.empty = session.reason_without_findings();
  if (!list.empty.empty()) return list;
  const Findings& findings = *session.findings();
  if (findings.leaks.unrecorded) {
    list.empty = "Leaks are " + std::string(leaks_not_judged) + ".";
    return list;
  }
  Bytes accused{};
  for (const LeakFinding& finding : findings.leaks.findings) {
    if (finding.heap != session.selection.heap || !passes(session, finding.stack)) continue;
    if (accuses(finding.verdict)) accused += finding.bytes;
    const double growth =
        accuses(finding.verdict) && finding.unit == GrowsWith::steps ? std::max(0.0, finding.growth_bytes_per_step) : 0;
    ListRow row;
    row.cells = {std::string(name_of(finding.verdict)), text_of(finding.bytes), text_of(finding.count),
                 growth > 0 ? text_of(Bytes{static_cast<std::uint64_t>(growth)}) : "",
                 stack_label(*session.document().tables, finding.stack) + "   " + evidence_of(findings, finding)};
    row.numbers = {0, number(finding.bytes), number(finding.count), growth};
    row.is_alarm = accuses(finding.verdict);
    row.stack = finding.stack;
    row.instant = session.document().event_count();
    list.rows.push_back(std::move(row));
  }
  list.is_alarm = accused > 0_B;
  if (accused > 0_B) list.caption = text_of(accused) + " leaked or suspected";
  for (const HeapRounds& heap : findings.leaks.heaps) {
    if (heap.heap != session.selection.heap) continue;
    if (heap.rounds.suffice())
      list.caption += (accused > 0_B ? "" : "No leak was found") + (", judged over " + text_of(heap.rounds));
    else
      list.caption += (accused > 0_B ? "   leaks are " : "Leaks are ") + text_of(heap.rounds);
  }
  list.empty = "Nothing was live when the trace ended.";
  static_cast<void>(look);
  return list;
}

List fragmentation_list(const Session& session, const Look& look) {
  static_cast<void>(look);
  List list;
  list.columns = {{"pins", 10}, {"alone", 10}, {"segments", 8}, {"blocks", 7}, {"who", 0, false, true}};
  list.empty = session.reason_without_findings();
  if (!list.empty.empty()) return list;
  const Findings& findings = *session.findings();
  const auto found = std::ranges::find(findings.fragmentation, session.selection.heap, &Fragmentation::heap);
  if (found == findings.fragmentation.end()) {
    list.empty = "Not known: no segments were recorded.";
    return list;
  }
  const FragmentationPoint& peak = found->at_peak;
  list.caption = text_of(peak.free()) + " of " + text_of(peak.reserved) + " were free at the reserved peak, " +
                 text_of(peak.unreleasable) + " of them unreleasable";
  for (const PinningSite& site : found->sites) {
    if (!passes(session, site.stack)) continue;
    ListRow row;
    row.cells = {text_of(site.unreleasable), text_of(site.alone), text_of(site.segments), text_of(site.blocks),
                 site.label};
    row.numbers = {number(site.unreleasable), number(site.alone), number(site.segments), number(site.blocks)};
    row.stack = site.stack;
    row.instant = static_cast<std::uint32_t>(peak.events);
    list.rows.push_back(std::move(row));
  }
  list.empty = "Nothing keeps free memory from being released.";
  return list;
}

List failures_list(const Session& session, const Look& look) {
  static_cast<void>(look);
  const Document& document = session.document();
  List list;
  list.columns = {{"requested", 10}, {"at", 10}, {"live then", 10}, {"reserved", 10}, {"who", 0, false, true}};
  list.empty = "No request failed in this trace.";
  const ColumnView<std::uint32_t>& rows = document.columns.failure;
  constexpr std::size_t most_rows = 10'000;
  for (std::size_t i = 0; i < std::min(rows.size(), most_rows); ++i) {
    const OtherEvent failure = document.other(rows[i]);
    if (!passes(session, failure.event.stack)) continue;
    const HeapSeries* const series = document.series(document.heap_of(failure.event.origin));
    const Metrics metrics = series != nullptr ? document.metrics_after(*series, failure.at + 1) : Metrics{};
    const Nanoseconds since = document.time(failure.at) - document.first_time();
    const OutOfMemory* const oom = session.findings() ? session.findings()->ooms.of_event(failure.at) : nullptr;
    const Bytes live{value_of(metrics, Metric::live)}, reserved{value_of(metrics, Metric::reserved)};
    ListRow row;
    row.cells = {text_of(failure.event.size), time_text(since, std::max(since / 10'000, Nanoseconds{1})), text_of(live),
                 text_of(reserved),
                 (oom != nullptr ? std::string(name_of(oom->verdict)) + "  " : "") +
                     stack_label(*document.tables, failure.event.stack)};
    row.numbers = {number(failure.event.size), static_cast<double>(since.count()), number(live), number(reserved)};
    row.is_alarm = true;
    row.stack = failure.event.stack;
    row.instant = failure.at + 1;
    if (oom != nullptr) row.copied = explanation(*oom);
    list.rows.push_back(std::move(row));
  }
  return list;
}

List settings_list(const Session& session, const Look& look) {
  static_cast<void>(look);
  List list;
  list.columns = {{"saves", 10}, {"reserved peak", 13}, {"failed", 6}, {"with", 0, false}};
  list.empty = session.reason_without_findings();
  if (!list.empty.empty()) return list;
  const Findings& findings = *session.findings();
  const Remedies& remedies = findings.remedies;
  list.empty = findings.tried ? "No other setting or allocator was tried." : "Being tried.";
  if (remedies.tried.empty()) return list;
  const std::uint64_t failed = findings.verdict.setting ? findings.verdict.setting->failed_before : 0;
  list.caption = "replayed over the whole trace; y copies the setting";
  ListRow now;
  now.cells = {"", text_of(remedies.baseline_peak), text_of(failed), "as recorded"};
  now.numbers = {0, number(remedies.baseline_peak), number(failed)};
  now.is_faint = true;
  list.rows.push_back(std::move(now));
  for (const Remedy& remedy : remedies.tried) {
    const std::int64_t saved = remedies.gives_back(remedy);
    ListRow row;
    row.cells = {text_of_signed(saved), text_of(remedy.outcome.peak_reserved()),
                 text_of(std::uint64_t{remedy.outcome.failures()}), remedy.text};
    row.numbers = {static_cast<double>(saved), number(remedy.outcome.peak_reserved()),
                   number(std::uint64_t{remedy.outcome.failures()})};
    const bool is_setting = remedies.is_torch && remedy.kind == RemedyKind::setting;
    row.copied = is_setting ? export_line(conf_of(remedy.outcome.policy)) : remedy.outcome.policy.text();
    list.rows.push_back(std::move(row));
  }
  return list;
}

List variables_list(const Session& session, const Look& look) {
  static_cast<void>(look);
  List list;
  list.columns = {{"bytes", 10}, {"blocks", 7}, {"length", 9}, {"grown", 9}, {"kept by", 0, false}};
  list.empty = session.reason_without_findings();
  if (!list.empty.empty()) return list;
  const Document& document = session.document();
  const PythonHolders& holders = session.findings()->python_holders;
  list.caption = "Python variables at the end; walked " + walk_words(holders);
  const std::uint32_t end = document.event_count();
  std::vector<std::optional<HeldBlock>> largest(holders.rows.size());
  for (const HeldBlock& block : heap_at(document, session.selection.heap, end).blocks) {
    const auto kept = std::ranges::lower_bound(holders.blocks, block.address, {}, &PythonBlock::address);
    if (kept == holders.blocks.end() || kept->address - block.address >= block.size) continue;
    std::optional<HeldBlock>& known = largest.at(kept->holder);
    if (!known || known->size < block.size) known = block;
  }
  for (std::size_t i = 0; i < holders.rows.size(); ++i) {
    const PythonHolder& holder = holders.rows[i];
    const std::uint64_t grown = holder.length > holder.length_before ? holder.length - holder.length_before : 0;
    const bool was_there = holder.length_before != 0;
    ListRow row;
    row.cells = {text_of(holder.bytes), text_of(holder.blocks), text_of(holder.length),
                 was_there && grown > 0 ? "+" + text_of(grown) : "", holder.text};
    row.numbers = {number(holder.bytes), number(holder.blocks), number(holder.length), was_there ? number(grown) : 0.0};
    row.instant = end;  // the walk was made where the recording ends
    if (largest[i]) {
      row.allocation = largest[i]->allocation;
      row.stack = document.stack_of(largest[i]->allocation);
    }
    list.rows.push_back(std::move(row));
  }
  list.empty = "No Python variable keeps memory.";
  return list;
}

namespace {

/// What is known of a rank beside its figures, in a word.
std::string mark_of(const RankLine& line) {
  return line.decides ? "decides" : line.failed ? "failed" : line.outlier ? "outlier" : line.near ? "near limit" : "";
}

/// The ranks in the order of the answer: what decides, what stands out, the others.
std::vector<const RankLine*> lines_of(const FolderOverview& overview) {
  std::vector<const RankLine*> lines;
  for (const JobOverview& job : overview.jobs)
    for (const RankLine& line : job.lines) {
      lines.push_back(&line);
      for (const RankLine& other : line.alike) lines.push_back(&other);
    }
  return lines;
}

void add_rank(List& list, const Ranks& ranks, const RankLine& line, bool is_shown, int width, Bytes highest,
              const Look& look) {
  const auto series = ranks.series(line.file);
  const bool is_known = series && series->problem.empty();
  constexpr int name_width = 16, before_line = 13 + 10 + 10 + 3 * 2 + 2 + name_width + 2;
  std::string name = fitting(ranks.name(line.file), name_width);
  name.append(static_cast<std::size_t>(std::max(0, name_width - width_of(name))), ' ');
  ListRow row;
  row.cells = {is_known ? (line.at_least ? ">= " : "") + text_of(series->peak_reserved) : "",
               is_known ? text_of(series->peak_live) : "", mark_of(line), (is_shown ? "\u25B8 " : "  ") + name + "  "};
  row.numbers = {is_known ? number(series->peak_reserved) : 0.0, is_known ? number(series->peak_live) : 0.0};
  row.is_alarm = (series && !is_known) || line.failed;
  if (is_known) {
    std::vector<std::uint64_t> values;
    for (const Bytes bytes : series->reserved) values.push_back(bytes.count);
    for (const char32_t glyph :
         glyphs_of(spark_line(values, highest.count, std::clamp(width - before_line, 0, 60), look)))
      row.picture.push_back({glyph, {.ink = Look::live()}});
  } else {
    row.cells.back() += series ? series->problem : "not read yet";
  }
  row.copied = ranks.files()[line.file].string();
  row.item = line.file;
  list.rows.push_back(std::move(row));
}

}  // namespace

List ranks_list(const Ranks& ranks, const std::filesystem::path& shown, const Look& look, int width) {
  List list;
  list.columns = {{"peak reserved", 13}, {"peak live", 10}, {"", 10, false}, {"rank", 0, false}};
  list.empty = "No recordings.";
  list.caption = "Enter opens a rank, k compares with it; reserved bytes from beginning to end, on one scale";
  const Bytes highest = ranks.highest();
  const auto overview = ranks.overview();
  if (!overview)
    list.caption =
        text_of(std::uint64_t{ranks.read()}) + " of " + text_of(std::uint64_t{ranks.files().size()}) + " read";
  else if (!overview->problem.empty())
    list.answer.push_back("No answer about the job: " + overview->problem);
  if (overview)
    for (const JobOverview& job : overview->jobs) {
      list.answer.push_back(printable(job.headline));
      if (!job.decides.empty()) list.answer.push_back("decides: " + printable(job.decides));
      if (!job.fails.empty()) list.answer.push_back("fails: " + printable(job.fails));
    }
  if (overview && overview->problem.empty()) {
    for (const RankLine* const line : lines_of(*overview))
      add_rank(list, ranks, *line, ranks.files()[line->file] == shown, width, highest, look);
  } else {
    for (std::size_t i = 0; i < ranks.files().size(); ++i)
      add_rank(list, ranks, {.file = i, .alike = {}, .name = {}, .note = {}}, ranks.files()[i] == shown, width, highest,
               look);
  }
  return list;
}

namespace {

struct AllocationColumn {
  AllocationOrder order;
  const char* name;
};

/// Those that can be sorted by.
constexpr std::array<AllocationColumn, 3> sortable_columns{{{AllocationOrder::size, "largest"},
                                                            {AllocationOrder::lifetime, "longest-lived"},
                                                            {AllocationOrder::begin, "latest"}}};
constexpr std::uint32_t most_rows = 10'000;

const char* which(const std::optional<AllocationQuery>& query) {
  const bool is_sorted = query && query->descending;
  if (!is_sorted) return "first";
  return std::ranges::find(sortable_columns, query->order, &AllocationColumn::order)->name;
}

}  // namespace

void Allocations::update(const Session& session, std::optional<std::size_t> sorted_by) {
  const Selection& selection = session.selection;
  const auto& document = session.shared_document();
  if (document->empty()) return listed_.reset();
  const auto [first, end] = selection.listed(*document);
  const bool is_sorted = sorted_by && *sorted_by < sortable_columns.size();
  const AllocationQuery query{.heap = selection.heap,
                              .first_event = first,
                              .end_event = end,
                              .sieve = session.sieve(),
                              .order = is_sorted ? sortable_columns.at(*sorted_by).order : AllocationOrder::begin,
                              .descending = is_sorted,
                              .version = document->event_count()};
  work_.request(query,
                [document, query](const Progress& progress) { return list_allocations(*document, query, progress); });
  listed_ = work_.value();
}

List Allocations::list(const Session& session, const Look& look) const {
  List list;
  list.columns = {{"size", 10}, {"lived", 11}, {"at", 12}, {"who", 0, false, true}};
  list.empty = listed_ ? "Nothing is allocated here that matches." : "Being listed.";
  const Document& document = session.document();
  if (!listed_ || document.empty()) return list;
  const std::uint32_t count = std::min(listed_->size(), most_rows);
  list.caption = counted(listed_->size(), "allocation") + " " + session.selection.listed_words();
  if (count < listed_->size())
    list.caption += ", of which these are the " + text_of(std::uint64_t{count}) + " " + which(work_.key()) +
                    ": zoom in or search for others";
  const Classification* const known = session.classification().get();
  std::map<StackId, std::string> labels;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t id = (*listed_)[i];
    if (id >= document.allocation_count()) break;  // of another document
    const std::uint32_t requested = document.requested(id);
    const Nanoseconds begin = document.time(document.begin_of(id)), since = begin - document.first_time();
    const Nanoseconds end = requested == never ? document.last_time() + Nanoseconds{1} : document.time(requested);
    const Nanoseconds lived = std::max(end - begin, Nanoseconds{});
    const StackId stack = document.stack_of(id);
    const auto [label, is_new] = labels.try_emplace(stack);
    if (is_new) label->second = stack_label(*document.tables, stack);
    ListRow row;
    row.cells = {text_of(document.size_of(id)),
                 requested == never ? "to the end" : text_of_seconds(std::chrono::duration<double>(lived).count()),
                 time_text(since, Nanoseconds{1000}), label->second};
    row.numbers = {static_cast<double>(document.size_of(id).count), static_cast<double>(lived.count()),
                   static_cast<double>(since.count())};
    if (known != nullptr && known->knows_any) {
      row.swatch = look.category(known->category(id));
      row.letter = letter_of(known->category(id));
    }
    row.stack = stack;
    row.allocation = id;
    row.instant = document.begin_of(id) + 1;
    row.copied = address_text(document.address_of(id)) + "\t" + row_text(row);
    list.rows.push_back(std::move(row));
  }
  return list;
}

}  // namespace memreel::viewer::terminal
