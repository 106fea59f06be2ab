/* A notebook whose pages are files of a volume: each run adds a page and prints them all.
 *
 *     cc files.c -leverbyte -o files && ./files "buy milk" && ./files "call home" */
#define _GNU_SOURCE /* O_TMPFILE, AT_EMPTY_PATH */
#include <errno.h>
#include <everbyte/posix.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, everbyte_error());
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: files TEXT\n"), 2;
    if (eb_volume_make("notebook", 64 << 20) && errno != EEXIST) return failed("notebook");
    int root = eb_volume_open("notebook", 0);
    if (root < 0) return failed("notebook");
    if (eb_mkdir("/pages", 0755) && errno != EEXIST) return failed("/pages");

    /* The page is written without a name, and appears whole. */
    int page = eb_open("/pages", O_TMPFILE | O_RDWR, 0644);
    if (page < 0 || eb_write(page, argv[1], strlen(argv[1])) < 0) return failed("a page");
    char name[32];
    int number = 0;
    do {
        snprintf(name, sizeof name, "/pages/%03d", ++number);
    } while (eb_linkat(page, "", AT_FDCWD, name, AT_EMPTY_PATH) && errno == EEXIST);
    if (eb_fsync(page) || eb_close(page)) return failed(name);

    for (int i = 1; i <= number; i++) {
        char text[256];
        snprintf(name, sizeof name, "/pages/%03d", i);
        int fd = eb_open(name, O_RDONLY, 0);
        ssize_t size = fd < 0 ? -1 : eb_read(fd, text, sizeof text);
        if (size < 0) return failed(name);
        printf("%d: %.*s\n", i, (int)size, text);
        eb_close(fd);
    }
    return eb_volume_close(root) ? failed("notebook") : 0;
}
