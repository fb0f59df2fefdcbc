// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/suppressions.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "formats/model/flat_map.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

constexpr std::array<std::string_view, 10> frameworks{
    "cublasCreate",           "cublasLtCreate",           "cudnnCreate",
    "cusolverDnCreate",       "cusparseCreate",           "ncclCommInit",
    "getCUDABlasLtWorkspace", "getCurrentCUDABlasHandle", "getCUDABlasWorkspace",
    "benchmark_cache",  // cuDNN's choice of algorithm per shape
};

/// Whether `text` contains `piece` at `at`.
bool has_at(std::string_view text, std::size_t at, std::string_view piece) {
  return text.substr(at).starts_with(piece);
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t begin = line.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(blank) - begin + 1);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  bool floating = !pattern.starts_with('^');  // the next piece may be anywhere further on
  if (!floating) pattern.remove_prefix(1);
  const bool to_end = pattern.ends_with('$');
  if (to_end) pattern.remove_suffix(1);
  std::size_t at = 0;
  while (!pattern.empty()) {
    const std::size_t star = pattern.find('*');
    const std::string_view piece = pattern.substr(0, star);
    const bool is_last = star == std::string_view::npos;
    pattern.remove_prefix(is_last ? pattern.size() : star + 1);
    if (is_last && to_end) {
      if (name.size() < at + piece.size()) return false;
      return floating ? name.ends_with(piece) : name.substr(at) == piece;
    }
    if (floating)
      at = name.find(piece, at);
    else if (!has_at(name, at, piece))
      at = std::string_view::npos;
    if (at == std::string_view::npos) return false;
    at += piece.size();
    floating = true;
  }
  return !to_end || floating || at == name.size();
}

Suppressions Suppressions::built_in() {
  Suppressions list;
  for (const std::string_view pattern : frameworks) list.all_.push_back({std::string(pattern), true});
  return list;
}

Result<void> Suppressions::add_lines(std::string_view text, const std::string& where) {
  constexpr std::string_view kind = "leak:";
  std::uint64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with(kind) || trimmed(line.substr(kind.size())).empty()) {
      return Error{
          .what = "line " + std::to_string(number) + ": '" + std::string(line) + "' is not a valid suppression",
          .where = where,
          .remedy = "write leak:PATTERN"};
    }
    all_.push_back({std::string(trimmed(line.substr(kind.size()))), false});
  }
  return {};
}

const Suppression* Suppressions::match(const Tables& tables, StackId stack) const {
  for (const FrameText& frame : frames_of(tables, stack)) {
    const std::string_view module = tables[tables[frame.module].path];
    for (const Suppression& suppression : all_) {
      if (matches(suppression.pattern, frame.function) || matches(suppression.pattern, frame.file) ||
          (!module.empty() && matches(suppression.pattern, module)))
        return &suppression;
    }
  }
  return nullptr;
}

namespace {

using Frames = std::vector<FrameId>;  // innermost first

Frames frames_in(const Tables& tables, StackId stack) {
  Frames frames;
  for (; stack != StackId::none; stack = tables[stack].caller) frames.push_back(tables[stack].frame);
  return frames;
}

bool is_named(std::string_view file, std::string_view name) { return base_name(file) == name; }

/// Frames of collector/include/memreel/memreel.h or the Python package, wherever a program keeps its copy. The package
/// is a single file, which may be called memreel.py.
bool says_memreel(const FrameText& frame) {
  // Without -g only the names are known, which may end in ".constprop.0" and the like.
  if (frame.file.empty() &&
      (frame.function.starts_with("memreel_") || frame.function.starts_with("memreel::annotated_pool::")))
    return true;
  return is_named(frame.file, "memreel.py") || is_named(frame.file, "memreel.h") ||
         frame.file.ends_with("/memreel/annotate.py");
}

/// Properties of each frame of a trace, computed once.
class FrameKinds {
 public:
  FrameKinds(const Tables& tables, std::span<const std::string> patterns) : kinds_(tables.frames.size()) {
    for (std::uint32_t f = 0; f < tables.frames.size(); ++f) {
      const FrameText text = frame_text(tables, FrameId{f});
      kinds_[f] = {.is_annotation = says_memreel(text),
                   .is_library = text.owner != CodeOwner::user,
                   .is_skipped = std::ranges::any_of(patterns, [&](const std::string& pattern) {
                     return matches(pattern, text.function) || matches(pattern, text.file);
                   })};
    }
  }

  bool is_annotation(FrameId frame) const { return kinds_[index(frame)].is_annotation; }
  bool is_library(FrameId frame) const { return kinds_[index(frame)].is_library; }
  bool is_skipped(FrameId frame) const { return kinds_[index(frame)].is_skipped; }

 private:
  struct Kind {
    bool is_annotation, is_library, is_skipped;
  };
  std::vector<Kind> kinds_;
};

/// Drops annotations, what they call, and frames to be skipped. A stack of nothing else stays unchanged.
Frames shortened(const Frames& frames, const FrameKinds& kinds) {
  // Below an annotation there is only the path into the recorder.
  auto begin = std::ranges::find_if(frames, [&](FrameId frame) { return kinds.is_annotation(frame); });
  if (begin == frames.end()) begin = frames.begin();
  while (begin != frames.end() && kinds.is_annotation(*begin)) ++begin;
  Frames rest;
  std::copy_if(begin, frames.end(), std::back_inserter(rest), [&](FrameId frame) { return !kinds.is_skipped(frame); });
  return rest.empty() ? frames : rest;
}

/// Rows of the stack table, each once.
class StackRows {
 public:
  explicit StackRows(Tables& tables) : tables_(&tables) {
    for (std::uint32_t s = 1; s < tables.stacks.size(); ++s)
      if (rows_.find(tables.stacks[s]) == absent) rows_.put(tables.stacks[s], s);
  }

  StackId of(std::span<const FrameId> frames) {
    Stack row;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      row.frame = *frame;
      std::uint32_t stack = rows_.find(row);
      if (stack == absent) {
        stack = static_cast<std::uint32_t>(tables_->stacks.size());
        tables_->stacks.push_back(row);
        rows_.put(row, stack);
      }
      row.caller = StackId{stack};
    }
    return row.caller;
  }

 private:
  struct Hash {
    std::uint64_t operator()(const Stack& row) const {
      return mix_bits((std::uint64_t{index(row.frame)} << 32U) | index(row.caller));
    }
  };

  Tables* tables_;
  FlatMap<Stack, Hash> rows_;
};

using SourcePlace = std::tuple<std::string_view, std::string_view, std::uint32_t>;  // function, file, line

/// The number of frames of `frames` from the innermost through the `count`-th innermost of user code.
std::size_t frames_through(const Frames& frames, const FrameKinds& kinds, std::size_t count) {
  std::size_t i = 0;
  for (; i < frames.size() && count > 0; ++i)
    if (!kinds.is_library(frames[i])) --count;
  return i;
}

/// The number of user frames, from the innermost, that are equal in all `stacks`; 0 if no two of them differ further
/// out.
std::size_t wrapper_depth(const Tables& tables, const std::vector<Frames>& stacks, const FrameKinds& kinds) {
  const auto place = [&](const Frames& frames, std::size_t depth) -> std::optional<SourcePlace> {
    const std::size_t through = frames_through(frames, kinds, depth + 1);
    if (through == 0 || frames_through(frames, kinds, depth) == through || kinds.is_library(frames[through - 1]))
      return std::nullopt;
    const FrameText frame = frame_text(tables, frames[through - 1]);
    return SourcePlace{frame.function, frame.file, frame.line};
  };
  constexpr std::size_t deepest = 32;
  for (std::size_t depth = 0; depth < deepest; ++depth) {
    const auto first = place(stacks.front(), depth);
    bool same = true;
    for (const Frames& frames : stacks) {
      const auto here = place(frames, depth);
      if (!here) return 0;
      same = same && here == first;
    }
    if (!same) return depth;
  }
  return 0;
}

}  // namespace

std::vector<std::string> skip_frames(Trace& trace, std::span<const std::string> patterns) {
  Tables& tables = trace.tables;
  Events& events = trace.events;
  const FrameKinds kinds(tables, patterns);
  StackRows rows(tables);
  std::unordered_map<StackId, Frames> shorter;                       // by original stack
  std::vector<bool> known(tables.stacks.size());                     // whether it is in there: asked for every event
  std::vector<StackId> in_order;                                     // by first event
  std::unordered_map<HeapId, std::unordered_set<StackId>> of_heaps;  // where allocations were made
  std::unordered_set<HeapId> with_unknown;
  std::vector<bool> may_have_wrappers;  // by heap
  for (const Heap& heap : tables.heaps)
    may_have_wrappers.push_back(&heap != tables.heaps.data() && !is_torch_name(tables[heap.name]));
  const auto see = [&](StackId stack) {
    if (known[index(stack)] || stack == StackId::none) return;
    known[index(stack)] = true;
    shorter.emplace(stack, shortened(frames_in(tables, stack), kinds));
    in_order.push_back(stack);
  };
  if (std::ranges::find(may_have_wrappers, true) == may_have_wrappers.end()) {
    events.for_each<event_field::stack>([&](std::uint32_t, const Event& event) { see(event.stack); });
  } else {
    events.for_each<event_field::origin | event_field::stack>([&](std::uint32_t, const Event& event) {
      see(event.stack);
      const HeapId heap = tables[event.origin].heap;
      if (event.kind != EventKind::alloc || !may_have_wrappers[index(heap)]) return;
      if (event.stack == StackId::none)
        with_unknown.insert(heap);
      else
        of_heaps[heap].insert(event.stack);
    });
  }

  std::vector<std::string> sentences;
  std::unordered_map<HeapId, std::size_t> depths;
  for (const auto& [heap, stacks] : of_heaps) {
    if (stacks.size() < 2 || with_unknown.contains(heap)) continue;
    std::vector<Frames> frames;
    for (const StackId stack : stacks) frames.push_back(shorter[stack]);
    const std::size_t depth = wrapper_depth(tables, frames, kinds);
    if (depth == 0) continue;
    depths[heap] = depth;
    const std::size_t through = frames_through(frames.front(), kinds, depth);
    sentences.push_back("all allocations of " + tables[tables[heap].name] + " go through " +
                        text_of(frame_text(tables, frames.front()[through - 1])) + ": stacks begin at its callers");
  }
  std::ranges::sort(sentences);
  for (const FoldedRow& row : trace.folded.rows) see(row.stack);

  const auto without = [&](StackId stack, std::size_t count) {
    const Frames& frames = shorter[stack];
    const std::size_t through = frames_through(frames, kinds, count);
    return rows.of(std::span(frames).subspan(through < frames.size() ? through : 0));
  };
  // What a flight recorder has summed up is of the same places.
  for (FoldedRow& row : trace.folded.rows) {
    const auto depth = depths.find(row.heap);
    if (row.stack != StackId::none) row.stack = without(row.stack, depth == depths.end() ? 0 : depth->second);
  }
  if (depths.empty()) {
    std::vector<StackId> now;
    for (std::uint32_t stack = 0; stack < known.size(); ++stack) now.push_back(StackId{stack});
    for (const StackId stack : in_order) now[index(stack)] = without(stack, 0);
    events.renumber_stacks(now);
    return sentences;
  }
  // By original stack, for each number of frames to skip; that number for each heap.
  std::map<std::size_t, std::vector<std::optional<StackId>>> now;
  std::vector<std::pair<std::size_t, std::vector<std::optional<StackId>>*>> of_heap;
  for (std::uint32_t heap = 0; heap < tables.heaps.size(); ++heap) {
    const auto depth = depths.find(HeapId{heap});
    const std::size_t count = depth == depths.end() ? 0 : depth->second;
    of_heap.emplace_back(count, &now.try_emplace(count, known.size()).first->second);
  }
  for (std::size_t i = 0; i < events.count(); ++i) {
    const StackId stack = events.stack(i);
    if (stack == StackId::none) continue;
    const auto& [count, stacks] = of_heap[index(tables[events.origin(i)].heap)];
    std::optional<StackId>& place = (*stacks)[index(stack)];
    if (!place) place = without(stack, count);
    events.set_stack(i, *place);
  }
  return sentences;
}

}  // namespace memreel
