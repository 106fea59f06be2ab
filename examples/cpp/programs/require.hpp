// Checks of test programs: a failure says where, and ends the program.
#ifndef REQUIRE_HPP
#define REQUIRE_HPP

#include <cstdio>
#include <cstdlib>
#include <string_view>

#define REQUIRE(condition)                                                            \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);           \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (0)

#ifdef __cpp_exceptions
// Runs `action`, which must fail with an error of that kind whose text has `part`.
template <class Action>
void must_refuse(everbyte::error_kind kind, std::string_view part, Action&& action) {
  try {
    action();
  } catch (const everbyte::error& error) {
    if (error.kind() == kind && std::string_view(error.what()).find(part) != std::string_view::npos) return;
    std::fprintf(stderr, "expected `%.*s`, not kind %u: %s\n", static_cast<int>(part.size()), part.data(),
                 static_cast<unsigned>(error.kind()), error.what());
    std::exit(1);
  }
  std::fprintf(stderr, "not refused: %.*s\n", static_cast<int>(part.size()), part.data());
  std::exit(1);
}
#endif

#endif
