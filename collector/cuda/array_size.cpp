#include "collector/cuda/array_size.h"

#include <algorithm>

namespace memreel::cuda {
namespace {

/// Bits per channel of one element. Formats: CUarray_format in cuda.h. Block-compressed formats store 4 x 4
/// elements in 8 or 16 bytes; planar ones (video) store less than one value per channel and element.
struct ElementSize {
  unsigned bits_per_channel = 8;
  unsigned bits_in_all = 0;  // of all channels together, if the format alone determines it
};

ElementSize element_size(unsigned format) {
  switch (format) {
    case 0x02:
    case 0x09:
    case 0x10:
      return {.bits_per_channel = 16};
    case 0x03:
    case 0x0A:
    case 0x20:
      return {.bits_per_channel = 32};
    case 0x50:
      return {.bits_in_all = 32};  // 10, 10, 10 and 2 bits
    case 0xB0:
      return {.bits_in_all = 12};  // NV12
    case 0x9F:
    case 0xA1:
      return {.bits_in_all = 24};  // P010, P016
    case 0x91:
    case 0x92:
    case 0x97:
    case 0x98:
      return {.bits_in_all = 4};  // BC1, BC4
    default:
      break;
  }
  if (format >= 0x93 && format <= 0x9E) return {.bits_in_all = 8};  // BC2, 3, 5, 6, 7
  if (format >= 0xC0 && format <= 0xC5) return {.bits_in_all = (format < 0xC3 ? 8U : 16U) << ((format - 0xC0) % 3)};
  if (format >= 0xC6 && format <= 0xCB) return {.bits_in_all = (format < 0xC9 ? 8U : 16U) << ((format - 0xC6) % 3)};
  return {};
}

/// A dimension of 0 means that the array does not have it.
std::uint64_t extent(std::size_t size) { return std::max<std::size_t>(size, 1); }

std::uint64_t bytes(std::uint64_t elements, int format, unsigned channels) {
  const ElementSize element = element_size(static_cast<unsigned>(format));
  const std::uint64_t bits = element.bits_in_all != 0 ? element.bits_in_all : element.bits_per_channel * channels;
  return (elements * bits + 7) / 8;
}

}  // namespace

std::uint64_t array_size(const ArrayDescriptor& descriptor) {
  return bytes(extent(descriptor.width) * extent(descriptor.height), descriptor.format, descriptor.channels);
}

std::uint64_t array_size(const Array3dDescriptor& descriptor, unsigned levels) {
  constexpr unsigned layered = 1, cubemap = 4;  // CUDA_ARRAY3D_LAYERED, CUDA_ARRAY3D_CUBEMAP: depth counts layers
  const bool depth_shrinks = (descriptor.flags & (layered | cubemap)) == 0;
  std::uint64_t size = 0;
  for (unsigned level = 0; level < levels && level < 64; ++level) {
    const std::uint64_t depth = depth_shrinks ? extent(descriptor.depth >> level) : extent(descriptor.depth);
    size += bytes(extent(descriptor.width >> level) * extent(descriptor.height >> level) * depth, descriptor.format,
                  descriptor.channels);
  }
  return size;
}

}  // namespace memreel::cuda
