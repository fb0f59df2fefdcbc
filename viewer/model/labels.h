// Labels for the things in a trace. Pools and streams: formats/model/origin_text.h.
#pragma once

#include <cstdint>
#include <string>

#include "formats/model/origin_text.h"
#include "formats/model/trace.h"
#include "viewer/model/stacked_series.h"

namespace memreel::viewer {

/// "modeling_gpt2.py:240  forward > activations.py:66  ← train.py:42": the most informative frame (own_frame.h),
/// the innermost frame below it, and the stack's own line (the one that the reader can change), if these differ. Frames
/// that only pass a call on are skipped. "(no stack)" without one.
std::string stack_label(const Tables& tables, StackId stack);
/// The label of allocations without a stack, by phase: "(no stack, in the backward pass)".
std::string no_stack_label(Phase phase);
std::string thread_label(const Tables& tables, ThreadId id);
/// "device 0 torch.cuda"
std::string heap_label(const Tables& tables, HeapId id);
std::string split_label(const Tables& tables, std::uint32_t key, SplitBy by);
/// "0x7f2c40000000"
std::string address_text(Address address);
/// Time since the beginning of the trace, with enough digits to distinguish instants `resolution` apart: "1.250 s",
/// "2:05 min", "3:07:30 h", "4 d 6:00 h".
std::string time_text(Nanoseconds since_begin, Nanoseconds resolution);
/// The last component of a path.
std::string_view file_name(std::string_view path);

}  // namespace memreel::viewer
