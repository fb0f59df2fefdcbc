// SPDX-License-Identifier: Apache-2.0
// The part of NVTX's injection interface that memreel uses, as declared in nvtx3/nvtxDetail/nvtxTypes.h and
// nvToolsExt.h (version 3). NVTX promises that numbers and layouts are constant; layout_check.cpp compares them with
// its headers where available.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace memreel::nvtx {

using Function = void (*)();

/// What the program's copy of NVTX passes to InitializeInjectionNvtx2.
using GetExportTable = const void* (*)(std::uint32_t table);
inline constexpr std::uint32_t callbacks_table = 1;  // NVTX_ETID_CALLBACKS

struct Callbacks {
  std::size_t size;
  /// `functions`: receives the array of the module's function pointers, by number; entries may be null.
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

// Extensions (nvtxExtTypes.h), which a program's copy passes to InitializeInjectionNvtxExtension.

inline constexpr std::uint16_t extension_memory = 1;   // NVTX_EXT_MODULEID_MEM
inline constexpr std::uint16_t extension_payload = 2;  // NVTX_EXT_PAYLOAD_MODULEID

struct ExtensionSegment {
  std::size_t id;
  std::size_t slot_count;
  std::intptr_t* slots;  // receives the functions, by number
};

struct ExtensionInfo {
  std::uint16_t version;
  std::uint16_t struct_size;
  std::uint16_t module;
  std::uint16_t compatibility;
  std::size_t segment_count;
  ExtensionSegment* segments;
  std::intptr_t (*get_function)(std::uint32_t id);
  const void* more;
};

/// The functions of an extension; an unknown version has none.
class ExtensionSlots {
 public:
  explicit ExtensionSlots(const ExtensionInfo& info) {
    if (info.struct_size >= sizeof(ExtensionInfo) && info.segment_count > 0 && info.segments != nullptr)
      slots_ = {info.segments[0].slots, info.segments[0].slot_count};
  }

  template <class Number, class Ours>
  void replace(Number number, Ours* ours) const {
    const auto i = static_cast<std::size_t>(number);
    if (i < slots_.size()) slots_[i] = std::bit_cast<std::intptr_t>(ours);
  }

 private:
  std::span<std::intptr_t> slots_;
};

// The payload extension (nvToolsExtPayload.h).

enum class WithPayload : std::uint32_t {
  schema_register = 0,
  range_push = 3,
  range_pop = 4,
  range_start = 5,
  range_end = 6,
};

struct Payload {
  std::uint64_t schema;
  std::size_t size;
  const void* data;
};

/// Of Attributes::payload_type: `payload` points to Payloads, whose number is in `reserved`.
inline constexpr auto payload_extended = static_cast<std::int32_t>(0xDFBD0009);

struct SchemaEntry {
  std::uint64_t flags;
  std::uint64_t type;
  const char* name;
  const char* description;
  std::uint64_t detail;
  std::uint64_t offset;
  const void* semantics;
  const void* reserved;
};

struct Schema {
  std::uint64_t fields;
  const char* name;
  std::uint64_t type;
  std::uint64_t flags;
  const SchemaEntry* entries;
  std::size_t entry_count;
  std::size_t size;
  std::size_t alignment;
  std::uint64_t id;
  const void* more;
};

inline constexpr std::uint64_t schema_has_id = 1U << 8U;  // in Schema::fields
// A schema's number is its program's choice, from here ...
inline constexpr std::uint64_t first_static_schema = std::uint64_t{1} << 24U;
inline constexpr std::uint64_t first_dynamic_schema = std::uint64_t{1} << 32U;  // ... or the tool's

// The memory extension (nvToolsExtMem.h).

enum class Memory : std::uint32_t {
  heap_register = 0,
  heap_unregister = 1,
  heap_reset = 2,
  regions_register = 3,
  regions_resize = 4,
  regions_unregister = 5,
};

inline constexpr std::uint32_t memory_virtual_address = 1;  // NVTX_MEM_TYPE_VIRTUAL_ADDRESS

struct Range {
  std::size_t size;
  const void* address;
};

struct HeapDescription {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t reserved;
  std::uint32_t usage;
  std::uint32_t type;
  std::size_t detail_size;
  const void* detail;  // for virtual addresses: a Range
  std::uint32_t category;
  std::uint32_t message_type;
  Message message;
};

struct RegionsRegistered {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t type;
  const void* heap;
  std::size_t count;
  std::size_t element_size;
  const void* elements;  // Range
  const void** handles;  // receives the handles
};

struct RegionsResized {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t type;
  std::size_t count;
  std::size_t element_size;
  const void* elements;  // Range
};

struct RegionsUnregistered {
  std::uint16_t compatibility;
  std::uint16_t struct_size;
  std::uint32_t reference_type;
  std::size_t count;
  std::size_t element_size;
  const void* elements;  // addresses or handles
};

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
