/* A network simulator for `--backend external:`: whole messages queue for links.
 *
 * A message that gets a link at t leaves it at t + bytes / bandwidth, and is at the other end a
 * latency later. There it queues for the next link. Build: cc -O2 -o queues queues.c */
#include "armillary.h"
#include <stdlib.h>

struct link { uint64_t bandwidth, latency, free, bytes, messages, busy; };
struct route { uint32_t lane, *links, count; struct route *other; };
struct message { uint64_t bytes, token; const struct route *route; uint32_t place; };
struct event { uint64_t time, order; struct message message; };

static struct link *links;
static struct route **routes; /* by source * NPUs + destination: those of its lanes */
static struct event *heap;
static size_t waiting, room;
static uint64_t orders;

static int before(const struct event *one, const struct event *other) {
    return one->time != other->time ? one->time < other->time : one->order < other->order;
}

static void push(uint64_t time, struct message message) {
    if (waiting == room && !(heap = realloc(heap, (room = 2 * room + 64) * sizeof *heap))) exit(1);
    size_t at = waiting++;
    struct event event = {time, orders++, message};
    for (; at > 0 && before(&event, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = event;
}

static struct event pop(void) {
    struct event first = heap[0], last = heap[--waiting];
    size_t at = 0;
    for (size_t next; (next = 2 * at + 1) < waiting; at = next) {
        next += next + 1 < waiting && before(&heap[next + 1], &heap[next]);
        if (!before(&heap[next], &last)) break;
        heap[at] = heap[next];
    }
    heap[at] = last;
    return first;
}

/* The time on a link, rounded up to the picosecond. */
static uint64_t span(uint64_t bytes, uint64_t bandwidth) {
    unsigned __int128 product = (unsigned __int128)bytes * 1000000000000u;
    return (uint64_t)((product + bandwidth - 1) / bandwidth);
}

static void take_link(uint64_t now, struct message message) {
    struct link *link = &links[message.route->links[message.place++]];
    uint64_t begin = now > link->free ? now : link->free, time = span(message.bytes, link->bandwidth);
    link->free = begin + time;
    link->bytes += message.bytes;
    link->messages++;
    link->busy += time;
    push(link->free + link->latency, message);
}

/* Goes on to the first delivery, and no further than `until`. */
static void advance(uint64_t until) {
    while (waiting && heap[0].time <= until) {
        struct event event = pop();
        if (event.message.place < event.message.route->count) {
            take_link(event.time, event.message);
            continue;
        }
        armillary_write(ARMILLARY_DELIVERY, 0, 0, event.time, 0, event.message.token);
        until = event.time; /* what else arrives now, and nothing later */
    }
    uint64_t next = waiting ? heap[0].time : ARMILLARY_NEVER;
    armillary_write(ARMILLARY_NEXT, 0, 0, next, 0, 0);
    armillary_flush();
}

/* The route of a lane of a pair, made on first use. */
static struct route *route_of(size_t pair, uint32_t lane) {
    struct route *route = routes[pair];
    while (route && route->lane != lane) route = route->other;
    if (route) return route;
    if (!(route = calloc(1, sizeof *route))) exit(1);
    route->lane = lane;
    route->other = routes[pair];
    return routes[pair] = route;
}

int main(void) {
    struct armillary_record in;
    if (!armillary_read(&in) || in.kind != ARMILLARY_HELLO) return 1;
    uint32_t npus = in.b;
    uint64_t count = in.x;
    for (uint64_t left = in.y; left > 0 && getchar() != EOF; left--) {} /* settings */
    armillary_hello(ARMILLARY_ROUTES_USED, "queues in C");
    links = calloc(count + 1, sizeof *links);
    routes = calloc((size_t)npus * npus, sizeof *routes);
    if (!links || !routes) return 1;
    while (armillary_read(&in)) {
        struct route *route;
        switch (in.kind) {
        case ARMILLARY_LINK:
            links[in.z] = (struct link){.bandwidth = in.x, .latency = in.y};
            break;
        case ARMILLARY_ROUTE:
            route = route_of((size_t)in.a * npus + in.b, (uint32_t)in.y);
            route->links = realloc(route->links, (in.x + 1) * sizeof *route->links);
            if (!route->links) return 1;
            route->links[in.x] = in.c;
            route->count = in.x + 1;
            break;
        case ARMILLARY_START:
            route = route_of((size_t)in.a * npus + in.b, in.c);
            push(in.x, (struct message){in.y, in.z, route, 0});
            break;
        case ARMILLARY_ADVANCE:
            advance(in.x);
            break;
        case ARMILLARY_USAGE:
            for (uint32_t i = 0; i < count; i++) {
                struct link *link = &links[i];
                /* Booked, and not sent yet. */
                uint64_t left = link->free > in.x ? link->free - in.x : 0;
                uint64_t bytes = (unsigned __int128)left * link->bandwidth / 1000000000000u;
                if (link->messages)
                    armillary_write(ARMILLARY_CARRIED, i, 0, link->bytes - bytes, link->messages,
                                    link->busy - left);
            }
            armillary_write(ARMILLARY_DONE, 0, 0, 0, 0, 0);
            armillary_flush();
        }
    }
    return 0;
}
