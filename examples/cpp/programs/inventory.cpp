// An inventory that outlives its program.
//   inventory STORE put NAME COUNT   adds goods
//   inventory STORE take NAME COUNT  takes goods, or says why not
//   inventory STORE                  tells what is there
#include "shop.hpp"

#include <cstdlib>
#include <iostream>
#include <string_view>

int main(int count, char** words) {
  if (count != 2 && count != 5) {
    std::cerr << "inventory STORE [put|take NAME COUNT]\n";
    return 2;
  }
  try {
    stock::shop pool(words[1], {.create = true});
    auto goods = pool.root<stock::shop::inventory>("goods");
    auto changes = pool.root<stock::shop::counter>("changes");
    if (count == 5) {
      bool is_put = std::string_view(words[2]) == "put";
      std::string_view name = words[3];
      std::uint64_t number = std::strtoull(words[4], nullptr, 10);
      auto left = stock::shop::txn([&](auto& t) {
        changes.add(t, 1);  // taken back with everything else if `take` fails
        if (is_put) goods.put(t, name, number);
        return is_put ? *goods.count(name) : goods.take(t, name, number);
      });
      std::cout << left << " of " << name << '\n';
    } else {
      std::cout << goods.kinds() << " kinds, " << changes.value() << " changes, first: " << goods.first() << '\n';
    }
  } catch (const everbyte::error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
