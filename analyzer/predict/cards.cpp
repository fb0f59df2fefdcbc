#include "analyzer/predict/cards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace memreel {
namespace {

constexpr Bytes hundredths_of_gib(std::uint64_t hundredths) { return {(hundredths << 30U) / 100}; }

// From the "total capacity" in PyTorch's messages of failed requests.
constexpr std::array all_cards{
    Card{"B200", hundredths_of_gib(17'836)},     Card{"H200", hundredths_of_gib(13'972)},
    Card{"H100-94GB", hundredths_of_gib(9'310)}, Card{"H100-80GB", hundredths_of_gib(7'911)},
    Card{"A100-80GB", hundredths_of_gib(7'914)}, Card{"A100-40GB", hundredths_of_gib(3'939)},
    Card{"V100-32GB", hundredths_of_gib(3'173)}, Card{"V100-16GB", hundredths_of_gib(1'577)},
    Card{"L40S", hundredths_of_gib(4'440)},      Card{"L40", hundredths_of_gib(4'440)},
    Card{"L4", hundredths_of_gib(2'196)},        Card{"A40", hundredths_of_gib(4'434)},
    Card{"A30", hundredths_of_gib(2'350)},       Card{"A10", hundredths_of_gib(2'198)},
    Card{"A10G", hundredths_of_gib(2'198)},      Card{"T4", hundredths_of_gib(1'456)},
    Card{"A6000", hundredths_of_gib(4'740)},     Card{"5090", hundredths_of_gib(3'136)},
    Card{"4090", hundredths_of_gib(2'364)},      Card{"4080", hundredths_of_gib(1'570)},
    Card{"3090", hundredths_of_gib(2'368)},      Card{"3080", hundredths_of_gib(977)},
};

}  // namespace

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

}  // namespace memreel
