// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "analyzer/analysis/verdict.h"
#include "analyzer/describe/clipped_place.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/text_table.h"
#include "analyzer/replay/tune/search_space.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

constexpr std::size_t room = 68;         // of 80 columns, next to the longest topic
constexpr std::size_t least_place = 12;  // columns of a place: "train.py:417"
constexpr std::size_t most_holders = 3, most_lines = 5;
/// A smaller share of the peak is no fragmentation worth acting on.
constexpr double fragmented = 0.05;

/// A place in at most `width` columns. That its code is compiled goes first.
std::string name(const std::string& text, std::size_t width) {
  return display_width(text) <= width ? text : clipped_place(without_compiled(text), width);
}

/// "train.py:41" of "step (src/train.py:41), compiled cxlfggre".
std::string short_place(std::string place) {
  place = without_compiled(place);
  const std::size_t open = place.rfind(" (");
  std::string path =
      open == std::string::npos || !place.ends_with(')') ? place : place.substr(open + 2, place.size() - open - 3);
  return clipped_middle(base_name(path), 34);
}

/// Joins `before`, a place and `after` in one line.
std::string line_with(const std::string& before, const std::string& place, const std::string& after = {}) {
  const std::size_t rest = display_width(before) + display_width(after);
  return before + name(place, room - std::min(room - least_place, rest)) + after;
}

/// "61 %"; "0.4 %" where rounding would give zero.
std::string percent(double share) {
  const double value = share * 100;
  return text_of(value, value < 9.95 ? 1 : 0) + " %";
}

Bytes rate(double bytes) { return Bytes{static_cast<std::uint64_t>(std::max(0.0, bytes))}; }

/// "none of 7 changes tried serves more requests".
std::string none_of(std::uint64_t tried, const std::string& verb, const std::string& what) {
  return tried == 1 ? "the one change tried " + verb + " no " + what
                    : "none of " + text_of(tried) + " changes tried " + verb + " " + what;
}

std::string numbered_device(std::int32_t device, bool is_gpu) {
  return (is_gpu ? "GPU " : "device ") + std::to_string(device);
}

/// " on GPU 1 of 3"; empty if there is only one.
std::string gpu_of(const Verdict::Decides& decides) {
  if (decides.devices < 2) return {};
  return " on " + numbered_device(decides.device, decides.are_gpus) + " of " + text_of(decides.devices);
}

/// ", step 11 of 12 (live: step 10)": when most was held on the device, or reserved and, as that is said, too, live.
std::string steps_of(const Verdict::Decides& decides, const std::optional<Verdict::Device>& device, std::size_t width) {
  if (decides.steps == 0) return {};
  const std::string step = ", step " + text_of(std::uint64_t{device ? device->step : decides.step});
  const std::string of_all = " of " + text_of(std::uint64_t{decides.steps});
  if (device || decides.live_step == decides.step) return step + of_all;
  const std::string live = text_of(std::uint64_t{decides.live_step});
  const std::string whole = step + of_all + " (live: step " + live + ")";
  return display_width(whole) <= width ? whole : step + " (live: " + live + ")";
}

/// " in jax.buffers, 6.05 MiB in jax.executables"
std::string of_heaps(const Verdict::Decides& decides) {
  std::string text = " in " + decides.heap_name;
  for (const Holder& heap : decides.beside) text += ", " + text_of(heap.bytes) + " in " + heap.label;
  return text;
}

VerdictLine line_of_peak(const Verdict::Decides& decides, const Verdict& verdict) {
  const std::optional<Verdict::Device>& device = verdict.device;
  const std::string gpu = gpu_of(decides);
  std::string text = device ? text_of(device->held) + " held" + (gpu.empty() ? " on the device" : gpu)
                     : decides.peak_reserved > 0_B ? text_of(decides.peak_reserved) + " reserved" + gpu + ", " +
                                                         text_of(decides.peak_live) + " live"
                                                   : text_of(decides.peak_live) + " live" + gpu;
  if (verdict.lacks_frees) text = "about " + text;
  if (!device && decides.folded_peak > decides.peak_live && decides.folded_peak <= decides.peak_reserved)
    return {"peak",
            (verdict.lacks_frees ? "about " : "") + text_of(decides.peak_reserved) + " reserved" + gpu + ", at least " +
                text_of(decides.folded_peak) + " live before the events that are kept",
            false};
  if (!decides.beside.empty()) text += of_heaps(decides);
  if (decides.folded_peak > std::max(decides.peak_live, decides.peak_reserved))
    text =
        "at least " + text_of(decides.folded_peak) + " live before the events that are kept, " + text + " among these";
  return {verdict.is_instant ? "instant" : "peak",
          text + steps_of(decides, device, room - std::min(room, display_width(text))), false};
}

/// The same at a place, if that is known.
std::string line_at(const std::string& before, const std::string& place, const std::string& after = {}) {
  return place == no_stack_label ? before + after : line_with(before + " at ", place, after);
}

VerdictLine line_of_failures(const Verdict::Decides& decides) {
  if (decides.requested == 0_B)
    return {"OOM",
            counted(decides.failed, "request") + " failed" + gpu_of(decides) +
                (decides.failed == 1 ? ", its size is not recorded" : ", their sizes are not recorded"),
            true};
  const std::string requested = text_of(decides.requested);
  if (decides.failed == 1) {
    const std::string before = requested + " refused" + gpu_of(decides);
    std::string reason = decides.reason.empty() ? "" : ": " + decides.reason;
    if (display_width(before + " at " + reason) + least_place > room) {
      // How far a step grew says more than the place, where both don't fit.
      const std::string without_place = before + reason;
      const std::size_t comma = reason.find(", ");
      if (comma != std::string::npos && display_width(without_place) <= room) return {"OOM", without_place, true};
      reason.resize(std::min(reason.size(), comma));
    }
    return {"OOM", line_at(before, decides.site, reason), true};
  }
  std::string text = text_of(decides.failed) + " failed" + gpu_of(decides);
  // An error that is caught keeps the frames of its traceback, and they their tensors.
  if (decides.held_through > decides.live - std::min(decides.live, decides.held_through))
    return {
        "OOM",
        line_at(text + ", " + text_of(decides.held_through) + " held through all; first " + requested, decides.site),
        true};
  if (decides.fragmented > 0)
    text += decides.fragmented == decides.failed ? " by fragmentation"
                                                 : " (" + text_of(decides.fragmented) + " by fragmentation)";
  // Why the first one failed takes the room of a place that is not known.
  const bool says_why = decides.site == no_stack_label && decides.fragmented == 0 && !decides.reason.empty();
  return {"OOM", line_at(text + ", first " + requested, decides.site, says_why ? ": " + decides.reason : ""), true};
}

/// "NCCL in 3 communicators 2.17 GiB, cuBLAS 128.00 MiB, PyTorch 22.00 MiB"
VerdictLine line_of(const Verdict::Device& device) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most_holders, device.parts.size()); ++i) {
    const Holder& part = device.parts[i];
    const std::string size = " " + text_of(part.bytes);
    std::string more = name(part.label, 34) + size;
    const auto fits = [&] { return display_width(text) + display_width(more) + 2 <= room; };
    if (i > 0 && !fits()) break;
    if (const std::string mostly = name(part.label, 34) + " (mostly " + name(part.mostly, 24) + ")" + size;
        !part.mostly.empty() && display_width(text) + display_width(mostly) + 2 <= room)
      more = mostly;
    text += (i == 0 ? "" : ", ") + more;
  }
  return {"held by", text, false};
}

VerdictLine line_of(const Holders& holders) {
  constexpr std::size_t least_name = 34;
  std::vector<std::string> parts;
  const auto joined = [&] {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return text;
  };
  // A first holder without a stack says nothing of the program: its largest line is shown even if it is small.
  const bool names_program = holders.parts.empty() || !holders.parts.front().label.starts_with(preexisting_frame);
  for (const Holder& holder : holders.parts) {
    const double share = share_of(holder.bytes, holders.total);
    if (parts.size() == most_holders || (!parts.empty() && share < (names_program || parts.size() > 1 ? 0.01 : 0.001)))
      break;
    parts.push_back(name(holder.label, least_name) + " " + percent(share) +
                    (holder.by_size ? " (by their sizes)" : ""));
    const auto fits = [&] { return parts.size() == 1 || display_width(joined()) <= room; };
    const std::string place = short_place(holder.label);
    if (!fits()) parts.back() = place + " " + percent(share);
    // The second may hold as much as the first.
    if (const std::size_t taken = display_width(parts.front() + ", " + " " + percent(share));
        !fits() && parts.size() == 2 && names_line(place) && taken + least_place <= room)
      parts.back() = name(place, room - taken) + " " + percent(share);
    if (!fits()) {
      parts.pop_back();
      break;
    }
  }
  // The place of the largest that has one, unless it is small.
  constexpr double least_with_place = 0.2;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && share_of(holders.parts[i].bytes, holders.total) < least_with_place) break;
    if (holders.parts[i].mostly.empty()) continue;
    const std::string place = " (most at " + short_place(holders.parts[i].mostly) + ")";
    if (display_width(joined() + place) <= room) parts[i] += place;
    break;
  }
  return {"held by", joined(), false};
}

/// "live then: 7.88 GiB on GPU 0, 20.08 GiB on GPU 2"
VerdictLine line_of(const std::vector<Verdict::Other>& others, bool are_gpus) {
  constexpr std::size_t most_named = 3;
  const auto named = [&](const Verdict::Other& other) {
    return text_of(other.live) + " on " + numbered_device(other.device, are_gpus);
  };
  std::string text = "live then: ";
  if (others.size() <= most_named) {
    for (const Verdict::Other& other : others) text += (&other == &others.front() ? "" : ", ") + named(other);
    return {"others", text, false};
  }
  const auto [least, most] = std::ranges::minmax_element(others, {}, &Verdict::Other::live);
  const std::string number = text_of(std::uint64_t{others.size()});
  if (least->live == most->live) return {"others", text + text_of(most->live) + " on each of the " + number, false};
  return {"others", text + named(*least) + " to " + named(*most) + ", " + number + " in all", false};
}

/// A smaller share of the peak is not worth a line.
constexpr double matters = 0.1;

/// What the program keeps for a backward pass that it never runs.
void add_graphs(std::vector<VerdictLine>& lines, const Holders& holders, bool training_failed) {
  const KeptGraphs& graphs = holders.graphs;
  const auto add = [&](const char* topic, Bytes bytes, const char* before, const char* after) {
    if (share_of(bytes, holders.total) >= matters) lines.push_back({topic, before + text_of(bytes) + after, false});
  };
  add("graph", graphs.running, "this pass keeps its graph, ",
      training_failed ? ": checkpointing" : ": torch.no_grad() in inference");
  add("graph", graphs.earlier, "the previous pass's graph, ",
      graphs.by_loss ? ", is alive: del the loss" : ", is alive: del the output");
  if (!training_failed) add("autocast", graphs.autocast, "16-bit copies of weights, ", ": load them in bfloat16");
}

VerdictLine line_of(const Verdict::Leaks& leaks) {
  if (leaks.bytes == 0_B && leaks.host_growth_bytes_per_step > 0)
    return {"leaks",
            "host memory grows " + text_of(rate(leaks.host_growth_bytes_per_step)) + " per step, the device's " +
                (leaks.not_judged.empty() ? "does not" : "is not judged"),
            true};
  if (!leaks.not_judged.empty()) return {"leaks", leaks.not_judged, false};
  if (leaks.bytes == 0_B && leaks.in_bursts > 0_B)
    return {"leaks",
            line_with("none; freed in bursts: " + text_of(leaks.in_bursts) + " at the peak, ", leaks.burst_site,
                      leaks.cycle.empty() ? " (cycles?)" : " (cycles of " + clipped_middle(leaks.cycle, 24) + ")"),
            false};
  if (leaks.bytes == 0_B) return {"leaks", "none over " + counted(leaks.steps, "step"), false};
  const std::string before = std::string(leaks.suspected ? "suspected: " : "") +
                             (leaks.on_host ? "host memory grows " : "") + text_of(rate(leaks.growth_bytes_per_step)) +
                             " per " + std::string(unit_of(leaks.unit));
  std::string after = ", " + text_of(leaks.bytes) + " in all";
  if (leaks.causes > 1) after = " and " + text_of(leaks.causes - 1) + " more" + after;
  if (leaks.site.empty()) return {"leaks", before + after, true};
  return {"leaks", line_with(before + " at ", leaks.site, after), true};
}

VerdictLine line_of(const Verdict::KeptBy& kept) {
  return {"kept by", line_with("", kept.text, kept.growth + ": " + text_of(kept.bytes)), false};
}

/// A setting may save what rounding and unsplit remainders take, too.
VerdictLine line_of_little(const Verdict::Fragments& found, const std::string& of_peak) {
  const double live = share_of(found.requested, found.reserved), rounding = 1 - found.share - live;
  if (rounding < peak_margin)
    return {"fragmented", "little: " + percent(1 - found.share) + of_peak + " was in use", false};
  return {"fragmented", "little: " + percent(live) + of_peak + " was live, " + percent(rounding) + " rounding", false};
}

/// `of_peak`: " of the peak" or, where the first line is about a device, " of the pool's peak"; nothing of an instant.
VerdictLine line_of(const Verdict::Fragments& found, const std::string& of_peak) {
  if (found.free_at_failure > 0_B)
    return {"fragmented",
            "at the first such failure " + text_of(found.free_at_failure) + " free, largest usable " +
                text_of(found.largest_at_failure),
            true};
  const Bytes unused = found.reserved - std::min(found.reserved, found.allocated);
  if (found.share < fragmented) return line_of_little(found, of_peak);
  if (found.inherited)
    return {"fragmented",
            text_of(found.reserved) + " reserved before the recording, which used " + text_of(found.most_used), false};
  if (share_of(found.unreleasable, found.reserved) < peak_margin &&
      share_of(found.cached, found.reserved) >= fragmented)
    return {"fragmented",
            "little: " + percent(share_of(found.cached, found.reserved)) + of_peak + " (" + text_of(found.cached) +
                ") is cache, freed on demand",
            false};
  std::string text = percent(found.share) + of_peak + " (" + text_of(unused) + ") unused";
  if (!found.cause.empty()) {
    text = percent(found.share) + of_peak + " unused, " + found.cause;
    return {"fragmented", found.cause_site.empty() ? text : line_with(text + ": ", found.cause_site), false};
  }
  if (found.unreleasable > 0_B) {
    const std::string unreleasable = text_of(found.unreleasable) + " unreleasable";
    text += ", " + unreleasable;
    // Of an instant, another line says what empty_cache() gives back.
    if (!of_peak.empty() && share_of(found.cached, found.reserved) >= fragmented) {
      const std::string parts = " unused: " + text_of(found.cached) + " cache, " + unreleasable;
      text = percent(found.share) + of_peak + parts;
      if (display_width(text) > room) text = percent(found.share) + parts;
    }
  }
  return {"fragmented", text, false};
}

/// "0.5 to 9.5 %", "at most 4.3 %".
std::string percent(const std::pair<std::int64_t, std::int64_t>& saved, Bytes whole) {
  const auto share = [&](std::int64_t bytes) {
    return percent(static_cast<double>(bytes) / static_cast<double>(whole.count));
  };
  return saved.first <= 0 ? "at most " + share(saved.second) : text_of_range(share(saved.first), share(saved.second));
}

/// `whole`: what the reduction is a share of.
VerdictLine line_of(const Verdict::Setting& setting, const std::string& peak, Bytes whole, bool lacks_frees) {
  const std::string topic = setting.is_torch ? "set" : "use";
  if (!setting.misread.empty()) return {topic, line_with("", setting.misread), true};
  std::string proof = setting.exact ? ", exact replay" : lacks_frees ? ", estimated" : ", by replay";
  const bool is_range =
      !setting.text.empty() && setting.late_range && setting.late_range->first < setting.late_range->second;
  if (is_range) proof = ", recorded late";
  if (setting.reach && setting.reach != Reach::later_steps) proof.clear();
  if (!setting.caution.empty()) proof = ", " + setting.caution;
  if (!setting.text.empty()) {
    const std::string needs = setting.needs.empty() ? "" : " (" + setting.needs + "+)";
    std::string effect;
    if (setting.reach == Reach::request)
      effect = " serves it, " + text_of(setting.spare) + " to spare; rest unknown";
    else if (setting.reach == Reach::not_step)
      effect = " serves it, but " + std::string(reservation_of(*setting.reach));
    else if (setting.reach == Reach::step)
      effect = " serves this step; " + std::string(reservation_of(*setting.reach));
    else if (setting.reach == Reach::later_steps)
      effect = ": the rest of the step fits, too";
    else if (setting.failed_before > 0 && setting.failed_at_most > setting.failed)
      effect = ": " + text_of(setting.failed) + " to " + text_of(setting.failed_at_most) + " fail instead of " +
               text_of(setting.failed_before);
    else if (setting.failed_before > 0 && setting.failed == 0)
      effect = ": no request fails";
    else if (setting.failed_before > 0)
      effect = ": " + text_of(setting.failed) + " fail instead of " + text_of(setting.failed_before);
    else if (is_range)
      effect = (setting.change == pytorch_defaults ? " save " : " saves ") +
               text_of_range(text_of(setting.saved), text_of_signed(setting.late_range->second));
    else
      effect = (setting.change == pytorch_defaults ? " save " : " saves ") + text_of(setting.saved) + " (" +
               percent(share_of(setting.saved, whole)) + ")";
    // The setting is there to be copied: it is shortened last.
    const bool exact = setting.exact && setting.caution.empty() && !proof.empty();
    const std::string brief = setting.reach == Reach::request ? " serves it; rest unknown" : effect;
    for (const std::string& rest : {effect + proof, brief + proof, effect + (exact ? ", exact" : "")})
      if (display_width(setting.change + needs + rest) <= room) return {topic, setting.change + needs + rest, false};
    return {topic, line_with("", setting.change, needs + effect), false};
  }
  if (!setting.instead.empty()) return {topic, "nothing: " + setting.instead, false};
  if (!setting.unsure.empty())
    return {
        topic,
        line_with("nothing for certain: ", setting.unsure,
                  (setting.unsure == pytorch_defaults ? " save " : " saves ") + percent(*setting.late_range, whole)),
        false};
  const double best_share = static_cast<double>(setting.best_saved) / static_cast<double>(setting.peak.count);
  std::string text = "nothing: ";
  if (setting.failed_before > 0)
    text += none_of(setting.tried, "serves", "more requests");
  else if (setting.live_share >= 1 - fragmented)
    text += percent(std::min(1.0, setting.live_share)) + " of " + peak + " is live memory";
  else if (best_share >= peak_margin && !setting.best_needs.empty())
    text += "what saves most (" + percent(best_share) + ") needs PyTorch " + setting.best_needs;
  else if (setting.best_saved > 0)
    text += (setting.tried == 1 ? "the one change" : "the best of " + text_of(setting.tried) + " changes") +
            " tried saves under 1 %";
  else
    text += none_of(setting.tried, "needs", "less");
  return {topic, text + proof, false};
}

/// Whether the peak is what earlier code left cached, and PyTorch can give it back: then no setting is the answer.
bool is_inherited_cache(const Verdict::Fragments& found) {
  return found.inherited && found.share >= fragmented && share_of(found.releasable, found.reserved) >= fragmented;
}

VerdictLine line_of_release(Bytes releasable) {
  return {"use", "torch.cuda.empty_cache() before it saves " + text_of(releasable) + ", by replay", false};
}

/// Of one instant, only what is free in whole segments is certain to be saved by something.
bool has_cache_at_instant(const Verdict& verdict) {
  return verdict.is_instant && verdict.fragmentation &&
         share_of(verdict.fragmentation->releasable, verdict.fragmentation->reserved) >= peak_margin;
}

/// That the memory has no stack, or is older than the recording, says nothing of the program.
bool says_nothing(const Holders& holders) {
  Bytes placeless;
  for (const Holder& part : holders.parts)
    if (part.names_no_place()) placeless += part.bytes;
  return share_of(placeless, holders.total) >= 0.995;
}

}  // namespace

std::vector<VerdictLine> lines_of(const Verdict& verdict, bool setting_follows) {
  if (!verdict.decides)
    return {{"peak",
             verdict.unrecorded   ? "unknown: allocations are not in the recording"
             : verdict.incomplete ? "unknown: the trace holds no allocations, but parts of it are lost"
                                  : "nothing was allocated while this was recorded",
             false}};
  const std::string peak = verdict.device ? "the pool's peak" : "the peak";
  std::vector<VerdictLine> lines;
  std::size_t most = most_lines;
  lines.push_back(verdict.decides->failed > 0 ? line_of_failures(*verdict.decides)
                                              : line_of_peak(*verdict.decides, verdict));
  if (verdict.holders && (verdict.device || !says_nothing(*verdict.holders))) {
    lines.push_back(verdict.device ? line_of(*verdict.device) : line_of(*verdict.holders));
    // A graph that grows with every step is a leak, and said as one.
    if (!verdict.leaks || verdict.leaks->bytes == 0_B)
      add_graphs(lines, *verdict.holders, verdict.has_optimizer && verdict.decides->failed > 0);
  }
  if (!verdict.others.empty()) lines.push_back(line_of(verdict.others, verdict.decides->are_gpus));
  if (verdict.leaks) lines.push_back(line_of(*verdict.leaks));
  if (verdict.kept_by) lines.push_back(line_of(*verdict.kept_by));
  if (verdict.fragmentation) lines.push_back(line_of(*verdict.fragmentation, verdict.is_instant ? "" : " of " + peak));
  if (verdict.decides->failed == 0 && verdict.fragmentation && is_inherited_cache(*verdict.fragmentation))
    lines.push_back(line_of_release(verdict.fragmentation->releasable));
  else if (has_cache_at_instant(verdict))
    lines.push_back(
        {"use", "torch.cuda.empty_cache() gives back " + text_of(verdict.fragmentation->releasable), false});
  else if (verdict.setting)
    lines.push_back(line_of(*verdict.setting, peak,
                            verdict.device ? verdict.device->held : verdict.setting->peak + verdict.setting->saved,
                            verdict.lacks_frees));
  else if (setting_follows)
    --most;
  const auto drop = [&](std::string_view topic) {
    std::erase_if(lines, [&](const VerdictLine& line) { return line.topic == topic; });
  };
  // What waits for the garbage collector says more than which variable keeps the most.
  if (verdict.kept_by && !verdict.kept_by->is_leak && verdict.leaks && verdict.leaks->in_bursts > 0_B &&
      lines.size() > most)
    drop("kept by");
  // What does not leak or fragment makes room for more lines than fit. That leaks could not be judged is said as long
  // as possible, as silence would be taken for none; but nobody expects it of one instant.
  const bool judged = verdict.leaks && verdict.leaks->not_judged.empty();
  for (const std::string_view topic :
       judged || verdict.is_instant ? std::array{"leaks", "fragmented"} : std::array{"fragmented", "leaks"}) {
    if (lines.size() <= most) break;
    std::erase_if(lines, [&](const VerdictLine& line) { return !line.alarm && line.topic == topic; });
  }
  // The variable that keeps a leak says more than what most of the memory is; otherwise it is the other way round.
  if (verdict.kept_by && lines.size() > most) drop(verdict.kept_by->is_leak ? "held by" : "kept by");
  // Where there is room: it may be no more than the output of the step before, which most programs keep.
  const bool is_leak = verdict.leaks && (verdict.leaks->bytes > 0_B || verdict.leaks->in_bursts > 0_B);
  if (verdict.holders && !is_leak && lines.size() < most &&
      share_of(verdict.holders->graphs.past_backward, verdict.holders->total) >= matters)
    lines.insert(
        lines.begin() + std::min<std::ptrdiff_t>(2, std::ssize(lines)),
        {"graph",
         "activations past their backward pass, " + text_of(verdict.holders->graphs.past_backward) + ": del the output",
         false});
  return lines;
}

}  // namespace memreel
