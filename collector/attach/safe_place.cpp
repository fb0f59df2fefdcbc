#include "collector/attach/safe_place.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "collector/attach/process.h"

namespace memreel::attach {
namespace {

/// How suitable a call is to be interrupted; none: it could not be restarted, or a lock may be held during it.
std::optional<int> rank_of_call(long call) {
  switch (call) {
    case SYS_poll:
    case SYS_ppoll:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_select:
    case SYS_pselect6:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_restart_syscall:
      return 0;
    case SYS_futex:
      return 1;
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return 2;
    default:
      return std::nullopt;
  }
}

constexpr int rank_of_running = 3;

bool may_hold_locks(const Mapping& mapping) {
  const std::string_view file = mapping.file();
  for (const std::string_view name :
       {"libc.so", "libc-2.", "ld-linux", "ld-2.", "libpthread", "libdl", "libmemreel-agent"})
    if (file.starts_with(name)) return true;
  // jemalloc, tcmalloc, mimalloc...; sanitizers
  return file.find("malloc") != std::string_view::npos || file.find("san.so") != std::string_view::npos;
}

/// The address of the C library's code "mov rax, SYS_rt_sigreturn; syscall"; 0 if not found.
std::uint64_t find_handlers_return(const RemoteProcess& process, std::span<const Mapping> mappings) {
  constexpr std::array<unsigned char, 9> wanted{0x48, 0xC7, 0xC0, 0x0F, 0, 0, 0, 0x0F, 0x05};
  for (const Mapping& mapping : mappings) {
    if (!mapping.executable || !(mapping.file().starts_with("libc.so") || mapping.file().starts_with("libc-2.")))
      continue;
    std::vector<std::byte> code(mapping.end - mapping.begin);
    if (!process.read(mapping.begin, code)) continue;
    const auto found = std::search(code.begin(), code.end(), wanted.begin(), wanted.end(),
                                   [](std::byte a, unsigned char b) { return std::to_integer<unsigned char>(a) == b; });
    if (found != code.end()) return mapping.begin + static_cast<std::uint64_t>(found - code.begin());
  }
  return 0;
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
  const auto place = std::ranges::find_if(
      mappings_, [&](const Mapping& m) { return m.begin <= registers.rip && registers.rip < m.end; });
  const bool in_call = static_cast<std::int64_t>(registers.orig_rax) >= 0;
  if (in_call) {
    // The loader makes its own calls with its lock held.
    const bool in_loader = place != mappings_.end() && place->file().starts_with("ld-");
    if (in_loader || !rank_of_call(static_cast<long>(registers.orig_rax))) return false;
  } else if (place == mappings_.end() || may_hold_locks(*place)) {
    return false;
  }
  return !is_in_handler(registers.rsp);
}

/// The frame may be left over from a handler that has returned: then another thread is tried.
bool SafePlaces::is_in_handler(std::uint64_t stack_pointer) const {
  constexpr std::size_t looked_at = 32U << 10U, step = 4096;
  if (handlers_return_ == 0) return false;
  std::array<std::byte, step> part{};
  for (std::uint64_t at = stack_pointer & ~7ULL; at < stack_pointer + looked_at; at += step) {
    // Whole pages: the one after the last may be unmapped.
    const std::size_t size = std::min<std::uint64_t>(step, (at | (step - 1)) + 1 - at);
    if (!process_->read(at, std::span(part).first(size))) return false;
    for (std::size_t i = 0; i + 8 <= size; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, part.data() + i, sizeof word);
      if (word == handlers_return_) return true;
    }
    at -= step - size;
  }
  return false;
}

}  // namespace memreel::attach
