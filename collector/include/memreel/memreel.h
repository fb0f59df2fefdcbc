// SPDX-License-Identifier: Apache-2.0
/* memreel.h: tell memreel about memory that only your program can see.
 *
 * To the CUDA driver, a program with its own memory pool makes a few large allocations. The calls below say how the
 * pool divides them, so that leaks, fragmentation and failures show up where they happen. One header, C99 or C++11,
 * nothing to link. If the process is not recorded, each call reads one variable and returns: a program built with
 * annotations runs anywhere.
 *
 *     memreel_pool pool = memreel_pool_create("activations", MEMREEL_POOL_CACHING, MEMREEL_DEVICE, 0);
 *     memreel_segment_add(pool, base, 64 << 20);           what the pool got from cudaMalloc
 *     memreel_alloc(pool, piece, bytes, stream);           what it allocates
 *     memreel_free(pool, piece);
 *     memreel_step();                                      once for each iteration of the main loop
 *
 * Any thread may make any call at any time. No call calls CUDA, throws, or changes errno. memreel_usage_now() and
 * memreel_snapshot() wait for another thread, for seconds at most; others only in recordings with --when-full block,
 * while the first call of CUDA starts a recording, and to remove a callback that is being called.
 * Addresses are numbers: anything that identifies an allocation within its pool will do. Names are copied.
 *
 * A pool can't have two live allocations at one address: the second ends the first.
 */
/* This is C. NOLINTBEGIN */
#ifndef MEMREEL_MEMREEL_H
#define MEMREEL_MEMREEL_H

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#include <cstdint>
#endif

#ifdef __clang__ /* in C++ it warns of C's casts, unlike GCC even within extern "C" */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wold-style-cast"
#endif

#ifdef __cplusplus
#define MEMREEL_NULL nullptr
extern "C" {
#else
#define MEMREEL_NULL 0
#endif

/* A custom pool. 0 is no pool: its events are ignored. */
typedef uint64_t memreel_pool;

/* As a parent: the pool gets its memory from the device driver. */
#define MEMREEL_DEVICE 0

/* How a pool works. Only informs the reader of a report. */
typedef enum memreel_pool_kind {
  MEMREEL_POOL_OTHER = 0,
  MEMREEL_POOL_CACHING = 1, /* keeps what is freed, splits and merges */
  MEMREEL_POOL_ARENA = 2,   /* all freed at once */
  MEMREEL_POOL_SLAB = 3,    /* pieces of equal size */
  MEMREEL_POOL_RING = 4,    /* first in, first out */
  MEMREEL_POOL_VMM = 5      /* maps physical memory to addresses it reserved */
} memreel_pool_kind;

typedef enum memreel_event_kind {
  MEMREEL_ALLOC = 1,          /* `bytes` were requested and allocated at `address`, in order of `stream` */
  MEMREEL_FREE = 2,           /* the program freed `address`, and the block is free for reuse */
  MEMREEL_FREE_REQUESTED = 3, /* the program freed it; the device may still be using it ... */
  MEMREEL_FREE_COMPLETED = 4, /* ... now it is free for reuse */
  MEMREEL_SEGMENT_ADD = 5,    /* the pool got `bytes` at `address` from its parent */
  MEMREEL_SEGMENT_REMOVE = 6, /* ... and returned them */
  MEMREEL_OOM = 7             /* a request for `bytes` could not be served */
} memreel_event_kind;

/* One event; memreel_batch() takes many. Fields that a kind does not use are 0. */
typedef struct memreel_event {
  uint32_t kind; /* memreel_event_kind */
  uint32_t reserved;
  memreel_pool pool;
  uint64_t address;
  uint64_t bytes;
  uint64_t stream; /* the cudaStream_t as a number; 0: the default stream */
} memreel_event;

typedef enum memreel_mark_phase { MEMREEL_INSTANT = 0, MEMREEL_BEGIN = 1, MEMREEL_END = 2 } memreel_mark_phase;

/* Called when recording starts in a process that is already running (memreel attach): create your pools anew, and
 * report their segments and what is live in them; pools created before are unknown to the recording. It runs on a
 * thread of memreel's, or in memreel_connect(); take your pool's lock in it. */
typedef void (*memreel_state_callback)(void* user);

/* What one of the program's heaps holds: a device's memory, or a pool's. Bytes are requested bytes. */
typedef struct memreel_usage {
  int32_t device; /* CUDA's number; -1: the host */
  uint32_t level; /* 0: allocated from the driver; 1: from a framework or a pool; 2: a device, over all its heaps */
  uint64_t live_bytes;
  uint64_t peak_bytes; /* the most that was live since peaks were last reset, or since the recording began */
} memreel_usage;

/* The recorder's functions. Later versions append functions; `size` is the size of the structure. */
typedef struct memreel_api {
  uint32_t size;    /* of this structure, in bytes */
  uint32_t version; /* MEMREEL_API_VERSION of the recorder */
  memreel_pool (*pool_create)(const char* name, uint32_t kind, memreel_pool parent, int32_t device);
  void (*pool_destroy)(memreel_pool pool);
  void (*events)(const memreel_event* events, size_t count);
  void (*mark)(const char* name, uint32_t phase);
  void (*on_attach)(memreel_state_callback callback, void* user);
  void (*snapshot)(void);
  size_t (*usage)(memreel_usage* heaps, size_t room, uint32_t flags); /* MEMREEL_USAGE_... */
  void (*name_module)(const void* module, const char* name); /* a live nn.Module; no name, or "": takes it back */
} memreel_api;

#define MEMREEL_API_VERSION 1

#define MEMREEL_USAGE_RESET 1u      /* peaks restart from here */
#define MEMREEL_USAGE_OF_DEVICES 2u /* devices, each byte once, instead of heaps; pools by their allocations */

#if defined(__GNUC__) && defined(__linux__)

/* The recorder; null: not looked for yet; memreel_absent(): not found. Shared by all libraries of the process that use
 * this header; a recorder loaded later (memreel attach) finds it by its name. */
__attribute__((weak, visibility("default"))) const memreel_api* memreel_api_slot;

/* Callbacks that wait for a recorder, shared likewise: it takes them when it comes. */
typedef struct memreel_attach_slot {
  uint32_t taken;
  memreel_state_callback callback; /* null: not yet registered, or taken by the recorder */
  void* user;
} memreel_attach_slot;
#define MEMREEL_ATTACH_SLOTS 64
__attribute__((weak, visibility("default"))) memreel_attach_slot memreel_attach_slots[MEMREEL_ATTACH_SLOTS];

/* Weak, so that no library is needed to link. */
extern void* dlsym(void* library, const char* name)
#ifdef __cplusplus
    noexcept(true)
#endif
        __attribute__((weak));

__attribute__((unused)) static const memreel_api* memreel_absent(void) {
  static const memreel_api absent = {
      0,           0, MEMREEL_NULL, MEMREEL_NULL, MEMREEL_NULL, MEMREEL_NULL, MEMREEL_NULL, MEMREEL_NULL, MEMREEL_NULL,
      MEMREEL_NULL};
  return &absent;
}

/* Returns 1 if there is a recorder. `loaded`: also look among the libraries that were loaded for themselves. */
__attribute__((unused)) static int memreel_look(int loaded) {
  typedef const memreel_api* (*getter)(uint32_t version);
  typedef void* (*opener)(const char* file, int mode);
  const memreel_api* api = MEMREEL_NULL;
  if (dlsym != MEMREEL_NULL) {
    union {
      void* object;
      getter function;
      opener open;
    } get, dl;
    get.object = dlsym(MEMREEL_NULL, "memreel_get_api"); /* null: everywhere */
    dl.object = get.object == MEMREEL_NULL && loaded ? dlsym(MEMREEL_NULL, "dlopen") : MEMREEL_NULL;
    if (dl.object != MEMREEL_NULL) {
      void* library = dl.open("libmemreel-agent.so", 5); /* RTLD_LAZY | RTLD_NOLOAD */
      if (library != MEMREEL_NULL) get.object = dlsym(library, "memreel_get_api");
    }
    if (get.object != MEMREEL_NULL) api = get.function(MEMREEL_API_VERSION);
  }
  __atomic_store_n(&memreel_api_slot, api != MEMREEL_NULL ? api : memreel_absent(), __ATOMIC_RELEASE);
  if (api != MEMREEL_NULL) {
    size_t i;
    for (i = 0; i < MEMREEL_ATTACH_SLOTS; ++i) {
      memreel_state_callback callback = __atomic_exchange_n(&memreel_attach_slots[i].callback,
                                                            (memreel_state_callback)MEMREEL_NULL, __ATOMIC_ACQ_REL);
      if (callback != MEMREEL_NULL) {
        api->on_attach(callback, memreel_attach_slots[i].user);
        callback(memreel_attach_slots[i].user);
      }
    }
  }
  return api != MEMREEL_NULL;
}

/* Looks for a recorder, even if it was looked for before; may change errno. Returns 1 if there is one. Callbacks that
 * waited for it are called (memreel_on_attach). */
__attribute__((unused)) static int memreel_connect(void) { return memreel_look(1); }

/* Keeps a callback, or drops those of `user` (null), until there is a recorder. */
__attribute__((unused)) static void memreel_await_attach(memreel_state_callback callback, void* user) {
  size_t i;
  for (i = 0; i < MEMREEL_ATTACH_SLOTS; ++i) {
    memreel_attach_slot* slot = &memreel_attach_slots[i];
    if (callback == MEMREEL_NULL) {
      if (__atomic_load_n(&slot->callback, __ATOMIC_ACQUIRE) != MEMREEL_NULL && slot->user == user &&
          __atomic_exchange_n(&slot->callback, (memreel_state_callback)MEMREEL_NULL, __ATOMIC_ACQ_REL) != MEMREEL_NULL)
        __atomic_store_n(&slot->taken, 0, __ATOMIC_RELEASE);
    } else if (__atomic_exchange_n(&slot->taken, 1, __ATOMIC_ACQ_REL) == 0) {
      slot->user = user;
      __atomic_store_n(&slot->callback, callback, __ATOMIC_RELEASE);
      return;
    }
  }
}

/* The recorder; null if there is none. */
__attribute__((unused)) static inline const memreel_api* memreel_recorder(void) {
  const memreel_api* api = __atomic_load_n(&memreel_api_slot, __ATOMIC_RELAXED);
  if (__builtin_expect(api == MEMREEL_NULL, 0)) {
    memreel_look(0);
    api = __atomic_load_n(&memreel_api_slot, __ATOMIC_ACQUIRE);
  }
  return api->version != 0 ? api : MEMREEL_NULL;
}

#else /* no recorder on this system */

static int memreel_connect(void) { return 0; }
static const memreel_api* memreel_recorder(void) { return MEMREEL_NULL; }
static void memreel_await_attach(memreel_state_callback callback, void* user) { (void)callback, (void)user; }

#endif

/* A new pool of memory on a device (CUDA's number; -1: the host) that gets its memory from `parent`: another pool, or
 * MEMREEL_DEVICE. Returns 0 if nothing is being recorded, or if there can't be such a device. */
static inline memreel_pool memreel_pool_create(const char* name, memreel_pool_kind kind, memreel_pool parent,
                                               int32_t device) {
  const memreel_api* api = memreel_recorder();
  return api ? api->pool_create(name, (uint32_t)kind, parent, device) : 0;
}

/* Destroys the pool with everything live in it: that is judged as at the end of the program, so free first what is not
 * leaked. A pool made later with the same name and device continues this one. */
static inline void memreel_pool_destroy(memreel_pool pool) {
  const memreel_api* api = memreel_recorder();
  if (api) api->pool_destroy(pool);
}

/* Several events at one instant, in order: cheaper than one call each. They share one stack. */
static inline void memreel_batch(const memreel_event* events, size_t count) {
  const memreel_api* api = memreel_recorder();
  if (api) api->events(events, count);
}

static inline void memreel_one(memreel_event_kind kind, memreel_pool pool, const void* address, uint64_t bytes,
                               const void* stream) {
  const memreel_api* api = memreel_recorder();
  if (api) {
    memreel_event event;
    event.kind = (uint32_t)kind;
    event.reserved = 0;
    event.pool = pool;
    event.address = (uint64_t)(uintptr_t)address;
    event.bytes = bytes;
    event.stream = (uint64_t)(uintptr_t)stream;
    api->events(&event, 1);
  }
}

/* The pool got `bytes` at `address` from its parent. */
static inline void memreel_segment_add(memreel_pool pool, const void* address, uint64_t bytes) {
  memreel_one(MEMREEL_SEGMENT_ADD, pool, address, bytes, MEMREEL_NULL);
}
/* ... and returned them. */
static inline void memreel_segment_remove(memreel_pool pool, const void* address) {
  memreel_one(MEMREEL_SEGMENT_REMOVE, pool, address, 0, MEMREEL_NULL);
}

/* `bytes` (as requested, before rounding) are allocated at `address`; `stream` is a cudaStream_t or null. */
static inline void memreel_alloc(memreel_pool pool, const void* address, uint64_t bytes, const void* stream) {
  memreel_one(MEMREEL_ALLOC, pool, address, bytes, stream);
}
/* The program frees `address`. Call it before the block can be reused. */
static inline void memreel_free(memreel_pool pool, const void* address) {
  memreel_one(MEMREEL_FREE, pool, address, 0, MEMREEL_NULL);
}
/* For pools that wait for the device before they reuse a block: the program frees it ... */
static inline void memreel_free_requested(memreel_pool pool, const void* address) {
  memreel_one(MEMREEL_FREE_REQUESTED, pool, address, 0, MEMREEL_NULL);
}
/* ... and the device is done. */
static inline void memreel_free_completed(memreel_pool pool, const void* address) {
  memreel_one(MEMREEL_FREE_COMPLETED, pool, address, 0, MEMREEL_NULL);
}
/* A request for `bytes` could not be served. */
static inline void memreel_oom(memreel_pool pool, uint64_t bytes) {
  memreel_one(MEMREEL_OOM, pool, MEMREEL_NULL, bytes, MEMREEL_NULL);
}

/* Something worth naming happened now. */
static inline void memreel_mark(const char* name) {
  const memreel_api* api = memreel_recorder();
  if (api) api->mark(name, MEMREEL_INSTANT);
}
/* One iteration of the program's main loop ends here. Leaks are judged over steps. */
static inline void memreel_step(void) { memreel_mark("step"); }
/* Labels what the calling thread does from here on; tags nest. Pop it with the same name. */
static inline void memreel_tag_push(const char* name) {
  const memreel_api* api = memreel_recorder();
  if (api) api->mark(name, MEMREEL_BEGIN);
}
static inline void memreel_tag_pop(const char* name) {
  const memreel_api* api = memreel_recorder();
  if (api) api->mark(name, MEMREEL_END);
}

/* See memreel_state_callback. The callback and `user` must stay valid until this is called with null, or forever: that
 * waits for a call under way on another thread, so don't hold a lock then that the callback takes. At most 64 in a
 * process. Without a recorder they wait for one: memreel attach finds them in libraries, and in programs
 * linked with -rdynamic; in other programs memreel_connect() calls them. */
static inline void memreel_on_attach(memreel_state_callback callback, void* user) {
  const memreel_api* api = memreel_recorder();
  if (api)
    api->on_attach(callback, user);
  else
    memreel_await_attach(callback, user);
}

/* Everything that this thread did up to here is in the file when this returns: it waits for the recorder's thread. */
static inline void memreel_snapshot(void) {
  const memreel_api* api = memreel_recorder();
  if (api) api->snapshot();
}

/* What the program's heaps hold after everything this thread has done. Writes as many of them as there is room for, in
 * the order in which they first held something, and returns how many there are; 0 also if nothing is recorded, or the
 * recorder does not answer within seconds. `reset` other than 0: peaks restart from here. Meant for tests and an
 * occasional step: it waits for the recorder's thread, about a tenth of a millisecond. */
static inline size_t memreel_usage_now(memreel_usage* heaps, size_t room, int reset) {
  const memreel_api* api = memreel_recorder();
  if (!api || api->size < offsetof(memreel_api, usage) + sizeof(api->usage)) return 0;
  return api->usage(heaps, room, reset != 0);
}

/* The same for devices, over all their heaps, each byte once: what pools have allocated, and what the driver gave to
 * others. Below PyTorch, whose segments are not known while it runs, only its tensors count. An older recorder tells of
 * heaps, whose level is not 2. */
static inline size_t memreel_device_usage_now(memreel_usage* devices, size_t room, int reset) {
  const memreel_api* api = memreel_recorder();
  if (!api || api->size < offsetof(memreel_api, usage) + sizeof(api->usage)) return 0;
  return api->usage(devices, room, (reset ? MEMREEL_USAGE_RESET : 0u) | MEMREEL_USAGE_OF_DEVICES);
}

#ifdef __cplusplus
} /* extern "C" */

namespace memreel {

/* A pool for the object's lifetime. */
class annotated_pool {
 public:
  explicit annotated_pool(const char* name, memreel_pool_kind kind = MEMREEL_POOL_OTHER,
                          memreel_pool parent = MEMREEL_DEVICE, std::int32_t device = 0)
      : pool_(memreel_pool_create(name, kind, parent, device)) {}
  ~annotated_pool() { memreel_pool_destroy(pool_); }
  annotated_pool(const annotated_pool&) = delete;
  annotated_pool& operator=(const annotated_pool&) = delete;

  memreel_pool id() const { return pool_; }
  void segment_add(const void* address, std::uint64_t bytes) const { memreel_segment_add(pool_, address, bytes); }
  void segment_remove(const void* address) const { memreel_segment_remove(pool_, address); }
  void alloc(const void* address, std::uint64_t bytes, const void* stream = nullptr) const {
    memreel_alloc(pool_, address, bytes, stream);
  }
  void free(const void* address) const { memreel_free(pool_, address); }
  void oom(std::uint64_t bytes) const { memreel_oom(pool_, bytes); }

 private:
  memreel_pool pool_;
};

/* A tag for the object's lifetime. `name` must outlive it. */
class scoped_tag {
 public:
  explicit scoped_tag(const char* name) : name_(name) { memreel_tag_push(name_); }
  ~scoped_tag() { memreel_tag_pop(name_); }
  scoped_tag(const scoped_tag&) = delete;
  scoped_tag& operator=(const scoped_tag&) = delete;

 private:
  const char* name_;
};

} /* namespace memreel */
#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif /* MEMREEL_MEMREEL_H */
/* NOLINTEND */
