// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "analyzer/describe/own_frame.h"
#include "formats/model/frame_kind.h"
#include "formats/model/quantity.h"

namespace memreel::viewer {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

/// "train.py:42"
std::string place_of(const FrameText& frame) {
  std::string place(base_name(frame.file));
  if (!place.empty() && frame.line != 0) place += ":" + std::to_string(frame.line);
  return place;
}

}  // namespace

std::string stack_label(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  if (frames.empty()) return "(no stack)";
  const FrameText explaining = explaining_frame(frames), own = own_frame(frames);
  std::string label = place_of(explaining);
  if (!label.empty()) label += "  ";
  label += display_name(explaining.kind, explaining.function);
  if (label.empty()) return frame_name(tables, tables[stack].frame);
  const auto is_at = [](const FrameText& a, const FrameText& b) { return a.file == b.file && a.line == b.line; };
  const auto inner = std::ranges::find_if(frames, [](const FrameText& f) { return !f.file.empty() && !passes_on(f); });
  if (inner != frames.end() && inner < std::ranges::find_if(
                                           frames, [&](const FrameText& f) { return is_at(f, explaining); }))
    label += " > " + place_of(*inner);
  return is_at(own, explaining) || own.owner != CodeOwner::user ? label : label + "  \u2190 " + place_of(own);
}

std::string no_stack_label(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "(no stack, in the forward pass)";
    case Phase::backward:
      return "(no stack, in the backward pass)";
    case Phase::optimizer:
      return "(no stack, in the optimizer's step)";
    case Phase::other:
      break;
  }
  return "(no stack)";
}

std::string thread_label(const Tables& tables, ThreadId id) {
  if (id == ThreadId::unknown) return "thread not recorded";
  const Thread& thread = tables[id];
  return tables[thread.name].empty() ? "thread " + std::to_string(thread.tid) : tables[thread.name];
}

std::string heap_label(const Tables& tables, HeapId id) {
  const Heap& heap = tables[id];
  return (heap.device < 0 ? std::string("host") : "device " + std::to_string(heap.device)) + "  " + tables[heap.name];
}

std::string split_label(const Tables& tables, std::uint32_t key, SplitBy by) {
  switch (by) {
    case SplitBy::category:
      return std::string(words_of(static_cast<Category>(key)));
    case SplitBy::phase:
      return static_cast<Phase>(key) == Phase::other ? "outside passes" : std::string(name_of(static_cast<Phase>(key)));
    case SplitBy::stack:
      return stack_label(tables, StackId{key});
    case SplitBy::pool:
      return pool_label(tables, PoolId{key});
    case SplitBy::stream:
      return stream_label(tables, StreamId{key});
    case SplitBy::thread:
      return thread_label(tables, ThreadId{key});
    case SplitBy::tag:
      return StringId{key} == StringId::none ? "untagged" : tables[StringId{key}];
    case SplitBy::step:
      return "step " + std::to_string(key + 1);
    case SplitBy::nothing:
      break;
  }
  return {};
}

std::string event_text(std::uint32_t events) {
  return events == 0 ? "before the first event" : "event " + text_of(std::uint64_t{events} - 1);
}

std::string address_text(Address address) { return hexadecimal(address.value); }

namespace {

/// "2:05 min", "3:07:30 h", "4 d 6:00 h": down to a resolution of `step` nanoseconds.
std::string clock_text(double ns, double step) {
  constexpr std::uint64_t minute = 60, hour = 60 * minute, day = 24 * hour;
  const int digits = static_cast<int>(std::clamp(std::ceil(std::log10(1e9 / step)), 0.0, 9.0));
  const double parts = std::pow(10.0, digits);  // of a second
  const bool to_the_minute = step >= 60e9;
  const double rounded = to_the_minute ? std::round(ns / 60e9) * 60 : std::round(ns / 1e9 * parts) / parts;
  const auto whole = static_cast<std::uint64_t>(rounded);
  const std::string seconds =
      to_the_minute ? "" : format(":%0*.*f", digits == 0 ? 2 : digits + 3, digits, std::fmod(rounded, 60.0));
  if (whole < hour) return std::to_string(whole / minute) + seconds + " min";
  if (step >= 86'400e9) return std::to_string((whole + day / 2) / day) + " d";
  const std::string days = whole < day ? "" : std::to_string(whole / day) + " d ";
  return days + std::to_string(whole % day / hour) + format(":%02d", static_cast<int>(whole % hour / minute)) +
         seconds + " h";
}

}  // namespace

std::string time_text(Nanoseconds since_begin, Nanoseconds resolution) {
  if (since_begin == Nanoseconds{}) return "0 s";
  const auto ns = static_cast<double>(since_begin.count());
  const double step = std::max(1.0, static_cast<double>(std::llabs(resolution.count())));
  const double size = std::max(std::abs(ns), step);
  if (constexpr double clock = 120e9; std::abs(ns) >= clock)
    return (ns < 0 ? "-" : "") + clock_text(std::abs(ns), step);
  const char* unit = "s";
  double scale = 1e9;
  if (size < 1e4 && step < 1e3) {
    unit = "ns";
    scale = 1;
  } else if (size < 1e6) {
    unit = "us";
    scale = 1e3;
  } else if (size < 1e9) {
    unit = "ms";
    scale = 1e6;
  }
  const int digits = static_cast<int>(std::clamp(std::ceil(std::log10(scale / step)), 0.0, 9.0));
  return format("%.*f %s", digits, ns / scale, unit);
}

std::string frame_name(const Tables& tables, FrameId id) {
  const FrameText frame = frame_text(tables, id);
  if (!frame.function.empty()) return display_name(frame.kind, frame.function);
  if (!frame.file.empty()) return "(unknown)";
  const std::string offset = hexadecimal(tables[id].module_offset);
  if (!frame.module_path.empty()) return std::string(base_name(frame.module_path)) + "+" + offset;
  return tables[id].module_offset != 0 ? offset : "(unknown)";
}

std::vector<StackLine> stack_lines(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  if (frames.empty()) return {};
  std::vector<StackLine> lines;
  std::unordered_map<std::uint32_t, std::size_t> known;  // a recursion has few distinct frames
  for (const FrameText& frame : frames) {
    const FrameId id = tables[stack].frame;
    stack = tables[stack].caller;
    const auto [found, is_new] = known.try_emplace(index(id), lines.size());
    if (!is_new) {
      lines.push_back(lines[found->second]);
      continue;
    }
    lines.push_back({.frame = frame,
                     .name = frame_name(tables, id),
                     .library = frame.owner != CodeOwner::user,
                     .wrapper = passes_on(frame),
                     .unnamed = frame.function.empty() && frame.file.empty()});
  }
  const FrameText own = own_frame(frames);
  const auto first_own = std::ranges::find_if(lines, [&](const StackLine& line) {
    const FrameText& frame = line.frame;
    return frame.function == own.function && frame.file == own.file && frame.line == own.line &&
           frame.module == own.module;
  });
  if (first_own != lines.end()) first_own->own = true;
  return lines;
}

std::string copied_stack(const std::vector<StackLine>& lines) {
  std::string text;
  for (const StackLine& line : lines) text += (line.unnamed ? line.name : text_of(line.frame)) + "\n";
  return text;
}

std::string own_line(const std::vector<StackLine>& lines) {
  const auto own = std::ranges::find(lines, true, &StackLine::own);
  if (own == lines.end()) return {};
  if (own->frame.file.empty()) return own->name;
  return std::string(base_name(own->frame.file)) + ":" + std::to_string(own->frame.line) + "  " + own->name;
}

namespace {

bool is_own(const FrameText& frame) {
  if (frame.owner != CodeOwner::user) return false;
  return !passes_on(frame);
}

}  // namespace

std::vector<bool> layer_frames(const Tables& tables, std::span<const StackMeaning> stacks) {
  std::vector<bool> own(tables.frames.size());
  for (std::uint32_t f = 1; f < own.size(); ++f) own[f] = is_own(frame_text(tables, FrameId{f}));
  std::vector<bool> shown(std::min(stacks.size(), tables.stacks.size()));
  for (std::uint32_t s = 1; s < shown.size(); ++s) {
    const StackMeaning& meaning = stacks[s];
    if (meaning.call != StackId::none)
      shown[s] = meaning.call == StackId{s};
    else
      shown[s] = meaning.layer == StackId{s} || own[index(tables.stacks[s].frame)];
  }
  return shown;
}

bool has_layers(std::span<const StackMeaning> stacks) {
  return std::ranges::any_of(stacks,
                             [](const StackMeaning& s) { return s.layer != StackId::none || s.call != StackId::none; });
}

}  // namespace memreel::viewer
