// Loaded into a server before its libraries (LD_PRELOAD): shifts its wall clock by the microseconds, an int64, at the
// start of the file that VCLOCK_FILE names. The file is mapped, so that a change counts at the next reading of the clock.
// Only the wall clock: CLOCK_MONOTONIC and the others stay as they are.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static const volatile int64_t *offset_us = &none;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("VCLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(0, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset_us = mapped;
    close(file);
}

// Asks the kernel itself: looking up the function that this one stands in for would allocate, and the server's allocator
// asks for the time.
static int64_t now_us(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000 + *offset_us;
}

int clock_gettime(clockid_t id, struct timespec *time) {
    if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return syscall(SYS_clock_gettime, id, time);
    int64_t now = now_us();
    time->tv_sec = now / 1000000;
    time->tv_nsec = now % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    int64_t now = now_us();
    time->tv_sec = now / 1000000;
    time->tv_usec = now % 1000000;
    return 0;
}

time_t time(time_t *time) {
    time_t now = now_us() / 1000000;
    if (time) *time = now;
    return now;
}
