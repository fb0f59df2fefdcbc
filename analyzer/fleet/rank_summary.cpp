// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/rank_summary.h"

#include <protozero/exception.hpp>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/history/device_memory.h"
#include "analyzer/analysis/insight/suppressions.h"
#include "analyzer/analysis/insight/timeline.h"
#include "analyzer/describe/shortcomings.h"
#include "analyzer/fleet/map.h"
#include "analyzer/gate/measured.h"
#include "analyzer/replay/completed_trace.h"
#include "analyzer/replay/program_heaps.h"
#include "formats/import/import.h"
#include "formats/model/flat_map.h"
#include "formats/model/frame_kind.h"
#include "formats/model/stack_text.h"
#include "formats/reader/trace_reader.h"
#include "formats/wire/framing.h"

namespace memreel {
namespace {

constexpr std::array<std::string_view, 7> status_names{"ok",      "overflowed", "truncated", "damaged",
                                                       "hostile", "duplicate",  "missing"};

std::uint64_t hash_text(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;  // FNV-1a
  return mix_bits(hash);
}

/// Without what contains the function: recordings say "Adam.step", PyTorch's snapshots "step".
std::string_view plain_function(const CodeFrame& frame) {
  std::string_view name = frame.function;
  if (frame.file.ends_with(".py")) name.remove_prefix(name.rfind('.') + 1);
  return name;
}

/// Frames in a form that is equal on every rank, computed once for each stack.
class RankSites {
 public:
  explicit RankSites(const Tables& tables) : tables_(tables) {}

  /// Innermost first. Unnamed native frames say little, so they appear only if there is nothing else; those that
  /// reports hide, such as the driver's, only if there is not even that.
  std::vector<CodeFrame> frames(StackId stack) const {
    std::vector<CodeFrame> named, unnamed, hidden;
    for (StackId at = stack; at != StackId::none; at = tables_[at].caller) {
      const FrameText text = frame_text(tables_, tables_[at].frame);
      if (!is_hidden(text.kind) && (!text.function.empty() || !text.file.empty()))
        named.push_back({std::string(text.function), std::string(text.file), text.line});
      else if (!text.module_path.empty())
        (is_hidden(text.kind) ? hidden : unnamed).push_back({std::string(base_name(text.module_path)), "", 0});
    }
    return !named.empty() ? named : !unnamed.empty() ? unnamed : hidden;
  }

  std::uint64_t id(StackId stack) {
    const auto [found, is_new] = ids_.try_emplace(index(stack), 0);
    if (is_new) {
      std::uint64_t hash = 0xCBF29CE484222325;
      for (const CodeFrame& frame : frames(stack)) {
        hash = hash_text(hash, plain_function(frame));
        hash = hash_text(hash, base_name(frame.file));  // checkouts are in different directories
        hash = mix_bits(hash + frame.line);
      }
      found->second = hash;
    }
    return found->second;
  }

 private:
  const Tables& tables_;
  std::unordered_map<std::uint32_t, std::uint64_t> ids_;
};

/// The program's heap with the most reserved bytes, which represents the process: a limit applies to a device.
const HeapHistory* main_heap(const std::vector<HeapHistory>& histories, const std::vector<Prepared>& heaps) {
  const HeapHistory* main = nullptr;
  for (const HeapHistory& history : histories) {
    if (std::ranges::find(heaps, history.heap, &Prepared::heap) == heaps.end()) continue;
    const auto weight = [](const HeapHistory& h) { return std::max(h.peak_reserved, h.peak_live); };
    if (main == nullptr || weight(history) > weight(*main)) main = &history;
  }
  return main;
}

void add_sites(const Trace& trace, std::span<const Lifetime> lives, const HeapHistory& heap, RankSites& sites,
               RankSummary& summary) {
  struct Held {
    StackId stack = StackId::none;
    Bytes at_peak, at_end;
    std::uint64_t count = 0;
  };
  std::unordered_map<std::uint64_t, Held> held;
  for (const Lifetime& life : lives) {
    if (life.begin == never || trace.tables[trace.events.origin(life.begin)].heap != heap.heap) continue;
    const bool peak = life.live_after(heap.peak_live_event + 1);
    const bool end = life.live_after(trace.events.count());
    if (!peak && !end) continue;
    const StackId stack = trace.events.stack(life.begin);
    Held& at = held[sites.id(stack)];
    at.stack = stack;
    if (peak) {
      at.at_peak += trace.events.size(life.begin);
      ++at.count;
    }
    if (end) at.at_end += trace.events.size(life.begin);
  }
  std::vector<std::pair<std::uint64_t, Held>> all(held.begin(), held.end());
  const auto keep = [&](Bytes Held::*when) {
    std::ranges::sort(all, [when](const auto& a, const auto& b) {
      return a.second.*when != b.second.*when ? a.second.*when > b.second.*when : a.first < b.first;
    });
    for (std::size_t i = 0; i < std::min(all.size(), RankSummary::most_sites); ++i) {
      const auto& [id, at] = all[i];
      if (at.*when == 0_B || std::ranges::find(summary.sites, id, &RankSite::id) != summary.sites.end()) continue;
      summary.sites.push_back({.id = id,
                               .frames = sites.frames(at.stack),
                               .at_peak = at.at_peak,
                               .at_end = at.at_end,
                               .count_at_peak = at.count});
    }
  };
  keep(&Held::at_peak);
  keep(&Held::at_end);
  std::ranges::sort(summary.sites, {}, &RankSite::id);
}

/// Why leaks of the device can't be judged: none of its heaps shows enough steps. Empty: they can.
std::string unjudged_leaks_on(const LeakReport& report, const DeviceMemory& device, const RankSummary& summary) {
  const Rounds* most = nullptr;
  for (const HeapRounds& of : report.heaps)
    if (std::ranges::find(device.heaps, of.heap, &DeviceHeap::heap) != device.heaps.end() &&
        (most == nullptr || most->count() < of.rounds.count()))
      most = &of.rounds;
  if (most == nullptr || most->suffice()) return "";
  return text_of(*most) + (device.device == summary.device ? "" : " on GPU " + std::to_string(device.device));
}

/// Of all heaps of the devices that a single process is judged by, or only of those with the name that was asked for.
void add_leaks(const Analysis& analysis, RankSites& sites, RankSummary& summary) {
  const Tables& tables = analysis.trace().tables;
  const LeakReport& report = analysis.leaks();
  const std::vector<std::int32_t> judged = judged_devices(analysis.devices());
  const auto counts = [&](std::int32_t device) { return std::ranges::find(judged, device) != judged.end(); };
  const auto is_asked_for = [&](HeapId heap) {
    return summary.heap.empty() ? counts(tables[heap].device) : tables[tables[heap].name] == summary.heap;
  };
  for (DeviceMemory device : analysis.devices()) {
    std::erase_if(device.heaps, [&](const DeviceHeap& heap) { return !is_asked_for(heap.heap); });
    const std::string why = unjudged_leaks_on(report, device, summary);
    if (!why.empty() && (summary.leaks_not_judged.empty() || device.device == summary.device))
      summary.leaks_not_judged = why;
  }
  if (report.unrecorded) summary.leaks_not_judged = leaks_not_judged;
  for (const LeakFinding& finding : report.findings) {
    if (!accuses(finding.verdict) || !is_asked_for(finding.heap)) continue;
    summary.leaks.push_back(
        {.verdict = std::string(name_of(finding.verdict)),
         .bytes = finding.bytes,
         .count = finding.count,
         .growth_bytes_per_step = finding.unit == GrowsWith::steps ? finding.growth_bytes_per_step : 0,
         .steps = finding.rounds,
         .site = sites.id(finding.stack),
         .frames = sites.frames(finding.stack),
         .device = tables[finding.heap].device});
  }
  std::ranges::stable_sort(summary.leaks, std::greater{}, &RankLeak::bytes);
}

void add_timeline(const Analysis& analysis, HeapId heap, RankSummary& summary) {
  const auto lines = memory_timelines(analysis.trace(), analysis.blocks(), RankSummary::timeline_columns);
  const auto line = std::ranges::find(lines, heap, &MemoryTimeline::heap);
  if (line == lines.end()) return;
  for (const MemoryColumn& column : line->columns) {
    summary.reserved.push_back(column.reserved.most);
    summary.allocated.push_back(column.allocated.most);
    summary.peak_allocated = std::max(summary.peak_allocated, column.allocated.most);
  }
}

/// A sample may count a segment whose event comes after it: the device has given it, but the call has yet to return.
constexpr Nanoseconds in_flight{10'000'000};

/// What samples say of the device of `main`, and what was in use on it beside `main`.
RankDevice device_of(const Trace& trace, const HeapHistory& main, std::optional<Bytes>* least_free = nullptr) {
  RankDevice result{.device = trace.tables[main.heap].device, .peak_reserved = main.peak_reserved};
  const Events& events = trace.events;
  // A driver's heap has no segments: what it serves is the device's. Of others without, what they reserve is not known.
  const bool is_driver = main.peak_reserved == 0_B && trace.tables[main.heap].level == Level::driver;
  const EventKind takes = is_driver ? EventKind::alloc : EventKind::segment_alloc;
  const EventKind gives = is_driver ? EventKind::free_completed : EventKind::segment_free;
  const bool is_known = is_driver || main.peak_reserved > 0_B;
  Bytes reserved;
  std::optional<std::pair<Nanoseconds, Bytes>> sampled;  // when, and what was in use beside `main`
  const auto settle = [&] {
    if (sampled) result.beside = std::max(result.beside, sampled->second);
    sampled.reset();
  };
  for (std::size_t i = 0; i < events.count(); ++i) {
    const EventKind kind = events.kind(i);
    if (!is_driver && (kind == EventKind::alloc || is_free(kind))) continue;  // most events
    const Origin& origin = trace.tables[events.origin(i)];
    if (origin.heap == main.heap) {
      if (kind == takes || kind == EventKind::segment_map) {
        reserved += events.size(i);
        if (sampled && events.time(i) - sampled->first <= in_flight)
          sampled->second -= std::min(sampled->second, events.size(i));
        settle();
      }
      if (kind == gives || kind == EventKind::segment_unmap) reserved -= std::min(reserved, events.size(i));
    }
    if (kind != EventKind::memory_info || trace.tables[origin.heap].device != result.device) continue;
    if (!samples_whole_heap(trace.tables, origin)) continue;
    const Bytes free{events.address_or_value(i)};
    result.capacity = std::max(result.capacity.value_or(0_B), events.size(i) + free);
    if (least_free != nullptr) *least_free = std::min(least_free->value_or(free), free);
    if (!is_known || !samples_device(trace.tables, origin) || events.size(i) <= reserved) continue;
    settle();
    sampled = {events.time(i), events.size(i) - reserved};
  }
  settle();
  const auto others = held_beside(trace, std::span(&main.heap, 1));
  if (const auto of = others.find(result.device); of != others.end())
    for (const HeldFrom& from : of->second) result.other = std::max(result.other, from.held);
  return result;
}

/// The heaviest heap of each of the process's other GPUs.
void add_other_devices(const Analysis& analysis, const std::vector<Prepared>& heaps, RankSummary& summary) {
  const Trace& trace = analysis.trace();
  std::map<std::int32_t, const HeapHistory*> heaviest;
  for (const HeapHistory& history : analysis.histories()) {
    const std::int32_t device = trace.tables[history.heap].device;
    if (device < 0 || device == summary.device || history.peak_reserved == 0_B ||
        std::ranges::find(heaps, history.heap, &Prepared::heap) == heaps.end())
      continue;
    const HeapHistory*& at = heaviest[device];
    if (at == nullptr || history.peak_reserved > at->peak_reserved) at = &history;
  }
  for (const auto& [device, history] : heaviest) summary.devices.push_back(device_of(trace, *history));
  // Where the program has no such heap, what it takes from the driver is its own, too.
  for (const DeviceMemory& device : analysis.devices()) {
    const auto driver = std::ranges::find(analysis.histories(), device.driver, &HeapHistory::heap);
    if (!summary.heap.empty() || device.device < 0 || device.device == summary.device ||
        heaviest.contains(device.device) || driver == analysis.histories().end() || device.peak_held.held == 0_B)
      continue;
    RankDevice& added = summary.devices.emplace_back(device_of(trace, *driver));
    added.peak_reserved = device.peak_held.held;
    added.other = {};
  }
  std::ranges::sort(summary.devices, {}, &RankDevice::device);
}

/// A heap that is asked for by name is judged as if it had its device for itself, as replays do.
void have_devices_alone(RankSummary& summary) {
  summary.other = summary.beside = 0_B;
  for (RankDevice& device : summary.devices) device.other = device.beside = 0_B;
}

std::vector<std::string> names_of_heaps(const Tables& tables, const std::vector<HeapHistory>& histories) {
  std::set<std::string> names;
  for (const HeapHistory& history : histories)
    if (history.allocations > 0) names.insert(tables[tables[history.heap].name]);
  return {names.begin(), names.end()};
}

/// Requests refused on any of the process's GPUs.
void add_failures(const Trace& trace, const std::vector<Prepared>& heaps, RankSummary& summary) {
  const Events& events = trace.events;
  summary.failed_allocations = trace.losses.unsized_failures;
  for (std::size_t i = 0; (i = events.find(EventKind::alloc_failed, i)) < events.count(); ++i) {
    if (std::ranges::find(heaps, trace.tables[events.origin(i)].heap, &Prepared::heap) == heaps.end()) continue;
    ++summary.failed_allocations;
    if (summary.first_failure) continue;
    summary.first_failure = events.size(i);
    summary.first_failure_time = since_start(trace, i);
  }
}

void judge_trust(const Trace& trace, RankSummary& summary) {
  const Losses& losses = trace.losses;
  summary.lost_events = losses.ring_full + losses.hook_refused + trace.read.missing_events;
  if (trace.read.damaged_packets > 0 || trace.read.missing_rows > 0)
    summary.status = RankStatus::damaged;
  else if (trace.read.truncated_bytes > 0 || (trace.file_size != 0_B && !trace.read.has_footer))
    summary.status = RankStatus::truncated;
  else if (summary.lost_events > 0 || losses.began_late || losses.history_overflowed || losses.folded_events > 0 ||
           losses.unknown_actions > 0 || losses.unmatched_frees > 0 || !trace.read.later.empty())
    summary.status = RankStatus::overflowed;
  if (summary.status == RankStatus::ok) return;
  for (const std::string& line : shortcomings(trace)) summary.reason += (summary.reason.empty() ? "" : "; ") + line;
}

}  // namespace

std::string_view name_of(RankStatus status) { return status_names.at(static_cast<std::size_t>(status)); }

std::string_view words_of(RankStatus status) {
  return status == RankStatus::overflowed ? "incomplete" : name_of(status);
}

RankSummary summarize(Trace trace, const std::filesystem::path& file, const RankPattern& pattern,
                      const std::string& only) {
  RankSummary summary{.file = file.string(), .heap = only};
  summary.identity = identify(trace.header, file, pattern);
  summary.source = trace.header.source;
  summary.producer = trace.header.producer;
  judge_trust(trace, summary);
  skip_frames(trace, {});
  complete_trace(trace);
  summary.events = trace.events.count();
  if (summary.events > 0) {
    summary.begin = trace.events.time(0);
    summary.end = trace.events.latest();
  }
  const std::vector<Prepared> heaps = program_heaps(trace, only);
  const Analysis analysis(trace);
  const std::vector<HeapHistory>& histories = analysis.histories();
  summary.heaps = names_of_heaps(trace.tables, histories);
  const HeapHistory* const main = main_heap(histories, heaps);
  if (main == nullptr) {
    if (!only.empty())
      summary.reason =
          "it has no memory in a heap '" + only + "'" + (summary.reason.empty() ? "" : "; " + summary.reason);
    else if (summary.reason.empty())
      summary.reason = "it holds no allocations";
    return summary;
  }
  summary.has_memory = true;
  summary.device = trace.tables[main->heap].device;
  const Prepared& heap = *std::ranges::find(heaps, main->heap, &Prepared::heap);
  summary.settings = heap.settings;
  if (const auto policy = recorded_policy(trace, heaps)) summary.policy = policy->text();
  summary.allocations = main->allocations;
  summary.peak_live = main->peak_live;
  summary.end_live = main->end_live;
  add_timeline(analysis, main->heap, summary);
  summary.peak_allocated = std::max(summary.peak_allocated, main->peak_live);
  // Where segments are not recorded, live bytes are the known part of what was reserved.
  const bool segments = main->peak_reserved != 0_B;
  summary.peak_reserved = segments ? main->peak_reserved : summary.peak_allocated;
  summary.end_reserved = segments ? main->end_reserved : main->end_live;
  const std::uint64_t event = segments ? main->peak_reserved_event : main->peak_live_event;
  if (event < trace.events.count()) summary.peak_reserved_time = trace.events.time(event) - summary.begin;
  if (!segments) summary.reserved = summary.allocated;
  // Where events are lost, frees may be, and what is live only seems to exceed what was reserved.
  if (segments && summary.in_part()) {
    summary.peak_allocated = std::min(summary.peak_allocated, summary.peak_reserved);
    summary.peak_live = std::min(summary.peak_live, summary.peak_allocated);
  }
  const Bytes before = folded_peak(trace.folded, main->heap);
  for (Bytes* const peak : {&summary.peak_live, &summary.peak_allocated, &summary.peak_reserved})
    *peak = std::max(*peak, before);
  const RankDevice device = device_of(trace, *main, &summary.least_free);
  summary.other = device.other;
  summary.beside = device.beside;
  summary.capacity = device.capacity;
  add_other_devices(analysis, heaps, summary);
  if (!only.empty()) have_devices_alone(summary);
  add_failures(trace, heaps, summary);
  if (heap.implied_capacity)
    summary.capacity = std::min(summary.capacity.value_or(*heap.implied_capacity), *heap.implied_capacity);
  const std::vector<char> older = older_allocations(trace);
  summary.requests = hash_requests(heaps, [&](std::uint32_t request) {
    const AllocationId allocation = trace.events.allocation(request);
    return index(allocation) < older.size() && older[index(allocation)] != 0;
  });
  RankSites sites(trace.tables);
  add_sites(trace, analysis.lives(), *main, sites, summary);
  add_leaks(analysis, sites, summary);
  return summary;
}

RankSummary unreadable(const std::filesystem::path& file, const RankPattern& pattern, const std::string& reason) {
  std::error_code problem;
  const std::uintmax_t size = std::filesystem::file_size(file, problem);
  RankSummary summary{
      .file = file.string(), .bytes = problem ? 0 : size, .status = RankStatus::hostile, .reason = reason};
  summary.machine = machine_of(file);
  summary.identity = identify(Header{}, file, pattern);
  return summary;
}

RankSummary summarize(const std::filesystem::path& file, const RankPattern& pattern, Bytes memory_limit,
                      const std::string& heap) {
  RankSummary unread{.file = file.string(), .status = RankStatus::damaged, .heap = heap};
  unread.machine = machine_of(file);
  unread.identity = identify(Header{}, file, pattern);
  const auto bytes = open_file(file);
  if (!bytes) {
    unread.reason = bytes.error().message();
    return unread;
  }
  std::uint32_t checksum = 0;
  std::uint64_t size = 0;
  for (std::vector<std::byte> piece(std::min<std::uint64_t>(std::size_t{1} << 20U, (*bytes)->size()));;) {
    const Result<std::size_t> count = (*bytes)->read(size, piece);
    if (!count || *count == 0) break;
    const std::string_view view(reinterpret_cast<const char*>(piece.data()), *count);
    checksum = static_cast<std::uint32_t>(mix_bits(checksum + (std::uint64_t{wire::crc32c(view)} << 32U)));
    size += *count;
  }
  unread.bytes = size;
  unread.checksum = checksum;
  Result<Trace> trace = open_any(file, {.memory_limit = memory_limit, .writer = {}});
  if (!trace) {
    unread.reason = trace.error().what;
    return unread;
  }
  RankSummary summary = summarize(*std::move(trace), file, pattern, heap);
  summary.machine = std::move(unread.machine);
  summary.bytes = size;
  summary.checksum = checksum;
  return summary;
}

// A message has the version, tables of the texts and frames that the summary names by their rows, the summary, and a
// mark that it is complete: a message that is cut off between two fields is one too.

namespace {

constexpr std::uint32_t rank_version = 3;
constexpr std::uint32_t version_without_end = 2;

/// What a message has beside the summary.
struct Envelope {
  std::uint32_t version = rank_version;
  std::vector<std::string> texts;
  std::vector<CodeFrame> frames;
  bool is_complete = false;
};

}  // namespace

template <>
struct wire::MembersOf<Envelope> {
  static constexpr auto is_complete = member(56, &Envelope::is_complete);
  static constexpr std::tuple all{member(1, &Envelope::version), member(43, &Envelope::texts),
                                  member(44, &Envelope::frames), is_complete};
};

namespace {

class RowsToWrite {
 public:
  std::uint32_t row_of(const std::string& text) { return row_in(envelope_.texts, text_rows_, text, text); }
  std::uint32_t row_of(const CodeFrame& frame) {
    return row_in(envelope_.frames, frame_rows_, {row_of(frame.function), row_of(frame.file), frame.line}, frame);
  }
  const Envelope& envelope() const { return envelope_; }

 private:
  template <class Key, class Value>
  static std::uint32_t row_in(std::vector<Value>& values, std::map<Key, std::uint32_t>& rows,
                              const std::type_identity_t<Key>& key, const Value& value) {
    const auto [found, is_new] = rows.try_emplace(key, static_cast<std::uint32_t>(values.size()));
    if (is_new) values.push_back(value);
    return found->second;
  }

  Envelope envelope_;
  std::map<std::string, std::uint32_t> text_rows_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> frame_rows_;
};

/// Refuses files that expand to very much more than their size, by a long text in every frame of every stack.
class RowsToRead {
 public:
  explicit RowsToRead(const Envelope& envelope) : envelope_(envelope) {}

  bool at(std::uint64_t row, std::string& text) const { return copy(envelope_.texts, row, text); }
  bool at(std::uint64_t row, CodeFrame& frame) const { return copy(envelope_.frames, row, frame); }

 private:
  static constexpr std::size_t most_bytes = std::size_t{1} << 28U;

  static std::size_t size_of(const std::string& text) { return text.size(); }
  static std::size_t size_of(const CodeFrame& frame) {
    return sizeof(frame) + frame.function.size() + frame.file.size();
  }
  template <class Value>
  bool copy(const std::vector<Value>& values, std::uint64_t row, Value& value) const {
    if (row >= values.size()) return false;
    bytes_ += size_of(values[row]);
    if (bytes_ > most_bytes) throw protozero::invalid_length_exception{};
    value = values[row];
    return true;
  }

  const Envelope& envelope_;
  mutable std::size_t bytes_ = 0;  // copied
};

Envelope read(std::string_view bytes, RankSummary& summary) {
  Envelope envelope{.version = 0};
  const RowsToRead rows(envelope);
  for (wire::MessageReader<std::uint32_t> in(bytes); in.next();)
    if (!wire::read_field(in, envelope, rows) && !wire::read_field(in, summary, rows)) in.skip();
  return envelope;
}

}  // namespace

std::string encode_rank(const RankSummary& summary) {
  RowsToWrite rows;
  std::string body;
  protozero::pbf_writer summary_writer(body);
  wire::write_message(summary_writer, summary, rows);
  summary_writer.add_bool(wire::MembersOf<Envelope>::is_complete.number, true);
  std::string bytes;
  protozero::pbf_writer message(bytes);
  wire::write_message(message, rows.envelope(), rows);  // before what names its rows
  return bytes + body;
}

Result<RankSummary> decode_rank(std::string_view bytes, const std::string& where) {
  RankSummary summary;
  try {
    const Envelope envelope = read(bytes, summary);
    if (envelope.version == version_without_end || (envelope.version == rank_version && envelope.is_complete))
      return summary;
    if (envelope.version > rank_version)
      return Error{.what = "was made by a newer memreel (version " + std::to_string(envelope.version) + ")",
                   .where = where,
                   .remedy = "merge it with the memreel that made it"};
  } catch (const protozero::exception&) {
  }
  return Error{.what = "is not a rank summary", .where = where, .remedy = "make it again with memreel fleet map"};
}

}  // namespace memreel
