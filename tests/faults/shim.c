/*
 * Loaded into a program with LD_PRELOAD: records what it does to files below a folder, and lets a
 * chosen operation fail.
 *
 *   SHIM_ROOT    the folder
 *   SHIM_TRACE   the file to append records to
 *   SHIM_FAULT   a file that may come and go: "once N ERRNO" lets the Nth operation from now on
 *                fail, "from N ERRNO" all that write from the Nth on, as on a full disk
 *
 * A record: u8 operation, i32 process, i32 descriptor, i64 number, u32 and u32 lengths, two texts.
 * All records of a process are made one after the other, in the order the operations had.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST 65536
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static char root[PATH_MAX], fault[PATH_MAX], plan[64];
static char tracked[MOST];
static long count = 0;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("SHIM_ROOT"), *file = getenv("SHIM_TRACE");
    if (!folder || !file) return;
    snprintf(root, sizeof root, "%s", folder);
    if (getenv("SHIM_FAULT")) snprintf(fault, sizeof fault, "%s", getenv("SHIM_FAULT"));
    trace = REAL(open)(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void record(char op, int fd, int64_t number, const void *a, uint32_t la, const void *b,
                   uint32_t lb) {
    char head[25];
    int32_t pid = getpid(), descriptor = fd;
    head[0] = op;
    memcpy(head + 1, &pid, 4), memcpy(head + 5, &descriptor, 4), memcpy(head + 9, &number, 8);
    memcpy(head + 17, &la, 4), memcpy(head + 21, &lb, 4);
    struct iovec parts[3] = {{head, 25}, {(void *)a, la}, {(void *)b, lb}};
    if (trace >= 0) (void)!REAL(writev)(trace, parts, 3);
}

/* Returns true, with errno set, if this operation is to fail. */
static int fails(int writes) {
    char found[64] = "", how[8] = "";
    long at = 0, error = 0;
    int fd = fault[0] ? REAL(open)(fault, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        plan[0] = 0;
        return 0;
    }
    ssize_t n = read(fd, found, sizeof found - 1);
    REAL(close)(fd);
    if (n <= 0 || sscanf(found, "%7s %ld %ld", how, &at, &error) != 3) return 0;
    if (strcmp(found, plan)) strcpy(plan, found), count = 0;
    count++;
    if (!strcmp(how, "from") ? !writes || count < at : count != at) return 0;
    record('F', -1, error, NULL, 0, NULL, 0);
    errno = error;
    return 1;
}

static int below(const char *path) {
    size_t n = strlen(root);
    return trace >= 0 && !strncmp(path, root, n) && (path[n] == '/' || !path[n]);
}

static int is_tracked(int fd) { return fd >= 0 && fd < MOST && tracked[fd]; }

static void whole(int folder, const char *path, char *out) {
    char at[PATH_MAX] = "", link[64];
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
        return;
    }
    if (folder == AT_FDCWD) {
        if (!getcwd(at, sizeof at)) at[0] = 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t n = readlink(link, at, PATH_MAX - 1);
        at[n < 0 ? 0 : n] = 0;
    }
    if ((size_t)snprintf(out, PATH_MAX, "%s/%s", at, path) >= PATH_MAX) out[0] = 0;
}

#define LOCK pthread_mutex_lock(&turn)
#define UNLOCK(result)                                                                             \
    do {                                                                                           \
        int kept = errno;                                                                          \
        pthread_mutex_unlock(&turn);                                                               \
        errno = kept;                                                                              \
        return result;                                                                             \
    } while (0)

/* Opening and closing */

static int do_open(int folder, const char *path, int flags, mode_t mode) {
    char at[PATH_MAX];
    LOCK;
    whole(folder, path, at);
    if (below(at) && flags & O_CREAT && fails(0)) UNLOCK(-1);
    int fd = REAL(openat)(folder, path, flags, mode);
    int kept = errno;
    if (fd >= 0 && fd < MOST && trace >= 0) {
        tracked[fd] = below(at);
        if (tracked[fd]) record('O', fd, flags, at, strlen(at), NULL, 0);
    }
    errno = kept;
    UNLOCK(fd);
}
#define MODE                                                                                       \
    mode_t mode = 0;                                                                               \
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                                     \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = va_arg(rest, mode_t);                                                               \
        va_end(rest);                                                                              \
    }
int open(const char *path, int flags, ...) { MODE return do_open(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return do_open(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return do_open(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return do_open(at, path, flags, mode); }

int close(int fd) {
    LOCK;
    if (is_tracked(fd)) record('C', fd, 0, NULL, 0, NULL, 0), tracked[fd] = 0;
    int result = REAL(close)(fd);
    UNLOCK(result);
}

/* Bytes */

static ssize_t do_write(int fd, const void *bytes, size_t n, off64_t at, int positioned) {
    LOCK;
    if (is_tracked(fd) && fails(1)) UNLOCK(-1);
    if (is_tracked(fd) && !positioned) {
        struct stat found;
        at = lseek(fd, 0, SEEK_CUR);
        if (fcntl(fd, F_GETFL) & O_APPEND && !fstat(fd, &found)) at = found.st_size;
    }
    ssize_t done = positioned ? REAL(pwrite64)(fd, bytes, n, at) : REAL(write)(fd, bytes, n);
    int kept = errno;
    if (is_tracked(fd) && done > 0) record('W', fd, at, bytes, done, NULL, 0);
    errno = kept;
    UNLOCK(done);
}
ssize_t write(int fd, const void *bytes, size_t n) {
    return is_tracked(fd) ? do_write(fd, bytes, n, 0, 0) : REAL(write)(fd, bytes, n);
}
ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { return do_write(fd, b, n, at, 1); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) { return do_write(fd, b, n, at, 1); }

static int do_truncate(int fd, off64_t size) {
    LOCK;
    if (is_tracked(fd) && fails(0)) UNLOCK(-1);
    int result = REAL(ftruncate64)(fd, size);
    if (is_tracked(fd) && !result) record('T', fd, size, NULL, 0, NULL, 0);
    UNLOCK(result);
}
int ftruncate(int fd, off_t size) { return do_truncate(fd, size); }
int ftruncate64(int fd, off64_t size) { return do_truncate(fd, size); }

/* Copying inside the kernel: programs fall back to reading and writing. */
ssize_t sendfile(int to, int from, off_t *at, size_t n) {
    if (is_tracked(to)) return errno = EINVAL, -1;
    return REAL(sendfile64)(to, from, at, n);
}
ssize_t sendfile64(int to, int from, off_t *at, size_t n) { return sendfile(to, from, at, n); }
ssize_t copy_file_range(int from, off64_t *a, int to, off64_t *b, size_t n, unsigned flags) {
    if (is_tracked(to)) return errno = EXDEV, -1;
    return REAL(copy_file_range)(from, a, to, b, n, flags);
}

static int do_sync(int fd, int data) {
    LOCK;
    if (is_tracked(fd) && fails(0)) UNLOCK(-1);
    int result = data ? REAL(fdatasync)(fd) : REAL(fsync)(fd);
    if (is_tracked(fd) && !result) record('S', fd, 0, NULL, 0, NULL, 0);
    UNLOCK(result);
}
int fsync(int fd) { return do_sync(fd, 0); }
int fdatasync(int fd) { return do_sync(fd, 1); }

/* Names */

#define NAMES(op, at1, path1, at2, path2, call)                                                    \
    char one[PATH_MAX], two[PATH_MAX] = "";                                                        \
    const char *second = path2;                                                                    \
    LOCK;                                                                                          \
    whole(at1, path1, one);                                                                        \
    if (second) whole(at2, second, two);                                                           \
    int ours = below(one) || (second && below(two));                                               \
    if (ours && fails(0)) UNLOCK(-1);                                                              \
    int result = call;                                                                             \
    if (ours && !result) record(op, -1, 0, one, strlen(one), two, strlen(two));                    \
    UNLOCK(result)

int rename(const char *a, const char *b) {
    NAMES('R', AT_FDCWD, a, AT_FDCWD, b, REAL(rename)(a, b));
}
int renameat(int x, const char *a, int y, const char *b) {
    NAMES('R', x, a, y, b, REAL(renameat)(x, a, y, b));
}
int link(const char *a, const char *b) { NAMES('L', AT_FDCWD, a, AT_FDCWD, b, REAL(link)(a, b)); }
int linkat(int x, const char *a, int y, const char *b, int flags) {
    NAMES('L', x, a, y, b, REAL(linkat)(x, a, y, b, flags));
}
int unlink(const char *a) { NAMES('U', AT_FDCWD, a, 0, NULL, REAL(unlink)(a)); }
int unlinkat(int x, const char *a, int flags) { NAMES('U', x, a, 0, NULL, REAL(unlinkat)(x, a, flags)); }
int rmdir(const char *a) { NAMES('U', AT_FDCWD, a, 0, NULL, REAL(rmdir)(a)); }
int mkdir(const char *a, mode_t mode) { NAMES('M', AT_FDCWD, a, 0, NULL, REAL(mkdir)(a, mode)); }
int mkdirat(int x, const char *a, mode_t mode) {
    NAMES('M', x, a, 0, NULL, REAL(mkdirat)(x, a, mode));
}
