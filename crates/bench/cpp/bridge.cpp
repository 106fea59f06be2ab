// The C++ side of `cargo xtask bench bridge`: bridge STORE WORDS.
// Reads lines `OPERATION COUNT`, and answers each with nanoseconds and a sum of what was found.
#include <everbyte/std.hpp>

#include "bridged.hpp"
#include "unchecked.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using measured::bridged;
using measured::unchecked;
using std::uint64_t;

// Classes whose objects C++ makes.
struct cell {
  uint64_t value;
};
EVERBYTE_FIELDS(cell, value)

struct cells {
  std::array<everbyte::pointer_t<cell, bridged>, 100> all;
};
EVERBYTE_FIELDS(cells, all)

template <class T>
void opaque(T& value) {
  asm volatile("" : "+r"(value) : : "memory");
}

uint64_t now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

template <class Body>
uint64_t timed(Body&& body) {
  uint64_t start = now();
  body();
  return now() - start;
}

// SplitMix64, as the other sides have it.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
uint64_t step(uint64_t& random) { return mix(random += 0x9e3779b97f4a7c15u); }

// A third each of puts, removals and gets, of one of `keys` keys.
template <class Pool, class Map>
uint64_t run(const Map& map, uint64_t& random, uint64_t keys, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t done = 0; done < count; ++done) {
    uint64_t word = step(random), key = mix(((word >> 32) * keys) >> 32);
    switch (word % 3) {
      case 0: sum += Pool::txn([&](auto& t) { return map.put(t, key, word); }); break;
      case 1: sum += Pool::txn([&](auto& t) { return map.remove(t, key); }); break;
      default: sum += map.get(key);
    }
  }
  return sum;
}

template <class Pool, class Map>
uint64_t load(const Map& map, uint64_t keys) {
  uint64_t sum = 0;
  for (uint64_t number = 0; number < keys; number += 2) {
    sum += Pool::txn([&](auto& t) { return map.put(t, mix(number), number); });
  }
  return sum;
}

// The calls of the other maps, over a map of std whose keys and values are bytes for Rust.
class byte_map {
 public:
  explicit byte_map(const bridged& pool) : map_(pool.root<of>("bytes")) {}
  uint64_t get(uint64_t key) const {
    auto found = map_.find(key);
    return found == map_.end() ? 0 : found->second;
  }
  template <class T>
  uint64_t put(T& t, uint64_t key, uint64_t value) const {
    return map_.insert_or_assign(t, key, value).second ? 1 : 0;
  }
  template <class T>
  uint64_t remove(T& t, uint64_t key) const {
    uint64_t value = get(key);
    map_.erase(t, key);
    return value;
  }

 private:
  using of = bridged::make_persistent<std::map<uint64_t, uint64_t>>;
  of map_;
};

struct word {
  char text[24];
  uint64_t hash;
};

// The counts of a thread's chunk: plain pointers, which end with the chunk. The buckets are in the
// order of the shards that the counts are added to.
class own_counts {
 public:
  explicit own_counts(std::size_t words) { entries_.reserve(words); }

  void count(const word& one) {
    entry** at = &buckets_[one.hash % shards * buckets + (one.hash >> 32) % buckets];
    for (; *at != nullptr; at = &(*at)->next) {
      if (std::memcmp((*at)->of->text, one.text, sizeof one.text) == 0) {
        ++(*at)->count;
        return;
      }
    }
    *at = &entries_.emplace_back(&one, 1, nullptr);
  }

  // A transaction for each group of shards, `turn` first: threads that begin with other groups do
  // not wait for each other's locks.
  template <class Pool>
  void add_to(const measured::word_counts<Pool>& all, std::size_t turn) {
    for (std::size_t group = 0; group < groups; ++group) {
      std::size_t first = (turn + group) % groups * (buckets_.size() / groups);
      Pool::txn([&](auto& t) {
        for (std::size_t bucket = first; bucket < first + buckets_.size() / groups; ++bucket) {
          for (entry* one = buckets_[bucket]; one != nullptr; one = one->next) {
            std::string_view text(one->of->text, strnlen(one->of->text, sizeof one->of->text));
            all.add(t, text, one->of->hash, one->count);
          }
        }
      });
    }
    buckets_.fill(nullptr);
    entries_.clear();
  }

 private:
  static constexpr std::size_t shards = 64, buckets = 16, groups = 4;
  struct entry {
    const word* of;
    uint64_t count;
    entry* next;
    entry(const word* one, uint64_t first, entry* rest) : of(one), count(first), next(rest) {}
  };
  std::array<entry*, shards * buckets> buckets_{};
  std::vector<entry> entries_;  // never grows: entries keep their places
};

template <class Pool>
void count_words(const measured::word_counts<Pool>& all, const std::vector<word>& words, uint64_t total, uint64_t threads) {
  constexpr uint64_t chunk = 256;
  std::atomic<uint64_t> taken{0};
  auto work = [&](std::size_t turn) {
    own_counts own(chunk);
    for (;;) {
      uint64_t first = taken.fetch_add(chunk, std::memory_order_relaxed);
      if (first >= total) return;
      uint64_t from = first % (words.size() - chunk), length = std::min(chunk, total - first);
      for (uint64_t index = from; index < from + length; ++index) own.count(words[index]);
      own.add_to(all, turn);
    }
  };
  if (threads == 1) return work(0);
  std::vector<std::thread> running;
  for (uint64_t thread = 0; thread < threads; ++thread) running.emplace_back(work, thread * 2);
  for (auto& one : running) one.join();
}

std::vector<word> read_words(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<word> words;
  for (word one; file.read(reinterpret_cast<char*>(&one), sizeof one);) words.push_back(one);
  return words;
}

int main(int, char** arguments) {
  bridged pool(arguments[1], {.create = true, .size_max = uint64_t(16) << 30});
  auto counter = pool.root<bridged::counter>("counter");
  auto bst = pool.root<bridged::bst>("bst");
  auto kv_store = pool.root<bridged::kv_store>("kv_store");
  auto btree8 = pool.root<bridged::btree8>("btree8");
  auto counts = pool.root<bridged::word_counts>("words");
  auto one = pool.cpp_root<cell>("cell");
  auto many = pool.cpp_root<cells>("cells");
  byte_map bytes(pool);
  unchecked other(std::string(arguments[1]) + ".unchecked", {.create = true, .size_max = uint64_t(4) << 30});
  auto unchecked_btree8 = other.root<unchecked::btree8>("btree8");
  auto unchecked_counts = other.root<unchecked::word_counts>("words");
  bridged::txn([&](auto& t) {
    auto all = many.mut(t);
    for (std::size_t index = 0; index < all->all.size(); ++index) all->all[index] = t.make(cell{index});
  });
  auto words = read_words(arguments[2]);

  uint64_t keys = 0, randoms[5] = {}, sum = 0;
  auto map = [&](auto& with, uint64_t which, uint64_t count) {
    return timed([&] { sum = run<bridged>(with, randoms[which], keys, count); });
  };
  std::string what;
  for (uint64_t count; std::cin >> what >> count;) {
    uint64_t took = 0;
    sum = 0;
    if (what == "keys") {
      keys = count;
      sum = load<bridged>(bst, keys) + load<bridged>(kv_store, keys) + load<bridged>(btree8, keys) + load<bridged>(bytes, keys) +
            load<unchecked>(unchecked_btree8, keys);
    } else if (what == "random") {
      for (auto& random : randoms) random = count;
    } else if (what == "bst") {
      took = map(bst, 0, count);
    } else if (what == "kvstore") {
      took = map(kv_store, 1, count);
    } else if (what == "btree8") {
      took = map(btree8, 2, count);
    } else if (what == "btree8_bytes") {
      took = map(bytes, 3, count);
    } else if (what == "btree8_unchecked") {
      took = timed([&] { sum = run<unchecked>(unchecked_btree8, randoms[4], keys, count); });
    } else if (what == "call") {
      took = timed([&] {
        for (uint64_t done = 0; done < count; ++done) sum += counter.value();
      });
    } else if (what == "call_change") {
      bridged::txn([&](auto& t) {
        took = timed([&] {
          for (uint64_t done = 0; done < count; ++done) sum += counter.add(t, 1);
        });
      });
    } else if (what == "txn_empty") {
      took = timed([&] {
        for (uint64_t done = 0; done < count; ++done) bridged::txn([](auto&) {});
      });
    } else if (what == "deref") {
      took = timed([&] {
        for (uint64_t done = 0; done < count; done += many->all.size()) {
          const auto* all = &many->all;
          opaque(all);
          for (const auto& each : *all) sum += each->value;
        }
      });
    } else if (what == "mut_first") {
      took = timed([&] {
        for (uint64_t done = 0; done < count; ++done) bridged::txn([&](auto& t) { *one.mut(t, &cell::value) = done; });
      });
    } else if (what == "mut_later") {
      bridged::txn([&](auto& t) {
        auto changing = one.mut(t, &cell::value);
        took = timed([&] {
          for (uint64_t done = 0; done < count; ++done) {
            auto* at = &changing;
            opaque(at);
            **at = done;
          }
        });
      });
    } else if (what == "mut_again") {
      bridged::txn([&](auto& t) {
        took = timed([&] {
          for (uint64_t done = 0; done < count; ++done) *one.mut(t, &cell::value) = done;
        });
      });
    } else if (what == "lines") {
      sum = bridged::txn([&](auto& t) { return counter.lines(t); });
    } else if (what == "fences") {
      sum = bridged::txn([&](auto& t) { return counter.fences(t); });
    } else if (what == "words_sum") {
      sum = bridged::txn([&](auto& t) { return counts.sum(t); });
    } else if (what == "words_unchecked") {
      took = timed([&] { count_words(unchecked_counts, words, count, 1); });
    } else if (what.starts_with("words_")) {
      took = timed([&] { count_words(counts, words, count, std::stoull(what.substr(6))); });
    } else {
      std::cerr << "no operation is called " << what << '\n';
      return 2;
    }
    std::cout << took << ' ' << sum << std::endl;
  }
}
