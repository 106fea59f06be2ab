/* A red-black tree in memory (std::map, nodes of 128 bytes) that Boost.Serialization writes to a file and reads again. The file
 * is synced before a save returns, and written over in place: a save that a crash interrupts loses it, which is left to the
 * rival's favour. Calls answer 0 or an errno.
 * THREADS: one. */

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/serialization/map.hpp>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <ext/stdio_filebuf.h>
#include <fcntl.h>
#include <map>
#include <unistd.h>

struct payload {
    std::uint64_t words[11];
    template <class archive> void serialize(archive &with, unsigned) { with &words; }
};
BOOST_CLASS_IMPLEMENTATION(payload, boost::serialization::object_serializable)
BOOST_CLASS_TRACKING(payload, boost::serialization::track_never)

using tree = std::map<std::uint64_t, payload>;
static_assert(sizeof(std::_Rb_tree_node<tree::value_type>) == 128, "as the nodes it is compared with");

enum { BUFFER = 1 << 16 };
using file = __gnu_cxx::stdio_filebuf<char>; /* closes the descriptor */

extern "C" {
tree *boost_tree_new() { return new (std::nothrow) tree; }
void boost_tree_free(tree *at) { delete at; }

void boost_tree_insert(tree *at, std::uint64_t key, const payload *value) { at->emplace(key, *value); }

std::uint64_t boost_tree_len(const tree *at) { return at->size(); }

/* The payload of `key`; NULL if it is not there. */
const payload *boost_tree_get(const tree *at, std::uint64_t key) {
    auto found = at->find(key);
    return found == at->end() ? nullptr : &found->second;
}

int boost_tree_save(const tree *at, const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    try {
        file buffer(fd, std::ios::out | std::ios::binary, BUFFER);
        boost::archive::binary_oarchive(buffer) << *at;
        return buffer.pubsync() || fsync(fd) ? EIO : 0;
    } catch (const std::exception &) {
        return EIO;
    }
}

int boost_tree_load(tree *at, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    try {
        file buffer(fd, std::ios::in | std::ios::binary, BUFFER);
        boost::archive::binary_iarchive(buffer) >> *at;
        return 0;
    } catch (const std::exception &) {
        return EIO;
    }
}
}
