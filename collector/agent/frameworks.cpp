#include "collector/agent/frameworks.h"

#include <atomic>
#include <span>

#include "collector/annotate/annotations.h"
#include "collector/python/code_deaths.h"
#include "collector/python/frame_walker.h"
#include "collector/torch/allocator_trace.h"
#include "collector/torch/diverted_calls.h"
#include "collector/torch/other_allocator.h"
#include "collector/torch/reporters.h"
#include "collector/torch/snapshot.h"

namespace memreel::agent {
namespace {

/// One for the process, never destroyed: hooks walk at any time.
python::FrameWalker& walker() {
  static auto* const made = new python::FrameWalker;  // NOLINT(cppcoreguidelines-owning-memory): leaked on purpose
  return *made;
}

constexpr PythonFrames python_frames{
    .walk = [](python::FrameChain& chain) { return walker().walk(chain); },
    .frames = [](const python::FrameChain& chain,
                 std::span<stacks::PythonFrame> frames) { return walker().frames(chain, frames); },
    .evaluator = []() -> std::span<const stacks::AddressRange> { return walker().interpreter().evaluator; },
    .plumbing = []() { return walker().interpreter().plumbing; },
    .describe =
        [](stacks::FrameKey frame, FrameText& text) {
          python::FrameDescription place = walker().describe(frame);
          text = {.function = std::move(place.function),
                  .file = std::move(place.file),
                  .line = place.line,
                  .module_type = std::move(place.module_type),
                  .module_name = std::move(place.module_name),
                  .module_id = place.module_id};
        },
};

/// Reports once, and marks in the trace, that tensors are only seen as driver allocations.
std::string note_other_allocator(Recorder& recorder) {
  static std::atomic<bool> told = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
  if (told.load(std::memory_order_relaxed)) return {};
  const std::string allocator = torch::other_allocator();
  if (allocator.empty() || told.exchange(true)) return {};
  std::string note = "PyTorch's tensors come from " + allocator + ": each one is recorded as a driver call";
  recorder.emit({.object = recorder.names().number_of({std::as_bytes(std::span(note))}), .kind = RecordKind::mark});
  return note;
}

}  // namespace

std::string look_for_frameworks(const Options& options, Recorder& recorder, bool began_late) {
  using Trust = python::FrameWalker::Trust;
  annotate::name_modules_with([](const void* module, std::string_view name) { walker().name_module(module, name); });
  torch::set_recorded(options.torch);
  torch::set_followed(!began_late);
  if (options.torch) torch::look();
  if (recorder.python() == nullptr) annotate::introduce();
  if (options.torch)
    if (std::string note = note_other_allocator(recorder); !note.empty()) return note;
  if (!options.python) return {};

  static std::atomic<bool> told = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
  walker().look();
  const Trust trust = walker().trust();
  if (trust == Trust::refused) {
    recorder.set_python(nullptr);
    if (!told.exchange(true)) return "no Python frames in stacks: " + walker().reason();
  } else if (trust != Trust::absent && recorder.python() == nullptr) {
    recorder.set_python(&python_frames);
  }
  return {};
}

void joined_frameworks(const Options& options) {
  if (!options.torch) return;
  torch::divert_calls();
  torch::ask_for_snapshot();
}

void left_frameworks() {
  torch::restore_calls();
  python::unwatch_code();
}

std::uint64_t refused_python_codes() { return walker().refused_codes(); }

}  // namespace memreel::agent
