/* The messages of Armillary's external simulators, version 2 (docs/reference/external-protocol.md).
 *
 * A record is 40 bytes, little-endian. It comes in on standard input and goes out on standard output.
 * HELLO and ERROR are followed by `y` bytes of text. Times are picoseconds, sizes bytes, rates bytes
 * per second. Write nothing else to standard output.
 *
 * After armillary_hello() records go by memory that both processes share, where there is any. Then
 * standard input and output only wake who sleeps: use nothing but the functions below. Include this
 * in one file of a program. */
#ifndef ARMILLARY_H
#define ARMILLARY_H

#if !defined(__cplusplus) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little-endian: this header needs a conversion for this machine"
#endif

#define ARMILLARY_VERSION 2
#define ARMILLARY_NEVER UINT64_MAX
#define ARMILLARY_TEXT 65536

enum armillary_kind {
    ARMILLARY_HELLO = 1,     /* in: a version, b NPUs, c nodes, x links, y text. out: a version, b routes, c memory, y text */
    ARMILLARY_LINK = 2,      /* in: a from node, b to node, c dimension, x bandwidth, y latency, z number */
    ARMILLARY_ROUTE = 3,     /* in: a from NPU, b to NPU, c link, x place on the route from 0, y lane */
    ARMILLARY_READY = 4,     /* in: no more links; of routes only with ARMILLARY_ROUTES_USED */
    ARMILLARY_START = 5,     /* in: a from NPU, b to NPU, c lane, x time, y bytes, z token, the same for all parts of a message */
    ARMILLARY_ADVANCE = 6,   /* in: go on to the first delivery, and no further than x */
    ARMILLARY_USAGE = 7,     /* in: say what was carried until x */
    ARMILLARY_DELIVERY = 16, /* out, for each START: x time, z token */
    ARMILLARY_NEXT = 17,     /* out, ends the answer to ADVANCE: x time of the next event, or NEVER */
    ARMILLARY_CARRIED = 18,  /* out: a link, b longest queue, x bytes, y packets, z time sending */
    ARMILLARY_COUNT = 19,    /* out: a enum armillary_count, x value */
    ARMILLARY_DONE = 20,     /* out: ends the answer to USAGE */
    ARMILLARY_BUSY = 21,     /* out, at any time: still at work, x simulated time */
    ARMILLARY_ERROR = 22     /* out: gives up, y text */
};

enum armillary_routes {
    ARMILLARY_ROUTES_NONE = 0, /* the simulator finds routes itself */
    ARMILLARY_ROUTES_USED = 1, /* both ways of a lane before its first transfer */
    ARMILLARY_ROUTES_ALL = 2   /* all, before READY */
};

enum armillary_count {
    ARMILLARY_DATA_PACKETS = 1,
    ARMILLARY_ACKNOWLEDGEMENTS = 2,
    ARMILLARY_HOPS = 3,
    ARMILLARY_DROPS = 4,
    ARMILLARY_MARKS = 5,
    ARMILLARY_RETRANSMITS = 6,
    ARMILLARY_FAST_RECOVERIES = 7,
    ARMILLARY_TIMEOUTS = 8,
    ARMILLARY_LONGEST_QUEUE = 9,
    ARMILLARY_ROUND_TRIPS = 10,
    ARMILLARY_ROUND_TRIP_MEAN = 11
};

struct armillary_record {
    uint32_t kind, a, b, c;
    uint64_t x, y, z;
};

/* The shared memory: for the ring to us and then for the ring from us a page with the numbers of bytes
 * written (at 0) and read (at 64), and whether the reader sleeps (at 128); then the bytes of both. */
#define ARMILLARY_RING ((uint64_t)1 << 20)
#define ARMILLARY_PAGE 4096
static unsigned char *armillary_memory;
static uint64_t armillary_taken, armillary_there, armillary_put, armillary_free;

static inline uint64_t *armillary_number(int ring, int at) {
    return (uint64_t *)(void *)(armillary_memory + ring * ARMILLARY_PAGE + at);
}

static inline uint64_t armillary_look(int ring, int at) {
    return __atomic_load_n(armillary_number(ring, at), __ATOMIC_SEQ_CST);
}

static inline void armillary_say(int ring, int at, uint64_t value) {
    __atomic_store_n(armillary_number(ring, at), value, __ATOMIC_SEQ_CST);
}

/* Copies between a ring, from a count of its bytes on, and a place. */
static inline void armillary_copy(int ring, uint64_t from, void *place, size_t bytes, int out) {
    unsigned char *start = armillary_memory + 2 * ARMILLARY_PAGE + (uint64_t)ring * ARMILLARY_RING;
    size_t at = from % ARMILLARY_RING;
    size_t first = bytes < ARMILLARY_RING - at ? bytes : (size_t)(ARMILLARY_RING - at);
    unsigned char *rest = (unsigned char *)place + first;
    memcpy(out ? start + at : place, out ? place : start + at, first);
    memcpy(out ? start : rest, out ? rest : start, bytes - first);
}

/* Waits a moment: busy, then polite. 0 if it has lasted for some 100 us. */
static inline int armillary_wait(unsigned *looks) {
    if (++*looks > 2000) {
        sched_yield();
        return *looks < 2200;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    return 1;
}

/* The next record; 0 at the end of the run. */
static inline int armillary_read(struct armillary_record *record) {
    unsigned looks = 0;
    if (!armillary_memory) return fread(record, sizeof *record, 1, stdin) == 1;
    while (armillary_there - armillary_taken < sizeof *record) {
        armillary_there = armillary_look(0, 0);
        if (armillary_there - armillary_taken >= sizeof *record || armillary_wait(&looks)) continue;
        char bell;
        ssize_t woken = 1;
        armillary_say(0, 128, 1);
        armillary_there = armillary_look(0, 0);
        if (armillary_there - armillary_taken < sizeof *record) woken = read(0, &bell, 1);
        armillary_say(0, 128, 0);
        if (woken == 0 || (woken < 0 && errno != EINTR)) return 0;
    }
    armillary_copy(0, armillary_taken, record, sizeof *record, 0);
    armillary_taken += sizeof *record;
    armillary_say(0, 64, armillary_taken);
    return 1;
}

/* Sends what was written: after HELLO, NEXT and DONE. */
static inline void armillary_flush(void) {
    if (!armillary_memory) {
        fflush(stdout);
        return;
    }
    armillary_say(1, 0, armillary_put);
    if (armillary_look(1, 128) && __atomic_exchange_n(armillary_number(1, 128), 0, __ATOMIC_SEQ_CST))
        while (write(1, "", 1) < 0 && errno == EINTR) {}
}

/* Writes bytes, at most those of a ring. Ends the process if Armillary has ended. */
static inline void armillary_bytes(const void *from, size_t bytes) {
    unsigned looks = 0;
    if (!armillary_memory) {
        fwrite(from, 1, bytes, stdout);
        return;
    }
    while (armillary_put + bytes - armillary_free > ARMILLARY_RING) {
        armillary_free = armillary_look(1, 64);
        if (armillary_put + bytes - armillary_free <= ARMILLARY_RING) break;
        armillary_flush();
        if (armillary_wait(&looks)) continue;
        struct pollfd end = {0, 0, 0};
        if (poll(&end, 1, 1) > 0) exit(1);
    }
    armillary_copy(1, armillary_put, (void *)(uintptr_t)from, bytes, 1);
    armillary_put += bytes;
}

/* Writes a record. It is sent at the latest by armillary_flush(). */
static inline void armillary_write(uint32_t kind, uint32_t a, uint32_t b, uint64_t x, uint64_t y,
                                   uint64_t z) {
    struct armillary_record record = {kind, a, b, 0, x, y, z};
    armillary_bytes(&record, sizeof record);
}

/* Answers HELLO: the routes that are wanted, and the simulator's name. */
static inline void armillary_hello(uint32_t routes, const char *name) {
    const char *path = getenv("ARMILLARY_MEMORY");
    int file = path ? open(path, O_RDWR) : -1;
    void *memory = MAP_FAILED;
    if (file >= 0) {
        memory = mmap(NULL, 2 * (ARMILLARY_PAGE + ARMILLARY_RING), PROT_READ | PROT_WRITE, MAP_SHARED,
                      file, 0);
        close(file);
    }
    struct armillary_record record = {ARMILLARY_HELLO, ARMILLARY_VERSION, routes, memory != MAP_FAILED,
                                      0, strlen(name), 0};
    armillary_bytes(&record, sizeof record);
    armillary_bytes(name, strlen(name));
    armillary_flush();
    if (memory != MAP_FAILED) armillary_memory = (unsigned char *)memory;
}

/* Gives up, with a reason for the user: at most ARMILLARY_TEXT bytes of it. */
static inline void armillary_error(const char *reason) {
    size_t bytes = strlen(reason);
    if (bytes > ARMILLARY_TEXT) bytes = ARMILLARY_TEXT;
    armillary_write(ARMILLARY_ERROR, 0, 0, 0, bytes, 0);
    armillary_bytes(reason, bytes);
    armillary_flush();
}

#endif
