// A key-value store on the command line, over classes that only this program knows.
//   kv_store STORE (get KEY | put KEY VALUE | burst get|put COUNT | print | clear | check)...
#include "shop.hpp"

#include "require.hpp"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

using stock::shop;
using enum everbyte::error_kind;

// A short text: classes of a pool own no memory outside of it.
struct key_text {
  char text[24];
  std::uint8_t size;

  key_text(std::string_view from) : text{}, size(static_cast<std::uint8_t>(std::min(from.size(), sizeof text))) {
    std::memcpy(text, from.data(), size);
  }
  key_text() : key_text("") {}
  operator std::string_view() const { return {text, size}; }
  bool operator==(const key_text& other) const {
    return std::string_view(*this) == std::string_view(other);
  }
};
EVERBYTE_FIELDS(key_text, text, size)

template <>
struct std::hash<key_text> {
  std::size_t operator()(const key_text& key) const {
    if (std::string_view(key) == "no hash") throw std::runtime_error("not hashed");
    return std::hash<std::string_view>{}(key);
  }
};

using table = shop::kv_store<key_text, int>;

void callbacks_may_throw(const table& all) {
  auto size = all.size();
  try {
    shop::txn([&](auto& t) {
      all.put(t, key_text("before"), 1);
      all.put(t, key_text("no hash"), 1);
    });
    REQUIRE(false);
  } catch (const std::runtime_error& error) {
    REQUIRE(std::string_view(error.what()) == "not hashed");
  }
  REQUIRE(all.size() == size);
  try {
    all.get(key_text("no hash"));
    REQUIRE(false);
  } catch (const std::runtime_error&) {
  }
  // It ends where it is caught.
  struct counted {
    std::shared_ptr<int> of;
  };
  auto alive = std::make_shared<int>(0);
  shop::txn([&](auto& t) { all.put(t, key_text("one"), 1); });
  try {
    all.each([&](const key_text&, const int&) { throw counted{alive}; });
    REQUIRE(false);
  } catch (const counted&) {
  }
  REQUIRE(alive.use_count() == 1);
  // An exception of a callback dooms its transaction, even if it is caught.
  must_refuse(invalid, "nested transaction failed", [&] {
    shop::txn([&](auto& t) {
      try {
        all.put(t, key_text("no hash"), 1);
      } catch (const std::runtime_error&) {
      }
    });
  });
  // A callback that changes what it walks is a panic of Rust's borrow rules.
  shop::txn([&](auto& t) { all.put(t, key_text("one"), 1); });
  must_refuse(panicked, "already borrowed", [&] {
    shop::txn([&](auto& t) { all.each([&](const key_text& key, const int& value) { all.put(t, key, value + 1); }); });
  });
  REQUIRE(all.get(key_text("one")) == 1);
}

void other_classes_are_refused(const shop& pool) {
  must_refuse(foreign, "other classes of C++", [&] { pool.root<shop::kv_store<key_text, long>>("KVStore"); });
}

int main(int count, char** words) {
  shop pool(words[1], {.create = true});
  if (count > 2 && std::string_view(words[2]) == "check") other_classes_are_refused(pool);
  auto all = pool.root<table>("KVStore");
  for (int at = 2; at < count; ++at) {
    std::string_view word = words[at];
    auto next = [&]() -> std::string { return at + 1 < count ? words[++at] : ""; };
    auto get = [&](const std::string& key) { return all.get(key_text(key)); };
    auto put = [&](const std::string& key, int value) { shop::txn([&](auto& t) { all.put(t, key_text(key), value); }); };
    if (word == "get") {
      auto found = get(next());
      std::cout << (found ? std::to_string(*found) : "none") << '\n';
    } else if (word == "put") {
      auto key = next();
      put(key, std::atoi(next().c_str()));
    } else if (word == "burst") {
      bool is_put = next() == "put";
      int number = std::atoi(next().c_str());
      for (int index = 0; index < number; ++index) {
        auto key = "key" + std::to_string(index);
        if (is_put) put(key, index);
        else get(key);
      }
    } else if (word == "print") {
      all.each([](const key_text& key, const int& value) { std::cout << std::string_view(key) << " = " << value << '\n'; });
    } else if (word == "clear") {
      shop::txn([&](auto& t) { all.clear(t); });
    } else if (word == "check") {
      callbacks_may_throw(all);
    } else {
      std::cerr << "kv_store STORE (get KEY | put KEY VALUE | burst get|put COUNT | print | clear | check)...\n";
      return 2;
    }
  }
}
