// Phrases shared by text, Markdown and HTML.
#pragma once

#include <string>

#include "analyzer/cli/report.h"

namespace memreel::cli {

/// "torch.cuda, device 0"; for host memory only the name.
std::string heap_title(const Tables& tables, HeapId heap);

/// "stream 0x7f.., pool (0, 1), small": the parts that differ from the default.
std::string place_of(const Tables& tables, const PoolStreamKey& pool_stream);

std::string text_of_time(Nanoseconds duration);

/// Time elapsed since the first event.
Nanoseconds since_start(const Trace& trace, Nanoseconds time);

/// A sentence about the one setting for the whole program; empty if no request failed by fragmentation.
std::string oom_setting_text(const Report& report);

/// A sentence listing the settings and allocators that serve a failed request, or why there are none.
std::string survivors_text(const Report& report, const OutOfMemory& oom);

/// A sentence about what a static plan of one step would save; empty if that is too little to say.
std::string step_plan_text(const Report& report);

}  // namespace memreel::cli
