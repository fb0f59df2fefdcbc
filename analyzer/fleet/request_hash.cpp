// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/request_hash.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "formats/model/flat_map.h"

namespace memreel {
namespace {

// A polynomial of the chunk's requests: the oldest can be removed when a new one is added.
constexpr std::uint64_t chunk_base = 0x9E3779B97F4A7C15;
constexpr std::uint64_t power_of_chunk_base() {
  std::uint64_t power = 1;
  for (std::size_t i = 0; i < RequestHash::chunk_length; ++i) power *= chunk_base;
  return power;
}

std::uint64_t combine(std::uint64_t hash, std::uint64_t value) { return mix_bits(hash * 31 + value + 1); }

struct ChunkHash {
  std::uint64_t operator()(std::uint64_t hash) const { return hash; }  // is mixed
};

/// Counts chunks by their hashes.
class ChunkCounts {
 public:
  void add(std::uint64_t hash) {
    const std::uint32_t row = rows_.find(hash);
    if (row != absent) {
      ++chunks_[row].times;
      return;
    }
    rows_.put(hash, static_cast<std::uint32_t>(chunks_.size()));
    chunks_.push_back({hash, 1});
  }

  std::vector<RequestChunk> smallest() && {
    std::ranges::sort(chunks_, {}, &RequestChunk::hash);
    if (chunks_.size() > RequestHash::most_chunks) chunks_.resize(RequestHash::most_chunks);
    return std::move(chunks_);
  }

 private:
  FlatMap<std::uint64_t, ChunkHash> rows_;  // of chunks_
  std::vector<RequestChunk> chunks_;
};

class Hasher {
 public:
  explicit Hasher(const std::function<bool(std::uint32_t)>& is_older) : is_older_(is_older) {}

  void add(const Prepared& heap) {
    std::vector<std::uint64_t> ordinal(heap.slot_count);  // which allocation; of older ones of a size, any
    std::vector<Bytes> size(heap.slot_count);
    std::vector<std::uint64_t> pool_streams;  // numbered in the order of their first request
    std::uint64_t next_pool_stream = 0;
    std::uint32_t count = 0;
    // The host differs from every GPU; GPUs differ only in their order.
    const std::uint64_t device =
        heap.device < 0 ? 0 : devices_.try_emplace(heap.device, devices_.size() + 1).first->second;
    whole_ = combine(whole_, device);
    untimed_ = combine(untimed_, device);
    std::uint64_t older = 0;
    std::size_t first = 0;
    for (; is_older_ && first < heap.count() && heap.op[first] == Op::alloc && is_older_(heap.event[first]); ++first) {
      size[heap.slot[first]] = heap.size[first];
      ordinal[heap.slot[first]] = ~heap.size[first].count;
      older += mix_bits(heap.size[first].count + 1);
    }
    if (first > 0) {
      whole_ = combine(whole_, older);
      untimed_ = combine(untimed_, older);
    }
    for (std::size_t row = first; row < heap.count(); ++row) {
      const std::uint32_t slot = heap.slot[row];
      switch (heap.op[row]) {
        case Op::alloc:
        case Op::alloc_failed: {
          if (heap.pool_stream[row] >= pool_streams.size()) pool_streams.resize(heap.pool_stream[row] + 1, unnumbered);
          std::uint64_t& pool_stream = pool_streams[heap.pool_stream[row]];
          if (pool_stream == unnumbered) pool_stream = next_pool_stream++;
          const bool failed = heap.op[row] == Op::alloc_failed;
          if (!failed) {
            ordinal[slot] = count++;
            size[slot] = heap.size[row];
          }
          request(heap.size[row], pool_stream * 2 + (failed ? 1 : 0));
          break;
        }
        case Op::free:
        case Op::free_requested:
          // Sums are order-independent: a burst is a multiset.
          freed_ordinals_ += mix_bits(ordinal[slot] + 1);
          all_freed_ += mix_bits(ordinal[slot] + 1);
          freed_sizes_ += mix_bits(size[slot].count + 1);
          break;
        case Op::empty_cache:
          whole_ = combine(combine(whole_, freed_ordinals_), 0xE3);
          break;
        default:
          break;  // when the device was done, and who waited for it, varies between runs
      }
    }
    whole_ = combine(whole_, freed_ordinals_);
    untimed_ = combine(untimed_, all_freed_);
    freed_ordinals_ = freed_sizes_ = all_freed_ = 0;
    if (in_chunk_ < RequestHash::chunk_length) chunks_.add(mix_bits(chunk_));  // a short program is one chunk
    chunk_ = in_chunk_ = 0;
    latest_ = {};
  }

  RequestHash result() && {
    RequestHash hash{.whole = whole_, .untimed = untimed_, .requests = requests_};
    hash.sketch = std::move(chunks_).smallest();
    return hash;
  }

 private:
  static constexpr std::uint64_t unnumbered = std::numeric_limits<std::uint64_t>::max();

  void request(Bytes size, std::uint64_t where) {
    ++requests_;
    whole_ = combine(combine(combine(whole_, freed_ordinals_), size.count), where);
    untimed_ = combine(combine(untimed_, size.count), where);
    const std::uint64_t item = combine(combine(mix_bits(freed_sizes_), size.count), where);
    std::uint64_t& oldest = latest_.at(in_chunk_ % RequestHash::chunk_length);
    chunk_ = chunk_ * chunk_base + item - oldest * power_of_chunk_base();
    oldest = item;
    if (++in_chunk_ >= RequestHash::chunk_length) chunks_.add(mix_bits(chunk_));
    freed_ordinals_ = freed_sizes_ = 0;
  }

  const std::function<bool(std::uint32_t)>& is_older_;
  std::map<std::int32_t, std::uint64_t> devices_;  // numbered in the order of their heaps
  std::uint64_t whole_ = 0, untimed_ = 0, requests_ = 0;
  std::uint64_t freed_ordinals_ = 0, freed_sizes_ = 0;  // since the latest request
  std::uint64_t all_freed_ = 0;                         // of the heap
  std::uint64_t chunk_ = 0, in_chunk_ = 0;              // of the heap's latest requests, and their number
  std::array<std::uint64_t, RequestHash::chunk_length> latest_{};
  ChunkCounts chunks_;
};

/// The largest hash whose presence a sketch determines.
std::uint64_t horizon(std::span<const RequestChunk> sketch) {
  return sketch.size() < RequestHash::most_chunks ? std::numeric_limits<std::uint64_t>::max() : sketch.back().hash;
}

}  // namespace

RequestHash hash_requests(std::span<const Prepared> heaps, const std::function<bool(std::uint32_t)>& is_older) {
  Hasher hasher(is_older);
  for (const Prepared& heap : heaps) hasher.add(heap);
  return std::move(hasher).result();
}

double similarity(std::span<const RequestChunk> a, std::span<const RequestChunk> b) {
  const std::uint64_t end = std::min(horizon(a), horizon(b));
  std::uint64_t least = 0, most = 0;
  std::size_t i = 0, j = 0;
  const auto more = [end](std::span<const RequestChunk> chunks, std::size_t at) {
    return at < chunks.size() && chunks[at].hash <= end;
  };
  while (more(a, i) || more(b, j)) {
    if (!more(b, j) || (more(a, i) && a[i].hash < b[j].hash)) {
      most += a[i++].times;
    } else if (!more(a, i) || b[j].hash < a[i].hash) {
      most += b[j++].times;
    } else {
      least += std::min(a[i].times, b[j].times);
      most += std::max(a[i++].times, b[j++].times);
    }
  }
  return most == 0 ? 0 : static_cast<double>(least) / static_cast<double>(most);
}

}  // namespace memreel
