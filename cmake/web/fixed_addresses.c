/* SPDX-License-Identifier: Apache-2.0
   Memory at the same addresses in every run that asks for the same sizes in the same order, wherever the system maps what
   else there is: preloaded into the compiler, whose output depends on them (cmake/web/compiler). Its own file, without
   headers: what compiles to WebAssembly needs no C library of this system. */
typedef unsigned long size_t;
void *mmap(void *, size_t, int, int, int, long);
void abort(void);

enum { smallest = 5, classes = 40, header = 16 };  /* log2 of the smallest block; its header keeps blocks aligned */
static const size_t arena_size = 1ul << 36;        /* addresses; pages are taken as they are written to */
static char *next, *end;
static void *free_blocks[classes];
static char lock;

static void enter(void) {
  while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {
  }
}
static void leave(void) { __atomic_clear(&lock, __ATOMIC_RELEASE); }

static char *from_arena(size_t size, size_t alignment) {
  if (!next) { /* read and write; private, anonymous, no reserve, exactly there unless taken */
    next = mmap((void *)0x100000000000ul, arena_size, 3, 0x2 | 0x20 | 0x4000 | 0x100000, -1, 0);
    if (next != (char *)0x100000000000ul) abort();
    end = next + arena_size;
  }
  char *block = (char *)(((size_t)next + header + alignment - 1) / alignment * alignment) - header;
  if (size > (size_t)(end - block)) return 0;
  next = block + size;
  return block;
}

void *memalign(size_t alignment, size_t size) {
  if (size > arena_size) return 0;
  int class = smallest;
  while ((1ul << class) < size + header) ++class;
  enter();
  char *block = alignment <= header ? free_blocks[class] : 0;
  if (block) {
    free_blocks[class] = *(void **)(block + header);
  } else {
    block = from_arena(1ul << class, alignment > header ? alignment : header);
  }
  leave();
  if (!block) return 0;
  *(int *)block = class;
  return block + header;
}

void *malloc(size_t size) { return memalign(header, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **out, size_t alignment, size_t size) {
  *out = memalign(alignment, size);
  return *out ? 0 : 12; /* ENOMEM */
}

void free(void *pointer) {
  if (!pointer) return;
  int class = *(int *)((char *)pointer - header);
  enter();
  *(void **)pointer = free_blocks[class];
  free_blocks[class] = (char *)pointer - header;
  leave();
}

void *calloc(size_t count, size_t size) {
  if (size && count > arena_size / size) return 0;
  char *made = malloc(count * size);
  for (size_t at = 0; made && at < count * size; ++at) ((volatile char *)made)[at] = 0;
  return made;
}

size_t malloc_usable_size(void *pointer) { return pointer ? (1ul << *(int *)((char *)pointer - header)) - header : 0; }

void *realloc(void *pointer, size_t size) {
  size_t had = malloc_usable_size(pointer);
  if (pointer && size <= had) return pointer;
  char *made = malloc(size);
  for (size_t at = 0; made && at < had; ++at) made[at] = ((char *)pointer)[at];
  if (made) free(pointer);
  return made;
}
