// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <future>
#include <iostream>
#include <map>
#include <set>
#include <span>

#include "analyzer/analysis/difference/difference.h"
#include "analyzer/analysis/verdict.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/describe/live_groups.h"
#include "analyzer/describe/markup.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/text_table.h"
#include "formats/command_line/option_values.h"
#include "formats/model/files.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel::cli {
namespace {

struct DiffArguments {
  std::string a, b;
  Bytes memory_limit;
  std::size_t top = 10;
  SymbolOptions symbols;
  std::vector<std::string> map;
  std::string heap;
  bool json = false;
};

/// "+300 MiB", "-2.00 KiB", "0 B".
std::string signed_text(Bytes a, Bytes b) { return a == b ? text_of(Bytes{}) : text_of_growth(a, b); }

/// Of a total, whose "0 B" would read as what there is.
std::string change_text(Bytes a, Bytes b) { return a == b ? "unchanged" : text_of_growth(a, b); }

std::string signed_text(std::uint64_t a, std::uint64_t b) {
  if (a == b) return "0";
  return (b > a ? "+" : "-") + text_of(b > a ? b - a : a - b);
}

std::string where_of(const SiteChange& site, const Trace& a, const Trace& b) {
  const bool in_b = site.stack_b != StackId::none;
  const Trace& trace = in_b ? b : a;
  const std::vector<FrameText> frames = frames_of(trace.tables, in_b ? site.stack_b : site.stack_a);
  return frames.empty() ? std::string(no_stack_label) : label_in(trace, short_label(explaining_frame(frames)));
}

std::string_view word_for(const SiteChange& site) {
  if (site.is_new()) return "new";
  if (site.vanished()) return "gone";
  return "";
}

std::string held_text(const SideState& side, const FileAt& at, const Trace& trace) {
  const std::string name = printable(at.file.filename().string());
  if (side.heap == HeapId::none) return "nothing in " + name;
  const bool is_said = side.phase == Phase::other || std::holds_alternative<AtPhase>(*at.instant);
  const std::string phase = is_said ? "" : ", phase " + std::string(name_of(side.phase)) + ",";
  return text_of(side.live.bytes) + " " + text_of(*at.instant, trace) + phase + " of " + name + " (" +
         counted(side.live.count, "allocation") + ")";
}

/// "step"; where they differ, "marked by step before, each a backward pass now".
std::string steps_text(const Steps& a, const Steps& b) {
  if (a.mark == b.mark) return b.mark;
  if (!a.place.empty() && !b.place.empty() && a.kind() == b.kind()) return a.mark + " before," + b.place + " now";
  const auto text = [](const Steps& steps) { return (steps.are_marked ? "marked by " : "") + steps.mark; };
  return text(a) + " before, " + text(b) + " now";
}

/// "4 in both", "1 and 2 steps, the first compared".
std::string step_count_text(const HeapDifference& heap) {
  const std::uint64_t a = heap.a.steps.ends.size(), b = heap.b.steps.ends.size(), both = heap.steps.size();
  if (a == b) return text_of(b) + " in both";
  return text_of(a) + " and " + text_of(b) + " steps, the first " + (both == 1 ? "" : text_of(both) + " ") + "compared";
}

void print_steps(const HeapDifference& heap) {
  const Steps &a = heap.a.steps, &b = heap.b.steps;
  if (a.ends.empty() || b.ends.empty()) return;
  if (heap.steps.empty()) {
    std::cout << '\n' << wrapped("steps are not comparable: " + steps_text(a, b), 2);
    return;
  }
  const auto most = std::max_element(heap.steps.begin(), heap.steps.end(), [](const StepPeaks& x, const StepPeaks& y) {
    return change(x.a, x.b) < change(y.a, y.b);
  });
  const auto first = std::find_if(heap.steps.begin(), heap.steps.end(), [](const StepPeaks& s) { return s.a != s.b; });
  const auto number = [&](auto step) { return std::to_string(step - heap.steps.begin() + 1); };
  std::string text =
      "step by step (" + steps_text(a, b) + (a.mark == b.mark ? ", " : "; ") + step_count_text(heap) + "): ";
  if (first == heap.steps.end())
    text += "the same peaks in each";
  else
    text += "the peaks differ from step " + number(first) + " on";
  if (first != heap.steps.end() && most->b > most->a)
    text += ", most in step " + number(most) + ": " + text_of(most->a) + " before, " + text_of(most->b) + " now";
  std::cout << '\n' << wrapped(text, 2);
}

/// Describes the effect of gradient checkpointing if only one side uses it.
std::string checkpointing_text(const HeapDifference& heap) {
  if (heap.recomputes_a == heap.recomputes_b) return "";
  const auto activations = std::ranges::find(heap.categories, Category::activation, &CategoryChange::category);
  if (activations == heap.categories.end()) return "";
  const std::string which = heap.recomputes_b ? "only now" : "only before";
  return "gradient checkpointing, " + which + ": activations " + text_of(activations->a) + " -> " +
         text_of(activations->b) +
         (activations->place.empty() ? ""
                                     : ", the largest change at " + activations->place + ": " +
                                           signed_text(activations->place_a, activations->place_b));
}

void print_categories(const HeapDifference& heap) {
  const auto changed = [](const CategoryChange& change) { return change.a != change.b; };
  if (std::ranges::none_of(heap.categories, changed)) return;
  std::cout << '\n';
  if (const std::string text = checkpointing_text(heap); !text.empty()) std::cout << wrapped(text, 2) << '\n';
  std::vector<TableColumn> columns{
      {"change", Align::right}, {"before", Align::right}, {"now", Align::right}, {"category"}};
  if (!heap.is_by_size) columns.push_back({"largest change"});
  TextTable table(std::move(columns));
  for (const CategoryChange& change : heap.categories)
    if (changed(change))
      table.add_row({signed_text(change.a, change.b), text_of(change.a), text_of(change.b),
                     std::string(words_of(change.category)),
                     change.place.empty() ? "" : change.place + " " + signed_text(change.place_a, change.place_b)});
  table.print(std::cout, 2);
}

/// Why sizes are compared.
std::string lack_text(const HeapDifference& heap) {
  const auto [less, more] = std::minmax(heap.a.stacks_known, heap.b.stacks_known);
  const std::string_view when = heap.a.stacks_known < heap.b.stacks_known ? " before" : more > less ? " now" : "";
  const std::string has_stacks = less == 0 ? "nothing live" : "only " + text_of_share(less) + " of what is live";
  return "compared by size: " + has_stacks + std::string(when) + " has a stack";
}

void print_sites(const HeapDifference& heap, std::size_t most, const Trace& a, const Trace& b) {
  if (heap.is_by_size) std::cout << '\n' << wrapped(lack_text(heap), 2);
  if (heap.sites.empty()) {
    std::cout << "\n  the same " << (heap.is_by_size ? "sizes, each as often\n" : "stacks hold the same bytes\n");
    return;
  }
  TextTable table(
      {{"change", Align::right},
       {"before", Align::right},
       {"now", Align::right},
       {"allocations", Align::right},
       {""},
       heap.is_by_size ? TableColumn{"of", Align::right} : TableColumn{"where", Align::left, Fit::clipped}});
  const std::size_t shown = std::min(most, heap.sites.size());
  for (const SiteChange& site : std::span(heap.sites).first(shown))
    table.add_row({signed_text(site.a.bytes, site.b.bytes), text_of(site.a.bytes), text_of(site.b.bytes),
                   signed_text(site.a.count, site.b.count), std::string(word_for(site)),
                   heap.is_by_size ? text_of(site.size) : where_of(site, a, b)});
  std::cout << '\n';
  table.print(std::cout, 2);
  if (shown < heap.sites.size())
    std::cout << "  ... and " << text_of(std::uint64_t{heap.sites.size() - shown})
              << (heap.is_by_size ? " more sizes (--top)\n" : " more stacks (--top)\n");
}

void print_text(const HeapDifference& heap, const DiffArguments& arguments, const FileAt& at_a, const FileAt& at_b,
                const Trace& a, const Trace& b) {
  const bool renumbered = heap.a.heap != HeapId::none && heap.b.heap != HeapId::none && heap.a.device != heap.b.device;
  std::cout << bold(heap.name + (heap.device < 0 ? ", host memory" : ", device " + std::to_string(heap.device)) +
                    (renumbered ? " (device " + std::to_string(heap.a.device) + " before)" : ""))
            << ": live " << change_text(heap.a.live.bytes, heap.b.live.bytes) << '\n'
            << wrapped("before  " + held_text(heap.a, at_a, a), 2)
            << wrapped("now     " + held_text(heap.b, at_b, b), 2);
  if (heap.common_phase && at_a.instant->index() == at_b.instant->index())
    std::cout << wrapped("These are different phases: FILE@phase:" + std::string(name_of(*heap.common_phase)) +
                             " on both sides compares the same one.",
                         2);
  print_categories(heap);
  print_sites(heap, arguments.top, a, b);
  // Two instants of one run have the same steps.
  if (&a != &b || text_of(*at_a.instant, a) == text_of(*at_b.instant, b)) print_steps(heap);
}

/// A device at its own peak, on both sides.
struct DeviceChange {
  struct Part {
    std::string name;
    Bytes a, b;
  };

  std::optional<DeviceMemory> a, b;
  std::vector<Part> parts;                      // largest change first
  bool inherits_a = false, inherits_b = false;  // the peak was reserved before the recording began

  /// Whether both have the driver's calls, or both lack them.
  bool is_comparable() const { return a && b && a->has_driver == b->has_driver; }
};

/// Whether the largest part of a device's peak was reserved before the recording began.
bool inherits_peak(const Trace& trace, const std::vector<HeapHistory>& histories, const DeviceMemory& device) {
  if (device.has_driver || device.peak_held.parts.empty() || !has_history(trace)) return false;
  const auto largest = std::ranges::max_element(device.peak_held.parts, {}, &HeapPart::held);
  const auto heap = std::ranges::find(histories, largest->heap, &HeapHistory::heap);
  return heap != histories.end() && heap->peak_reserved > 0_B && memreel::inherits_peak(trace, *heap);
}

std::vector<DeviceChange> device_changes(const Trace& a, const Trace& b, const DeviceMap& given) {
  std::vector<DeviceChange> changes;
  std::vector<DeviceMemory> now = device_memory(b);
  const std::vector<HeapHistory> histories_a = heap_histories(a), histories_b = heap_histories(b);
  const DeviceMap matched = match_devices(devices_of(a.tables, histories_a), devices_of(b.tables, histories_b), given);
  for (DeviceMemory& before : device_memory(a)) {
    if (before.device < 0) continue;
    DeviceChange& change = changes.emplace_back();
    const auto number = matched.find(before.device);
    const auto same =
        number == matched.end() ? now.end() : std::ranges::find(now, number->second, &DeviceMemory::device);
    change.a = std::move(before);
    if (same == now.end()) continue;
    change.b = std::move(*same);
    now.erase(same);
  }
  for (DeviceMemory& other : now)
    if (other.device >= 0) changes.push_back({.a = std::nullopt, .b = std::move(other), .parts = {}});
  const std::vector<Lifetime> lives_a = lifetimes(a), lives_b = lifetimes(b);
  for (DeviceChange& change : changes) {
    change.inherits_a = change.a && inherits_peak(a, histories_a, *change.a);
    change.inherits_b = change.b && inherits_peak(b, histories_b, *change.b);
    std::map<std::string, DeviceChange::Part> parts;
    if (change.a)
      for (const DevicePart& part : parts_of(a, lives_a, change.a->peak_held)) parts[part.name].a += part.bytes;
    if (change.b)
      for (const DevicePart& part : parts_of(b, lives_b, change.b->peak_held)) parts[part.name].b += part.bytes;
    for (auto& [name, part] : parts) change.parts.push_back({.name = name, .a = part.a, .b = part.b});
    std::ranges::stable_sort(change.parts, std::ranges::greater{}, [](const DeviceChange::Part& part) {
      return std::pair(std::max(part.a, part.b) - std::min(part.a, part.b), part.b);
    });
  }
  return changes;
}

/// Such memory is no work of what was recorded.
std::string inheritance_text(const DeviceChange& change) {
  if (change.inherits_a && change.inherits_b) return "; both were reserved before their recordings began";
  if (change.inherits_a)
    return "; the " + text_of(change.a->peak_held.held) + " were reserved before the recording began";
  if (change.inherits_b)
    return "; the " + text_of(change.b->peak_held.held) + " were reserved before the recording began";
  return {};
}

/// " at its peak: ", but for a recording of one instant.
std::string when_text(const DeviceChange& change, bool a_is_instant, bool b_is_instant) {
  if ((a_is_instant || !change.a) && (b_is_instant || !change.b)) return ": ";
  if (a_is_instant && change.a) return " at its peak (before: at the one instant): ";
  return b_is_instant && change.b ? " at its peak (now: at the one instant): " : " at its peak: ";
}

/// "device 0 at its peak: held +2.15 GiB (1.14 GiB before, 3.29 GiB now): NCCL +2.17 GiB, PyTorch -22.00 MiB"
void print_text(const DeviceChange& change, bool a_is_instant, bool b_is_instant) {
  const DeviceMemory& of = change.b ? *change.b : *change.a;
  std::string text = when_text(change, a_is_instant, b_is_instant);
  const auto held = [](const std::optional<DeviceMemory>& side) { return side ? side->peak_held.held : 0_B; };
  if (change.a && change.b && !change.is_comparable())
    text += "not compared, as only the recording " + std::string(change.b->has_driver ? "now" : "before") +
            " has the driver's calls; recorded: " + text_of(held(change.a)) + " before, " + text_of(held(change.b)) +
            " now";
  else
    text += (of.has_driver || of.peak_held.held == of.peak_held.live ? "held " : "reserved ") +
            change_text(held(change.a), held(change.b)) + " (" + text_of(held(change.a)) + " before, " +
            text_of(held(change.b)) + " now" + inheritance_text(change) + ")";
  std::string parts;
  if (change.is_comparable() && change.parts.size() > 1)
    for (const DeviceChange::Part& part : change.parts)
      if (part.a != part.b) parts += (parts.empty() ? "" : ", ") + part.name + " " + signed_text(part.a, part.b);
  const std::string title = "device " + std::to_string(of.device);
  std::cout
      << bold(title)
      << wrapped(std::string(title.size(), ' ') + text + (parts.empty() ? "" : ": " + parts), 0).substr(title.size());
}

Json json_of(const DeviceChange& change) {
  const auto side = [](const std::optional<DeviceMemory>& of) {
    if (!of) return Json(nullptr);
    return Json({{"device", of->device},
                 {"driver_recorded", of->has_driver},
                 {"peak_held_bytes", of->peak_held.held.count},
                 {"peak_held_event", of->peak_held.event},
                 {"peak_live_bytes", of->peak_live.live.count}});
  };
  Json parts = Json::array();
  for (const DeviceChange::Part& part : change.parts)
    parts.push_back({{"name", part.name},
                     {"a_bytes", part.a.count},
                     {"b_bytes", part.b.count},
                     {"change_bytes", memreel::change(part.a, part.b)}});
  return {{"a", side(change.a)}, {"b", side(change.b)}, {"parts", std::move(parts)}};
}

Json json_of(const FileAt& at, const Trace& trace) {
  return {{"trace", at.file.string()}, {"instant", text_of(*at.instant, trace)}, {"losses", json_of_losses(trace)}};
}

Json json_of(const SideState& side) {
  return {{"device", side.heap == HeapId::none ? Json(nullptr) : Json(side.device)},
          {"events", side.events},
          {"phase", name_of(side.phase)},
          {"live_bytes", side.live.bytes.count},
          {"live_allocations", side.live.count}};
}

Json json_of(const SiteChange& site, const Tables& a, const Tables& b) {
  return {{"change_bytes", change(site.a.bytes, site.b.bytes)},
          {"a_bytes", site.a.bytes.count},
          {"b_bytes", site.b.bytes.count},
          {"a_count", site.a.count},
          {"b_count", site.b.count},
          {"new", site.is_new()},
          {"vanished", site.vanished()},
          {"stack", site.stack_b != StackId::none ? json_of_stack(b, site.stack_b) : json_of_stack(a, site.stack_a)}};
}

/// Everything except the sites.
Json json_of(const HeapDifference& heap) {
  Json steps = Json::array();
  for (const StepPeaks& step : heap.steps)
    steps.push_back({{"a_peak_live_bytes", step.a.count}, {"b_peak_live_bytes", step.b.count}});
  Json categories = Json::array();
  for (const CategoryChange& change : heap.categories)
    categories.push_back({{"category", name_of(change.category)},
                          {"change_bytes", memreel::change(change.a, change.b)},
                          {"a_bytes", change.a.count},
                          {"b_bytes", change.b.count},
                          {"place", change.place.empty() ? Json(nullptr) : Json(change.place)},
                          {"place_change_bytes", memreel::change(change.place_a, change.place_b)}});
  return {{"device", heap.device},
          {"heap", heap.name},
          {"a", json_of(heap.a)},
          {"b", json_of(heap.b)},
          {"categories", std::move(categories)},
          {"checkpointing", {{"a", heap.recomputes_a}, {"b", heap.recomputes_b}}},
          {"steps", std::move(steps)}};
}

/// A trace may have as many sites as stacks, and a stack thousands of frames: keep only one site at a time in memory.
void print_document(Json document, std::span<const HeapDifference> heaps, const Tables& a, const Tables& b) {
  const auto print_open = [](Json& object, std::string_view key) {
    object[std::string(key)] = Json::array();
    std::string text = one_line(object);
    text.resize(text.size() - std::string_view("]}").size());
    std::cout << text;
  };
  print_open(document, "devices");
  std::string_view next_heap = "\n";
  for (const HeapDifference& heap : heaps) {
    std::cout << std::exchange(next_heap, ",\n");
    Json object = json_of(heap);
    print_open(object, "sites");
    std::string_view next_site = "\n  ";
    for (const SiteChange& site : heap.sites)
      std::cout << std::exchange(next_site, ",\n  ") << one_line(json_of(site, a, b));
    std::cout << "]}";
  }
  std::cout << "]}\n";
}

/// "0=1": device 0 of the first trace is device 1 of the second.
Result<DeviceMap> parse_map(const std::vector<std::string>& texts) {
  DeviceMap devices;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    std::int32_t a = -1, b = -1;
    const auto number = [](std::string_view digits, std::int32_t& into) {
      const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
      return problem == std::errc{} && end == digits.data() + digits.size() && into >= 0;
    };
    const std::string_view view = text;
    if (equals == std::string::npos || !number(view.substr(0, equals), a) || !number(view.substr(equals + 1), b))
      return Error{.what = "'" + text + "' does not pair two devices",
                   .where = "--map",
                   .remedy = "e.g. --map 0=1: device 0 of A is compared with device 1 of B"};
    devices[a] = b;
  }
  return devices;
}

/// A bare instant such as "@end" refers to the other side's file.
Result<FileAt> side_of(std::string_view text, const FileAt* other) {
  Result<FileAt> at = parse_file_at(text);
  if (!at) return at;
  if (at->file.empty() && other == nullptr)
    return Error{.what = "names no trace", .where = std::string(text), .remedy = "write TRACE" + std::string(text)};
  if (at->file.empty()) at->file = other->file;
  if (!at->instant) at->instant = AtPeak{};
  return at;
}

Exit run_diff(const DiffArguments& arguments) {
  const Result<FileAt> at_a = side_of(arguments.a, nullptr);
  if (!at_a) return fail(at_a.error());
  const Result<FileAt> at_b = side_of(arguments.b, &*at_a);
  if (!at_b) return fail(at_b.error());
  const Result<DeviceMap> map = parse_map(arguments.map);
  if (!map) return fail(map.error());
  bound_memory(std::array{at_a->file, at_b->file}, arguments.memory_limit);
  // Both are read concurrently; only this thread writes.
  const bool has_other = at_b->file != at_a->file;
  std::future<Result<Trace>> beside;
  if (has_other)
    beside = std::async(std::launch::async, [&] { return open_beside(at_b->file, arguments.memory_limit); });
  Result<Trace> a = open_input(at_a->file, arguments.memory_limit);
  std::optional<Result<Trace>> other;
  if (has_other) other = beside.get();
  if (!a) return fail(a.error());
  if (other && !*other) return fail(other->error());
  if (other) note_shortcomings(**other, at_b->file);
  complete_input(*a, at_a->file, arguments.symbols);
  if (other) complete_input(**other, at_b->file, arguments.symbols);
  const Trace& b = other ? **other : *a;
  for (const Trace* const side : {static_cast<const Trace*>(&*a), &b})
    if (!tells_live_memory(*side))
      return fail({.what = "has nothing to compare: allocations are not in the recording",
                   .where = (side == &b ? at_b : at_a)->file.string()});
  std::set<std::string> names = names_of_heaps(a->tables);
  names.merge(names_of_heaps(b.tables));
  if (const Result<void> known = must_have_heap(names, arguments.heap); !known) return fail(known.error());
  Result<std::vector<HeapDifference>> heaps = [&] {
    const ProgressBar bar("comparing");
    const Analysis of_a(*a);
    std::optional<Analysis> of_b;
    if (has_other) of_b.emplace(b);
    return difference({of_a, *at_a->instant, at_a->file.string()},
                      {of_b ? *of_b : of_a, *at_b->instant, at_b->file.string()}, *map);
  }();
  if (!heaps) return fail(heaps.error());
  const bool of_devices = arguments.heap.empty();
  if (!of_devices) std::erase_if(*heaps, [&](const HeapDifference& heap) { return heap.name != arguments.heap; });
  const std::vector<DeviceChange> devices = of_devices ? device_changes(*a, b, *map) : std::vector<DeviceChange>();
  if (arguments.json) {
    Json totals = Json::array();
    for (const DeviceChange& change : devices) totals.push_back(json_of(change));
    print_document({{"schema", "memreel.diff/1"},
                    {"device_totals", std::move(totals)},
                    {"a", json_of(*at_a, *a)},
                    {"b", json_of(*at_b, b)}},
                   *heaps, a->tables, b.tables);
  } else {
    // Two instants of one run have the same peak.
    if (has_other)
      for (const DeviceChange& change : devices) print_text(change, is_instant(*a), is_instant(b));
    std::string_view separator = has_other && !devices.empty() ? "\n" : "";
    for (const HeapDifference& heap : *heaps) {
      std::cout << separator;
      print_text(heap, arguments, *at_a, *at_b, *a, b);
      separator = "\n";
    }
    if (heaps->empty()) std::cout << "neither holds any memory\n";
  }
  return Exit::done;
}

}  // namespace

void add_diff_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("diff", "Compare the live memory of two runs or instants");
  const auto arguments = std::make_shared<DiffArguments>();
  command->add_option("A", arguments->a, "Before: a trace, or TRACE@INSTANT; see below")->required();
  command->add_option("B", arguments->b, "After: likewise; @INSTANT alone means the same trace")->required();
  add_memory_option(*command, arguments->memory_limit);
  add_whole_number(*command, "--top", arguments->top, {1, any_count}, "Stacks to show for each heap [10]");
  command
      ->add_option("--map", arguments->map,
                   "Which device of A corresponds to which of B, e.g. 0=1; repeatable, comma lists [by role: the only "
                   "one, else in order]")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_heap_option(*command, arguments->heap, "Compare", ", not whole devices");
  add_stack_options(*command, arguments->symbols);
  command->add_flag("--json", arguments->json, "One JSON document (memreel.diff/1) instead of text");
  command->footer(
      "Compares the live memory of every call stack. Stacks match if their functions match, even if lines moved or "
      "the program was loaded elsewhere; what an edited function holds matches by its size.\n\n"
      "Instants:\n"
      "  @peak      at the first peak of live memory (the default)\n"
      "  @end       after the last event\n"
      "  @step:40   after step 40, as marked in the trace or found by repetition\n"
      "  @event:N   after event N\n"
      "  @12.5s     12.5 s after the first event; also ms, us, ns\n\n"
      "Examples:\n"
      "  memreel diff monday.reel today.reel\n"
      "  memreel diff run.reel@step:10 @step:50\n"
      "  memreel diff snapshot.pickle@2s @end --json | jq '.devices[0].sites[0].stack'");
  command->callback([arguments, &exit] { exit = run_diff(*arguments); });
}

}  // namespace memreel::cli
