#include "collector/python/frame_walker.h"

#include <array>
#include <bit>

#include "collector/python/line_table.h"
#include "collector/python/memory.h"

namespace memreel::python {
namespace {

using stacks::FrameKey;
using stacks::PythonFrame;

/// The innermost frame of a thread.
template <class Memory>
const void* innermost_frame(const void* thread_state, const Layout& layout, Memory& memory) {
  const auto* const frame = memory.template read<const void*>(thread_state, layout.thread_frame);
  if (layout.frame_in_thread_frame == Layout::absent || frame == nullptr) return frame;
  return memory.template read<const void*>(frame, layout.frame_in_thread_frame);
}

/// Since 3.14 the lowest two bits of a frame's pointer to its code say who counts the reference.
const void* untagged(const void* tagged) {
  constexpr std::uintptr_t tags = 3;
  return std::bit_cast<const void*>(std::bit_cast<std::uintptr_t>(tagged) & ~tags);
}

/// The instruction that a frame is at, in units of two bytes from the start of its code; -1 before the first.
template <class Memory>
std::int64_t position_of(const void* frame, const void* code, const Layout& layout, Memory& memory) {
  constexpr std::int64_t unit = 2;
  switch (layout.instruction) {
    case InstructionField::byte_offset: {
      const auto offset = memory.template read<std::int32_t>(frame, layout.frame_instruction);
      return offset < 0 ? -1 : offset / unit;
    }
    case InstructionField::unit_offset:
      return memory.template read<std::int32_t>(frame, layout.frame_instruction);
    case InstructionField::pointer:
      break;
  }
  const auto instruction = memory.template read<std::int64_t>(frame, layout.frame_instruction);
  const std::int64_t begin = std::bit_cast<std::int64_t>(code) + layout.code_instructions;
  return instruction < begin ? -1 : (instruction - begin) / unit;
}

}  // namespace

void FrameWalker::look() {
  if (trust() != Trust::absent) return;
  Found found = find_interpreter();
  if (found.interpreter) {
    interpreter_ = std::move(found.interpreter);
    trust_.store(Trust::unproved, std::memory_order_release);
  } else if (!found.refusal.empty()) {
    reason_ = std::move(found.refusal);
    trust_.store(Trust::refused, std::memory_order_release);
  }
}

std::size_t FrameWalker::walk(std::span<PythonFrame> frames) noexcept {
  const Trust trust = this->trust();
  if (trust == Trust::absent || trust == Trust::refused) return 0;
  const Api& api = interpreter_->api;
  if (api.is_initialized() == 0) return 0;  // while it shuts down, it frees the states of threads that still run
  const void* const thread_state = api.thread_state();
  if (thread_state == nullptr) return 0;
  if (trust == Trust::unproved && !prove(thread_state)) return 0;
  if (!asked_.load(std::memory_order_relaxed) && !asked_.exchange(true, std::memory_order_relaxed)) {
    const auto compare = [](void* self) {
      static_cast<FrameWalker*>(self)->compare_with_api();
      return 0;
    };
    if (api.add_pending_call(compare, this) != 0) asked_.store(false, std::memory_order_relaxed);
  }
  Direct memory;
  return walk_with(thread_state, frames, memory);
}

template <class Memory>
std::size_t FrameWalker::walk_with(const void* thread_state, std::span<PythonFrame> frames, Memory& memory) {
  const Layout& layout = interpreter_->layout;
  const void* const frame = innermost_frame(thread_state, layout, memory);
  switch (layout.activations) {
    case Activations::each_frame:
      return walk_chain<Activations::each_frame>(frame, frames, memory);
    case Activations::marked_frame:
      return walk_chain<Activations::marked_frame>(frame, frames, memory);
    case Activations::shim_frame:
      return walk_chain<Activations::shim_frame>(frame, frames, memory);
  }
  return 0;
}

/// The row of a code object that is alive; 0 when it is something else, or there is no room for it.
template <class Memory>
inline std::uint32_t FrameWalker::number_of(const void* code, const Layout& layout, Memory& memory) {
  const bool versioned = layout.code_version != Layout::absent;
  const std::uint32_t version = versioned ? memory.template read<std::uint32_t>(code, layout.code_version) : 0;
  const KnownCodes::Known known = known_.find(code);
  // Version 0 is that of all code objects made after 2^32 others.
  if (known.number != 0 && version != 0 && known.version == version) return known.number;
  return number_by_content(code, {known.number, version}, memory);
}

/// The same, for code that has no version, or another than it was known by.
template <class Memory>
std::uint32_t FrameWalker::number_by_content(const void* code, KnownCodes::Known known, Memory& memory) {
  const std::optional<CodeView> view = view_of(code, interpreter_->layout, interpreter_->types, memory);
  if (!view || memory.failed()) return 0;
  const bool still = known.number != 0 && codes_.equal(known.number, *view);
  if (still && known.version == 0) return known.number;
  if (!still) known.number = codes_.number_of(*view);
  if (known.number != 0) known_.set(code, known);
  return known.number;
}

template <Activations style, class Memory>
std::size_t FrameWalker::walk_chain(const void* frame, std::span<PythonFrame> frames, Memory& memory) {
  constexpr std::uint8_t owned_by_generator = 1;
  const Layout layout = interpreter_->layout;  // a copy: what is written to `frames` can't change it
  std::size_t count = 0;
  // Frames that are not shown count as steps, so that not even a chain that bites its tail is walked for ever.
  for (std::size_t steps = 0; frame != nullptr && count < frames.size() && steps < 2 * frames.size(); ++steps) {
    const void* const code = untagged(memory.template read<const void*>(frame, layout.frame_code));
    std::uint8_t owner = 0;
    if constexpr (style != Activations::each_frame)
      owner = memory.template read<std::uint8_t>(frame, layout.frame_owner);

    if (style == Activations::shim_frame && owner >= layout.lowest_shim_owner) {
      if (count > 0) frames[count - 1].is_entry = true;
    } else {
      const std::int64_t position = position_of(frame, code, layout, memory);
      bool shown = true;
      // A function that is still setting up its frame: Python itself does not show it either.
      if constexpr (style != Activations::each_frame)
        shown = owner == owned_by_generator ||
                position >= memory.template read<std::int32_t>(code, layout.code_first_traceable);
      const std::uint32_t number = shown ? number_of(code, layout, memory) : 0;
      if (number != 0)
        frames[count++] = {FrameKey::python(number, static_cast<std::uint32_t>(position)),
                           style == Activations::each_frame};
      if constexpr (style == Activations::marked_frame) {
        if (count > 0 && memory.template read<std::uint8_t>(frame, layout.frame_is_entry) != 0)
          frames[count - 1].is_entry = true;
      }
    }
    frame = memory.template read<const void*>(frame, layout.frame_caller);
  }
  return count;
}

/// Walks the thread's frames without trust in anything. Whether they were all sound.
bool FrameWalker::prove(const void* thread_state) {
  if (proving_.exchange(true, std::memory_order_acquire)) return false;  // another thread is at it
  Careful memory;
  const Layout& layout = interpreter_->layout;
  const void* frame = innermost_frame(thread_state, layout, memory);
  const bool any = frame != nullptr;
  std::size_t sound = 0;
  constexpr std::size_t enough = 64;
  while (frame != nullptr && !memory.failed() && sound < enough) {
    const bool shim = layout.activations == Activations::shim_frame &&
                      memory.read<std::uint8_t>(frame, layout.frame_owner) >= layout.lowest_shim_owner;
    const void* const code = untagged(memory.read<const void*>(frame, layout.frame_code));
    if (!shim && !view_of(code, layout, interpreter_->types, memory)) break;
    ++sound;
    frame = memory.read<const void*>(frame, layout.frame_caller);
  }
  const bool proved = any && !memory.failed() && (frame == nullptr || sound == enough);
  if (proved) {
    Trust unproved = Trust::unproved;
    trust_.compare_exchange_strong(unproved, Trust::plausible, std::memory_order_acq_rel);
  } else if (any) {
    refuse("keeps its frames elsewhere in this build");
  }
  proving_.store(false, std::memory_order_release);
  return proved;
}

FrameWalker::Trust FrameWalker::compare_with_api() {
  if (trust() == Trust::absent || trust() == Trust::refused) return trust();
  const Api& api = interpreter_->api;
  if (trust() == Trust::unproved && !prove(api.thread_state())) return trust();

  std::array<PythonFrame, 512> walked{};
  Direct memory;
  const std::size_t count = walk_with(api.thread_state(), walked, memory);
  std::size_t compared = 0;
  bool same = true;
  Api::Object* frame = api.current_frame();
  Api::Object* owned = nullptr;  // the first frame is borrowed, the others are not
  for (; frame != nullptr && compared < count && same; ++compared) {
    const FrameKey walked_frame = walked[compared].key;
    const int line = api.line_of(frame);
    Api::Object* const code = api.code_of(frame);
    same = number_of(code, interpreter_->layout, memory) == walked_frame.code() &&
           describe(walked_frame).line == static_cast<std::uint32_t>(line > 0 ? line : 0);
    api.release(code);
    Api::Object* const caller = api.caller_of(frame);
    if (owned != nullptr) api.release(owned);
    frame = owned = caller;
  }
  if (owned != nullptr) api.release(owned);
  same = same && compared == count && (frame == nullptr || count == walked.size());

  if (same) {
    Trust plausible = Trust::plausible;
    trust_.compare_exchange_strong(plausible, Trust::agreed, std::memory_order_acq_rel);
  } else {
    refuse("has other frames than a walk over them finds");
  }
  return trust();
}

void FrameWalker::refuse(const char* why) {
  if (!refusing_.exchange(true, std::memory_order_acq_rel)) {
    reason_ = "CPython " + interpreter_->version + " " + why;
    trust_.store(Trust::refused, std::memory_order_release);
  }
}

Place FrameWalker::describe(FrameKey frame) const {
  const CodeView code = codes_[frame.code()];
  return {to_utf8(code.name), to_utf8(code.file),
          line_of(interpreter_->layout.lines, code.lines, code.first_line, frame.position())};
}

}  // namespace memreel::python
