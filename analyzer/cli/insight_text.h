// Words that text, Markdown and HTML say alike.
#pragma once

#include <string>

#include "analyzer/cli/report.h"

namespace memreel::cli {

/// "torch.cuda, device 0"; of host memory the name alone.
std::string heap_title(const Tables& tables, HeapId heap);

/// "stream 0x7f.., pool (0, 1), small": what is not the default one.
std::string place_of(const Tables& tables, const PoolStreamKey& pool_stream);

std::string text_of_time(Nanoseconds duration);

/// How long after the first event.
Nanoseconds since_start(const Trace& trace, Nanoseconds time);

/// The one setting for the whole program, in a sentence; empty when no request failed by fragmentation.
std::string oom_setting_text(const Report& report);

/// The settings and allocators that serve a failed request, in one sentence; why there are none, when there are none.
std::string survivors_text(const Report& report, const OutOfMemory& oom);

}  // namespace memreel::cli
