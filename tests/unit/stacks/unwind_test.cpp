// The native stack, compared with what the compiler's own unwinder says.
#include "collector/stacks/unwind.h"

#include <execinfo.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace memreel::stacks {
namespace {

/// Both views of the same stack, of this function's callers.
struct Views {
  std::vector<std::uintptr_t> own, expected;
};

[[gnu::noinline]] Views both(const Unwinder& unwinder) {
  std::array<std::uintptr_t, 256> own{};
  std::array<void*, 256> expected{};
  StackBounds bounds;
  const std::size_t count = unwinder.unwind(bounds, own);
  const int expected_count = backtrace(expected.data(), static_cast<int>(expected.size()));
  Views views;
  // The first address of each lies in this function, at another of its calls.
  views.own.assign(own.begin() + 1, own.begin() + static_cast<std::ptrdiff_t>(count));
  for (int i = 1; i < expected_count; ++i)
    views.expected.push_back(reinterpret_cast<std::uintptr_t>(expected.at(static_cast<std::size_t>(i))));
  return views;
}

[[gnu::noinline]] Views recurse(const Unwinder& unwinder, int depth) {
  if (depth == 0) return both(unwinder);
  Views views = recurse(unwinder, depth - 1);
  asm volatile("" : : "r"(&views) : "memory");  // not a tail call
  return views;
}

TEST(Unwind, SeesWhatTheCompilersUnwinderSees) {
  const Unwinder unwinder;
  const Views views = recurse(unwinder, 50);
  EXPECT_EQ(views.own, views.expected);
  EXPECT_GT(views.own.size(), 50U);
}

}  // namespace
}  // namespace memreel::stacks
