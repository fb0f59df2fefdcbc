// The analyzer's verdicts on the whole trace: leaks, fragmentation, failed requests. Made once, when first asked for.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/findings.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"

namespace memreel::viewer {

class Verdicts {
 public:
  static bool is_too_long(const Scene& scene);
  /// How far that is, with a button that gives it up; nothing when it is not on its way.
  void draw_progress(Scene& scene, const char* name) { draw_job(scene, name, "Judging", findings_); }
  /// Those that are made already; null: none are. Asks for nothing.
  std::shared_ptr<const Findings> known() { return findings_.value(); }
  /// How many causes of leaks there are, as far as that is known; asks for nothing.
  std::size_t leaks();
  /// Null until they are made, which this asks for.
  std::shared_ptr<const Findings> ask(Scene& scene);
  /// Null until they are made; says so in `area` of the pane called `name`.
  std::shared_ptr<const Findings> get(Scene& scene, const char* name);

 private:
  Background<std::uint32_t, Findings> findings_;
};

Colour verdict_colour(const Theme& theme, LeakVerdict verdict);

/// What the program keeps of what it allocated in the view, and whether it should.
class LeaksPane {
 public:
  LeaksPane();
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  /// Of one stack.
  struct Kept {
    const LeakFinding* finding = nullptr;
    Bytes bytes;
    std::uint64_t count = 0;
    std::optional<std::uint32_t> example;  // an allocation
  };
  /// What there is of a heap's findings in a range of allocations.
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

/// Who pinned free memory when most was reserved in the view, and what would have given it back.
class FragmentationPane {
 public:
  FragmentationPane();
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  /// A moment that is judged: what was reserved after `event`.
  struct Key {
    HeapId heap = HeapId::none;
    std::uint32_t event = 0, version = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  using Judged = std::optional<Fragmentation>;  // none: there is nothing to judge then

  std::shared_ptr<const Judged> judge(Scene& scene, const std::shared_ptr<const Findings>& findings, const Key& key);
  void draw_sites(Scene& scene, const std::shared_ptr<const Judged>& judged);
  void draw_remedies(Scene& scene, const std::shared_ptr<const Findings>& findings);

  Table sites_, remedies_;
  Background<Key, Judged> elsewhere_;                 // than at the peak of the whole trace
  std::shared_ptr<std::vector<PinningSite>> listed_;  // those of a judgement that pass
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
  /// How many are listed, for tests.
  std::size_t listed() const { return shown_.rows.size(); }

 private:
  /// Of columns.failure: those of a range of events that pass.
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
