#include "collector/stacks/unwind.h"

#include <unwind.h>

namespace memreel::stacks {
namespace {

struct Walk {
  std::span<std::uintptr_t> addresses;
  std::size_t count = 0;
  bool started = false;  // the first frame is that of unwind() itself
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  int before_instruction = 0;
  const std::uintptr_t address = _Unwind_GetIPInfo(context, &before_instruction);
  if (address == 0) return _URC_END_OF_STACK;
  if (walk.count == walk.addresses.size()) return _URC_NORMAL_STOP;
  if (walk.started) walk.addresses[walk.count++] = address + (before_instruction != 0 ? 1U : 0U);
  walk.started = true;
  return _URC_NO_REASON;
}

}  // namespace

Unwinder::Unwinder() = default;

std::size_t Unwinder::unwind(StackBounds& /*bounds*/, std::span<std::uintptr_t> addresses) const {
  Walk walk{.addresses = addresses};
  _Unwind_Backtrace(visit, &walk);
  return walk.count;
}

void Unwinder::forget() {}

}  // namespace memreel::stacks
