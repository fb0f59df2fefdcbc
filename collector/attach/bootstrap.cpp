// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/bootstrap.h"

#include <algorithm>
#include <cstring>

#include "collector/attach/processor.h"

namespace memreel::attach {
namespace {

template <class T>
void put(std::vector<std::byte>& page, std::size_t offset, const T& value) {
  std::memcpy(page.data() + offset, &value, sizeof value);
}

}  // namespace

WayBack make_way_back(const ThreadState& thread, std::uint64_t handlers_return) {
  constexpr std::uint64_t alignment = 64;
  const auto [red_zone, pushed_return] = stack_rules();
  const std::size_t size = frame_size(thread);
  WayBack way{.bytes = {},
              .address = (stack_pointer(thread.registers) - red_zone - size - alignment) / alignment * alignment};
  way.address += alignment - pushed_return;
  way.bytes.resize(pushed_return + size);
  if (pushed_return != 0) put(way.bytes, 0, handlers_return);
  put_frame(way.bytes, pushed_return, way.address + pushed_return, thread);
  return way;
}

Bootstrap make_bootstrap(std::uint64_t address, const BootstrapFunctions& functions, const ThreadState& thread,
                         const std::string& library, const std::string& visit) {
  constexpr std::size_t frame_at = (sizeof(PageLayout) + 63) / 64 * 64;
  Bootstrap bootstrap;
  bootstrap.page.resize(Bootstrap::page_size);
  put_frame(bootstrap.page, frame_at, address + frame_at, thread);

  PageLayout layout{};
  layout.pthread_create = functions.pthread_create;
  layout.dlopen = functions.dlopen;
  layout.dlsym = functions.dlsym;
  layout.dlerror = functions.dlerror;
  layout.errno_location = functions.errno_location;
  layout.page = address;
  layout.size = Bootstrap::page_size;
  layout.loader = address + offsetof(PageLayout, loading);
  layout.frame = address + frame_at;
  layout.patience[0] = 1;
  visit.copy(layout.visit.data(), layout.visit.size() - 1);
  library.copy(layout.library.data(), layout.library.size() - 1);
  const BootstrapCode code = bootstrap_code();
  std::ranges::copy(code.bootstrap, layout.bootstrap.begin());
  std::ranges::copy(code.loading, layout.loading.begin());
  put(bootstrap.page, 0, layout);

  bootstrap.entry = address + offsetof(PageLayout, bootstrap);
  bootstrap.stack = address + Bootstrap::page_size;
  bootstrap.argument = address;
  bootstrap.news = address + offsetof(PageLayout, news);
  bootstrap.released = address + Bootstrap::released_at;
  return bootstrap;
}

namespace {

constexpr int rank_of_running = 3;

bool may_hold_locks(const Mapping& mapping) {
  const std::string_view file = mapping.file();
  for (const std::string_view name :
       {"libc.so", "libc-2.", "ld-linux", "ld-2.", "libpthread", "libdl", "libmemreel-agent"})
    if (file.starts_with(name)) return true;
  // jemalloc, tcmalloc, mimalloc...; sanitizers
  return file.find("malloc") != std::string_view::npos || file.find("san.so") != std::string_view::npos;
}

}  // namespace

SafePlaces::SafePlaces(const RemoteProcess& process)
    : process_(&process), mappings_(process.mappings()), handlers_return_(find_handlers_return(process, mappings_)) {}

std::vector<pid_t> SafePlaces::candidates() const {
  std::vector<std::pair<int, pid_t>> ranked;
  for (const pid_t thread : threads_of(process_->number())) {
    // A thread in uninterruptible sleep (D) would hold us up.
    const std::string stat = read_proc(process_->number(), "task/" + std::to_string(thread) + "/stat").value_or("");
    if (const std::size_t name_end = stat.rfind(')');
        name_end == std::string::npos || stat.compare(name_end, 3, ") D") == 0)
      continue;
    // "running", or the number of the call and its arguments; "-1 ..." in a page fault and the like.
    const std::string call = read_proc(process_->number(), "task/" + std::to_string(thread) + "/syscall").value_or("");
    if (call.starts_with("running") || call.starts_with("-1")) {
      ranked.emplace_back(rank_of_running, thread);
    } else if (!call.empty()) {
      if (const auto rank = rank_of_call(std::atol(call.c_str()))) ranked.emplace_back(*rank, thread);
    }
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<int, pid_t>::first);
  std::vector<pid_t> threads;
  for (const auto& [rank, thread] : ranked) threads.push_back(thread);
  return threads;
}

bool SafePlaces::is_safe(const user_regs_struct& registers) const {
  const std::uint64_t at = program_counter(registers);
  const auto place = std::ranges::find_if(mappings_, [&](const Mapping& m) { return m.begin <= at && at < m.end; });
  if (const auto call = call_of(*process_, registers)) {
    // The loader makes its own calls with its lock held.
    const bool in_loader = place != mappings_.end() && place->file().starts_with("ld-");
    if (in_loader || !rank_of_call(*call)) return false;
  } else if (place == mappings_.end() || may_hold_locks(*place)) {
    return false;
  }
  return !is_in_handler(registers);
}

/// The frame may be left over from a handler that has returned: then another thread is tried.
bool SafePlaces::is_in_handler(const user_regs_struct& registers) const {
  constexpr std::size_t looked_at = 32U << 10U, step = 4096;
  if (handlers_return_ == 0) return false;
  if (without_signature(link_register(registers)) == handlers_return_) return true;
  const std::uint64_t low = stack_pointer(registers);
  std::array<std::byte, step> part{};
  for (std::uint64_t at = low & ~7ULL; at < low + looked_at; at += step) {
    // Whole pages: the one after the last may be unmapped.
    const std::size_t size = std::min<std::uint64_t>(step, (at | (step - 1)) + 1 - at);
    if (!process_->read(at, std::span(part).first(size))) return false;
    for (std::size_t i = 0; i + 8 <= size; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, part.data() + i, sizeof word);
      if (without_signature(word) == handlers_return_) return true;
    }
    at -= step - size;
  }
  return false;
}

}  // namespace memreel::attach
