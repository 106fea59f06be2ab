// How often words came in files, over all runs: word_count STORE FILE..
// A thread for each file counts in maps of std, whose pointers are plain: they end with the thread.
// One transaction adds the counts of a file, so a file is counted as a whole or not at all.
#include "shop.hpp"

#include <cctype>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

using stock::shop;

void count(const shop::word_count& all, const char* path) {
  std::unordered_map<std::string, std::uint64_t> own;
  std::ifstream file(path);
  std::string word;
  for (char next; file.get(next);) {
    if (std::isalpha(static_cast<unsigned char>(next))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(next)));
    } else if (!word.empty()) {
      ++own[std::exchange(word, "")];
    }
  }
  if (!word.empty()) ++own[word];
  shop::txn([&](auto& t) {
    for (const auto& [text, times] : own) all.add(t, text, times);
  });
}

int main(int argument_count, char** words) {
  shop pool(words[1], {.create = true});
  auto all = pool.root<shop::word_count>("words");
  std::vector<std::thread> threads;
  for (int at = 2; at < argument_count; ++at) threads.emplace_back(count, std::cref(all), words[at]);
  for (auto& thread : threads) thread.join();
  shop::txn([&](auto& t) {
    std::cout << all.size(t) << " words, `three` " << all.count(t, "three") << " times\n";
  });
}
