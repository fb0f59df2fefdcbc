// SPDX-License-Identifier: Apache-2.0
// A database as exported by Nsight Systems, small enough to damage byte by byte.
#pragma once

#include <sqlite3.h>

#include <string>

namespace memreel::test {

/// The database created by `statements`, as a file.
inline std::string database_of(const std::string& statements) {
  sqlite3* database = nullptr;
  sqlite3_open(":memory:", &database);
  sqlite3_exec(database, ("PRAGMA page_size=512;" + statements).c_str(), nullptr, nullptr, nullptr);
  sqlite3_int64 size = 0;
  unsigned char* const content = sqlite3_serialize(database, "main", &size, 0);
  const std::string file(reinterpret_cast<const char*>(content), static_cast<std::size_t>(size));
  sqlite3_free(content);
  sqlite3_close(database);
  return file;
}

/// Process 1 allocates twice, in a call with a stack, and frees once; within a range.
inline std::string nsys_database() {
  return database_of(
      "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start,globalPid,deviceId,address,bytes,memKind,memoryOperationType,"
      "correlationId,localMemoryPoolAddress);"
      "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS "
      "VALUES(30,16777216,0,4096,512,2,1,0,0),(10,16777216,0,4096,512,2,0,7,0),"
      "(20,16777216,0,8192,256,4,0,0,0);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(correlationId,globalTid,start,end,callchainId);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(7,16777218,9,11,5);"
      "CREATE TABLE CUDA_CALLCHAINS(id,stackDepth,symbol,module);INSERT INTO CUDA_CALLCHAINS VALUES(5,1,2,3),(5,0,1,3);"
      "CREATE TABLE StringIds(id INTEGER PRIMARY KEY,value);INSERT INTO StringIds "
      "VALUES(1,'f'),(2,'main'),(3,'lib.so');"
      "CREATE TABLE NVTX_EVENTS(start,end,eventType,globalTid,text,textId);"
      "INSERT INTO NVTX_EVENTS VALUES(5,25,59,16777218,'step',NULL),(6,NULL,34,16777218,NULL,1);");
}

}  // namespace memreel::test
