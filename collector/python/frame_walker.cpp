// SPDX-License-Identifier: Apache-2.0
#include "collector/python/frame_walker.h"

#include <array>
#include <utility>

#include "collector/python/python_layout.h"

namespace memreel::python {
namespace {

using stacks::FrameKey;

template <class T>
T read(const void* base, std::size_t offset) {
  return Direct().read<T>(base, offset);
}

/// The innermost frame of a thread.
template <class Memory>
const void* innermost_frame(const void* thread_state, const Layout& layout, Memory& memory) {
  const auto* const frame = memory.template read<const void*>(thread_state, layout.thread_frame);
  if (layout.frame_in_thread_frame == Layout::absent || frame == nullptr) return frame;
  return memory.template read<const void*>(frame, layout.frame_in_thread_frame);
}

/// Since 3.14 the lowest two bits of a frame's references (_PyStackRef) say who counts them.
const void* untagged(const void* tagged) {
  constexpr std::uintptr_t tags = 3;
  return static_cast<const std::byte*>(tagged) - (reinterpret_cast<std::uintptr_t>(tagged) & tags);
}

/// Distinguishes a code object from all earlier ones at its address; 0: nothing does.
std::uint32_t version_of(const void* code, const Layout& layout) {
  return layout.code_version == Layout::absent ? code_epoch() : read<std::uint32_t>(code, layout.code_version);
}

/// For a program that names its modules before its interpreter was looked for.
const Layout& early_layout() {
  static const Layout layout = [] {
    const Found found = find_interpreter();
    return found.interpreter ? found.interpreter->layout : Layout{};
  }();
  return layout;
}

}  // namespace

void FrameWalker::look() {
  if (trust() == Trust::agreed && interpreter_->layout.code_version == Layout::absent)
    watch_code(interpreter_->types.code);
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

/// Reads frames of one style.
template <Activations style>
class FrameWalker::Reader {
 public:
  using Seen = FrameChain::Seen;
  using Meaning = FrameChain::Meaning;

  explicit Reader(FrameWalker& walker) : walker_(walker), layout_(walker.interpreter_->layout) {}

  const void* read(const void* frame, Seen& seen, Meaning& meaning) const {
    const Earlier earlier{seen.code, seen.version, meaning.key};
    const std::uint8_t owner =
        style == Activations::each_frame ? 0 : python::read<std::uint8_t>(frame, layout_.frame_owner);
    seen.frame = frame;
    seen.code = python::read<const void*>(frame, layout_.frame_code);
    seen.instruction = instruction_of(frame, layout_.frame_instruction, layout_.frame_is_entry);
    meaning = {};
    if constexpr (style == Activations::marked_frame)
      meaning.is_entry = python::read<std::uint8_t>(frame, layout_.frame_is_entry) != 0;
    if (style == Activations::shim_frame && owner >= layout_.lowest_shim_owner) {
      meaning.is_entry = true;  // no frame of Python's: of its code nothing is known but where it is
      seen.version_at = nullptr;
    } else {
      understand(seen, meaning, owner, earlier);
    }
    return python::read<const void*>(frame, layout_.frame_caller);
  }

  auto comparison() const {
    // All code without versions has the same value, which may be unknown: then no frame was ever seen with it.
    const std::uint32_t known = style == Activations::shim_frame ? 0 : code_epoch();
    const std::uint64_t epoch = known != 0 ? known : ~std::uint64_t{0};
    return [instruction_at = layout_.frame_instruction, code_at = layout_.frame_code, caller_at = layout_.frame_caller,
            mark_at = layout_.frame_is_entry, epoch](const Seen& seen, const void* frame, const void* caller) {
      // Hardly ever one of them differs, so there is one branch for all. A code object that is a function's is never a
      // shim's.
      std::uintptr_t difference = bits(python::read<const void*>(frame, code_at)) ^ bits(seen.code);
      difference |= bits(python::read<const void*>(frame, caller_at)) ^ bits(caller);
      if (seen.version_at == nullptr) return difference == 0;
      difference |= instruction_of(frame, instruction_at, mark_at) ^ seen.instruction;
      if (difference != 0) return false;
      // Only now: the frame keeps its code alive.
      return seen.version ==
             (style == Activations::shim_frame ? python::read<std::uint32_t>(seen.version_at, 0) : epoch);
    };
  }

  const void* self_at(const void* frame) const { return static_cast<const std::byte*>(frame) + layout_.frame_locals; }

  std::uint64_t names() const { return walker_.instances_.epoch(); }

 private:
  /// An earlier interpretation of this frame or another one.
  struct Earlier {
    const void* code;
    std::uint32_t version;
    FrameKey key;
  };

  /// Version of code objects that have none. Never equal to a version of 0.
  static constexpr std::uint32_t no_version = 1;

  static std::uintptr_t bits(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
  /// The frame's instruction field; for a marked frame combined with its mark, since instructions are at even
  /// addresses.
  static std::uint32_t instruction_of(const void* frame, std::size_t instruction_at, std::size_t mark_at) {
    const auto instruction = python::read<std::uint32_t>(frame, instruction_at);
    if constexpr (style != Activations::marked_frame) return instruction;
    return instruction | (python::read<std::uint8_t>(frame, mark_at) != 0 ? 1U : 0U);
  }

  /// The instruction that a frame is at, in units of two bytes from the start of its code; -1 before the first.
  std::int64_t position_of(const Seen& seen) const {
    constexpr std::int64_t unit = 2;
    const auto offset = static_cast<std::int32_t>(seen.instruction);
    switch (layout_.instruction) {
      case InstructionField::byte_offset:
        return offset < 0 ? -1 : offset / unit;
      case InstructionField::unit_offset:
        return offset;
      case InstructionField::pointer:
        break;
    }
    const auto begin = static_cast<std::uint32_t>(bits(instructions_of(seen)));
    const auto distance = static_cast<std::int32_t>(seen.instruction - begin);
    return distance < 0 ? -1 : distance / unit;
  }

  /// The start of the instructions that a frame runs: in its code object or, without a GIL, in its thread's copy. The
  /// array of copies is replaced when it grows, and the old one is freed once every thread that runs Python has passed
  /// a quiescent state (QSBR). Only a thread that released its thread state may read the old one a moment longer.
  const std::byte* instructions_of(const Seen& seen) const {
    constexpr std::size_t first_entry = 8;  // _PyCodeArray: a size, then pointers
    const auto* const code = static_cast<const std::byte*>(untagged(seen.code));
    if (layout_.frame_bytecode != Layout::absent) {
      const auto copy = python::read<std::int32_t>(seen.frame, layout_.frame_bytecode);
      const auto* const copies = python::read<const std::byte*>(code, layout_.code_bytecodes);
      if (copy > 0 && copies != nullptr && copy < python::read<std::int64_t>(copies, 0))
        return python::read<const std::byte*>(copies, first_entry + static_cast<std::size_t>(copy) * sizeof copies);
    }
    return code + layout_.code_instructions;
  }

  void understand(Seen& seen, Meaning& meaning, std::uint8_t owner, const Earlier& earlier) const {
    constexpr std::uint8_t owned_by_generator = 1;
    const void* const code = untagged(seen.code);
    const std::int64_t position = position_of(seen);
    const std::uint32_t version = version_of(code, layout_);
    // A function that is still setting up its frame: Python itself does not show it either.
    const bool is_set_up =
        style == Activations::each_frame || position >= python::read<std::int32_t>(code, layout_.code_first_traceable);
    const bool is_shown = is_set_up || owner == owned_by_generator;
    const bool is_same_code = version != 0 && earlier.version == version && earlier.code == seen.code;
    const std::uint32_t known = is_same_code && earlier.key.is_python() ? earlier.key.code() : 0;
    const std::uint32_t number = !is_shown ? 0 : known != 0 ? known : walker_.number_of(code, version);
    if (number != 0) meaning.key = FrameKey::python(number, static_cast<std::uint32_t>(position));
    if (number != 0 && number == walker_.module_call_.load(std::memory_order_relaxed))
      meaning.has_self = is_told_apart(seen.frame);
    seen.version = number != 0 && is_set_up ? version : 0;  // else its owner may change, or it may get a number later
    seen.version_at = seen.version == 0 || layout_.code_version == Layout::absent
                          ? static_cast<const void*>(&no_version)
                          : static_cast<const std::byte*>(code) + layout_.code_version;
    if constexpr (style == Activations::each_frame) meaning.is_entry = number != 0;
  }

  /// Each module's call counts as a different frame. Its number is only looked up for new stacks.
  bool is_told_apart(const void* frame) const {
    const auto* const self = untagged(python::read<const void*>(frame, layout_.frame_locals));
    return self == nullptr || walker_.instances_.are_readable(self, layout_);
  }

  FrameWalker& walker_;
  Layout layout_;  // a copy: what is written to chains can't change it
};

template <class Work>
auto FrameWalker::with_reader(Work work) {
  switch (interpreter_->layout.activations) {
    case Activations::each_frame: {
      Reader<Activations::each_frame> reader(*this);
      return work(reader);
    }
    case Activations::marked_frame: {
      Reader<Activations::marked_frame> reader(*this);
      return work(reader);
    }
    case Activations::shim_frame:
      break;
  }
  Reader<Activations::shim_frame> reader(*this);
  return work(reader);
}

[[gnu::hot]] std::uint64_t FrameWalker::walk(FrameChain& chain) noexcept {
  const Trust trust = this->trust();
  if (trust == Trust::absent || trust == Trust::refused) return 0;
  const Api& api = interpreter_->api;
  if (api.is_initialized() == 0) return 0;  // during shutdown Python frees the states of threads that still run
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
  const void* const innermost = innermost_frame(thread_state, interpreter_->layout, memory);
  return with_reader([&](auto& reader) { return chain.follow(innermost, reader); });
}

std::size_t FrameWalker::frames(const FrameChain& chain, std::span<stacks::PythonFrame> frames) noexcept {
  return chain.frames(frames, [this](const FrameChain::Seen& seen, FrameKey key) {
    const Layout& layout = interpreter_->layout;
    const void* const self = untagged(read<const void*>(seen.frame, layout.frame_locals));
    if (self == nullptr) return key;
    return FrameKey::python(instances_.number_of(key.code(), self, layout), key.position());
  });
}

/// The row of a live code object; 0 if it is something else, or there is no room for it.
inline std::uint32_t FrameWalker::number_of(const void* code, std::uint32_t version) {
  const KnownCodes::Known known = known_.find(code);
  // Version 0 means a code object made after 2^32 others, or no versions at all.
  if (known.number != 0 && version != 0 && known.version == version) return known.number;
  return number_by_content(code, {known.number, version});
}

/// The same, for code without a version, or with a different one than known.
std::uint32_t FrameWalker::number_by_content(const void* code, KnownCodes::Known known) {
  Direct memory;
  const std::optional<CodeView> view = view_of(code, interpreter_->layout, interpreter_->types, memory);
  if (!view) return 0;
  const bool still = known.number != 0 && codes_.equal(known.number, *view);
  if (still && known.version == 0) return known.number;
  if (!still) known.number = codes_.number_of(*view);
  if (!still && is_module_call(*view)) module_call_.store(known.number, std::memory_order_relaxed);
  if (known.number != 0) known_.set(code, known);
  return known.number;
}

/// Walks the thread's frames without trusting anything. Returns whether all of them were valid.
bool FrameWalker::prove(const void* thread_state) {
  if (proving_.exchange(true, std::memory_order_acquire)) return false;  // another thread is doing it
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
    refuse("has an unexpected frame layout in this build");
  }
  proving_.store(false, std::memory_order_release);
  return proved;
}

FrameWalker::Trust FrameWalker::compare_with_api() {
  if (trust() == Trust::absent || trust() == Trust::refused) return trust();
  const Api& api = interpreter_->api;
  if (trust() == Trust::unproved && !prove(api.thread_state())) return trust();

  std::array<FrameKey, 512> walked{};
  Direct memory;
  const std::size_t count = with_reader([&](auto& reader) {
    std::size_t found = 0;
    FrameChain::Seen seen{};
    FrameChain::Meaning meaning{};
    const void* frame = innermost_frame(api.thread_state(), interpreter_->layout, memory);
    for (std::size_t steps = 0; frame != nullptr && found < walked.size() && steps < 2 * walked.size(); ++steps) {
      frame = reader.read(frame, seen, meaning);
      if (meaning.key != FrameKey{}) walked[found++] = meaning.key;
    }
    return found;
  });
  std::size_t compared = 0;
  bool same = true;
  Api::Object* frame = api.current_frame();
  Api::Object* owned = nullptr;  // the first frame is borrowed, the others are not
  for (; frame != nullptr && compared < count && same; ++compared) {
    const FrameKey walked_frame = walked[compared];
    const int line = api.line_of(frame);
    Api::Object* const code = api.code_of(frame);
    same = number_of(code, version_of(code, interpreter_->layout)) == walked_frame.code() &&
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
    refuse("reports different frames than memreel reads");
  }
  return trust();
}

void FrameWalker::refuse(const char* why) {
  if (!refusing_.exchange(true, std::memory_order_acq_rel)) {
    reason_ = "CPython " + interpreter_->version + " " + why;
    trust_.store(Trust::refused, std::memory_order_release);
  }
}

FrameDescription FrameWalker::describe(FrameKey frame) const {
  Instances::Instance instance{.code = frame.code()};
  if (Instances::is_instance(frame.code())) instance = instances_[frame.code()];
  const CodeView code = codes_[instance.code];
  return {.function = to_utf8(code.name),
          .file = to_utf8(code.file),
          .line = line_of(interpreter_->layout.lines, code.lines, code.first_line, frame.position()),
          .module_type = std::move(instance.type),
          .module_name = std::move(instance.name),
          .module_id = instance.object};
}

void FrameWalker::name_module(const void* module, std::string_view name) {
  const Trust trust = this->trust();
  if (trust == Trust::refused || module == nullptr) return;
  instances_.name(module, name, trust == Trust::absent ? early_layout() : interpreter_->layout);
}

}  // namespace memreel::python
