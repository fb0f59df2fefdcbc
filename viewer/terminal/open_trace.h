// SPDX-License-Identifier: Apache-2.0
// An open trace: the latest version of its document, the selection, and what background jobs say of both.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "viewer/model/axis.h"
#include "viewer/model/background.h"
#include "viewer/model/findings.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/selection.h"
#include "viewer/model/source.h"
#include "viewer/model/stacked_series.h"
#include "viewer/model/typed_input.h"
#include "viewer/model/verdict_strip.h"

namespace memreel::viewer::terminal {

using Clock = std::chrono::steady_clock;

/// For use from one thread.
class Session {
 public:
  /// `wake` is called on other threads whenever there is news. `memory_limit`: for the trace; 0: based on its size.
  Session(const std::filesystem::path& file, std::function<void()> wake, Bytes memory_limit);

  /// Takes over what is new. To be called before anything is drawn.
  void update(Clock::time_point now);

  const std::filesystem::path& path() const { return source_->path(); }
  SourceStatus status() const { return source_->status(); }
  /// Whether more of the file is expected, as far as it is shown.
  bool grows() const { return grows_; }
  Bytes memory_limit() const { return memory_limit_; }
  const Document& document() const { return *document_; }
  const std::shared_ptr<const Document>& shared_document() const { return document_; }
  const HeapSeries* series() const { return document_->series(selection.heap); }
  /// Of the selection's heap at its cursor; the address changes whenever the contents do.
  const std::shared_ptr<const HeapAt>& heap() const { return heap_; }
  /// Null until known.
  const std::shared_ptr<const Classification>& classification() const { return classification_; }
  const std::shared_ptr<const Findings>& findings() const { return findings_; }
  const std::optional<VerdictStrip>& verdict() const { return strip_; }
  /// Why there are no findings, or not yet; empty: there are.
  std::string reason_without_findings() const;
  /// What is typed as a filter; null: none.
  const std::shared_ptr<const Sieve>& sieve() const { return sieve_; }
  /// Live bytes by group; null until they are ready.
  std::shared_ptr<const StackedSeries> groups();
  /// How they are grouped.
  SplitBy split() const { return selection.split_by(classification_ && classification_->knows_any); }
  /// What is being done, "reading 40 %"; empty: nothing.
  std::string doing() const;

  /// Sets the cursor to a named instant (navigation.h), once it is read; false if it is none.
  bool go_to(std::string_view instant);
  void set_cursor(std::uint32_t events);
  void next_axis();
  void next_heap();
  void toggle_pause() { paused_ = !paused_; }
  bool is_paused() const { return paused_; }

  Selection selection;

 private:
  /// What the jobs that judge one version share.
  struct Judging;
  /// What steps depend on: those that are not marked are found once all is read.
  struct StepsKey {
    std::uint32_t events = 0;
    HeapId heap = HeapId::none;
    bool complete = false;
    friend bool operator==(const StepsKey&, const StepsKey&) = default;
  };
  struct Jobs {
    RoundingJob rounding;
    SieveJob sieve;
    Background<std::uint32_t, Findings> findings;
    ClassificationJob classification;  // after `findings`, so that it is stopped first: they may wait for it
    std::shared_ptr<Judging> judging;  // of the version last judged
    Background<SplitQuery, StackedSeries> groups;
    Background<StepsKey, AxisScale> steps;
  };

  void follow();
  void renumber(const Document& next);
  void judge(Clock::time_point now);
  void update_axis();
  void update_sieve();
  void update_heap();
  bool is_too_long() const { return document_->event_count() > longest_in_memory; }

  Bytes memory_limit_;
  std::unique_ptr<Source> source_;
  std::shared_ptr<const Document> document_ = std::make_shared<const Document>();
  std::shared_ptr<const HeapAt> heap_ = std::make_shared<const HeapAt>();
  std::shared_ptr<const Rounding> heap_rounding_;
  std::uint32_t heap_version_ = 0;
  std::shared_ptr<const Classification> classification_;
  std::shared_ptr<const Findings> findings_;
  std::shared_ptr<const Sieve> sieve_;
  std::optional<VerdictStrip> strip_;
  AxisBy axis_ = AxisBy::time;
  std::shared_ptr<const Document> axis_of_;
  TimeRange followed_view_;
  HeapId followed_heap_ = HeapId::none;
  bool cursor_follows_ = true;  // the user has not set it yet
  bool paused_ = false, grows_ = false, judging_ = false, trying_ = false, sieving_ = false;
  std::uint32_t grown_to_ = 0, judged_ = 0;
  Clock::time_point grown_at_;
  std::optional<std::string> wanted_instant_;
  std::unique_ptr<Jobs> jobs_ = std::make_unique<Jobs>();  // last member: jobs use the others
};

}  // namespace memreel::viewer::terminal
