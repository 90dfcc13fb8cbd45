/* Preloaded into a process: kills it at a given one of its calls that change files. A call that writes is half done. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls, last;

void count_calls(long killed_at) {
    last = killed_at;
    calls = 0;
}

long counted_calls(void) { return calls; }

static int is_last(void) { return atomic_fetch_add(&calls, 1) + 1 == last; }

static int is_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

#define CALL(type, name, parameters, arguments, is_counted, half)          \
    type name parameters {                                                \
        static type(*real) parameters;                                    \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name);    \
        if ((is_counted) && is_last()) {                                  \
            half;                                                         \
            kill(getpid(), SIGKILL);                                      \
        }                                                                 \
        return real arguments;                                            \
    }

CALL(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n), is_file(fd), real(fd, data, n / 2))
CALL(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), is_file(fd),
     real(fd, data, n / 2, at))
CALL(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at), is_file(fd),
     real(fd, data, n / 2, at))
CALL(int, fsync, (int fd), (fd), 1, )
CALL(int, fdatasync, (int fd), (fd), 1, )
CALL(int, ftruncate, (int fd, off_t n), (fd, n), 1, )
CALL(int, ftruncate64, (int fd, off64_t n), (fd, n), 1, )
CALL(int, rename, (const char *from, const char *to), (from, to), 1, )
CALL(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), 1, )
CALL(int, unlink, (const char *path), (path), 1, )
CALL(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), 1, )
CALL(int, rmdir, (const char *path), (path), 1, )
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), 1, )
CALL(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), 1, )
