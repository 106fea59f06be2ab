/* Single operations of libpmemobj-cpp, as its documentation has them: numbers are `p`, pointers
 * `persistent_ptr`, transactions lambdas.
 *
 * `cpp_rival_row` answers nanoseconds for `count` operations.
 * THREADS: one per pool. */

#include <libpmemobj++/make_persistent.hpp>
#include <libpmemobj++/p.hpp>
#include <libpmemobj++/persistent_ptr.hpp>
#include <libpmemobj++/pool.hpp>
#include <libpmemobj++/transaction.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace obj = pmem::obj;

enum row { EMPTY, DEREF, MUT_FIRST };

struct number {
    obj::p<std::uint64_t> value;
};

struct top {
    number own;
    obj::persistent_ptr<number> all[100];
};

using pool = obj::pool<top>;

static thread_local std::string said;

static std::uint64_t now() {
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

static std::uint64_t deref(pool &of, std::uint64_t count) {
    std::uint64_t sum = 0, start = now();
    for (std::uint64_t done = 0; done < count; done += 100) {
        const top *at = of.root().get();
        asm volatile("" : "+r"(at) : : "memory");
        for (const auto &one : at->all) sum += one->value;
    }
    std::uint64_t took = now() - start;
    asm volatile("" : : "r"(sum));
    return took;
}

extern "C" {
/* A new pool of `size` bytes; null if it fails: `cpp_rival_said`. */
void *cpp_rival_create(const char *path, std::size_t size) {
    try {
        auto made = pool::create(path, "bench", size, 0600);
        obj::transaction::run(made, [&] {
            for (auto &one : made.root()->all) one = obj::make_persistent<number>();
        });
        return new pool(made);
    } catch (const std::exception &error) {
        said = error.what();
        return nullptr;
    }
}

const char *cpp_rival_said() { return said.c_str(); }

void cpp_rival_close(void *of) {
    auto *at = static_cast<pool *>(of);
    at->close();
    delete at;
}

/* A transaction that fails ends the program: nothing unwinds into Rust. */
std::uint64_t cpp_rival_row(void *of, int row, std::uint64_t count) noexcept {
    auto &at = *static_cast<pool *>(of);
    if (row == DEREF) return deref(at, count);
    number &own = at.root()->own;
    std::uint64_t start = now();
    for (std::uint64_t done = 0; done < count; ++done) {
        obj::transaction::run(at, [&] {
            if (row == MUT_FIRST) own.value = done;
        });
    }
    return now() - start;
}
}
