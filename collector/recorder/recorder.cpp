// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/recorder.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "collector/recorder/own_thread.h"
#include "collector/stacks/nap.h"

namespace memreel::agent {
namespace {

std::atomic<Recorder*> current = nullptr;      // NOLINT: hooks have no other way to find it
std::atomic<Recorder*> early = nullptr;        // NOLINT: likewise
std::atomic<Recorder* (*)()> maker = nullptr;  // NOLINT: likewise
std::atomic<std::uint64_t> recorders = 0;      // NOLINT: how many there were

/// The calling thread's ring, and the number of the recorder it belongs to: there is a new one after each stop, and in
/// each forked child.
struct OwnRing {
  std::uint64_t recorder;
  ThreadRing* ring;
  bool busy;  // with a record or a stack, which a signal handler would find half done
};
// Initial-exec: no allocation at a thread's first access. The C library keeps room for that in every thread.
[[gnu::tls_model("initial-exec")]] constinit thread_local OwnRing own_ring{};  // NOLINT

/// True for the outermost one in its thread.
class Turn {
 public:
  Turn() : is_first_(!own_ring.busy) {
    own_ring.busy = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (is_first_) own_ring.busy = false;
  }
  explicit operator bool() const { return is_first_; }

 private:
  bool is_first_;
};

/// Releases the ring when its thread ends.
pthread_key_t ring_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    ::pthread_key_create(&made, [](void* ring) {
      own_ring = {};
      static_cast<ThreadRing*>(ring)->release();
    });
    return made;
  }();
  return key;
}

/// A chain of Python frames as a word of a stack: no native frame or stretch has both upper bits (see unwind.h).
constexpr std::uint64_t word_of_chain(std::uint64_t number) { return 3ULL << 62U | number; }

/// Measures a sample of what is done during its lifetime.
class CostSample {
 public:
  CostSample(ThreadRing& ring, const Clock& clock) : ring_(ring.is_sample() ? &ring : nullptr), clock_(&clock) {
    if (ring_ != nullptr) start_ = clock.ticks();
  }
  CostSample(const CostSample&) = delete;
  CostSample& operator=(const CostSample&) = delete;
  ~CostSample() {
    if (ring_ != nullptr) ring_->add_cost(ThreadRing::sample_period * (clock_->ticks() - start_));
  }

 private:
  ThreadRing* ring_;
  const Clock* clock_;
  std::uint64_t start_ = 0;
};

}  // namespace

[[gnu::hot]] Recorder* recorder() { return current.load(std::memory_order_acquire); }
void set_recorder(Recorder* recorder) { current.store(recorder, std::memory_order_release); }

Recorder* recorder_for_annotations() {
  if (Recorder* const there = recorder()) return there;
  if (Recorder* const there = early.load(std::memory_order_acquire)) return there;
  Recorder* (*const make)() = maker.load(std::memory_order_acquire);
  return make != nullptr ? make() : nullptr;
}
void set_early_recorder(Recorder* recorder) { early.store(recorder, std::memory_order_release); }
void set_maker_of_recorders(Recorder* (*make)()) { maker.store(make, std::memory_order_release); }

Recorder::Recorder(const Options& options, stacks::CodeMap::Source code)
    : number_(++recorders),
      ring_events_(options.ring_events),
      depth_(options.depth),
      when_full_(options.when_full),
      unwinder_(code) {
  ring_key();
  names();
}

InternedBytes& Recorder::names() {
  static InternedBytes& names = *new InternedBytes(1U << 16U, std::size_t{16} << 20U);  // NOLINT: threads may be in it
  return names;
}

inline ThreadRing* Recorder::ring_of_thread() { return own_ring.recorder == number_ ? own_ring.ring : begin_thread(); }

ThreadRing* Recorder::begin_thread() {
  ThreadRing* const ring = take_ring();
  if (ring == nullptr) return nullptr;
  // The ring's new owner is recorded first, or its records would be attributed to the previous thread.
  if (!await_room(*ring)) {
    ring->release();
    return nullptr;
  }
  own_ring.recorder = number_;
  own_ring.ring = ring;
  ::pthread_setspecific(ring_key(), ring);
  ring->capture().bounds = {};
  ring->begin(sequence_.load(std::memory_order_relaxed));
  const auto thread = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  ring->take_over(thread);
  ring->push({.object = thread, .kind = RecordKind::thread_began}, stacks::StackKey::none,
             sequence_.fetch_add(1, std::memory_order_acq_rel), clock_.ticks());
  return ring;
}

/// A ring that a thread released, or a new one. Null if there is no memory.
ThreadRing* Recorder::take_ring() {
  for (ThreadRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next)
    if (ring->acquire()) return ring;
  ThreadRing* const ring = ThreadRing::create(ring_events_, depth_);
  if (ring == nullptr) return nullptr;
  ring->next = rings_.load(std::memory_order_relaxed);
  while (!rings_.compare_exchange_weak(ring->next, ring, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return ring;
}

inline bool Recorder::await_room(ThreadRing& ring) { return ring.has_room() || wait_for_room(ring); }

bool Recorder::wait_for_room(ThreadRing& ring) {
  while (!ring.has_room()) {
    if (!attended_.load(std::memory_order_acquire)) {
      if (!set_aside()) return false;
      continue;
    }
    if (when_full_ == WhenFull::drop || is_confined() || !open_.load(std::memory_order_acquire)) return false;
    wakeup_.wake();
    stacks::nap(std::chrono::microseconds(50));
  }
  return true;
}

/// Makes room before draining starts. False if it can't.
bool Recorder::set_aside() {
  constexpr std::size_t most = 1U << 20U;
  if (setting_aside_.test_and_set(std::memory_order_acquire)) {
    stacks::nap(std::chrono::microseconds(50));
    return true;
  }
  bool done = attended_.load(std::memory_order_acquire);
  if (!done && aside_.size() < most) try {
      drain(aside_);
      done = true;
    } catch (const std::bad_alloc&) {  // the program's call continues without
    }
  setting_aside_.clear(std::memory_order_release);
  return done;
}

void Recorder::attend() {
  while (setting_aside_.test_and_set(std::memory_order_acquire)) stacks::nap(std::chrono::microseconds(50));
  attended_.store(true, std::memory_order_release);
  setting_aside_.clear(std::memory_order_release);
}

std::uint64_t Recorder::refuse() {
  if (counts_refused_.load(std::memory_order_acquire)) lost_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

template <class StackOf>
inline std::uint64_t Recorder::emit_with(const Record& record, StackOf stack_of) {
  if (!open_.load(std::memory_order_relaxed)) return refuse();
  const Turn turn;
  ThreadRing* const ring = turn ? ring_of_thread() : nullptr;
  if (ring == nullptr) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  const CostSample sample(*ring, clock_);
  return put(*ring, record, stack_of(*ring));
}

[[gnu::hot]] std::uint64_t Recorder::emit(const Record& record) {
  return emit_with(record, [&](ThreadRing&) { return record.stack; });
}

[[gnu::hot]] std::uint64_t Recorder::emit_with_stack(const Record& record) {
  return emit_with(record, [this](ThreadRing& ring) { return capture(ring); });
}

stacks::StackKey Recorder::capture_stack() {
  if (!open_.load(std::memory_order_relaxed)) return stacks::StackKey::none;
  const Turn turn;
  ThreadRing* const ring = turn ? ring_of_thread() : nullptr;
  if (ring == nullptr) return stacks::StackKey::none;
  const CostSample sample(*ring, clock_);
  return capture(*ring);
}

inline std::uint64_t Recorder::put(ThreadRing& ring, const Record& record, stacks::StackKey stack) {
  if (!await_room(ring)) {
    ring.lose();
    return 0;
  }
  // Announced before the number is drawn: a reader that sees a higher number drawn also sees the announcement.
  ring.begin(sequence_.load(std::memory_order_relaxed));
  const std::uint64_t sequence = sequence_.fetch_add(1, std::memory_order_acq_rel);
  const std::uint64_t ticks = record.time != 0 ? static_cast<std::uint64_t>(record.time) : clock_.ticks();
  if (ring.push(record, stack, sequence, ticks)) wakeup_.wake();
  return sequence;
}

/// Not inlined, so that all stacks begin with the same frame, whoever the caller is.
[[gnu::hot, gnu::noinline]] stacks::StackKey Recorder::capture(ThreadRing& ring) {
  if (depth_ == 0) return stacks::StackKey::none;
  CaptureState& state = ring.capture();
  const PythonFrames* const frames = python_.load(std::memory_order_acquire);
  const std::uint64_t chain = frames != nullptr ? frames->walk(*state.chain) : 0;
  if (chain != 0) state.by_chain->expect(chain);
  const stacks::Walked native = unwinder_.unwind(state.bounds, *state.walks, state.native, state.words);
  if (native.known != nullptr) {
    const stacks::StackKey key =
        chain == 0 ? native.known->stack() : state.by_chain->find(chain, native.known->number());
    if (key != stacks::StackKey::none) return key;
  }
  std::span<std::uint64_t> words = state.words.first(native.words + (chain != 0 ? 1 : 0));
  if (chain != 0) words.back() = word_of_chain(chain);
  const auto place = stacks::RecentStacks::bucket_of(words);
  stacks::StackKey key = state.recent->find(place, words);
  if (key == stacks::StackKey::none) {
    state.walks->write_frames(native, state.native);
    key = insert(state, native.frames, chain != 0 ? frames : nullptr);
    if (key != stacks::StackKey::none) state.recent->put(place, words, key);
  }
  if (native.known != nullptr && key != stacks::StackKey::none) {
    if (chain == 0)
      native.known->set_stack(key);
    else
      state.by_chain->put(chain, native.known->number(), key);
  }
  return key;
}

/// A stack that is not recent: `native` frames, plus those that `frames` walked, if any.
stacks::StackKey Recorder::insert(CaptureState& state, std::size_t native, const PythonFrames* frames) {
  const std::size_t python = frames != nullptr ? frames->frames(*state.chain, state.python) : 0;
  if (python == 0) return stacks_.insert(state.native.first(native));
  const std::size_t merged = stacks::merge(state.native.first(native), state.python.first(python), frames->evaluator(),
                                           frames->plumbing(), state.merged);
  return stacks_.insert(state.merged.first(merged));
}

MemoryUsage Recorder::ask_usage(Usage::Peaks peaks) {
  constexpr std::chrono::seconds limit{5};
  if (!open_.load(std::memory_order_acquire) || !attended_.load(std::memory_order_acquire)) return {};
  return usage_.ask(sequence_.load(std::memory_order_acquire), peaks, limit, [this] { wake(); });
}

void Recorder::ask_flush() {
  if (!attended_.load(std::memory_order_acquire) || is_confined()) return;
  const std::uint64_t upto = sequence_.load(std::memory_order_acquire);
  std::uint64_t asked = flush_asked_.load(std::memory_order_relaxed);
  while (asked < upto && !flush_asked_.compare_exchange_weak(asked, upto, std::memory_order_acq_rel)) {
  }
  wake();
  const auto is_over = [&] {
    return flushed_.load(std::memory_order_acquire) >= upto || !open_.load(std::memory_order_acquire);
  };
  stacks::nap_until(is_over, std::chrono::seconds(5));
}

void Recorder::drain(std::vector<Record>& batch, Draining how) {
  if (&batch != &aside_ && !aside_.empty()) {
    batch.insert(batch.end(), aside_.begin(), aside_.end());
    std::vector<Record>().swap(aside_);
  }
  // Numbers below `limit` were drawn before now. Those still in progress are announced in their rings, which are all in
  // the list by now.
  std::uint64_t limit = sequence_.load(std::memory_order_acquire);
  ThreadRing* const rings = rings_.load(std::memory_order_acquire);
  if (how == Draining::in_order)
    for (ThreadRing* ring = rings; ring != nullptr; ring = ring->next) limit = std::min(limit, ring->entering());

  drained_ = limit;

  clock_.adjust();
  const std::size_t before = batch.size();
  for (ThreadRing* ring = rings; ring != nullptr; ring = ring->next)
    ring->take_below(limit, clock_, [&](const Record& record) { batch.push_back(record); });
  const auto begin = batch.begin() + static_cast<std::ptrdiff_t>(before);
  const auto earlier = [](const Record& a, const Record& b) { return a.sequence < b.sequence; };
  if (!std::is_sorted(begin, batch.end(), earlier)) std::sort(begin, batch.end(), earlier);
}

void Recorder::rest() {
  for (ThreadRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next)
    ring->give_back_pages();
}

bool Recorder::reopen(const Options& options) {
  const bool fits = options.ring_events == ring_events_ && options.depth == depth_ && options.when_full == when_full_;
  if (!fits || stacks_.size() > stacks::StackTree::default_capacity / 2) return false;
  std::vector<Record> left;
  drain(left, Draining::everything);
  for (ThreadRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next)
    ring->ask_whose_it_is();
  // Other code may have been loaded meanwhile at addresses with cached unwind rules.
  unwinder_.forget();
  usage_.forget();
  set_python(nullptr);
  counts_refused_.store(false, std::memory_order_release);
  open_.store(true, std::memory_order_release);
  return true;
}

std::uint64_t Recorder::lost() const {
  std::uint64_t lost = lost_.load(std::memory_order_relaxed);
  for (ThreadRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next)
    lost += ring->lost();
  return lost;
}

std::uint64_t Recorder::cost_ns() const {
  std::uint64_t cost = 0;
  for (ThreadRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next)
    cost += ring->cost_ticks();
  return clock_.duration(cost);
}

std::size_t Recorder::ring_count() const {
  std::size_t count = 0;
  for (ThreadRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next) ++count;
  return count;
}

}  // namespace memreel::agent
