// The part of NVTX's injection interface that is used here, as nvtx3/nvtxDetail/nvtxTypes.h and nvToolsExt.h (version
// 3) declare it. Numbers and layouts are constant by NVTX's own promise; layout_check.cpp compares them with its
// headers where these are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace memreel::nvtx {

using Function = void (*)();

/// What the program's copy of NVTX gives to InitializeInjectionNvtx2.
using GetExportTable = const void* (*)(std::uint32_t table);
inline constexpr std::uint32_t callbacks_table = 1;  // NVTX_ETID_CALLBACKS

struct Callbacks {
  std::size_t size;
  /// `functions`: where the pointers to the module's functions are, by their numbers; entries may be null.
  int (*module_functions)(std::uint32_t module, Function*** functions, unsigned* count);
};

inline constexpr std::uint32_t module_core = 1;   // NVTX_CB_MODULE_CORE
inline constexpr std::uint32_t module_core2 = 5;  // NVTX_CB_MODULE_CORE2

enum class Core : std::uint32_t {
  mark_ex = 1,
  mark_ascii = 2,
  mark_wide = 3,
  range_start_ex = 4,
  range_start_ascii = 5,
  range_start_wide = 6,
  range_end = 7,
  range_push_ex = 8,
  range_push_ascii = 9,
  range_push_wide = 10,
  range_pop = 11,
};

enum class Core2 : std::uint32_t {
  mark_ex = 1,
  range_start_ex = 2,
  range_end = 3,
  range_push_ex = 4,
  range_pop = 5,
  register_string_ascii = 10,
  register_string_wide = 11,
};

union Message {
  const char* ascii;
  const wchar_t* wide;
  const void* registered;  // what register_string_* returned
};
inline constexpr std::int32_t message_ascii = 1;
inline constexpr std::int32_t message_wide = 2;
inline constexpr std::int32_t message_registered = 3;

struct Attributes {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type;
  std::int32_t reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  Message message;
};

}  // namespace memreel::nvtx
