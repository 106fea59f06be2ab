// An exception that leaves a block commits it; one caught inside is over; what is thrown in a block that is run again is
// thrown once.
#include "everbyte/patomic.h"
#include "require.h"
#include <pthread.h>
#include <stdexcept>
#include <thread>

pstatic long kept, counted;
static long plain;

struct Base {
    __attribute__((transaction_safe)) virtual ~Base() {}
    __attribute__((transaction_safe)) virtual long value() const { return 1; }
};
struct Derived : Base {
    __attribute__((transaction_safe)) ~Derived() override {}
    __attribute__((transaction_safe)) long value() const override { return 2; }
};

__attribute__((transaction_safe)) static void fail(long code) { throw code; }

static void leaving() {
    long caught = 0;
    try {
        patomic {
            kept = 1;
            plain = 1;
            fail(42);
            kept = 2;
        }
    } catch (long code) {
        caught = code;
    }
    MUST(caught == 42 && kept == 1 && plain == 1);
}

static void inside() {
    patomic {
        try {
            kept = 3;
            fail(1);
        } catch (...) {
            kept += 10;
        }
    }
    MUST(kept == 13);
}

static void thrown_by_the_library() {
    bool caught = false;
    try {
        patomic {
            kept = 4;
            throw std::runtime_error("a sentence");
        }
    } catch (const std::runtime_error &error) {
        caught = std::string(error.what()) == "a sentence";
    }
    MUST(caught && kept == 4);
}

static void cancelled() {
    patomic {
        try {
            kept = 5;
            fail(1);
        } catch (...) {
            patomic_cancel;
        }
    }
    MUST(kept == 4);
}

static void objects() {
    Base *base = nullptr;
    patomic {
        base = new Derived;
        kept = base->value();
    }
    MUST(kept == 2);
    patomic { delete base; }
}

static void threads() {
    const long rounds = 2000;
    auto work = [] {
        for (long round = 0; round < rounds; round++) {
            long caught = 0;
            try {
                patomic {
                    counted++;
                    plain++;
                    if (round % 2)
                        fail(round);
                }
            } catch (long code) {
                caught = code;
            }
            MUST(caught == (round % 2 ? round : 0));
        }
    };
    plain = 0;
    std::thread first(work), second(work);
    first.join();
    second.join();
    MUST(counted == 2 * rounds && plain == 2 * rounds);
}

/* The end of a thread unwinds its stack, too, and commits nothing. */

static volatile bool ends = true;

__attribute__((transaction_pure, noinline)) static void end_thread(void) {
    if (ends) pthread_exit(nullptr);
}

EVERBYTE_SAFE __attribute__((noinline)) static void changes_and_ends(void) {
    patomic {
        kept += 100;
        end_thread();
    }
}

static void *ending(void *) {
    patomic {
        kept += 10;
        plain += 10;
        changes_and_ends();
    }
    return nullptr;
}

static void a_thread_that_ends_inside() {
    long before = kept, before_plain = plain;
    pthread_t other;
    MUST(pthread_create(&other, nullptr, ending, nullptr) == 0);
    pthread_join(other, nullptr);
    MUST(kept == before && plain == before_plain);
    patomic { kept++; }
    MUST(kept == before + 1);
}

int main() {
    leaving();
    inside();
    thrown_by_the_library();
    cancelled();
    objects();
    threads();
    a_thread_that_ends_inside();
    return 0;
}
