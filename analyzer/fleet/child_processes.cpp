// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/child_processes.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>

#include "formats/model/files.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

using Clock = std::chrono::steady_clock;

#ifdef MEMREEL_SANITIZED
constexpr bool can_limit_memory = false;  // their shadow memory takes terabytes of address space
#else
constexpr bool can_limit_memory = true;
#endif

constexpr int done_code = 0, out_of_memory_code = 3;

/// A child lives for one file, so what it frees it uses again: pages taken one by one, and given back between, are a
/// sixth of its time.
void keep_memory() {
#ifdef __GLIBC__
  constexpr int most = 1 << 30;
  constexpr std::size_t first = std::size_t{32} << 20U, huge_page = std::size_t{2} << 20U;
  mallopt(M_MMAP_THRESHOLD, most);
  mallopt(M_TRIM_THRESHOLD, most);
  mallopt(M_TOP_PAD, huge_page);
  void* const memory = std::malloc(first);
  if (memory == nullptr) return;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + huge_page - 1) / huge_page * huge_page;
  madvise(reinterpret_cast<void*>(begin), first - huge_page, MADV_HUGEPAGE);
  std::free(memory);
#endif
}

[[noreturn]] void be_child(std::size_t item, int pipe, Bytes most, pid_t parent,
                           const std::function<std::string(std::size_t)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  lift_memory_bound();
  if (can_limit_memory) {
    const rlimit memory{most.count, most.count};
    setrlimit(RLIMIT_AS, &memory);
  }
  if (can_limit_memory) keep_memory();
  int code = done_code;
  try {
    const std::string output = work(item);
    for (std::string_view rest = output; !rest.empty();) {
      const ssize_t written = write(pipe, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) _exit(1);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  } catch (const std::bad_alloc&) {
    code = out_of_memory_code;
  } catch (...) {
    code = 1;
  }
  _exit(code);
}

bool lacked_memory(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == out_of_memory_code; }

std::string failure_of(bool late, int status, const ChildLimits& limits, Bytes memory) {
  if (late) return "took longer than " + std::to_string(limits.time.count()) + " s to read";
  if (WIFEXITED(status) && WEXITSTATUS(status) == done_code) return "";
  if (lacked_memory(status)) return "takes more than " + text_of(memory) + " of memory to read";
  if (WIFSIGNALED(status)) return "reading it was ended by signal " + std::to_string(WTERMSIG(status));
  return "reading it failed";
}

}  // namespace

struct ChildPool::Child {
  std::size_t item = 0;
  pid_t process = -1;
  int pipe = -1;
  Bytes memory;
  Clock::time_point deadline;
  bool late = false;
  std::string output;
};

ChildPool::ChildPool(const ChildLimits& limits, std::function<std::string(std::size_t)> work,
                     std::function<void(std::size_t, ChildOutcome)> done,
                     std::function<std::uint64_t(std::size_t)> input)
    : limits_(limits),
      work_(std::move(work)),
      done_(std::move(done)),
      input_(std::move(input)),
      host_(limits.of_host > 0_B ? limits.of_host : usual_reader_memory()) {}

ChildPool::~ChildPool() {
  for (const Child& child : children_) {
    kill(child.process, SIGKILL);
    close(child.pipe);
    waitpid(child.process, nullptr, 0);
    host_.give_back(child.process);
  }
  if (!waiting_.empty()) host_.give_back(getpid());
}

std::size_t ChildPool::size() const { return children_.size() + waiting_.size(); }

Bytes ChildPool::most() const { return std::min(limits_.memory, host_.total()); }

void ChildPool::start(std::size_t item) {
  // Recordings take up to forty times their size; most take much less.
  constexpr std::uint64_t times = 64;
  Bytes memory = most();
  if (input_) memory = std::min(memory, 256_MiB + Bytes{std::min(input_(item), memory.count / times) * times});
  if (!waiting_.empty() || !run(item, memory)) waiting_.push_back({item, memory});
}

/// Returns false if the machine has no memory for it at present.
bool ChildPool::run(std::size_t item, Bytes memory) {
  const bool must = children_.empty();  // else this one's own children would wait for it
  if (!host_.take(memory, getpid(), must)) return false;
  std::array<int, 2> ends{-1, -1};
  std::fflush(nullptr);  // otherwise the child writes it again
  const pid_t parent = getpid();
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    const int problem = errno;
    host_.give_back(parent);
    done_(item, {.output = {}, .failure = "no pipe: " + std::generic_category().message(problem)});
    return true;
  }
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    be_child(item, ends[1], memory, parent, work_);
  }
  close(ends[1]);
  if (process < 0) {
    const int problem = errno;
    close(ends[0]);
    host_.give_back(parent);
    done_(item, {.output = {}, .failure = "no process: " + std::generic_category().message(problem)});
    return true;
  }
  host_.pass_on(parent, memory, process);
  children_.push_back(
      {.item = item, .process = process, .pipe = ends[0], .memory = memory, .deadline = Clock::now() + limits_.time});
  return true;
}

void ChildPool::wait(std::chrono::milliseconds most) {
  while (!waiting_.empty() && run(waiting_.front().item, waiting_.front().memory)) waiting_.pop_front();
  if (!waiting_.empty()) most = std::min(most, std::chrono::milliseconds(100));
  std::vector<pollfd> pipes;
  Clock::time_point next = Clock::now() + most;
  for (const Child& child : children_) {
    pipes.push_back({.fd = child.pipe, .events = POLLIN, .revents = 0});
    if (!child.late) next = std::min(next, child.deadline);
  }
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  poll(pipes.data(), pipes.size(), static_cast<int>(std::clamp<std::int64_t>(patience, 0, 60'000)));
  for (std::size_t i = children_.size(); i-- > 0;) {
    Child& child = children_[i];
    if (!child.late && Clock::now() >= child.deadline) {
      child.late = true;
      kill(child.process, SIGKILL);
    }
    if (pipes[i].revents != 0 && !read_some(child)) finish(i);
  }
}

/// Returns false at the end.
bool ChildPool::read_some(Child& child) {
  std::array<char, 65536> piece{};
  const ssize_t count = read(child.pipe, piece.data(), piece.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  child.output.append(piece.data(), static_cast<std::size_t>(count));
  return count > 0;
}

void ChildPool::finish(std::size_t i) {
  Child child = std::move(children_[i]);
  children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
  close(child.pipe);
  int status = 0;
  while (waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  host_.give_back(child.process);
  if (!child.late && lacked_memory(status) && child.memory < most()) {
    waiting_.push_front({child.item, most()});
    return;
  }
  done_(child.item,
        {.output = std::move(child.output), .failure = failure_of(child.late, status, limits_, child.memory)});
}

unsigned cores_within(const std::string& quota, unsigned cores) {
  std::istringstream words(quota);
  double time = 0, period = 0;
  if (!(words >> time >> period) || period <= 0 || time < 0) return cores;  // "max 100000": no quota
  return std::min(cores, std::max(1U, static_cast<unsigned>(std::min<double>(time / period, cores))));
}

unsigned readers_at_once() {
  unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    cores = std::min(cores, static_cast<unsigned>(std::max(1, CPU_COUNT(&allowed))));
  const Result<std::string> quota = read_whole_file("/sys/fs/cgroup/cpu.max");
  return quota ? cores_within(*quota, cores) : cores;
}

namespace {

/// This process needs a descriptor for each child, and a child some of its own for what it reads.
constexpr rlim_t descriptors_besides = 12;

unsigned most_children() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return ~0U;
  return static_cast<unsigned>(std::clamp<rlim_t>(limit.rlim_cur, descriptors_besides + 1, ~0U) - descriptors_besides);
}

}  // namespace

Result<void> may_have_children() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > descriptors_besides) return {};
  return Error{
      .what = "only " + std::to_string(limit.rlim_cur) + " files may be open at a time, too few to read a job's",
      .remedy = remedy_of_opening(EMFILE, {})};
}

void in_child_processes(std::size_t count, unsigned jobs, const ChildLimits& limits,
                        const std::function<std::string(std::size_t)>& work,
                        const std::function<void(std::size_t, ChildOutcome)>& done,
                        const std::function<std::uint64_t(std::size_t)>& input) {
  if (jobs == 0) jobs = readers_at_once();
  jobs = std::min(jobs, most_children());
  ChildPool pool(limits, work, done, input);
  for (std::size_t next = 0; next < count || pool.size() > 0;) {
    while (next < count && pool.size() < jobs) pool.start(next++);
    if (pool.size() > 0) pool.wait(std::chrono::minutes(1));
  }
}

namespace {

namespace fs = std::filesystem;

struct Entry {
  pid_t owner = 0;
  Bytes bytes;
  bool waits = false;  // for so much; it has nothing yet
};

fs::path usual_file() {
  // Numbers of processes mean the same only in one namespace of them.
  std::error_code problem;
  std::string names = fs::read_symlink("/proc/self/ns/pid", problem).string();
  std::erase_if(names, [](char c) { return c < '0' || c > '9'; });
  const fs::path shared =
      fs::is_directory("/dev/shm", problem) ? fs::path("/dev/shm") : fs::temp_directory_path(problem);
  return shared / ("memreel-fleet-" + std::to_string(::getuid()) + "-" + names);
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t count = 0; (count = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(text.size()))) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(count));
  return text;
}

std::vector<Entry> entries_in(const std::string& text) {
  std::vector<Entry> entries;
  std::istringstream lines(text);
  Entry entry;
  while (lines >> entry.owner >> entry.bytes.count >> entry.waits)
    if (::kill(entry.owner, 0) == 0 || errno != ESRCH) entries.push_back(entry);
  return entries;
}

std::string text_of(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries)
    text +=
        std::to_string(entry.owner) + " " + std::to_string(entry.bytes.count) + " " + (entry.waits ? "1" : "0") + "\n";
  return text;
}

}  // namespace

Bytes usual_reader_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  std::uint64_t bytes =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
  for (const char* const file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const Result<std::string> limit = read_whole_file(file);
    std::istringstream text(limit ? *limit : std::string());
    std::uint64_t most = 0;
    if (text >> most && most > 0) bytes = bytes == 0 ? most : std::min(bytes, most);
  }
  return {bytes == 0 ? std::uint64_t{1} << 62U : bytes / 5 * 4};
}

ReaderMemory::ReaderMemory(Bytes total, fs::path file)
    : total_(total), file_(file.empty() ? usual_file() : std::move(file)) {}

template <class Change>
bool ReaderMemory::change(Change change) const {
  constexpr int most_attempts = 100;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const int file = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return true;
    struct stat status {};
    const bool is_ours = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::getuid();
    bool granted = true, is_gone = false;
    if (is_ours && ::flock(file, LOCK_EX) == 0) {
      // Who had the list before may have removed it.
      is_gone = ::fstat(file, &status) == 0 && status.st_nlink == 0;
      if (!is_gone) {
        std::vector<Entry> entries = entries_in(read_all(file));
        granted = change(entries);
        const std::string text = text_of(entries);
        if (text.empty())
          ::unlink(file_.c_str());
        else if (::ftruncate(file, 0) == 0 && ::pwrite(file, text.data(), text.size(), 0) < 0)
          granted = true;
      }
    }
    ::close(file);
    if (!is_gone) return granted;
  }
  return true;
}

bool ReaderMemory::take(Bytes wanted, pid_t owner, bool must) const {
  return change([&](std::vector<Entry>& entries) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.owner == owner; });
    Bytes taken;
    bool another_waits = false;
    for (const Entry& entry : entries) {
      another_waits = another_waits || entry.waits;
      if (!entry.waits) taken += entry.bytes;
    }
    const bool granted = taken == 0_B || (!(another_waits && !must) && taken + wanted <= total_);
    if (granted || must) entries.push_back({.owner = owner, .bytes = wanted, .waits = !granted});
    return granted;
  });
}

void ReaderMemory::pass_on(pid_t owner, Bytes bytes, pid_t to) const {
  change([&](std::vector<Entry>& entries) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.owner == owner; });
    entries.push_back({.owner = to, .bytes = bytes});
    return true;
  });
}

void ReaderMemory::give_back(pid_t owner) const {
  change([&](std::vector<Entry>& entries) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.owner == owner; });
    return true;
  });
}

}  // namespace memreel
