// The series of a heap's metrics over the events of a trace, at every zoom: exact minima, maxima and last values of any
// range of events from a few nodes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "viewer/model/growing.h"

namespace memreel::viewer {

/// The tracked metrics of a heap, in bytes unless stated otherwise.
enum class Metric : std::uint8_t {
  live,           // requested and not freed
  held,           // live, or freed but still used by the device
  reserved,       // segments
  fragmentation,  // share of reserved that is not held, in millionths; 0 while more is held than the known segments
                  // have
};
inline constexpr std::size_t metric_count = 4;
using Metrics = std::array<std::uint64_t, metric_count>;  // by Metric

inline std::uint64_t& part(Metrics& metrics, Metric f) { return metrics[static_cast<std::size_t>(f)]; }
inline std::uint64_t value_of(const Metrics& metrics, Metric f) { return metrics[static_cast<std::size_t>(f)]; }

/// The range of the metrics over a run of events.
struct Extent {
  Metrics min{}, max{}, last{};

  static Extent at(const Metrics& metrics) { return {metrics, metrics, metrics}; }
  /// Appends a later run.
  void add(const Extent& later) {
    for (std::size_t f = 0; f < metric_count; ++f) {
      min[f] = std::min(min[f], later.min[f]);
      max[f] = std::max(max[f], later.max[f]);
    }
    last = later.last;
  }
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Events in a node of the lowest level, and nodes in one of the next level.
inline constexpr std::uint32_t leaf_events = 128;
inline constexpr std::uint32_t fan_out_bits = 4, fan_out = 1U << fan_out_bits;

/// Whole leaves only; Document::extent adds partial ones.
class PyramidView {
 public:
  PyramidView() = default;
  explicit PyramidView(std::vector<ColumnView<Extent>> levels) : levels_(std::move(levels)) {}

  std::uint32_t leaf_count() const { return levels_.empty() ? 0 : static_cast<std::uint32_t>(levels_[0].size()); }
  const Extent& leaf(std::uint32_t i) const { return levels_[0][i]; }

  /// Over the leaves `begin` .. `end` - 1, at least one. Reads at most 2 x 15 nodes of each level.
  Extent over(std::uint32_t begin, std::uint32_t end) const {
    Extent extent = leaf(begin);
    std::uint32_t level = 0;
    for (std::uint32_t at = begin + 1; at < end; at += 1U << (fan_out_bits * level)) {
      // The largest node that begins here and ends by `end`; at least a leaf does.
      while (is_within(level + 1, at, end)) ++level;
      while (level > 0 && !is_within(level, at, end)) --level;
      extent.add(levels_[level][at >> (fan_out_bits * level)]);
    }
    return extent;
  }

 private:
  /// Whether there is a node of `level` that begins with the leaf `at` and ends with `end` or before.
  bool is_within(std::uint32_t level, std::uint32_t at, std::uint32_t end) const {
    if (level >= levels_.size()) return false;
    const std::uint32_t bits = fan_out_bits * level, leaves = 1U << bits;
    return at % leaves == 0 && end - at >= leaves && (at >> bits) < levels_[level].size();
  }

  std::vector<ColumnView<Extent>> levels_;  // a node exists once all below it do
};

class Pyramid {
 public:
  void push_leaf(const Extent& leaf) {
    if (levels_.empty()) levels_.emplace_back();
    levels_[0].push_back(leaf);
    for (std::size_t level = 0; levels_[level].size() % fan_out == 0; ++level) {
      const Growing<Extent>& below = levels_[level];
      Extent node = below[below.size() - fan_out];
      for (std::size_t i = below.size() - fan_out + 1; i < below.size(); ++i) node.add(below[i]);
      if (level + 1 == levels_.size()) levels_.emplace_back();
      levels_[level + 1].push_back(node);
    }
  }
  std::uint32_t leaf_count() const { return levels_.empty() ? 0 : static_cast<std::uint32_t>(levels_[0].size()); }

  PyramidView view() const {
    std::vector<ColumnView<Extent>> levels;
    levels.reserve(levels_.size());
    for (const Growing<Extent>& level : levels_) levels.push_back(level.view());
    return PyramidView(std::move(levels));
  }

 private:
  std::vector<Growing<Extent>> levels_;
};

}  // namespace memreel::viewer
