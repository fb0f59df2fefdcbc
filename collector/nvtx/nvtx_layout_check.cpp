// SPDX-License-Identifier: Apache-2.0
// Checks that NVTX's own headers, if available, agree with nvtx_api.h: this file only has to compile.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>
#include <nvtx3/nvToolsExtPayload.h>

#include "collector/nvtx/nvtx_api.h"

namespace memreel::nvtx {

static_assert(callbacks_table == NVTX_ETID_CALLBACKS);
static_assert(sizeof(Callbacks) == sizeof(NvtxExportTableCallbacks));
static_assert(module_core == NVTX_CB_MODULE_CORE && module_core2 == NVTX_CB_MODULE_CORE2);

static_assert(static_cast<int>(Core::mark_ex) == NVTX_CBID_CORE_MarkEx);
static_assert(static_cast<int>(Core::mark_wide) == NVTX_CBID_CORE_MarkW);
static_assert(static_cast<int>(Core::range_start_ex) == NVTX_CBID_CORE_RangeStartEx);
static_assert(static_cast<int>(Core::range_end) == NVTX_CBID_CORE_RangeEnd);
static_assert(static_cast<int>(Core::range_push_ex) == NVTX_CBID_CORE_RangePushEx);
static_assert(static_cast<int>(Core::range_push_ascii) == NVTX_CBID_CORE_RangePushA);
static_assert(static_cast<int>(Core::range_pop) == NVTX_CBID_CORE_RangePop);
static_assert(static_cast<int>(Core2::mark_ex) == NVTX_CBID_CORE2_DomainMarkEx);
static_assert(static_cast<int>(Core2::range_start_ex) == NVTX_CBID_CORE2_DomainRangeStartEx);
static_assert(static_cast<int>(Core2::range_end) == NVTX_CBID_CORE2_DomainRangeEnd);
static_assert(static_cast<int>(Core2::range_push_ex) == NVTX_CBID_CORE2_DomainRangePushEx);
static_assert(static_cast<int>(Core2::range_pop) == NVTX_CBID_CORE2_DomainRangePop);
static_assert(static_cast<int>(Core2::register_string_ascii) == NVTX_CBID_CORE2_DomainRegisterStringA);
static_assert(static_cast<int>(Core2::register_string_wide) == NVTX_CBID_CORE2_DomainRegisterStringW);

static_assert(message_ascii == NVTX_MESSAGE_TYPE_ASCII && message_wide == NVTX_MESSAGE_TYPE_UNICODE &&
              message_registered == NVTX_MESSAGE_TYPE_REGISTERED);
static_assert(sizeof(Attributes) == sizeof(nvtxEventAttributes_t));
static_assert(offsetof(Attributes, message_type) == offsetof(nvtxEventAttributes_t, messageType));
static_assert(offsetof(Attributes, message) == offsetof(nvtxEventAttributes_t, message));

static_assert(offsetof(Attributes, payload) == offsetof(nvtxEventAttributes_t, payload));
static_assert(offsetof(Attributes, reserved) == offsetof(nvtxEventAttributes_t, reserved0));

static_assert(extension_payload == NVTX_EXT_PAYLOAD_MODULEID && payload_extended == NVTX_PAYLOAD_TYPE_EXT);
static_assert(static_cast<int>(WithPayload::schema_register) == NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
static_assert(static_cast<int>(WithPayload::range_push) == NVTX3EXT_CBID_nvtxRangePushPayload);
static_assert(static_cast<int>(WithPayload::range_pop) == NVTX3EXT_CBID_nvtxRangePopPayload);
static_assert(static_cast<int>(WithPayload::range_start) == NVTX3EXT_CBID_nvtxRangeStartPayload);
static_assert(static_cast<int>(WithPayload::range_end) == NVTX3EXT_CBID_nvtxRangeEndPayload);
static_assert(sizeof(Payload) == sizeof(nvtxPayloadData_t));
static_assert(offsetof(Payload, data) == offsetof(nvtxPayloadData_t, payload));
static_assert(sizeof(SchemaEntry) == sizeof(nvtxPayloadSchemaEntry_t));
static_assert(offsetof(SchemaEntry, name) == offsetof(nvtxPayloadSchemaEntry_t, name));
static_assert(sizeof(Schema) == sizeof(nvtxPayloadSchemaAttr_t));
static_assert(offsetof(Schema, entries) == offsetof(nvtxPayloadSchemaAttr_t, entries));
static_assert(offsetof(Schema, id) == offsetof(nvtxPayloadSchemaAttr_t, schemaId));

static_assert(extension_memory == NVTX_EXT_MODULEID_MEM && memory_virtual_address == NVTX_MEM_TYPE_VIRTUAL_ADDRESS);
static_assert(static_cast<int>(Memory::heap_register) == NVTX3EXT_CBID_nvtxMemHeapRegister);
static_assert(static_cast<int>(Memory::heap_reset) == NVTX3EXT_CBID_nvtxMemHeapReset);
static_assert(static_cast<int>(Memory::regions_register) == NVTX3EXT_CBID_nvtxMemRegionsRegister);
static_assert(static_cast<int>(Memory::regions_resize) == NVTX3EXT_CBID_nvtxMemRegionsResize);
static_assert(static_cast<int>(Memory::regions_unregister) == NVTX3EXT_CBID_nvtxMemRegionsUnregister);
static_assert(sizeof(ExtensionInfo) == sizeof(nvtxExtModuleInfo_t));
static_assert(offsetof(ExtensionInfo, segments) == offsetof(nvtxExtModuleInfo_t, segments));
static_assert(sizeof(ExtensionSegment) == sizeof(nvtxExtModuleSegment_t));
static_assert(offsetof(ExtensionSegment, slots) == offsetof(nvtxExtModuleSegment_t, functionSlots));
static_assert(sizeof(Range) == sizeof(nvtxMemVirtualRangeDesc_t));
static_assert(offsetof(Range, address) == offsetof(nvtxMemVirtualRangeDesc_t, ptr));
static_assert(sizeof(HeapDescription) == sizeof(nvtxMemHeapDesc_t));
static_assert(offsetof(HeapDescription, detail) == offsetof(nvtxMemHeapDesc_t, typeSpecificDesc));
static_assert(offsetof(HeapDescription, message) == offsetof(nvtxMemHeapDesc_t, message));
static_assert(sizeof(RegionsRegistered) == sizeof(nvtxMemRegionsRegisterBatch_t));
static_assert(offsetof(RegionsRegistered, elements) == offsetof(nvtxMemRegionsRegisterBatch_t, regionDescElements));
static_assert(offsetof(RegionsRegistered, handles) == offsetof(nvtxMemRegionsRegisterBatch_t, regionHandleElementsOut));
static_assert(sizeof(RegionsResized) == sizeof(nvtxMemRegionsResizeBatch_t));
static_assert(offsetof(RegionsResized, elements) == offsetof(nvtxMemRegionsResizeBatch_t, regionDescElements));
static_assert(sizeof(RegionsUnregistered) == sizeof(nvtxMemRegionsUnregisterBatch_t));
static_assert(offsetof(RegionsUnregistered, elements) == offsetof(nvtxMemRegionsUnregisterBatch_t, refElements));

}  // namespace memreel::nvtx
