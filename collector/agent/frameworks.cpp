// SPDX-License-Identifier: Apache-2.0
#include "collector/agent/agent.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "collector/annotate/annotations.h"
#include "collector/attach/bootstrap.h"
#include "collector/cuda/interposer.h"
#include "collector/cuda/real_driver.h"
#include "collector/nvtx/nvtx.h"
#include "collector/python/code_table.h"
#include "collector/python/frame_walker.h"
#include "collector/python/own_code.h"
#include "collector/recorder/own_thread.h"
#include "collector/torch/allocator_trace.h"
#include "collector/torch/diverted_calls.h"
#include "collector/torch/reporters.h"

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

namespace {

/// The walks over the program's Python objects that its dumps contain. After a failure one is asked for at once, by the
/// thread that fails: if nobody catches the error, the main thread's next safe point is its last.
class HolderWalks {
 public:
  /// Empty: none are wanted.
  void set_package(std::string package) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) package_ = std::move(package);
  }

  void failed() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    const auto now = std::chrono::steady_clock::now();
    if (!lock || package_.empty() || (failed_at_ && now - *failed_at_ < FlightDumps::quiet_time)) return;
    failed_at_ = now;
    after_failure_ = python::ObjectWalk::ask(package_, "table()");
  }

  AskedHolders ask() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || package_.empty()) return {};
    std::shared_ptr<python::ObjectWalk> walk = std::exchange(after_failure_, nullptr);
    if (walk == nullptr) walk = python::ObjectWalk::ask(package_, "table()");
    if (walk == nullptr) return {};
    hurry_walk();
    return [walk = std::move(walk)](bool& begun) {
      begun = walk->has_begun();
      return walk->answer();
    };
  }

 private:
  std::mutex mutex_;  // only tried: it may be held by a thread that a fork left behind
  std::string package_;
  std::shared_ptr<python::ObjectWalk> after_failure_;  // until a dump takes it
  std::optional<std::chrono::steady_clock::time_point> failed_at_;
};

/// One for the process, never destroyed, as above.
HolderWalks& holder_walks() {
  static auto* const made = new HolderWalks;  // NOLINT(cppcoreguidelines-owning-memory): leaked on purpose
  return *made;
}

}  // namespace

void hurry_walk() {
  if (!python::ObjectWalk::needs_hurry()) return;
  const auto hurry = [](void*) -> void* {
    python::ObjectWalk::hurry();
    return nullptr;
  };
  pthread_t thread{};
  if (start_own_thread(thread, "memreel-gil", hurry, nullptr)) ::pthread_detach(thread);
}

std::function<AskedHolders()> asker_of_holders(const Options& options, const std::string& library) {
  std::string package = options.holders && options.flight.size != 0_B ? python::package_of(library) : std::string();
  if (package.empty()) return {};
  holder_walks().set_package(std::move(package));
  torch::on_failure([] { holder_walks().failed(); });
  return [] { return holder_walks().ask(); };
}

std::string look_for_frameworks(const Options& options, Recorder& recorder) {
  using Trust = python::FrameWalker::Trust;
  annotate::name_modules_with([](const void* module, std::string_view name) { walker().name_module(module, name); });
  torch::set_recorded(options.torch);
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

void hook_frameworks(const Options& options) {
  if (!options.torch) return;
  torch::look();  // the first report comes with a lock held
  torch::divert_calls();
}

void joined_frameworks(const Options& options) {
  if (options.torch) torch::ask_for_snapshot();
}

void left_frameworks() {
  torch::on_failure(nullptr);
  torch::restore_calls();
  torch::forget_recording();
  python::unwatch_code();
}

}  // namespace memreel::agent

// The agent's external entry points.

/// The driver did not call InitializeInjection(): another tool is configured, or none.
void memreel::cuda::interposer::driver_initialized() { memreel::agent::start(); }
void memreel::cuda::interposer::cupti_wanted(bool shares) { memreel::agent::cupti_wanted(shares); }

// NOLINTBEGIN(readability-identifier-naming): the names are those that CUDA and NVTX look for
extern "C" {

/// Called by the CUDA driver within cuInit if CUDA_INJECTION64_PATH names this library. Always returns 1 (success),
/// since a program that can't be recorded must still run.
[[gnu::visibility("default")]] int InitializeInjection() {
  memreel::agent::start();
  return 1;
}

/// Called by each copy of NVTX in the program, at its first call, if NVTX_INJECTION64_PATH names this library. Returns
/// 1 if it installed the tool.
[[gnu::visibility("default")]] int InitializeInjectionNvtx2(memreel::nvtx::GetExportTable get_table) {
  return memreel::nvtx::take_over(get_table) ? 1 : 0;
}

/// The same for each copy of NVTX's extensions. Returns 1 if it installed the tool.
[[gnu::visibility("default")]] int InitializeInjectionNvtxExtension(const memreel::nvtx::ExtensionInfo* info) {
  const auto current_device = [] {
    memreel::cuda::Device device = 0;
    return memreel::cuda::RealDriver::get().current_device(&device) == memreel::cuda::success ? device : -1;
  };
  if (info == nullptr) return 0;
  return memreel::nvtx::take_over_memory(*info, current_device) || memreel::nvtx::take_over_payloads(*info) ? 1 : 0;
}

/// For tools that enter the process later: starts recording into a new file. Returns 1 if recording, 0 if not; a
/// message on standard error says why.
[[gnu::visibility("default")]] int memreel_agent_start() { return memreel::agent::restart() ? 1 : 0; }

/// For the thread that the bootstrap started to load this library (collector/attach/bootstrap.h): waits for requests.
/// `page` is the bootstrap's code and data, `size` bytes.
[[gnu::visibility("default")]] void memreel_agent_visit(void* page, std::size_t size) {
  ::pthread_detach(::pthread_self());
  ::pthread_setname_np(::pthread_self(), "memreel-control");
  memreel::agent::control::visit([page, size] {
    const auto* const released = static_cast<const std::byte*>(page) + memreel::attach::Bootstrap::released_at;
    if (*reinterpret_cast<const volatile std::uint64_t*>(released) == 0) return false;
    return ::munmap(page, size) == 0;
  });
}

/// For Python programs that load this library through sys.remote_exec: the same in a separate thread.
[[gnu::visibility("default")]] void memreel_agent_invite() { memreel::agent::control::invite(); }

/// Completes the trace. Recording may begin again.
[[gnu::visibility("default")]] void memreel_agent_stop() { memreel::agent::stop("stopped"); }
}
// NOLINTEND(readability-identifier-naming)
