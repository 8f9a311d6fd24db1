/* The messages of Armillary's external simulators, version 1 (docs/reference/external-protocol.md).
 *
 * A record is 40 bytes, little-endian. It comes in on standard input and goes out on standard output.
 * HELLO and ERROR are followed by `y` bytes of text. Times are picoseconds, sizes bytes, rates bytes
 * per second. Write nothing else to standard output. */
#ifndef ARMILLARY_H
#define ARMILLARY_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little-endian: this header needs a conversion for this machine"
#endif

#define ARMILLARY_VERSION 1
#define ARMILLARY_NEVER UINT64_MAX

enum armillary_kind {
    ARMILLARY_HELLO = 1,     /* in: a version, b NPUs, c nodes, x links, y text. out: a version, b routes, y text */
    ARMILLARY_LINK = 2,      /* in: a from node, b to node, c dimension, x bandwidth, y latency, z number */
    ARMILLARY_ROUTE = 3,     /* in: a from NPU, b to NPU, c link, x place on the route from 0 */
    ARMILLARY_READY = 4,     /* in: no more links; of routes only with ARMILLARY_ROUTES_USED */
    ARMILLARY_START = 5,     /* in: a from NPU, b to NPU, x time, y bytes, z token */
    ARMILLARY_ADVANCE = 6,   /* in: go on to the first delivery, and no further than x */
    ARMILLARY_USAGE = 7,     /* in: say what was carried */
    ARMILLARY_DELIVERY = 16, /* out: x time, z token */
    ARMILLARY_NEXT = 17,     /* out, ends the answer to ADVANCE: x time of the next event, or NEVER */
    ARMILLARY_CARRIED = 18,  /* out: a link, b longest queue, x bytes, y packets, z time sending */
    ARMILLARY_COUNT = 19,    /* out: a enum armillary_count, x value */
    ARMILLARY_DONE = 20,     /* out: ends the answer to USAGE */
    ARMILLARY_BUSY = 21,     /* out, at any time: still at work, x simulated time */
    ARMILLARY_ERROR = 22     /* out: gives up, y text */
};

enum armillary_routes {
    ARMILLARY_ROUTES_NONE = 0, /* the simulator finds routes itself */
    ARMILLARY_ROUTES_USED = 1, /* both ways of a pair before its first transfer */
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

/* The next record; 0 at the end of the run. */
static inline int armillary_read(struct armillary_record *record) {
    return fread(record, sizeof *record, 1, stdin) == 1;
}

/* Writes a record. It is sent at the latest by armillary_flush(). */
static inline void armillary_write(uint32_t kind, uint32_t a, uint32_t b, uint64_t x, uint64_t y,
                                   uint64_t z) {
    struct armillary_record record = {kind, a, b, 0, x, y, z};
    fwrite(&record, sizeof record, 1, stdout);
}

/* Sends what was written: after HELLO, NEXT and DONE. */
static inline void armillary_flush(void) {
    fflush(stdout);
}

/* Answers HELLO: the routes that are wanted, and the simulator's name. */
static inline void armillary_hello(uint32_t routes, const char *name) {
    armillary_write(ARMILLARY_HELLO, ARMILLARY_VERSION, routes, 0, strlen(name), 0);
    fwrite(name, 1, strlen(name), stdout);
    armillary_flush();
}

/* Gives up, with a reason for the user. */
static inline void armillary_error(const char *reason) {
    armillary_write(ARMILLARY_ERROR, 0, 0, 0, strlen(reason), 0);
    fwrite(reason, 1, strlen(reason), stdout);
    armillary_flush();
}

#endif
