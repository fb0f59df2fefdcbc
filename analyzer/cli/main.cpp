// memreel: reads, replays and judges traces.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "analyzer/cli/console.h"
#include "analyzer/cli/program.h"

namespace {

using memreel::cli::Exit;

/// Handles out-of-memory during destruction, where no exception can be caught.
[[noreturn]] void end_without_memory() {
  const std::exception_ptr thrown = std::current_exception();
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    constexpr std::string_view line = "memreel: error: not enough memory (free memory, or use a machine with more)\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(static_cast<int>(Exit::unusable));
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_without_memory);
  try {
    return static_cast<int>(memreel::cli::run(argc, argv));
  } catch (const std::bad_alloc&) {
    std::string what = "not enough memory for 'memreel";
    for (int i = 1; i < std::min(argc, 3); ++i) what += " " + std::string(argv[i]);
    return static_cast<int>(memreel::cli::fail(
        {.what = what + "'", .remedy = "free memory, or use a machine with more, or a shorter trace"}));
  } catch (const std::exception& problem) {
    // No other exception crosses a function boundary in this project.
    return static_cast<int>(memreel::cli::fail({.what = problem.what()}));
  }
}
