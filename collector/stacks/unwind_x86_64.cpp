// SPDX-License-Identifier: Apache-2.0
// The stack walk for x86-64: by cached rules if they suffice, otherwise from the start with all registers and the
// tables themselves.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/unwind.h"

namespace memreel::stacks {
namespace {

/// The callee-saved registers, and the starting point.
struct Start {
  std::uintptr_t address, rsp, rbp, rbx, r12, r13, r14, r15;
};

constexpr std::size_t word = sizeof(std::uintptr_t);

// In the signal frame, relative to the handler's CFA: Linux's struct ucontext.
constexpr std::uintptr_t signal_rbp = 120, signal_rsp = 160, signal_rip = 168;

/// Longest run of frames without tables that is followed by frame pointers.
constexpr int unknown_limit = 64;

}  // namespace

class Unwinder::Walk {
 public:
  Walk(Unwinder& unwinder, const StackBounds& bounds, const Start& start, EarlierWalks* earlier,
       std::span<FrameKey> frames, StackWords words)
      : unwinder_(unwinder),
        start_(start),
        memory_(bounds, start.rsp),  // NOLINT(clang-analyzer-core.CallAndMessage): written by assembly below
        earlier_(earlier),
        frames_(frames),
        words_(words) {}

  // Non-address words have bits that no address has. Both together mean Python (recorder.cpp).
  static constexpr std::uint64_t stretch_bit = 1ULL << 62U, walk_bit = 1ULL << 63U,
                                 no_address_bits = stretch_bit | walk_bit;

  Walked run() {
    if (!by_rules()) {
      walked_ = {};
      memory_.move_to(start_.rsp);
      by_tables();
    }
    return walked_;
  }

 private:
  using Frame = WalkState;

  UnwindRule rule_for(std::uintptr_t address) {
    const UnwindRule rule = unwinder_.rules_.find(address);
    return rule.kind() != UnwindRule::Kind::none ? rule : unwinder_.learn(address);
  }

  bool by_rules();
  std::size_t follow_known(const Stretch& stretch, WalkState& state);
  void keep(std::optional<WalkInMaking>& whole, bool is_cut);
  bool step(Frame& frame, UnwindRule rule);
  bool realigned(Frame& frame, UnwindRule rule);
  bool leave_signal(Frame& frame);
  bool by_frame_pointers(Frame& frame);
  void by_tables();
  bool step(std::uintptr_t& address, Registers& registers, const FrameRow& row);
  bool restore(std::uint64_t reg, const RegisterRule& rule, std::uintptr_t cfa, const Registers& callee,
               Registers& caller);

  /// False if there can be no such frame, or no room for it.
  bool put(std::uintptr_t address) {
    if (address == 0 || (address & no_address_bits) != 0 || walked_.frames == frames_.size()) return false;
    frames_[walked_.frames++] = FrameKey::native(address);
    if (earlier_ != nullptr) words_[walked_.words++] = address;
    return true;
  }

  Unwinder& unwinder_;
  const Start& start_;
  StackMemory memory_;
  EarlierWalks* earlier_;
  std::span<FrameKey> frames_;
  StackWords words_;
  Walked walked_;
};

/// How many frames were skipped with the help of an earlier walk.
[[gnu::always_inline]] inline std::size_t Unwinder::Walk::follow_known(const Stretch& stretch, WalkState& state) {
  if (Stretch::longest > frames_.size() - walked_.frames) return 0;
  const std::size_t count = follow(stretch, memory_, state, &frames_[walked_.frames]);
  if (count == 0) return 0;
  walked_.frames += count;
  words_[walked_.words++] = stretch_bit | stretch.number << 3U | count;
  return count;
}

/// False when a frame needs more than rules can express. A single loop, so that its state stays in registers.
// NOLINTNEXTLINE(readability-function-cognitive-complexity)
bool Unwinder::Walk::by_rules() {
  // Stretches begin only if `earlier_` is set. NOLINTBEGIN(clang-analyzer-core.NonNullParamChecker)
  // Separate variables, so that they stay in registers: each step depends on the previous one.
  std::uintptr_t address = start_.address, stack_pointer = start_.rsp, base = start_.rbp;
  StretchInMaking making;
  std::optional<WalkInMaking> whole;
  if (earlier_ != nullptr && memory_.covers(stack_pointer, word))
    whole.emplace(earlier_->recent, WalkState{address, stack_pointer, base});
  const auto end_stretch = [&] {
    if (making.begun()) making.end(earlier_->stretches);
  };
  for (;;) {
    if (earlier_ != nullptr) {
      const Stretch* const known = earlier_->stretches.find(address);
      if (known != nullptr) {
        end_stretch();
        const WalkState before{address, stack_pointer, base};
        WalkState state = before;
        const std::size_t passed = follow_known(*known, state);
        if (passed > 0) {
          if (whole) whole->add(*known, before, passed);
          address = state.address;
          stack_pointer = state.rsp;
          base = state.rbp;
          continue;
        }
      } else if (!making.begun()) {
        making.begin({address, stack_pointer, base});
      }
    }
    const UnwindRule rule = rule_for(address);
    if (rule.kind() == UnwindRule::Kind::stack_pointer || rule.kind() == UnwindRule::Kind::frame_pointer) {
      const bool measured = rule.kind() == UnwindRule::Kind::frame_pointer;
      const std::uintptr_t measured_from = measured ? base : 0;
      const std::uintptr_t cfa = (measured ? base : stack_pointer) + rule.offset();
      const std::uintptr_t base_at = rule.frame_pointer_below() != 0 ? cfa - rule.frame_pointer_below() : 0;
      // The stack grows downwards, so callers are above.
      const bool readable =
          cfa > stack_pointer && memory_.read(cfa - word, address) && (base_at == 0 || memory_.read(base_at, base));
      if (!readable || !put(address)) {
        end_stretch();
        if (readable && walked_.frames == frames_.size()) keep(whole, true);
        return true;
      }
      stack_pointer = cfa;
      if (whole) {
        if (measured) whole->go_by_base(measured_from);
        whole->add(address, cfa - word, base_at);
      }
      if (making.begun() && (!making.add(address, cfa, measured_from, base_at) || making.complete())) end_stretch();
      continue;
    }
    end_stretch();
    if (rule.kind() == UnwindRule::Kind::full) return false;
    if (rule.kind() == UnwindRule::Kind::outermost) {
      keep(whole, false);
      return true;
    }
    Frame frame{address, stack_pointer, base};
    if (!step(frame, rule)) return true;
    if (whole && rule.kind() == UnwindRule::Kind::realigned)
      whole->add_realigned(frame.address, frame.rsp, base - rule.offset(), base);
    else if (whole)
      whole->spoil();
    address = frame.address;
    stack_pointer = frame.rsp;
    base = frame.rbp;
  }
  // NOLINTEND(clang-analyzer-core.NonNullParamChecker)
}

/// From now on one word represents the whole walk.
void Unwinder::Walk::keep(std::optional<WalkInMaking>& whole, bool is_cut) {
  const std::uint64_t number = whole ? whole->keep(is_cut) : 0;
  if (number == 0) return;
  words_[0] = walk_bit | number;
  walked_.words = 1;
}

/// A step of a rare kind.
bool Unwinder::Walk::step(Frame& frame, UnwindRule rule) {
  switch (rule.kind()) {
    case UnwindRule::Kind::unknown:
      return by_frame_pointers(frame);
    case UnwindRule::Kind::signal:
      return leave_signal(frame) && put(frame.address);
    case UnwindRule::Kind::realigned:
      return realigned(frame, rule) && put(frame.address);
    default:
      return false;
  }
}

bool Unwinder::Walk::realigned(Frame& frame, UnwindRule rule) {
  std::uintptr_t cfa = 0;
  if (!memory_.read(frame.rbp - rule.offset(), cfa) || !memory_.read(frame.rbp, frame.rbp)) return false;
  if (cfa <= frame.rsp || !memory_.read(cfa - word, frame.address)) return false;
  frame.rsp = cfa;
  return true;
}

bool Unwinder::Walk::leave_signal(Frame& frame) {
  const std::uintptr_t saved = frame.rsp;
  if (!memory_.read(saved + signal_rip, frame.address) || !memory_.read(saved + signal_rbp, frame.rbp) ||
      !memory_.read(saved + signal_rsp, frame.rsp))
    return false;
  // Not a call: the instruction itself.
  ++frame.address;
  memory_.move_to(frame.rsp);
  return true;
}

/// Skips code without tables, such as JIT-compiled code, if the frame pointer chain leads back into code with tables.
/// Otherwise no frame of the chain is trusted.
bool Unwinder::Walk::by_frame_pointers(Frame& frame) {
  Frame next = frame;
  const Walked believed = walked_;
  for (int i = 0; i < unknown_limit; ++i) {
    const std::uintptr_t at = next.rbp;
    if (at < next.rsp || !memory_.read(at + word, next.address) || !memory_.read(at, next.rbp)) break;
    next.rsp = at + 2 * word;
    if (!put(next.address)) break;
    if (rule_for(next.address).kind() != UnwindRule::Kind::unknown) {
      frame = next;
      return true;
    }
  }
  walked_ = believed;
  return false;
}

void Unwinder::Walk::by_tables() {
  Registers registers;
  registers.set(rsp, start_.rsp);
  registers.set(rbp, start_.rbp);
  registers.set(rbx, start_.rbx);
  registers.set(12, start_.r12);
  registers.set(13, start_.r13);
  registers.set(14, start_.r14);
  registers.set(15, start_.r15);
  std::uintptr_t address = start_.address;
  for (;;) {
    const std::optional<CodeModule> place = unwinder_.code_.find(address - 1);
    const std::optional<FrameRow> row = place ? row_at(place->tables, address - 1) : std::nullopt;
    if (row) {
      if (!step(address, registers, *row) || !put(address)) return;
      continue;
    }
    if (!registers[rsp] || !registers[rbp]) return;
    Frame frame{address, *registers[rsp], *registers[rbp]};
    if (!by_frame_pointers(frame)) return;
    address = frame.address;
    // The skipped code's effect on other registers is unknown.
    registers = {};
    registers.set(rsp, frame.rsp);
    registers.set(rbp, frame.rbp);
  }
}

bool Unwinder::Walk::step(std::uintptr_t& address, Registers& registers, const FrameRow& row) {
  registers.set(return_address, address - 1);
  std::optional<std::uintptr_t> cfa;
  if (row.cfa.kind == RegisterRule::Kind::value_expression) {
    cfa = evaluate(row.cfa.expression, registers, memory_);
  } else if (const std::optional<std::uintptr_t> base = registers[row.cfa_register]) {
    cfa = *base + static_cast<std::uintptr_t>(row.cfa.number);
  }
  const std::optional<std::uintptr_t> stack_pointer = registers[rsp];
  if (!cfa || !stack_pointer) return false;

  Registers caller;
  caller.set(rsp, *cfa);
  const RegisterRule& return_rule = row.registers[return_address];
  if (return_rule.kind == RegisterRule::Kind::same) return false;
  for (std::uint64_t reg = 0; reg < register_count; ++reg) {
    const RegisterRule& rule = row.registers.at(reg);
    if (reg == rsp && rule.kind == RegisterRule::Kind::same) continue;
    if (!restore(reg, rule, *cfa, registers, caller)) return false;
  }
  const std::optional<std::uintptr_t> next = caller[return_address];
  const std::optional<std::uintptr_t> next_stack_pointer = caller[rsp];
  if (!next || *next == 0 || !next_stack_pointer) return false;
  if (row.signal_frame)
    memory_.move_to(*next_stack_pointer);
  else if (*next_stack_pointer <= *stack_pointer)
    return false;
  address = *next + (row.signal_frame ? 1 : 0);
  registers = caller;
  return true;
}

/// The caller's value of a register, if it can be determined. False if the stack can't be read.
bool Unwinder::Walk::restore(std::uint64_t reg, const RegisterRule& rule, std::uintptr_t cfa, const Registers& callee,
                             Registers& caller) {
  std::optional<std::uintptr_t> value;
  switch (rule.kind) {
    case RegisterRule::Kind::undefined:
      return true;
    case RegisterRule::Kind::same:
      value = callee[reg];
      break;
    case RegisterRule::Kind::other_register:
      value = callee[static_cast<std::uint64_t>(rule.number)];
      break;
    case RegisterRule::Kind::value:
      value = cfa + static_cast<std::uintptr_t>(rule.number);
      break;
    case RegisterRule::Kind::value_expression:
      value = evaluate(rule.expression, callee, memory_, cfa);
      break;
    case RegisterRule::Kind::saved:
    case RegisterRule::Kind::saved_expression: {
      const std::optional<std::uintptr_t> at = rule.kind == RegisterRule::Kind::saved
                                                   ? cfa + static_cast<std::uintptr_t>(rule.number)
                                                   : evaluate(rule.expression, callee, memory_, cfa);
      std::uintptr_t content = 0;
      if (!at || !memory_.read(*at, content)) return false;
      value = content;
      break;
    }
  }
  if (value) caller.set(reg, *value);
  return true;
}

[[gnu::hot, gnu::noinline]] Walked Unwinder::walk(StackBounds& bounds, EarlierWalks* earlier,
                                                  std::span<FrameKey> frames, StackWords words) {
  Start start;
  asm volatile(
      "leaq 0f(%%rip), %%rax\n"
      "0:\n\t"
      "movq %%rax, 0(%1)\n\t"
      "movq %%rsp, 8(%1)\n\t"
      "movq %%rbp, 16(%1)\n\t"
      "movq %%rbx, 24(%1)\n\t"
      "movq %%r12, 32(%1)\n\t"
      "movq %%r13, 40(%1)\n\t"
      "movq %%r14, 48(%1)\n\t"
      "movq %%r15, 56(%1)"
      : "=m"(start)
      : "r"(&start)
      : "rax", "memory");
  if (!bounds.are_for(start.rsp)) [[unlikely]]
    bounds = own_stack_bounds(bounds, start.rsp);
  // Again if a new module appeared during the walk: rules used before may belong to the one it replaced.
  for (int attempt = 0;; ++attempt) {
    const std::uint32_t generation = generation_.load(std::memory_order_relaxed);
    const auto is_settled = [&] { return attempt == 3 || generation_.load(std::memory_order_relaxed) == generation; };
    if (earlier != nullptr) {
      earlier->belong_to(generation);
      RecentWalks::Walk* const known =
          earlier->recent.find({start.address, start.rsp, start.rbp}, {bounds, start.rsp}, frames.size());
      if (known != nullptr && is_settled()) {
        words[0] = Walk::walk_bit | known->number();
        return {.frames = known->frames(), .words = 1, .known = known};
      }
    }
    const Walked walked = Walk(*this, bounds, start, earlier, frames, words).run();
    if (is_settled()) return walked;
  }
}

namespace {

/// The target of the jump that ends with the four-byte `displacement`.
std::uintptr_t target_at(const std::byte* displacement) {
  std::int32_t distance = 0;
  std::memcpy(&distance, displacement, sizeof distance);
  return reinterpret_cast<std::uintptr_t>(displacement) + sizeof distance + static_cast<std::uintptr_t>(distance);
}

}  // namespace

std::vector<AddressRange> parts_of(AddressRange function, const CallFrames& tables) {
  std::vector<AddressRange> parts{function};
  // An apparent jump may be part of another instruction: its target is then essentially random, and no part of the
  // module is hit by several.
  constexpr int enough = 4;
  constexpr std::size_t longest_jump = 6;  // 0F 80..8F: conditional; E9, one byte less: unconditional
  std::map<std::uintptr_t, int> jumps_into;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): code that is mapped
  const auto* const code = reinterpret_cast<const std::byte*>(function.begin);
  for (std::size_t i = 0; i + longest_jump <= function.end - function.begin; ++i) {
    const bool always = code[i] == std::byte{0xE9};
    const bool on_condition = code[i] == std::byte{0x0F} && (code[i + 1] & std::byte{0xF0}) == std::byte{0x80};
    if (!always && !on_condition) continue;
    const std::uintptr_t target = target_at(code + i + (always ? 1 : 2));
    if (function.contains(target)) continue;
    const std::optional<AddressRange> other = function_at(tables, target);
    if (other && target != other->begin && ++jumps_into[other->begin] == enough) parts.push_back(*other);
  }
  return parts;
}

}  // namespace memreel::stacks
