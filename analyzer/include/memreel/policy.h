/* An allocator policy of your own, which memreel replays a program against.
 *
 * Put the functions below into a shared library, in C99 or newer, C++, or any language that can export them:
 *
 *     cc -std=c99 -O2 -shared -fPIC -I analyzer/include mine.c -o mine.so
 *     memreel replay run.reel --policy './mine.so{limit=64}'
 *
 * A policy is told what the program did, one call per operation, and answers with what an allocator would have done: it
 * reserves memory from a device that memreel simulates, places allocations in it, and releases it. The memory is only
 * addresses; nothing may be read from it or written to it. All sizes are bytes.
 *
 * Allocations are known by their slots: small numbers, below `slot_count`, which are used again once an allocation is
 * freed. A policy can keep what it knows of them in an array.
 *
 * Threads: memreel makes an instance for every replay, and replays run at the same time. The functions of one instance
 * are called by one thread at a time, create() and destroy() included; those of different instances by several. So
 * instances must not share anything that changes. No exception may leave a function.
 *
 * memreel checks each answer: allocations must be at least as large as requested, lie inside one reserved piece of
 * memory, and not overlap; only what was reserved may be released, and only when nothing lives in it; what is free must
 * fit into what is reserved. The first wrong answer ends the replay with a line that says what it was.
 *
 * Versions: functions may be added at the end of memreel_policy; libraries built before that go on working. Anything
 * else raises MEMREEL_POLICY_VERSION, and older libraries are refused.
 */
/* This is C. NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using,readability-identifier-naming) */
#ifndef MEMREEL_POLICY_H
#define MEMREEL_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MEMREEL_POLICY_VERSION 1

/* What stands in the braces of --policy './mine.so{key=value}'. Both are strings of their own. */
typedef struct memreel_parameter {
  const char* key;
  const char* value;
} memreel_parameter;

/* Where a request comes from: numbers, the same for the same pool or stream, 0 for the default ones. Most allocators
 * reuse memory at once only inside one pool and on one stream. */
typedef struct memreel_pool_stream {
  uint32_t pool;
  uint32_t stream;
} memreel_pool_stream;

/* memreel's own. */
typedef struct memreel_device memreel_device;

/* What a policy may use. Valid until destroy() returns. */
typedef struct memreel_environment {
  memreel_device* device; /* the first argument of the two functions */

  /* Reserves `size` bytes, more than 0, and writes where they begin: at a multiple of 512 bytes. 0 when the device has
   * not so much left. */
  int (*reserve)(memreel_device* device, uint64_t size, uint64_t* address);

  /* Gives back all of what one reserve() gave. */
  void (*release)(memreel_device* device, uint64_t address);

  uint64_t capacity;   /* what can be reserved in all; 0 when nothing limits it */
  uint32_t slot_count; /* all slots are below */
  uint32_t pool_stream_count;
  const memreel_pool_stream* pool_streams; /* by the number that allocate() is given */
} memreel_environment;

typedef struct memreel_extent {
  uint64_t address;
  uint64_t size;
} memreel_extent;

/* Memory that is reserved and could be handed out: neither allocated nor still in use by the device. */
typedef struct memreel_statistics {
  uint64_t free;
  uint64_t largest_free; /* the largest request that could be served from it, on whatever stream; 0 when nothing is */
} memreel_statistics;

typedef struct memreel_policy {
  uint32_t version;        /* MEMREEL_POLICY_VERSION */
  uint32_t struct_size;    /* sizeof(memreel_policy) */
  const char* description; /* one line */
  uint64_t unit;           /* what is reserved is a multiple of this many bytes; 0 when that can't be said */

  /* These are needed. */

  /* A new instance, passed to all the others. NULL when that is impossible, e.g. because of a parameter: then write why
   * into `error`, a string of at most `error_size` bytes with its terminating 0. */
  void* (*create)(const memreel_parameter* parameters, size_t parameter_count, const memreel_environment* environment,
                  char* error, size_t error_size);
  void (*destroy)(void* policy);

  /* The program asks for `size` bytes, maybe 0. Returns 1, or 0 when there is no memory: then the slot stays unused. */
  int (*allocate)(void* policy, uint32_t slot, uint64_t size, uint32_t pool_stream);

  /* The device is done with an allocation that the program freed: its memory can be used again. */
  void (*free_completed)(void* policy, uint32_t slot);

  /* Where an allocation lies, rounding included: at least one byte. Called once, after allocate(). */
  memreel_extent (*extent_of)(const void* policy, uint32_t slot);

  /* Called after every operation. */
  memreel_statistics (*statistics)(const void* policy);

  /* These may be NULL. */

  /* The program freed an allocation; free_completed() follows, most often at once. */
  void (*free_requested)(void* policy, uint32_t slot);

  /* The program asked for cached memory to be given back. */
  void (*empty_cache)(void* policy);

  /* The host waited for all streams; for the stream of a pair; or the stream of `pool_stream` was made to wait
   * for what that of `awaited` had been given so far. */
  void (*device_synchronized)(void* policy);
  void (*stream_synchronized)(void* policy, uint32_t pool_stream);
  void (*stream_waits)(void* policy, uint32_t pool_stream, uint32_t awaited);
} memreel_policy;

/* The one symbol that the library exports. What it points to must stay as it is. */
const memreel_policy* memreel_policy_get(void);

#ifdef __cplusplus
}
#endif

#endif
/* NOLINTEND(modernize-deprecated-headers,modernize-use-using,readability-identifier-naming) */
