// SPDX-License-Identifier: Apache-2.0
// A library with inlined calls, to be found by their addresses.
namespace fixture {
namespace {

[[gnu::noinline]] void* here() { return __builtin_return_address(0); }

inline __attribute__((always_inline)) void* inner(int) {
  void* const place = here();
  asm volatile("" : : "r"(&place) : "memory");
  return place;
}
constexpr int inner_line = __LINE__ - 4;

struct Middle {
  inline __attribute__((always_inline)) void* run() const { return inner(1); }
};
constexpr int middle_line = __LINE__ - 2;

}  // namespace
}  // namespace fixture

extern "C" {

/// The address after a call in inner(), inlined into Middle::run(), inlined into this.
[[gnu::noinline]] void* fixture_place() {
  void* const place = fixture::Middle().run();
  asm volatile("" : : "r"(&place) : "memory");
  return place;
}
extern const int fixture_lines[3];
const int fixture_lines[3] = {fixture::inner_line, fixture::middle_line, __LINE__ - 5};

#ifdef FIXTURE_OTHER
int fixture_other_build = 1;
#endif
}
