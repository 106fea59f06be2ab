// The program of docs/manual/cpp.md: words of the input, and how often each came.
#include "shop.hpp"

#include <everbyte/std.hpp>
#include <iostream>
#include <map>
#include <string>

int main(int, char** arguments) {
  stock::shop pool(arguments[1], {.create = true});
  auto words = pool.root<stock::shop::make_persistent<std::map<std::string, int>>>("words");
  for (std::string word; std::cin >> word;) {
    stock::shop::txn([&](auto& t) { words.insert_or_assign(t, word, words.contains(word) ? words.at(word) + 1 : 1); });
  }
  for (auto [word, times] : words) std::cout << word << ' ' << times << '\n';
}
