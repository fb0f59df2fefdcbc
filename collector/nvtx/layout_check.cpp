// NVTX's own headers, where they are, agree with nvtx_api.h: this file only has to compile.
#include <nvtx3/nvToolsExt.h>

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

}  // namespace memreel::nvtx
