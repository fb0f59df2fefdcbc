// SPDX-License-Identifier: Apache-2.0
// memreel: reads, replays and judges traces.
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"
#ifdef MEMREEL_BROWSER
#include "viewer/terminal/browse_command.h"
#endif

namespace {

using memreel::cli::Exit;

/// Handles out-of-memory during destruction, where no exception can be caught.
[[noreturn]] void end_without_memory() {
  const std::exception_ptr thrown = std::current_exception();
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    constexpr std::string_view line =
        "memreel: error: not enough memory (allow more with --max-memory, or use a machine with more)\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(static_cast<int>(Exit::unusable));
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
#ifdef MEMREEL_BROWSER
  if (argc > 1 && std::string_view(argv[1]) == "browse") return memreel::viewer::terminal::run_browse(argc, argv);
#endif
  std::set_terminate(end_without_memory);
  // An exception that leaves std::call_once() goes through glibc, which loads libgcc_s for it: too late without memory.
  void* caller = nullptr;
  ::backtrace(&caller, 1);
  try {
    return static_cast<int>(memreel::cli::run(argc, argv));
  } catch (const std::bad_alloc&) {
    std::string command = "memreel";
    for (int i = 1; i < std::min(argc, 3); ++i) command += " " + std::string(argv[i]);
    const auto bound = memreel::memory_bound();
    return static_cast<int>(
        memreel::cli::fail({.what = "not enough memory for '" + command + "'",
                            .remedy = bound ? "its limit is " + memreel::text_of(*bound) +
                                                  ": allow more with --max-memory, or use a shorter trace"
                                            : "free memory, or use a machine with more, or a shorter trace"}));
  } catch (const std::system_error& problem) {
    const bool no_thread = problem.code() == std::errc::resource_unavailable_try_again;
    return static_cast<int>(memreel::cli::fail(
        {.what = no_thread ? "can't start a thread" : problem.what(),
         .remedy = no_thread ? "raise the limit on threads (ulimit -u), or allow more with --max-memory" : ""}));
  } catch (const std::exception& problem) {
    // No other exception crosses a function boundary in this project.
    return static_cast<int>(memreel::cli::fail({.what = problem.what()}));
  }
}
