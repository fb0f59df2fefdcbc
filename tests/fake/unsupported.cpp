// SPDX-License-Identifier: Apache-2.0
// Driver functions that programs look up without depending on them: they exist, and report that this GPU does not
// support them.
#include "tests/fake/abi.h"

extern "C" {

fake::Status cuMemExportToShareableHandle() { return fake::not_supported; }
fake::Status cuMemImportFromShareableHandle() { return fake::not_supported; }
fake::Status cuMemGetHandleForAddressRange() { return fake::not_supported; }
fake::Status cuMulticastAddDevice() { return fake::not_supported; }
fake::Status cuMulticastBindMem() { return fake::not_supported; }
fake::Status cuMulticastUnbind() { return fake::not_supported; }
fake::Status cuMulticastCreate() { return fake::not_supported; }
fake::Status cuStreamWriteValue32_v2() { return fake::not_supported; }
fake::Status cuStreamWriteValue32() { return fake::not_supported; }
fake::Status cuStreamBatchMemOp_v2() { return fake::not_supported; }
fake::Status cuMemsetD32Async() { return fake::success; }
fake::Status cuTensorMapEncodeTiled() { return fake::not_supported; }
fake::Status cuGreenCtxStreamCreate() { return fake::not_supported; }
fake::Status cuDevSmResourceSplitByCount() { return fake::not_supported; }
fake::Status cuGreenCtxRecordEvent() { return fake::not_supported; }
fake::Status cuGreenCtxWaitEvent() { return fake::not_supported; }
fake::Status cuGetExportTable() { return fake::not_supported; }
fake::Status cuModuleLoadData() { return fake::not_supported; }
fake::Status cuModuleLoadDataEx() { return fake::not_supported; }
fake::Status cuModuleGetFunction() { return fake::not_supported; }
fake::Status cuModuleUnload() { return fake::not_supported; }
fake::Status cuFuncSetAttribute() { return fake::not_supported; }
fake::Status cuFuncGetAttribute() { return fake::not_supported; }
fake::Status cuLaunchKernel() { return fake::not_supported; }
fake::Status cuLaunchKernelEx() { return fake::not_supported; }
fake::Status cuLaunchCooperativeKernel() { return fake::not_supported; }
fake::Status cuLinkCreate_v2() { return fake::not_supported; }
fake::Status cuLinkAddData_v2() { return fake::not_supported; }
fake::Status cuLinkComplete() { return fake::not_supported; }
fake::Status cuLinkDestroy() { return fake::not_supported; }
fake::Status cuOccupancyMaxActiveBlocksPerMultiprocessor() { return fake::not_supported; }
}
