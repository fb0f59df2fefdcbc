// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/cards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "analyzer/analysis/history/device_memory.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr Bytes hundredths_of_gib(std::uint64_t hundredths) { return {(hundredths << 30U) / 100}; }

// Memory: the "total capacity" in PyTorch's messages of failed requests. The others: multiProcessorCount,
// maxThreadsPerMultiProcessor and the compute capability of cudaGetDeviceProperties(); for the H100, of its SXM form.
constexpr std::array all_cards{
    Card{"B200", hundredths_of_gib(17'836), {148, 2'048, 100}},
    Card{"H200", hundredths_of_gib(13'972), {132, 2'048, 90}},
    Card{"H100-94GB", hundredths_of_gib(9'310), {132, 2'048, 90}},
    Card{"H100-80GB", hundredths_of_gib(7'911), {132, 2'048, 90}},
    Card{"A100-80GB", hundredths_of_gib(7'914), {108, 2'048, 80}},
    Card{"A100-40GB", hundredths_of_gib(3'939), {108, 2'048, 80}},
    Card{"V100-32GB", hundredths_of_gib(3'173), {80, 2'048, 70}},
    Card{"V100-16GB", hundredths_of_gib(1'577), {80, 2'048, 70}},
    Card{"L40S", hundredths_of_gib(4'440), {142, 1'536, 89}},
    Card{"L40", hundredths_of_gib(4'440), {142, 1'536, 89}},
    Card{"L4", hundredths_of_gib(2'196), {58, 1'536, 89}},
    Card{"A40", hundredths_of_gib(4'434), {84, 1'536, 86}},
    Card{"A30", hundredths_of_gib(2'350), {56, 2'048, 80}},
    Card{"A10", hundredths_of_gib(2'198), {72, 1'536, 86}},
    Card{"A10G", hundredths_of_gib(2'198), {80, 1'536, 86}},
    Card{"T4", hundredths_of_gib(1'456), {40, 1'024, 75}},
    Card{"A6000", hundredths_of_gib(4'740), {84, 1'536, 86}},
    Card{"5090", hundredths_of_gib(3'136), {170, 1'536, 120}},
    Card{"4090", hundredths_of_gib(2'364), {128, 1'536, 89}},
    Card{"4080", hundredths_of_gib(1'570), {76, 1'536, 89}},
    Card{"3090", hundredths_of_gib(2'368), {82, 1'536, 86}},
    Card{"3080", hundredths_of_gib(977), {68, 1'536, 86}},
};

}  // namespace

std::vector<GpuTraits> known_gpus(const GpuTraits& first) {
  std::vector<GpuTraits> gpus{first};
  const auto add = [&](const GpuTraits& gpu) {
    if (std::ranges::find(gpus, gpu) == gpus.end()) gpus.push_back(gpu);
  };
  add(GpuTraits{});
  for (const Card& card : all_cards) add(card.gpu);
  return gpus;
}

std::span<const Card> cards() { return all_cards; }

const Card* find_card(std::string_view name) {
  std::string wanted;
  for (const char c : name)
    if (c != ' ') wanted += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string_view prefix : {"NVIDIA", "-", "GEFORCE", "-", "RTX", "-"})
    if (wanted.starts_with(prefix)) wanted.erase(0, prefix.size());
  const auto card = std::ranges::find(all_cards, wanted, &Card::name);
  return card == all_cards.end() ? nullptr : &*card;
}

namespace {

/// The devices of the recordings' heaps.
std::vector<DeviceMemory> devices_of(std::span<const Recording> recordings) {
  std::vector<DeviceMemory> devices;
  for (const Recording& recording : recordings)
    for (DeviceMemory& device : device_memory(recording.trace))
      if (device.device == recording.trace.tables[recording.heap].device) devices.push_back(std::move(device));
  return devices;
}

/// What samples show to be in use by no call that allocates, at most; none: there are none.
std::optional<Bytes> sampled_context(std::span<const DeviceMemory> devices) {
  std::optional<Bytes> most;
  for (const DeviceMemory& device : devices)
    if (const auto& samples = device.samples)
      most = std::max(most.value_or(Bytes{}), samples->of_nobody + samples->pools + samples->graphs);
  return most;
}

/// What other heaps hold on the allocator's device at its peak, at most.
Bytes recorded_others(std::span<const Recording> recordings) {
  Bytes most;
  for (const Recording& recording : recordings)
    for (const DeviceMemory& device : devices_of(std::span(&recording, 1))) {
      Bytes others = device.peak_held.held;
      for (const HeapPart& part : device.peak_held.parts)
        if (part.heap == recording.heap) others -= part.held;
      most = std::max(most, others);
    }
  return most;
}

}  // namespace

std::vector<HeldFrom> beside_heap(const Trace& trace, HeapId heap) {
  std::map<std::int32_t, std::vector<HeldFrom>> beside = held_beside(trace, std::span(&heap, 1));
  return std::move(beside[trace.tables[heap].device]);
}

Result<PredictDevice> predict_device(const std::string& capacity, std::span<const Recording> recordings, bool alone) {
  PredictDevice device;
  if (capacity.empty()) return device;
  const Card* const card = find_card(capacity);
  const std::vector<DeviceMemory> recorded = devices_of(recordings);
  if (card == nullptr) {
    Result<Bytes> size = parse_device_size(capacity);
    if (!size) {
      std::string names;
      for (const Card& known : cards()) names += (names.empty() ? "" : ", ") + std::string(known.name);
      size.error().where = "--capacity";
      if (!parse_bytes(capacity)) size.error().remedy = "give a size, e.g. 24GiB, or a card: " + names;
      return std::move(size).error();
    }
    device.memory = *size;
    device.assumed = false;
  } else {
    const std::optional<Bytes> sampled = sampled_context(recorded);
    device.memory = card->memory;
    device.card = card->name;
    device.gpu = card->gpu;
    device.context = sampled.value_or(assumed_context);
    device.assumed = !sampled;
  }
  device.has_driver = std::ranges::any_of(recorded, &DeviceMemory::has_driver);
  device.others = device.context + (alone ? 0_B : recorded_others(recordings));
  if (device.others >= device.memory)
    return Error{.what = "the recordings show more memory in use beside the allocator (" + text_of(device.others) +
                         ") than the device has",
                 .where = "--capacity"};
  device.capacity = device.memory - device.others;
  return device;
}

}  // namespace memreel
