/* Armillary's networks from C and C++: send, receive, schedule, time
 * (docs/reference/front-end-protocol.md, version 1).
 *
 * armillary_network_open() starts `armillary network`, which must be in PATH. Times are picoseconds,
 * sizes bytes. Callbacks are called by armillary_network_run() and armillary_network_advance(), one
 * after the other, and may send, receive, schedule and access memory. A function that returns an int
 * returns 0, or -1 after a fault. Then armillary_network_problem() has the reason, and the network
 * only closes.
 * Faults of a call are found by the next run or advance. One thread at a time may use a network.
 * A program that may write to a network that has ended should ignore SIGPIPE. */
#ifndef ARMILLARY_NETWORK_H
#define ARMILLARY_NETWORK_H

#if !defined(__cplusplus) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little-endian: this header needs a conversion for this machine"
#endif

#define ARMILLARY_NETWORK_VERSION 1
#define ARMILLARY_NETWORK_NEVER UINT64_MAX

enum armillary_network_kind {
    ARMILLARY_NETWORK_HELLO = 1,     /* out: a version. in: a version, b NPUs, y text */
    ARMILLARY_NETWORK_ADVANCE = 6,   /* out: x limit */
    ARMILLARY_NETWORK_DELIVERY = 16, /* in: x time, z token */
    ARMILLARY_NETWORK_NEXT = 17,     /* in, ends an answer: a 1 if nothing is left, x time */
    ARMILLARY_NETWORK_ERROR = 22,    /* in: y text */
    ARMILLARY_NETWORK_SEND = 32,     /* out: a source, b destination, x bytes, y tag, z token */
    ARMILLARY_NETWORK_RECEIVE = 33,  /* out: the same */
    ARMILLARY_NETWORK_SCHEDULE = 34, /* out: x delay, z token */
    ARMILLARY_NETWORK_ACCESS = 35    /* out: a NPU, b location, c 1 for a store, x bytes, z token */
};

/* Where the tensor of an access lies. */
enum armillary_network_location {
    ARMILLARY_NETWORK_LOCAL = 0,     /* the NPU's own memory */
    ARMILLARY_NETWORK_REMOTE = 1,    /* memory outside of it */
    ARMILLARY_NETWORK_IN_SWITCH = 2, /* shards of all NPUs, gathered or scattered in the switches */
    ARMILLARY_NETWORK_HOST = 3,      /* the memory of the NPU's host */
    ARMILLARY_NETWORK_DISK = 4       /* a disk behind it */
};

struct armillary_network_record {
    uint32_t kind, a, b, c;
    uint64_t x, y, z;
};

typedef void (*armillary_network_callback)(void *argument);

/* A call that is not over. Its place is the token. */
struct armillary_network_call {
    armillary_network_callback callback;
    void *argument;
    size_t next_free;
};

struct armillary_network {
    FILE *in, *out;
    pid_t process;
    uint32_t npus;
    uint64_t now;
    struct armillary_network_call *calls;
    size_t room, free;
    int failed, runs;
    char problem[1024];
};

/* Notes a fault, and returns -1. The first one stays. */
static inline int armillary_network_fail(struct armillary_network *net, const char *text) {
    if (!net->failed) snprintf(net->problem, sizeof net->problem, "%s", text);
    net->failed = 1;
    return -1;
}

/* The reason of a fault; empty without one. */
static inline const char *armillary_network_problem(const struct armillary_network *net) {
    return net->problem;
}

/* Writes a record. It is sent at the latest by the next run or advance. */
static inline int armillary_network_write(struct armillary_network *net, uint32_t kind, uint32_t a,
                                          uint32_t b, uint32_t c, uint64_t x, uint64_t y, uint64_t z) {
    struct armillary_network_record record = {kind, a, b, c, x, y, z};
    if (net->failed) return -1;
    if (fwrite(&record, sizeof record, 1, net->out) == 1) return 0;
    return armillary_network_fail(net, "the network has ended");
}

/* Reads a record, and the text of ERROR as the fault. */
static inline int armillary_network_read(struct armillary_network *net,
                                         struct armillary_network_record *record) {
    if (net->failed) return -1;
    if (fread(record, sizeof *record, 1, net->in) != 1)
        return armillary_network_fail(net, "the network has ended: see its standard error");
    if (record->kind != ARMILLARY_NETWORK_ERROR) return 0;
    size_t room = sizeof net->problem - 1;
    size_t bytes = record->y < room ? (size_t)record->y : room;
    net->problem[fread(net->problem, 1, bytes, net->in)] = '\0';
    net->failed = 1;
    return -1;
}

/* A token for a call; 0 for one that nobody waits for, and without memory. */
static inline size_t armillary_network_token(struct armillary_network *net,
                                             armillary_network_callback callback, void *argument) {
    if (!callback) return 0;
    if (!net->free) {
        size_t room = net->room ? 2 * net->room : 64;
        void *calls = realloc(net->calls, room * sizeof *net->calls);
        if (!calls) {
            armillary_network_fail(net, "no memory is left");
            return 0;
        }
        net->calls = (struct armillary_network_call *)calls;
        for (size_t place = room; place-- > (net->room ? net->room : 1);) {
            net->calls[place].next_free = net->free;
            net->free = place;
        }
        net->room = room;
    }
    size_t token = net->free;
    net->free = net->calls[token].next_free;
    net->calls[token].callback = callback;
    net->calls[token].argument = argument;
    return token;
}

/* Runs in the new process: `armillary network` with the platform and the backend, if one is named. */
static inline void armillary_network_start(const char *platform, const char *backend, int in, int out) {
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0) _exit(127);
    if (backend)
        execlp("armillary", "armillary", "network", "-p", platform, "--backend", backend, (char *)NULL);
    else
        execlp("armillary", "armillary", "network", "-p", platform, (char *)NULL);
    fprintf(stderr, "armillary: %s\n", strerror(errno));
    _exit(127);
}

/* Both pipes, and the process between them. */
static inline int armillary_network_pipes(struct armillary_network *net, const char *platform,
                                          const char *backend) {
    int to[2], from[2];
    if (pipe(to)) return -1;
    if (pipe(from)) return close(to[0]), close(to[1]), -1;
    net->process = fork();
    if (net->process == 0) {
        close(to[1]);
        close(from[0]);
        armillary_network_start(platform, backend, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    net->out = fdopen(to[1], "wb");
    net->in = fdopen(from[0], "rb");
    return net->process < 0 || !net->out || !net->in ? -1 : 0;
}

/* Greets the network, and learns its size. */
static inline int armillary_network_greet(struct armillary_network *net) {
    struct armillary_network_record hello;
    if (armillary_network_write(net, ARMILLARY_NETWORK_HELLO, ARMILLARY_NETWORK_VERSION, 0, 0, 0, 0, 0))
        return -1;
    if (fflush(net->out)) return armillary_network_fail(net, "the network has ended");
    if (armillary_network_read(net, &hello)) return -1;
    if (hello.kind != ARMILLARY_NETWORK_HELLO || hello.a != ARMILLARY_NETWORK_VERSION)
        return armillary_network_fail(net, "another version of the protocol");
    for (uint64_t left = hello.y; left > 0 && getc(net->in) != EOF; left--) {}
    net->npus = hello.b;
    return 0;
}

/* A network for a preset or a platform file. `backend` may be NULL: that of the platform. After a
 * fault the network has a problem. NULL only without memory. */
static inline struct armillary_network *armillary_network_open(const char *platform, const char *backend) {
    struct armillary_network *net = (struct armillary_network *)calloc(1, sizeof *net);
    if (!net) return NULL;
    if (armillary_network_pipes(net, platform, backend))
        armillary_network_fail(net, strerror(errno));
    else
        armillary_network_greet(net);
    return net;
}

/* NPUs, numbered from 0. */
static inline uint32_t armillary_network_npus(const struct armillary_network *net) { return net->npus; }

/* The time, ps. */
static inline uint64_t armillary_network_time(const struct armillary_network *net) { return net->now; }

/* Sends a message now. `callback`, which may be NULL, is called when it has arrived. */
static inline int armillary_network_send(struct armillary_network *net, uint32_t src, uint32_t dst,
                                         uint64_t bytes, uint64_t tag,
                                         armillary_network_callback callback, void *argument) {
    size_t token = armillary_network_token(net, callback, argument);
    return armillary_network_write(net, ARMILLARY_NETWORK_SEND, src, dst, 0, bytes, tag, token);
}

/* Posts a receive now. `callback`, which may be NULL, is called when its message has arrived. */
static inline int armillary_network_receive(struct armillary_network *net, uint32_t src, uint32_t dst,
                                            uint64_t bytes, uint64_t tag,
                                            armillary_network_callback callback, void *argument) {
    size_t token = armillary_network_token(net, callback, argument);
    return armillary_network_write(net, ARMILLARY_NETWORK_RECEIVE, src, dst, 0, bytes, tag, token);
}

/* Calls `callback` after `delay`. */
static inline int armillary_network_schedule(struct armillary_network *net, uint64_t delay,
                                             armillary_network_callback callback, void *argument) {
    size_t token = armillary_network_token(net, callback, argument);
    return armillary_network_write(net, ARMILLARY_NETWORK_SCHEDULE, 0, 0, 0, delay, 0, token);
}

/* Loads `bytes` to an NPU from memory, or stores them there. `callback` is called when that is over. */
static inline int armillary_network_access(struct armillary_network *net, uint32_t npu, uint64_t bytes,
                                           enum armillary_network_location location, int store,
                                           armillary_network_callback callback, void *argument) {
    size_t token = armillary_network_token(net, callback, argument);
    return armillary_network_write(net, ARMILLARY_NETWORK_ACCESS, npu, (uint32_t)location, store != 0,
                                   bytes, 0, token);
}

/* Tokens that are due at the next instant, and the time. 1 if nothing is left, -1 after a fault. */
static inline int armillary_network_due(struct armillary_network *net, uint64_t limit, uint64_t **due,
                                        size_t *count, size_t *room) {
    struct armillary_network_record record;
    if (armillary_network_write(net, ARMILLARY_NETWORK_ADVANCE, 0, 0, 0, limit, 0, 0)) return -1;
    if (fflush(net->out)) return armillary_network_fail(net, "the network has ended");
    for (*count = 0;; ++*count) {
        if (armillary_network_read(net, &record)) return -1;
        net->now = record.x;
        if (record.kind == ARMILLARY_NETWORK_NEXT) return record.a != 0;
        if (*count == *room) {
            *room = *room ? 2 * *room : 64;
            void *more = realloc(*due, *room * sizeof **due);
            if (!more) return armillary_network_fail(net, "no memory is left");
            *due = (uint64_t *)more;
        }
        (*due)[*count] = record.z;
    }
}

/* Goes on to the time `until`, which is not in the past. */
static inline int armillary_network_advance(struct armillary_network *net, uint64_t until) {
    uint64_t *due = NULL;
    size_t count = 0, room = 0;
    int over = 0;
    if (net->runs) return armillary_network_fail(net, "a callback of the network runs it");
    net->runs = 1;
    while (!over) {
        over = armillary_network_due(net, until, &due, &count, &room);
        for (size_t at = 0; over >= 0 && at < count; at++) {
            struct armillary_network_call call = net->calls[due[at]];
            net->calls[due[at]].next_free = net->free;
            net->free = (size_t)due[at];
            call.callback(call.argument);
        }
    }
    net->runs = 0;
    free(due);
    return over < 0 ? -1 : 0;
}

/* Goes on until nothing is left to do. A receive without a send is a fault. */
static inline int armillary_network_run(struct armillary_network *net) {
    return armillary_network_advance(net, ARMILLARY_NETWORK_NEVER);
}

/* Ends the network. It must not be used afterwards, and not be closed in a callback. */
static inline void armillary_network_close(struct armillary_network *net) {
    if (!net) return;
    if (net->out) fclose(net->out);
    if (net->in) fclose(net->in);
    if (net->process > 0)
        while (waitpid(net->process, NULL, 0) < 0 && errno == EINTR) {}
    free(net->calls);
    free(net);
}

#endif
