// SPDX-License-Identifier: Apache-2.0
#include "formats/wire/zstd.h"

#include <zstd.h>

#include <algorithm>
#include <new>

namespace memreel::wire {

void Compressor::Free::operator()(void* context) const { ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(context)); }

Compressor::Compressor(int level) : context_(ZSTD_createCCtx()) {
  ZSTD_CCtx_setParameter(static_cast<ZSTD_CCtx*>(context_.get()), ZSTD_c_compressionLevel, level);
}

std::string_view Compressor::compress(std::string_view content) {
  // Never shrunk: growing a string zeroes the new part.
  frame_.resize(std::max(frame_.size(), ZSTD_compressBound(content.size())));
  // With sufficient room and a valid context, the only possible failure is lack of memory.
  const std::size_t size = ZSTD_compress2(static_cast<ZSTD_CCtx*>(context_.get()), frame_.data(), frame_.size(),
                                          content.data(), content.size());
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();
  return std::string_view(frame_).substr(0, size);
}

void Decompressor::Free::operator()(void* context) const { ZSTD_freeDCtx(static_cast<ZSTD_DCtx*>(context)); }

Decompressor::Decompressor() : context_(ZSTD_createDCtx()) {}

std::optional<std::string_view> Decompressor::decompress(std::string_view frame, std::size_t size) {
  buffer_.resize(std::max(buffer_.size(), size + padding));
  const std::size_t got =
      ZSTD_decompressDCtx(static_cast<ZSTD_DCtx*>(context_.get()), buffer_.data(), size, frame.data(), frame.size());
  if (ZSTD_isError(got) != 0 || got != size) return std::nullopt;
  return std::string_view(buffer_.data(), size);
}

}  // namespace memreel::wire
