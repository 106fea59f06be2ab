// A list of numbers under the root "list1": list STORE NUMBER.. puts numbers in front of those that
// earlier runs left.
#include "shop.hpp"

#include <iostream>
#include <string>

using stock::shop;

int main(int count, char** words) {
  shop pool(words[1], {.create = true});
  auto list = pool.root<shop::list>("list1");
  shop::txn([&](auto& t) {
    for (int at = 2; at < count; ++at) list.push(t, std::stol(words[at]));
  });
  std::cout << list.size() << " numbers, sum " << list.sum() << '\n';
}
