// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/out_of_memory.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <unordered_set>

#include "analyzer/analysis/category/frame_rules.h"

namespace memreel {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);
constexpr std::size_t least_common = 4;   // requests before the failed one that an earlier step must have made as well
constexpr std::size_t most_rounds = 256;  // earlier steps to compare, the latest ones

/// A request of the history.
struct Request {
  std::size_t row = 0;
  std::uint64_t key = 0;  // where it was made; its size if the history has no stacks
  Bytes size;
  Bytes live_before;    // requested bytes
  Bytes lowest_before;  // since the request before it
};

/// The requests of a heap up to the failed one, which is the last.
struct Requests {
  std::vector<Request> all;
  std::vector<std::size_t> live, pending;  // what is allocated at the failure, and what is awaiting free
};

Requests requests_of(const Trace& trace, const Prepared& heap, std::size_t failed_row) {
  Requests requests;
  const bool has_stacks =
      std::ranges::any_of(heap.event, [&](std::uint32_t event) { return trace.events.stack(event) != StackId::none; });
  std::vector<std::size_t> live_in(heap.slot_count + 1, none), pending_in(heap.slot_count + 1, none);  // by slot
  Bytes live, lowest;
  for (std::size_t row = 0; row <= failed_row; ++row) {
    const Op op = heap.op[row];
    if (op == Op::alloc || row == failed_row) {
      const StackId stack = trace.events.stack(heap.event[row]);
      // A backward pass runs on threads without Python: its requests are alike, and only their number counts.
      const std::uint64_t key = has_stacks ? index(stack) : heap.size[row].count;
      requests.all.push_back({.row = row,
                              .key = key,
                              .size = heap.size[row],
                              .live_before = live,
                              .lowest_before = std::min(live, lowest)});
      if (op == Op::alloc) {
        live_in[heap.slot[row]] = requests.all.size() - 1;
        live += heap.size[row];
      }
      lowest = live;
    } else if (op == Op::free || op == Op::free_requested) {
      live -= heap.size[row];
      lowest = std::min(lowest, live);
      const std::size_t ended = std::exchange(live_in[heap.slot[row]], none);
      if (op == Op::free_requested) pending_in[heap.slot[row]] = ended;
    } else if (op == Op::free_completed) {
      pending_in[heap.slot[row]] = none;
    }
  }
  const auto is_one = [](std::size_t request) { return request != none; };
  std::ranges::copy_if(live_in, std::back_inserter(requests.live), is_one);
  std::ranges::copy_if(pending_in, std::back_inserter(requests.pending), is_one);
  return requests;
}

/// For each request, how many before it and including it are from the same places as the last ones: a Z function.
std::vector<std::size_t> common_runs(const std::vector<Request>& requests) {
  const std::size_t n = requests.size();
  const auto key = [&](std::size_t i) { return requests[n - 1 - i].key; };  // backwards
  std::vector<std::size_t> z(n, 0);
  for (std::size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && key(z[i]) == key(i + z[i])) ++z[i];
    if (i + z[i] > right) left = i, right = i + z[i];
  }
  std::ranges::reverse(z);
  return z;
}

/// Whether live memory rose and fell between two requests, as over a whole step: not only one of both.
bool is_whole_round(const std::vector<Request>& requests, std::size_t from, std::size_t to) {
  Bytes lowest = requests[to].lowest_before, highest = requests[to].live_before;
  for (std::size_t i = from + 1; i < to; ++i) {
    lowest = std::min(lowest, requests[i].lowest_before);
    highest = std::max(highest, requests[i].live_before);
  }
  const Bytes before = requests[from].live_before, now = requests[to].live_before;
  const Bytes slack = Bytes{(highest - std::min(lowest, highest)).count / 50} + 1_MiB;
  const bool only_rises = lowest + slack >= before && now > before + slack;
  const bool only_falls = lowest + slack >= now && before > now + slack;
  return !only_rises && !only_falls;
}

/// The last request at which live memory was lowest since `from`: where the current step began.
std::size_t begin_of_step(const std::vector<Request>& requests, std::size_t from, std::size_t to) {
  std::size_t begin = from + 1;
  for (std::size_t i = from + 1; i <= to; ++i)
    if (requests[i].lowest_before <= requests[begin].lowest_before) begin = i;
  return begin;
}

/// Whether live memory grew from each of these requests (descending) to the next.
bool grows_throughout(const std::vector<Request>& requests, const std::vector<std::size_t>& points) {
  constexpr std::size_t least_telling = 6;
  const auto stays = [&](std::size_t later, std::size_t earlier) {
    return requests[later].live_before <= requests[earlier].live_before;
  };
  return points.size() >= least_telling && std::ranges::adjacent_find(points, stays) == points.end();
}

/// Whether the program trains, and its optimizer has not run yet: it makes its state in its first pass, which steps
/// before that do not show. Stacks of the backward pass have no Python frames, or those that started it.
bool awaits_optimizer(std::span<const StackMeaning> stacks, const std::vector<Request>& requests) {
  const bool trains = std::ranges::find(requests, index(StackId::none), &Request::key) != requests.end() ||
                      std::ranges::find(stacks, Phase::backward, &StackMeaning::phase) != stacks.end();
  return trains && std::ranges::none_of(stacks, [](const StackMeaning& stack) {
           return stack.phase == Phase::optimizer && stack.purpose != Purpose::zero_grad;
         });
}

/// Whether steps keep something, as gradients that are accumulated: this one, of `count` requests so far, began with
/// more than the one that reached `earliest`.
bool keeps(const std::vector<Request>& requests, std::size_t earliest, std::size_t count) {
  const Bytes first = requests[earliest + 1 - count].lowest_before;
  return requests[requests.size() - count].lowest_before > first + Bytes{first.count / 100} + 1_MiB;
}

/// The first request in the newest of the pools and streams that the program has used.
std::size_t first_in_newest_pool_or_stream(const Prepared& heap, const std::vector<Request>& requests) {
  std::vector<bool> known(heap.pool_streams.size(), false);
  std::size_t newest = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::uint32_t pool_stream = heap.pool_stream[requests[i].row];
    if (!known[pool_stream]) newest = i;
    known[pool_stream] = true;
  }
  return newest;
}

/// The bytes of the last `count` requests up to `i`.
Bytes asked(const std::vector<Request>& requests, std::size_t i, std::size_t count) {
  Bytes sum;
  for (std::size_t k = i + 1 - count; k <= i; ++k) sum += requests[k].size;
  return sum;
}

double ratio(Bytes a, Bytes b) { return static_cast<double>(a.count) / static_cast<double>(std::max(b, 1_B).count); }

Bytes part(double share, Bytes whole) {
  return Bytes{static_cast<std::uint64_t>(std::max(0.0, share) * static_cast<double>(whole.count))};
}

/// This step's sizes for an earlier step's.
class Sizes {
 public:
  /// `requests[first]` to the last one are this step's; `period` before them the earlier one's, which asked 1 /
  /// `growth` of this one.
  Sizes(const Requests& requests, std::size_t first, std::size_t period, double growth) : growth_(growth) {
    const std::vector<Request>& all = requests.all;
    for (std::size_t i = first; i < all.size(); ++i) {
      Bytes& now = now_[all[i - period].size];
      now = std::max(now, all[i].size);
    }
    for (const std::size_t live : requests.live)
      if (live < first) from_before_.insert(all[live].size.count);
  }

  Bytes of(Bytes earlier) const {
    // Smaller ones are counters and scalars.
    if (earlier < 64_KiB || from_before_.contains(earlier.count)) return earlier;
    const auto found = now_.find(earlier);
    // Requests that correspond only by their number are not alike.
    const bool telling = found != now_.end() && ratio(found->second, earlier) <= 2 * std::max(1.0, growth_) &&
                         ratio(earlier, found->second) <= 2 / std::min(1.0, growth_);
    return telling ? found->second : part(growth_, earlier);
  }

 private:
  std::map<Bytes, Bytes> now_;
  double growth_;
  std::unordered_set<std::uint64_t> from_before_;
};

/// Appends what an earlier step did after the point, to the failed request as if it had been served.
class Continuation {
 public:
  /// `earlier`: the request of that step that corresponds to the failed one; `common`: how many requests before both
  /// are from the same places.
  Continuation(const Prepared& from, const Requests& requests, std::size_t earlier, std::size_t common,
               const Sizes& sizes, Prepared& to)
      : from_(from), requests_(requests), earlier_(earlier), common_(common), sizes_(sizes), to_(to) {
    state_.assign(requests.all.size(), State::done);
    for (const std::size_t live : requests.live) state_[live] = State::live;
    for (const std::size_t pending : requests.pending) state_[pending] = State::pending;
    slot_of_.assign(requests.all.size(), 0);
    for (std::size_t i = 0; i + 1 < requests.all.size(); ++i) slot_of_[i] = from.slot[requests.all[i].row];
    slot_of_.back() = to.slot_count - 1;
    state_.back() = State::live;
    live_ = requests.all.back().live_before + requests.all.back().size;
  }

  /// Rows of the earlier step up to the request `end`. Returns how far live memory rises.
  Bytes append(std::size_t end) {
    const Bytes before = live_;
    Bytes most = live_;
    std::map<std::uint32_t, std::size_t> by_slot;  // of the earlier history: the request that has the slot
    for (std::size_t i = 0; i <= earlier_; ++i) by_slot[from_.slot[requests_.all[i].row]] = i;
    std::size_t request = earlier_;
    for (std::size_t row = requests_.all[earlier_].row + 1; row < requests_.all[end].row; ++row) {
      const Op op = from_.op[row];
      if (op == Op::alloc) {
        by_slot[from_.slot[row]] = ++request;
        const Bytes size = sizes_.of(from_.size[row]);
        slots_[request] = to_.slot_count;
        sizes_of_[request] = size;
        states_[request] = State::live;
        live_ += size;
        most = std::max(most, live_);
        push(op, to_.slot_count++, from_.pool_stream[row], size);
      } else if (op == Op::free || op == Op::free_requested || op == Op::free_completed) {
        if (const auto found = by_slot.find(from_.slot[row]); found != by_slot.end()) end_of(op, found->second, row);
      } else if (op != Op::alloc_failed) {
        push(op, from_.slot[row], from_.pool_stream[row], {});
      }
    }
    return most - before;
  }

 private:
  enum class State : std::uint8_t { done, live, pending };

  /// The earlier step freed its request number `i`: so does this step with the one that corresponds to it.
  void end_of(Op op, std::size_t i, std::size_t row) {
    if (i > earlier_) return end_of(op, states_[i], slots_[i], sizes_of_[i], row);
    const std::size_t last = requests_.all.size() - 1;
    if (earlier_ - i >= common_) return;  // older than what corresponds
    const std::size_t mine = i + (last - earlier_);
    end_of(op, state_[mine], slot_of_[mine], requests_.all[mine].size, row);
  }

  void end_of(Op op, State& state, std::uint32_t slot, Bytes size, std::size_t row) {
    if (state == State::done || (state == State::pending && op == Op::free_requested)) return;
    if (state == State::live) live_ -= size;
    const Op done = state == State::pending ? Op::free_completed : op == Op::free_completed ? Op::free : op;
    state = done == Op::free_requested ? State::pending : State::done;
    push(done, slot, from_.pool_stream[row], size);
  }

  void push(Op op, std::uint32_t slot, std::uint32_t pool_stream, Bytes size) {
    to_.op.push_back(op);
    to_.slot.push_back(slot);
    to_.pool_stream.push_back(pool_stream);
    to_.size.push_back(size);
    to_.event.push_back(to_.event.back() + 1);
    if (to_.keeps_addresses) to_.address.push_back({});
  }

  const Prepared& from_;
  const Requests& requests_;
  std::size_t earlier_, common_;
  const Sizes& sizes_;
  Prepared& to_;
  Bytes live_;
  std::vector<State> state_;                    // of the history's requests
  std::vector<std::uint32_t> slot_of_;          // likewise
  std::map<std::size_t, std::uint32_t> slots_;  // of the appended ones, by the earlier step's number
  std::map<std::size_t, Bytes> sizes_of_;
  std::map<std::size_t, State> states_;
};

std::size_t row_of(const Prepared& heap, std::uint32_t event) {
  for (std::size_t row = heap.count(); row-- > 0;)
    if (heap.op[row] == Op::alloc_failed && heap.event[row] == event) return row;
  return none;
}

/// The failed request alone, as if served.
Prepared served_request(const Prepared& heap, std::size_t row) {
  Prepared request{.op = {Op::alloc},
                   .slot = {heap.slot_count},
                   .pool_stream = {heap.pool_stream[row]},
                   .size = {heap.size[row]},
                   .event = {heap.event[row]},
                   .slot_count = heap.slot_count + 1,
                   .keeps_addresses = heap.keeps_addresses};
  if (heap.keeps_addresses) request.address = {heap.address[row]};
  return request;
}

}  // namespace

Prepared with_request_served(const Prepared& heap, std::uint32_t event) {
  Prepared served = heap;
  const std::size_t row = row_of(heap, event);
  if (row == none) return served;
  const auto cut = [&](auto& column) { column.resize(std::min(column.size(), row + 1)); };
  cut(served.op);
  cut(served.slot);
  cut(served.pool_stream);
  cut(served.size);
  cut(served.event);
  cut(served.address);
  std::erase_if(served.step_ends, [&](std::uint32_t end) { return end > row; });
  served.op.back() = Op::alloc;
  served.slot.back() = served.slot_count++;
  return served;
}

Prepared with_rest(const Prepared& heap, std::uint32_t event, const RestOfStep& rest) {
  Prepared whole = with_request_served(heap, event);
  const auto append = [](auto& column, const auto& rows) {
    if (!rows.empty()) column.insert(column.end(), rows.begin() + 1, rows.end());  // the first is the request
  };
  append(whole.op, rest.rows.op);
  append(whole.slot, rest.rows.slot);
  append(whole.pool_stream, rest.rows.pool_stream);
  append(whole.size, rest.rows.size);
  append(whole.event, rest.rows.event);
  append(whole.address, rest.rows.address);
  whole.slot_count = rest.rows.slot_count;
  return whole;
}

std::optional<RestOfStep> rest_of_step(const Trace& trace, const Prepared& heap, std::uint32_t event,
                                       const std::function<const Activity&()>& activity) {
  const std::size_t row = row_of(heap, event);
  if (row == none) return std::nullopt;
  const Requests requests = requests_of(trace, heap, row);
  const std::vector<Request>& all = requests.all;
  const std::size_t last = all.size() - 1;
  const std::vector<std::size_t> common = common_runs(all);
  std::size_t longest = none;
  for (std::size_t i = 0; i < last; ++i)
    if (common[i] > least_common && (longest == none || common[i] >= common[longest])) longest = i;
  if (longest == none || !is_whole_round(all, longest, last)) return std::nullopt;

  const std::size_t begin = std::max(begin_of_step(all, longest, last), last + 1 - common[longest]);
  const std::size_t of_step = last - begin + 1;  // requests of this step
  std::vector<std::size_t> points;               // of earlier steps
  for (std::size_t i = longest + 1; i-- > 0 && points.size() < most_rounds;)
    if (common[i] >= of_step) points.push_back(i);
  if (grows_throughout(all, points)) return std::nullopt;
  if (keeps(all, points.back(), of_step) && awaits_optimizer(activity().stacks, all)) return std::nullopt;
  const Bytes now = asked(all, last, of_step);
  Bytes most, least = now;
  std::size_t nearest = points.front();
  double smallest = std::numeric_limits<double>::infinity();
  for (const std::size_t point : points) {
    const Bytes before = asked(all, point, of_step);
    most = std::max(most, before);
    least = std::min(least, before);
    if (const double apart = std::abs(std::log(ratio(now, before))); apart < smallest) {
      smallest = apart;
      nearest = point;
    }
  }
  std::size_t next = last;  // the same point of the step after that one
  for (const std::size_t point : points)
    if (point > nearest) next = std::min(next, point);

  RestOfStep rest{.rows = served_request(heap, row), .rounds = points.size(), .growth = ratio(now, most)};
  const Bytes live = all[last].live_before + all[last].size;
  const double spread = ratio(std::max(now, most), least) - 1;
  const Bytes held = live - std::min(live, all[begin].lowest_before);
  rest.margin = spread < 0.02 ? part(0.03, held) : std::max({part(0.07, held), part(0.05, live), part(spread, held)});
  const std::size_t newest = first_in_newest_pool_or_stream(heap, all);
  rest.settled_rounds = static_cast<std::uint64_t>(
      std::ranges::count_if(points, [&](std::size_t point) { return point + 1 - of_step >= newest; }));
  const Sizes sizes(requests, begin, last - nearest, ratio(now, asked(all, nearest, of_step)));
  rest.more = Continuation(heap, requests, nearest, common[nearest], sizes, rest.rows)
                  .append(std::max(nearest + 1, next + 1 - of_step));
  return rest;
}

}  // namespace memreel
