// SPDX-License-Identifier: Apache-2.0
// A library that a Python program loads with ctypes to see its own frames as memreel does.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "collector/python/code_table.h"
#include "collector/python/frame_walker.h"

namespace {

using memreel::python::FrameChain;
using memreel::python::FrameWalker;

FrameWalker& walker() {
  static FrameWalker walker;
  return walker;
}

std::size_t put(const std::string& text, char* out, std::size_t size) {
  const std::size_t n = std::min(text.size(), size - 1);
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
  return n;
}

/// One per thread, as in a recording: from mmap, never constructed. The tests' threads never free theirs.
FrameChain& chain() {
  thread_local auto* const made = static_cast<FrameChain*>(
      ::mmap(nullptr, sizeof(FrameChain), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return *made;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void probe_look() { walker().look(); }
__attribute__((visibility("default"))) void probe_leave() { memreel::python::unwatch_code(); }
__attribute__((visibility("default"))) unsigned probe_epoch() { return memreel::python::code_epoch(); }
__attribute__((visibility("default"))) int probe_trust() { return static_cast<int>(walker().trust()); }
__attribute__((visibility("default"))) int probe_compare() { return static_cast<int>(walker().compare_with_api()); }
__attribute__((visibility("default"))) const char* probe_reason() { return walker().reason().c_str(); }
__attribute__((visibility("default"))) unsigned long long probe_refused() { return walker().refused_codes(); }

__attribute__((visibility("default"))) void probe_name_module(const void* module, const char* name) {
  walker().name_module(module, name == nullptr ? "" : name);
}

/// The frames of the calling thread as lines of "entry TAB line TAB file TAB function TAB module", at most `depth` of
/// them. Module: its name; otherwise its class, "@" and its address; otherwise empty.
__attribute__((visibility("default"))) std::size_t probe_walk(char* out, std::size_t size, std::size_t depth) {
  walker().walk(chain());
  std::vector<memreel::stacks::PythonFrame> frames(std::min(depth, FrameChain::longest));
  const std::size_t count = walker().frames(chain(), frames);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = walker().describe(frames[i].key);
    text += frames[i].is_entry ? "1\t" : "0\t";
    text += std::to_string(place.line) + "\t" + place.file + "\t" + place.function + "\t" + place.module_name;
    if (place.module_name.empty() && !place.module_type.empty())
      text += place.module_type + "@" + std::to_string(place.module_id);
    text += "\n";
  }
  return put(text, out, size);
}

/// Like a recording: walks `times` times and keeps nothing. Returns the number of the last walk.
__attribute__((visibility("default"))) std::size_t probe_walk_only(std::size_t times) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < times; ++i) number = walker().walk(chain());
  return number;
}

/// Calls back into Python, like C code between Python frames.
__attribute__((visibility("default"))) int probe_call(int (*function)(int), int argument) { return function(argument); }

}  // extern "C"
