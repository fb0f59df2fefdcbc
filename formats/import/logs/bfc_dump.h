// Two formats that logs hold of BFC arenas.
//
// "tf.bfc": the dump that TensorFlow's and JAX's allocator logs when it runs out of memory (bfc_allocator.cc,
// DumpMemoryLog): "InUse at 7f.. of size 256 next 1", "Free  at ..", in older releases "Chunk at ..". One instant: the
// latest dump in the log, with the failed request if it is there.
//
// "ort.arena": what ONNX Runtime's arena logs at verbose level (bfc_arena.cc, Extend): "Extended allocation by N
// bytes.", "Allocated memory at A to B". Its regions, as segments; what is inside them is not in the log.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::logs {

bool looks_like_bfc_dump(std::span<const std::byte> beginning);
/// Memory: 40 bytes for each chunk of a dump.
Result<void> import_bfc_dump(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options);

bool looks_like_ort_arena(std::span<const std::byte> beginning);
Result<void> import_ort_arena(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                              const WriterOptions& options);

}  // namespace memreel::logs
