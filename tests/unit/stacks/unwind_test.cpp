// SPDX-License-Identifier: Apache-2.0
// The native stack, compared with the compiler's own unwinder.
#include "collector/stacks/unwind.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/stacks/shapes.h"

namespace memreel::stacks {
namespace {

using Addresses = std::vector<std::uintptr_t>;

_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
  int before_instruction = 0;
  const std::uintptr_t address = _Unwind_GetIPInfo(context, &before_instruction);
  if (address == 0) return _URC_END_OF_STACK;
  static_cast<Addresses*>(argument)->push_back(address + (before_instruction != 0 ? 1U : 0U));
  return _URC_NO_REASON;
}

/// Two views of the same stack: the callers of the function that captured it.
struct Views {
  Addresses own, expected;
};

struct Look {
  Unwinder* unwinder;
  Views views;
};

/// What the thread's walks left behind: for one test with one unwinder, as a process has only one.
struct Remembered {
  const Unwinder* unwinder = nullptr;
  const ::testing::TestInfo* test = nullptr;
  StackBounds bounds;
  std::unique_ptr<EarlierWalks> walks;
  std::map<std::vector<std::uint64_t>, Addresses> frames_of;  // by words
};

Remembered& remembered(const Unwinder* unwinder) {
  static thread_local Remembered mine;
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (mine.unwinder != unwinder || mine.test != test)
    mine = {.unwinder = unwinder, .test = test, .walks = std::make_unique<EarlierWalks>()};
  return mine;
}

/// Walks that use earlier ones find the same frames, and a given word always stands for the same frames.
[[gnu::noinline]] bool same_by_earlier_walks(Unwinder& unwinder, std::span<const FrameKey> callers) {
  Remembered& mine = remembered(&unwinder);
  std::array<FrameKey, 300> frames{};
  std::array<std::uint64_t, 300> words{};
  for (int round = 0; round < 2; ++round) {
    const Walked walked = unwinder.unwind(mine.bounds, *mine.walks, frames, words);
    mine.walks->write_frames(walked, frames);
    Addresses addresses;
    for (const FrameKey frame : std::span(frames).first(walked.frames)) addresses.push_back(frame.bits);
    const std::vector<std::uint64_t> key(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(walked.words));
    if (mine.frames_of.try_emplace(key, addresses).first->second != addresses) return false;
    // Besides its own frame, this function's call site differs from the previous walk's.
    if (walked.frames != callers.size() + 1 || walked.words > walked.frames) return false;
    if (!std::equal(callers.begin() + 1, callers.end(), frames.begin() + 2)) return false;
  }
  return true;
}

[[gnu::noinline]] void look(void* argument) {
  Look& look = *static_cast<Look*>(argument);
  std::array<FrameKey, 300> own{};
  static thread_local StackBounds bounds;
  const std::size_t count = look.unwinder->unwind(bounds, own);
  if (!same_by_earlier_walks(*look.unwinder, std::span(own).first(count)))
    ADD_FAILURE() << "another walk, other frames";
  look.views = {};
  _Unwind_Backtrace(visit, &look.views.expected);
  // The first address of each lies in this function, at one call or the other.
  for (const FrameKey frame : std::span(own).first(count).subspan(1)) look.views.own.push_back(frame.bits);
  look.views.expected.erase(look.views.expected.begin());
}

using Call = std::function<void(shapes::Callback, void*)>;

Views views_from(Unwinder& unwinder, const Call& call) {
  Look result{.unwinder = &unwinder};
  call(look, &result);
  return std::move(result.views);
}

shapes::Shapes (*shapes_in(void* library))() {
  return reinterpret_cast<shapes::Shapes (*)()>(dlsym(library, "shapes_of_library"));
}

void expect_same_views(Unwinder& unwinder, shapes::Shapes list) {
  for (const shapes::Shape& shape : std::span(list.first, list.count)) {
    SCOPED_TRACE(shape.name);
    const Views first = views_from(unwinder, shape.call);
    EXPECT_EQ(first.own, first.expected);
    EXPECT_GE(first.own.size(), 4U);
    const Views from_memory = views_from(unwinder, shape.call);
    EXPECT_EQ(from_memory.own, from_memory.expected);
  }
}

class UnwindBy : public ::testing::TestWithParam<CodeMap::Source> {
 protected:
  std::unique_ptr<Unwinder> owner_ = std::make_unique<Unwinder>(GetParam());
  Unwinder& unwinder_ = *owner_;
};

INSTANTIATE_TEST_SUITE_P(, UnwindBy, ::testing::Values(CodeMap::Source::loader, CodeMap::Source::copy),
                         [](const auto& instance) {
                           return instance.param == CodeMap::Source::loader ? "AskingTheLoader" : "FromACopy";
                         });

TEST_P(UnwindBy, WithFramePointers) { expect_same_views(unwinder_, shapes_with_frame_pointers()); }

TEST_P(UnwindBy, WithoutFramePointers) { expect_same_views(unwinder_, shapes_without_frame_pointers()); }

TEST_P(UnwindBy, EveryShapeInsideEveryOther) {
  const shapes::Shapes outer = shapes_with_frame_pointers(), inner = shapes_without_frame_pointers();
  struct Nested {
    shapes::Shape shape;
    Look look;
  };
  for (const shapes::Shape& o : std::span(outer.first, outer.count))
    for (const shapes::Shape& i : std::span(inner.first, inner.count)) {
      if (std::string_view(o.name).starts_with("signal") || std::string_view(o.name).starts_with("interrupted"))
        continue;  // signals don't nest
      SCOPED_TRACE(std::string(i.name) + " inside " + o.name);
      Nested nested{.shape = i, .look = {.unwinder = &unwinder_}};
      o.call([](void* n) { static_cast<Nested*>(n)->shape.call(look, &static_cast<Nested*>(n)->look); }, &nested);
      ASSERT_EQ(nested.look.views.own, nested.look.views.expected);
    }
}

/// Shapes nested at random: the same functions with different callers, callers at the same stack position that were
/// called from elsewhere before, and varying depths.
TEST_P(UnwindBy, ManyDifferentStacksInAnyOrder) {
  std::mt19937 random(7);
  std::vector<shapes::Shape> all;
  for (const shapes::Shapes& list : {shapes_with_frame_pointers(), shapes_without_frame_pointers()})
    for (const shapes::Shape& shape : std::span(list.first, list.count))
      if (!std::string_view(shape.name).starts_with("signal") &&
          !std::string_view(shape.name).starts_with("interrupted"))
        all.push_back(shape);
  struct Nest {
    Look look;
    std::vector<shapes::Shape> inside;
    static void go_on(void* argument) {
      Nest& nest = *static_cast<Nest*>(argument);
      if (nest.inside.empty()) return look_at(nest.look);
      const shapes::Shape next = nest.inside.back();
      nest.inside.pop_back();
      next.call(go_on, argument);
      nest.inside.push_back(next);
    }
    static void look_at(Look& look) { memreel::stacks::look(&look); }
  };
  for (int round = 0; round < 600; ++round) {
    Nest nest{.look = {.unwinder = &unwinder_}};
    for (std::uint_fast32_t depth = random() % 6; depth > 0; --depth) nest.inside.push_back(all[random() % all.size()]);
    Nest::go_on(&nest);
    ASSERT_EQ(nest.look.views.own, nest.look.views.expected) << "round " << round;
  }
}

TEST_P(UnwindBy, ALibraryLoadedLater) {
  void* const library = dlopen(SHAPES_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  unwinder_.refresh();
  expect_same_views(unwinder_, shapes_in(library)());
  dlclose(library);
}

/// Different code at the same address: nothing remembered of the old code may be used.
TEST(Unwind, ALibraryInThePlaceOfAnother) {
  const auto unwinder = std::make_unique<Unwinder>();
  for (int round = 0; round < 3; ++round)
    for (const char* path : {SHAPES_LIBRARY, SHAPES_LIBRARY_FP}) {
      void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(library, nullptr) << dlerror();
      expect_same_views(*unwinder, shapes_in(library)());
      dlclose(library);
      if (round == 1) unwinder->forget();
    }
}

TEST(RuleCache, AnyTwoAddressesHaveRoom) {
  const auto cache = std::make_unique<RuleCache>();
  constexpr std::uintptr_t first = 0x7f00'1234'5678;
  for (std::uintptr_t other = first + 1; other < first + 100'000; ++other) {
    for (int round = 0; round < 3; ++round) {
      for (const std::uintptr_t address : {first, other})
        if (cache->find(address).kind() == UnwindRule::Kind::none) {
          ASSERT_LT(round, 2) << "in a loop, each would be learnt anew every time";
          cache->put(address, UnwindRule(UnwindRule::Kind::outermost));
        }
    }
  }
}

TEST(Unwind, RoomForFewFrames) {
  const auto unwinder = std::make_unique<Unwinder>();
  std::array<FrameKey, 300> all{}, few{};
  StackBounds bounds;
  for (std::size_t room = 0; room < 5; ++room) {
    const std::size_t count = unwinder->unwind(bounds, all);
    ASSERT_GT(count, 5U);
    ASSERT_EQ(unwinder->unwind(bounds, std::span(few).first(room)), room);
    if (room > 1) {
      EXPECT_TRUE(std::equal(few.begin() + 1, few.begin() + static_cast<std::ptrdiff_t>(room), all.begin() + 1));
    }
  }
}

/// As the C library knows them.
StackBounds exact_bounds() {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t size = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  return {.low = reinterpret_cast<std::uintptr_t>(low), .high = reinterpret_cast<std::uintptr_t>(low) + size};
}

TEST(Unwind, BoundsOfAStackFollowItsUse) {
  std::thread([] {
    const StackBounds exact = exact_bounds();
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    const StackBounds first = own_stack_bounds({}, here);
    EXPECT_TRUE(first.contains(here));
    EXPECT_GT(first.low, exact.low);  // not that far yet
    EXPECT_LE(first.high, exact.high);
    EXPECT_TRUE(first.are_for(here));

    const StackBounds deep = own_stack_bounds(first, exact.low + 64);
    EXPECT_EQ(deep.low, exact.low);
    EXPECT_EQ(deep.high, first.high);
    EXPECT_TRUE(deep.are_for(here));

    std::array<char, 64> elsewhere{};  // of this stack as seen by another thread
    std::thread([&] {
      const auto mine = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
      const StackBounds own = own_stack_bounds(first, mine);
      EXPECT_TRUE(own.contains(mine));
      EXPECT_FALSE(own.contains(reinterpret_cast<std::uintptr_t>(elsewhere.data())));
    }).join();
  }).join();
}

TEST(Unwind, BoundsOfAStackAreNotThoseOfASignalHandlersStack) {
  std::thread([] {
    static const auto heap = std::make_unique<std::array<char, 4096>>();
    const auto there = reinterpret_cast<std::uintptr_t>(heap->data() + 2048);
    const StackBounds bounds = own_stack_bounds({}, there);
    EXPECT_FALSE(bounds.contains(there));
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    EXPECT_TRUE(own_stack_bounds(bounds, here).contains(here));
  }).join();
}

TEST(Unwind, ThreadsWithSmallStacks) {
  const auto unwinder = std::make_unique<Unwinder>();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  for (int i = 0; i < 8; ++i) {
    struct Task {
      Unwinder* unwinder;
      Views views;
    } task{unwinder.get(), {}};
    pthread_t thread{};
    ASSERT_EQ(pthread_create(
                  &thread, &attributes,
                  [](void* argument) -> void* {
                    Task& t = *static_cast<Task*>(argument);
                    t.views = views_from(*t.unwinder, shapes_without_frame_pointers().first[2].call);
                    return nullptr;
                  },
                  &task),
              0);
    pthread_join(thread, nullptr);
    EXPECT_EQ(task.views.own, task.views.expected);
    EXPECT_GE(task.views.own.size(), 4U);
  }
  pthread_attr_destroy(&attributes);
}

TEST(Unwind, ManyThreadsWhileLibrariesComeAndGo) {
  const auto unwinder = std::make_unique<Unwinder>();
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!done.load()) {
        const Views views = views_from(*unwinder, shapes_without_frame_pointers().first[6].call);
        if (views.own != views.expected) ++wrong;
      }
    });
  for (int i = 0; i < 20; ++i) {
    void* const library = dlopen(i % 2 == 0 ? SHAPES_LIBRARY : SHAPES_LIBRARY_FP, RTLD_NOW | RTLD_LOCAL);
    const Views views = views_from(*unwinder, shapes_in(library)().first[4].call);
    EXPECT_EQ(views.own, views.expected);
    dlclose(library);
    unwinder->forget();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which don't follow fibers by default

/// A fiber on its own memory, with nothing mapped around it.
class Fibre {
 public:
  explicit Fibre(std::function<void()> task) : task_(std::move(task)) {
    mprotect(memory_ + guard, size, PROT_READ | PROT_WRITE);
    current = this;
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = memory_ + guard;
    inside_.uc_stack.ss_size = size;
    inside_.uc_link = &outside_;
    makecontext(
        &inside_, [] { current->task_(); }, 0);
    swapcontext(&outside_, &inside_);
  }
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;
  ~Fibre() { munmap(memory_, size + 2 * guard); }

 private:
  static constexpr std::size_t size = 512 * 1024, guard = 64 * 1024;
  static inline thread_local Fibre* current = nullptr;
  std::function<void()> task_;
  char* memory_ = static_cast<char*>(
      mmap(nullptr, size + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ucontext_t inside_{}, outside_{};
};

TEST(Unwind, OnFibres) {
  const auto unwinder = std::make_unique<Unwinder>();
  const shapes::Shapes list = shapes_without_frame_pointers();
  for (const shapes::Shape& shape : std::span(list.first, list.count)) {
    SCOPED_TRACE(shape.name);
    Views views;
    const Fibre fibre([&] { views = views_from(*unwinder, shape.call); });
    EXPECT_EQ(views.own, views.expected);
    EXPECT_GE(views.own.size(), 4U);
  }
}

/// The same function at the same address of two stacks alternately, one of which is unmapped in between.
TEST(Unwind, FibresInTurnWithTheThreadsOwnStack) {
  const auto unwinder = std::make_unique<Unwinder>();
  const shapes::Shapes list = shapes_without_frame_pointers();
  for (std::size_t round = 0; round < 60; ++round) {
    const shapes::Shape& shape = list.first[round * 7 % list.count];
    SCOPED_TRACE(shape.name);
    Views views;
    const auto task = [&] { views = views_from(*unwinder, shape.call); };
    if (round % 3 == 0)
      task();
    else
      const Fibre fibre(task);
    EXPECT_EQ(views.own, views.expected);
  }
}
#endif

/// Code generated at run time, without tables.
class GeneratedCode {
 public:
  GeneratedCode(std::initializer_list<unsigned char> code) {
    std::copy(code.begin(), code.end(), static_cast<unsigned char*>(memory_));
    mprotect(memory_, 4096, PROT_READ | PROT_EXEC);
  }
  GeneratedCode(const GeneratedCode&) = delete;
  GeneratedCode& operator=(const GeneratedCode&) = delete;
  ~GeneratedCode() { munmap(memory_, 4096); }

  void operator()(shapes::Callback callback, void* argument) const {
    reinterpret_cast<void (*)(shapes::Callback, void*)>(memory_)(callback, argument);
    asm volatile("" : : "r"(this) : "memory");
  }
  bool contains(std::uintptr_t address) const { return address - reinterpret_cast<std::uintptr_t>(memory_) < 4096; }

 private:
  void* memory_ = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

#if defined(__x86_64__)
/// Whether the generated code is followed on the stack by the callers common to everything here.
bool leads_outside(const Addresses& from_generated) {
  Addresses outside;
  _Unwind_Backtrace(visit, &outside);
  return from_generated.size() > 5 && std::equal(from_generated.end() - 4, from_generated.end(), outside.end() - 4);
}

TEST(Unwind, GeneratedCodeWithFramePointersIsPassed) {
  const auto unwinder = std::make_unique<Unwinder>();
  // push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret
  const GeneratedCode code{0x55, 0x48, 0x89, 0xE5, 0x48, 0x89, 0xF8, 0x48, 0x89, 0xF7, 0xFF, 0xD0, 0x5D, 0xC3};
  const Addresses own = views_from(*unwinder, [&](auto callback, void* argument) { code(callback, argument); }).own;
  const auto generated = std::find_if(own.begin(), own.end(), [&](auto a) { return code.contains(a); });
  ASSERT_NE(generated, own.end());
  EXPECT_TRUE(leads_outside({generated, own.end()}));
}

TEST(Unwind, GeneratedCodeWithoutFramePointersIsPassedOverOrEndsTheStack) {
  const auto unwinder = std::make_unique<Unwinder>();
  // push rbp; sub rsp, 16; mov rbp, X; mov rax, rdi; mov rdi, rsi; call rax; add rsp, 16; pop rbp; ret
  const auto code_with = [](std::uintptr_t x) {
    std::array<unsigned char, sizeof x> bytes{};
    std::memcpy(bytes.data(), &x, sizeof x);
    return std::make_unique<GeneratedCode>(std::initializer_list<unsigned char>{
        0x55,     0x48,     0x83,     0xEC,     0x10,     0x48, 0xBD, bytes[0], bytes[1], bytes[2],
        bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], 0x48, 0x89, 0xF8,     0x48,     0x89,
        0xF7,     0xFF,     0xD0,     0x48,     0x83,     0xC4, 0x10, 0x5D,     0xC3});
  };
  // What rbp may hold: data, zero, addresses of the heap and of the stack, and unmapped addresses.
  const auto heap = std::make_unique<std::array<std::uintptr_t, 4>>();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  for (const std::uintptr_t rbp :
       {std::uintptr_t{7}, std::uintptr_t{0}, reinterpret_cast<std::uintptr_t>(heap.get()), here - 8000, here - 64,
        here + 1, here + 64, here + (64U << 20U), ~std::uintptr_t{7}}) {
    const auto code = code_with(rbp);
    const Addresses own =
        views_from(*unwinder, [&](auto callback, void* argument) { (*code)(callback, argument); }).own;
    const auto generated = std::find_if(own.begin(), own.end(), [&](auto a) { return code->contains(a); });
    ASSERT_NE(generated, own.end());
    EXPECT_TRUE(generated + 1 == own.end() || leads_outside({generated, own.end()})) << own.end() - generated;
  }
}
#endif

/// Copies of the library with damaged tables, actually loaded: whatever the tables say, nothing out of bounds is
/// accessed.
TEST(Unwind, DamagedTablesOfALoadedLibrary) {
  const auto unwinder = std::make_unique<Unwinder>();
  std::ifstream file(SHAPES_LIBRARY, std::ios::binary);
  const std::string sound{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::mt19937 random(5);
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "memreel-damaged-shapes.so";
  // Where the tables are: the section is found by its content; the loader's header says where it begins.
  Elf64_Ehdr elf;
  std::memcpy(&elf, sound.data(), sizeof elf);
  Elf64_Phdr tables{};
  for (std::size_t i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, sound.data() + elf.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_GNU_EH_FRAME) tables = segment;
  }
  ASSERT_NE(tables.p_filesz, 0U);
  const std::size_t begin = tables.p_offset, size = std::min<std::size_t>(4 * tables.p_filesz, sound.size() - begin);
  for (int round = 0; round < 60; ++round) {
    std::string damaged = sound;
    for (int i = 0; i < 40; ++i) damaged.at(begin + random() % size) = static_cast<char>(random());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const shapes::Shapes list = shapes_in(library)();
    for (const std::size_t shape : {0U, 1U, 2U, 4U, 5U, 6U, 9U}) {
      struct Damaged {
        Unwinder* unwinder;
        std::size_t count;
      } state{unwinder.get(), 0};
      list.first[shape].call(
          [](void* argument) {
            std::array<FrameKey, 300> own{};
            StackBounds bounds;
            static_cast<Damaged*>(argument)->count = static_cast<Damaged*>(argument)->unwinder->unwind(bounds, own);
          },
          &state);
      EXPECT_GE(state.count, 2U);  // the frames before are intact
    }
    dlclose(library);
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace memreel::stacks
