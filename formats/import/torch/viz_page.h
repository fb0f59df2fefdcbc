// The format "torch.page": the page that PyTorch's `python torch/cuda/_memory_viz.py trace_plot snapshot.pickle -o
// x.html` writes. It contains the snapshot, a pickle in base64 (torch/cuda/_memory_viz.py, _format_viz).
//
// Pages of PyTorch 2.0, and the one of profiler.export_memory_timeline("x.html"), hold pictures instead; they are
// refused.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

/// Whether it is an HTML page that has to do with PyTorch's memory.
bool looks_like_viz_page(std::span<const std::byte> beginning);

/// Converts the snapshot in the page.
Result<void> import_viz_page(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options);

}  // namespace memreel::torch
