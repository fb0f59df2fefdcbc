// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/decoder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace memreel::cuda {
namespace {

TEST(KnownObjects, ARecreatedObjectHasANewNumber) {
  const auto objects = std::make_unique<KnownObjects>();
  const int object = 0;
  const auto first = objects->add(&object, 2);
  EXPECT_EQ(objects->add(&object, 2), first);
  EXPECT_EQ(objects->find(&object), first);
  EXPECT_EQ(first.device, 2);
  objects->remove(first.number);
  EXPECT_EQ(objects->find(&object).number, 0);
  EXPECT_NE(objects->add(&object, 1).number, first.number);
}

TEST(KnownObjects, AnObjectMayBeReplacedUnseen) {
  const auto objects = std::make_unique<KnownObjects>();
  const int object = 0, other = 0;
  objects->put(&object, 2);
  const auto first = objects->find(&object);
  objects->put(&object, 2);
  EXPECT_EQ(objects->find(&object), first);
  EXPECT_FALSE(objects->on_several_devices());
  objects->put(&object, 1);
  EXPECT_EQ(objects->find(&object).device, 1);
  EXPECT_NE(objects->find(&object).number, first.number);
  EXPECT_TRUE(objects->on_several_devices());
  EXPECT_EQ(objects->find(&other).number, 0);
}

TEST(KnownObjects, WhenThereIsNoRoomTheDeviceIsKnownStill) {
  const auto objects = std::make_unique<KnownObjects>();
  const std::vector<int> many(2000);
  for (const int& object : many) EXPECT_EQ(objects->add(&object, 5).device, 5);
  EXPECT_EQ(objects->add(&many.back(), 5).number, 0);
  EXPECT_NE(objects->find(&many.front()).number, 0);
}

TEST(KnownObjects, AnyNumberMayComeAndGo) {
  const auto objects = std::make_unique<KnownObjects>();
  const std::vector<int> many(5000);
  const auto kept = objects->add(&many[0], 3);
  for (std::size_t i = 1; i < many.size(); ++i) {
    const auto known = objects->add(&many[i], static_cast<std::int16_t>(i % 7));
    ASSERT_NE(known.number, 0);
    ASSERT_EQ(objects->find(&many[i]), known);
    ASSERT_EQ(known.device, static_cast<std::int16_t>(i % 7));
    objects->remove(known.number);
    ASSERT_EQ(objects->find(&many[i]).number, 0);
  }
  EXPECT_EQ(objects->find(&many[0]), kept);
}

TEST(KnownObjects, WhatSeveralThreadsAddIsOne) {
  for (int round = 0; round < 500; ++round) {
    const auto objects = std::make_unique<KnownObjects>();
    const int object = 0;
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        ++ready;
        while (ready < 2) std::this_thread::yield();
        objects->add(&object, 1);
      });
    for (std::thread& thread : threads) thread.join();
    objects->remove(objects->find(&object).number);
    ASSERT_EQ(objects->find(&object).number, 0) << "in round " << round;
  }
}

TEST(KnownObjects, ThreadsAddAndFindAtOnce) {
  const auto objects = std::make_unique<KnownObjects>();
  const std::vector<int> many(400);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 100 * t; i < 100 * t + 100; ++i) {
        const auto added = objects->add(&many[i], static_cast<std::int16_t>(t));
        ASSERT_EQ(objects->find(&many[i]), added);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::size_t seen = 0;
  objects->for_each([&](const void*, std::int16_t) { ++seen; });
  EXPECT_EQ(seen, 400U);
}

}  // namespace
}  // namespace memreel::cuda
