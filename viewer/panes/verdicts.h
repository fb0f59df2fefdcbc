// SPDX-License-Identifier: Apache-2.0
// The analyzer's verdicts on the whole trace: leaks, fragmentation, failed requests. Computed once, on first request.
#pragma once

#include <memory>

#include "viewer/model/background.h"
#include "viewer/model/findings.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"

namespace memreel::viewer {

class Verdicts {
 public:
  static bool is_too_long(const Scene& scene);
  /// The progress with a cancel button; nothing if no job runs.
  void draw_progress(Scene& scene, const char* name) { draw_job(scene, name, "Judging", findings_); }
  /// The findings if they are ready, else null. Requests nothing.
  std::shared_ptr<const Findings> known();
  /// The number of leak causes, as far as known; requests nothing.
  std::size_t leaks();
  /// Whether the trace says which Python variables keep memory, as far as known; requests nothing.
  bool knows_holders();
  /// Whether the program's tags say whose memory it is, as far as known; requests nothing.
  bool knows_tags();
  /// Requests the findings; null until they are ready.
  std::shared_ptr<const Findings> ask(Scene& scene);
  /// Null until they are ready; meanwhile shows progress in `area` of the pane called `name`.
  std::shared_ptr<const Findings> get(Scene& scene, const char* name);

 private:
  Background<std::uint32_t, Findings> findings_;
  std::shared_ptr<FirstFindings> first_;  // of the latest request
};

Colour verdict_colour(const Theme& theme, LeakVerdict verdict);

/// Leaks among what the program allocated in the view.
class LeaksPane {
 public:
  LeaksPane();
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  /// The findings on one stack.
  struct Kept {
    const LeakFinding* finding = nullptr;
    Bytes bytes;
    std::uint64_t count = 0;
    std::optional<std::uint32_t> example;  // an allocation
  };
  /// A heap's findings within a range of allocations.
  struct InView {
    std::shared_ptr<const Findings> of;
    HeapId heap = HeapId::none;
    std::uint32_t first = 0, end = 0;
    std::shared_ptr<const Sieve> sieve;
    std::vector<Kept> kept;
  };
  void look(const Scene& scene, const std::shared_ptr<const Findings>& findings);

  Table table_;
  std::shared_ptr<const InView> shown_;
};

/// Who pinned free memory at the reserved peak of the view, and which setting would have released it.
class FragmentationPane {
 public:
  FragmentationPane();
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  /// A judged moment: the reserved bytes after `event`.
  struct Key {
    HeapId heap = HeapId::none;
    std::uint32_t event = 0, version = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  using Judged = std::optional<Fragmentation>;  // none: nothing to judge

  std::shared_ptr<const Judged> judge(Scene& scene, const std::shared_ptr<const Findings>& findings, const Key& key);
  void draw_sites(Scene& scene, const std::shared_ptr<const Judged>& judged);
  void draw_remedies(Scene& scene, const std::shared_ptr<const Findings>& findings);

  Table sites_, remedies_;
  Background<Key, Judged> elsewhere_;                 // for moments other than the peak of the whole trace
  std::shared_ptr<std::vector<PinningSite>> listed_;  // the sites of a judgement that pass the filter
  std::shared_ptr<const Judged> listed_of_;
  std::shared_ptr<const Sieve> listed_sieve_;
  std::shared_ptr<const Judged> at_peak_;
  std::shared_ptr<const Findings> at_peak_of_;
  HeapId at_peak_heap_ = HeapId::none;
};

/// Requests that failed, and why.
class FailuresPane {
 public:
  FailuresPane();
  void draw(Scene& scene, Verdicts& verdicts);
  /// The number listed, for tests.
  std::size_t listed() const { return shown_.rows.size(); }

 private:
  /// Rows of columns.failure in a range of events that pass the filter.
  struct InView {
    std::uint32_t first = 0, end = 0;
    std::shared_ptr<const Sieve> sieve;
    std::vector<std::uint32_t> rows;
  };
  void look(const Scene& scene);

  Table table_;
  InView shown_;
};

}  // namespace memreel::viewer
