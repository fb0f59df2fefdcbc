// What things of a trace are called on screen. Pools and streams: formats/model/origin_text.h.
#pragma once

#include <cstdint>
#include <string>

#include "formats/model/origin_text.h"
#include "formats/model/trace.h"
#include "viewer/model/stacked_series.h"

namespace memreel::viewer {

/// "modeling_gpt2.py:240  forward > activations.py:66  ← train.py:42": the frame that explains (own_frame.h), the
/// innermost that it comes to, and the line of the stack that its reader can change, where they are others. What only
/// passes a call on is none of them. "(no stack)" without one.
std::string stack_label(const Tables& tables, StackId stack);
/// What is called so that has no stack, by the phase that it was made in: "(no stack, in the backward pass)".
std::string no_stack_label(Phase phase);
std::string thread_label(const Tables& tables, ThreadId id);
/// "device 0 torch.cuda"
std::string heap_label(const Tables& tables, HeapId id);
std::string split_label(const Tables& tables, std::uint32_t key, SplitBy by);
/// "0x7f2c40000000"
std::string address_text(Address address);
/// Since the beginning of the trace, with as many digits as tell two instants `resolution` apart: "1.250 s",
/// "2:05 min", "3:07:30 h", "4 d 6:00 h".
std::string time_text(Nanoseconds since_begin, Nanoseconds resolution);
/// Only the last part of a path, as people name files.
std::string_view file_name(std::string_view path);

}  // namespace memreel::viewer
