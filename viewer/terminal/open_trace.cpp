// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/open_trace.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "viewer/model/navigation.h"

namespace memreel::viewer::terminal {
namespace {

std::string percent(double share) { return std::to_string(static_cast<int>(std::floor(share * 100))) + " %"; }

}  // namespace

/// The first verdict comes before settings are replayed, which takes longer than the rest.
struct Session::Judging {
  Judging(std::shared_ptr<WholeTrace> whole, std::uint32_t count) : trace(std::move(whole)), events(count) {}

  void set_first(std::shared_ptr<const Findings> findings) {
    const std::lock_guard lock(mutex_);
    first_ = std::move(findings);
  }
  /// Null until known.
  std::shared_ptr<const Findings> first() {
    const std::lock_guard lock(mutex_);
    return first_;
  }

  const std::shared_ptr<WholeTrace> trace;
  const std::uint32_t events;

 private:
  std::mutex mutex_;
  std::shared_ptr<const Findings> first_;
};

Session::Session(const std::filesystem::path& file, std::function<void()> wake, Bytes memory_limit)
    : memory_limit_(memory_limit), source_(std::make_unique<Source>(file, std::move(wake), memory_limit)) {}

void Session::update(Clock::time_point now) {
  follow();
  selection.cursor = std::min(selection.cursor, document_->event_count());
  judge(now);
  update_axis();
  update_sieve();
  update_heap();
}

void Session::follow() {
  if (paused_) return;
  const SourceStatus now = status();
  grows_ = now.followed && !now.still;
  const auto latest = source_->document();
  if (latest == document_) return;
  const bool first = document_->empty() && !latest->empty();
  const bool moved = !first && selection.view != followed_view_;
  if (!first && latest->begun_anew != document_->begun_anew) {
    // Another trace, at the same path.
    const std::string search = selection.search;
    selection = Selection();
    selection.search = search;
    jobs_ = std::make_unique<Jobs>();
    classification_.reset();
    findings_.reset();
    strip_.reset();
    sieve_.reset();
    document_ = std::make_shared<const Document>();
    heap_ = std::make_shared<const HeapAt>();
    cursor_follows_ = true;
    judged_ = 0;
    axis_of_.reset();
    followed_heap_ = HeapId::none;
    return follow();
  }
  if (!first && latest->renumbered != document_->renumbered) renumber(*latest);
  document_ = latest;
  if (document_->empty()) {
    if (document_->complete) wanted_instant_.reset();
    return;
  }
  const bool chosen = selection.heap != followed_heap_;
  if (selection.heap == HeapId::none || (cursor_follows_ && !moved && !chosen))
    selection.heap = followed_heap_ = main_heap(*document_);
  if (!moved) selection.look_at_all(*document_);
  followed_view_ = moved ? TimeRange() : selection.view;
  if (cursor_follows_)
    if (const HeapSeries* const own = series()) selection.cursor = own->peak_live_event;
  if (wanted_instant_ && document_->complete) go_to(*std::exchange(wanted_instant_, std::nullopt));
  if (first) selection.remember();
}

void Session::renumber(const Document& next) {
  if (document_->empty()) return;
  jobs_ = std::make_unique<Jobs>();
  classification_.reset();
  findings_.reset();
  strip_.reset();
  sieve_.reset();
  heap_ = std::make_shared<const HeapAt>();
  if (selection.cursor != 0)
    selection.cursor = next.events_until(document_->time(std::min(selection.cursor, document_->event_count()) - 1));
  selection.renumber();
}

void Session::judge(Clock::time_point now) {
  judging_ = trying_ = false;
  if (!document_->whole || !document_->complete || document_->empty() || is_too_long()) return;
  const std::uint32_t events = document_->event_count();
  if (events != std::exchange(grown_to_, events)) grown_at_ = now;
  const std::optional<std::uint32_t> judged = judged_ == 0 ? std::nullopt : std::optional(judged_);
  const double still = std::chrono::duration<double>(now - grown_at_).count();
  if (is_due(judged, events, status().followed, still)) judged_ = events;

  if (!jobs_->judging || jobs_->judging->events != judged_)
    jobs_->judging = std::make_shared<Judging>(document_->whole, judged_);
  const auto judging = jobs_->judging;
  jobs_->classification.request(
      judged_, [judging](const Progress& progress) { return classify_trace(*judging->trace, progress); }, false);
  classification_ = jobs_->classification.value();
  jobs_->findings.request(judged_, [judging](const Progress& progress) {
    return judge_trace(*judging->trace, progress,
                       [&](Findings first) { judging->set_first(std::make_shared<const Findings>(std::move(first))); });
  });
  const bool is_judged = jobs_->findings.is_current();
  const auto first = judging->first();
  trying_ = !is_judged && first != nullptr;
  judging_ = !jobs_->classification.is_current() || (!is_judged && !trying_);
  if (is_judged) judging->set_first(nullptr);
  // What was found before the file grew, settings included, is shown until that is so again.
  const bool is_first = trying_ && (findings_ == nullptr || !findings_->tried);
  const auto latest = is_first ? first : jobs_->findings.value();
  if (latest == findings_ || latest == nullptr) return;
  findings_ = latest;
  strip_.reset();
  if (findings_) strip_ = verdict_strip(*document_, *findings_);
}

void Session::update_axis() {
  if (axis_ == AxisBy::time || document_->empty()) {
    selection.axis = {};
  } else if (axis_ == AxisBy::event) {
    if (axis_of_ != document_ || selection.axis.by() != AxisBy::event) selection.axis = AxisScale::by_events(document_);
    axis_of_ = document_;
  } else {
    jobs_->steps.request(
        {.events = document_->event_count(), .heap = selection.heap, .complete = document_->complete},
        [document = document_, heap = selection.heap](const Progress&) -> std::optional<AxisScale> {
          const Steps steps = steps_of(*document, heap);
          return steps.ends.empty() ? AxisScale() : AxisScale::by_steps(SideScale::by_step(*document, steps));
        },
        false);
    const auto scale = jobs_->steps.value();
    if (!scale) return;
    selection.axis = *scale;
    // Without steps, the axis counts time.
    if (scale->by() == AxisBy::time && jobs_->steps.is_current()) axis_ = AxisBy::time;
  }
}

void Session::update_sieve() {
  SieveKey key{.filter = typed_filter(selection.search), .version = document_->event_count()};
  key.filter.category = selection.category;
  sieving_ = false;
  if (key.filter.lets_all_pass()) {
    sieve_.reset();
    return;
  }
  if (classification_ && key.filter.category) key.classified = classification_->count();
  jobs_->sieve.request(key, [document = document_, filter = key.filter, known = classification_](const Progress&) {
    return std::optional<Sieve>(std::in_place, document, filter, known);
  });
  sieving_ = !jobs_->sieve.is_current();
  if (!sieving_) sieve_ = jobs_->sieve.value();
}

void Session::update_heap() {
  if (document_->complete && has_known_rounding(*document_))
    jobs_->rounding.request(
        document_->event_count(),
        [document = document_](const Progress& progress) { return find_rounding(*document, progress); }, false);
  const auto rounding = jobs_->rounding.value();
  if (heap_->event == selection.cursor && heap_->heap == selection.heap && heap_version_ == document_->event_count() &&
      heap_rounding_ == rounding)
    return;
  heap_ = std::make_shared<const HeapAt>(heap_at(*document_, selection.heap, selection.cursor, rounding.get()));
  heap_version_ = document_->event_count();
  heap_rounding_ = rounding;
}

std::shared_ptr<const StackedSeries> Session::groups() {
  const SplitBy by = split();
  if (document_->empty() || by == SplitBy::nothing) return nullptr;
  const bool by_purpose = by == SplitBy::category || by == SplitBy::phase;
  const bool filters = sieve_ && (!sieve_->filter().text.empty() || sieve_->filter().limits_size());
  const SplitQuery query{.heap = selection.heap,
                         .by = by,
                         .version = document_->event_count(),
                         .classified = by_purpose && classification_ ? classification_->count() : 0,
                         .sieve = filters ? sieve_ : nullptr};
  jobs_->groups.request(
      query,
      [document = document_, known = classification_, query](const Progress& progress) {
        return split_series(*document, query, progress, known.get());
      },
      false);
  auto groups = jobs_->groups.value();
  return groups && jobs_->groups.key()->by == by && jobs_->groups.key()->heap == selection.heap ? groups : nullptr;
}

std::string Session::doing() const {
  const SourceStatus now = status();
  if (now.stage == Stage::importing) return "importing " + percent(now.progress);
  if (now.stage == Stage::reading) return "reading " + percent(now.progress);
  if (judging_) return "judging";
  if (trying_) return "trying settings " + percent(jobs_->findings.progress());
  if (sieving_) return "searching";
  if (jobs_->groups.running() || jobs_->rounding.running() || jobs_->steps.running()) return "drawing";
  return {};
}

std::string Session::reason_without_findings() const {
  if (findings_) return {};
  if (is_too_long()) return "This trace is too long to judge here. Run: memreel report TRACE";
  if (!document_->complete) return "Judged once the whole trace is read.";
  if (!document_->empty()) return "Being judged.";
  return grows_ ? "No events were recorded yet." : "No events are in this file.";
}

bool Session::go_to(std::string_view instant) {
  const auto event = instant_named(*document_, selection.heap, instant);
  if (!event) return false;
  cursor_follows_ = false;
  if (!document_->complete)
    wanted_instant_ = instant;  // it may not be read yet
  else
    selection.cursor = *event;
  return true;
}

void Session::set_cursor(std::uint32_t events) {
  cursor_follows_ = false;
  selection.cursor = std::min(events, document_->event_count());
}

void Session::next_axis() { axis_ = static_cast<AxisBy>((static_cast<std::size_t>(axis_) + 1) % axis_words.size()); }

void Session::next_heap() {
  const auto now = std::ranges::find(document_->heaps, selection.heap, &HeapSeries::heap);
  if (now == document_->heaps.end()) return;
  const auto next = std::next(now) == document_->heaps.end() ? document_->heaps.begin() : std::next(now);
  selection.heap = next->heap;
  set_cursor(next->peak_live_event);
}

}  // namespace memreel::viewer::terminal
