/* Raw Fetch requests (version 4) from one thread: a reader that looks at nothing but the heads of batches, so
 * that the broker is the limit and not the client. Each connection reads one partition from offset 0, asks for
 * what follows as soon as it has an answer, and starts again at the end. A batch that is left out is an error.
 *
 *   raw_fetch -b 127.0.0.1:9092 -t topic -c CONNECTIONS -n RECORDS -s BYTES -d SECONDS [-w SECONDS]
 *
 * -n records of -s bytes are in partition 0. -w seconds at the start are read but not counted.
 */
#define _GNU_SOURCE
#include <unistd.h>
#include "wire.h"

#define FETCH_BYTES (1 << 20)
#define IN_BYTES (FETCH_BYTES + 65536)

struct conn {
    int fd;
    int64_t offset, asked_ns; /* what the request in flight asks for, and since when */
    char *in;
    size_t in_bytes;
};

static const char *host = "127.0.0.1", *name = "bench";
static int port = 9092, connections = 4, bytes = 100;
static double seconds = 5, warm = 0;
static int64_t records, count_from_ns, end_ns, counted, total, requests;
static struct hist latency;

static void ask(struct conn *c) {
    char request[512], *at = put(request + 4, 1, 2); /* Fetch */
    at = put(at, 4, 2);
    at = put(at, 0, 4);
    at = put_string(at, "bench-raw-fetch");
    at = put(at, (uint64_t)-1, 4);          /* not a replica */
    at = put(at, 500, 4);                   /* waits for the first byte up to 500 ms */
    at = put(at, 1, 4);
    at = put(at, FETCH_BYTES, 4);
    at = put(at, 0, 1);                     /* read uncommitted */
    at = put(at, 1, 4);                     /* one topic, one partition */
    at = put_string(at, name);
    at = put(at, 1, 4);
    at = put(at, 0, 4);
    at = put(at, (uint64_t)c->offset, 8);
    at = put(at, FETCH_BYTES, 4);
    put(request, (uint64_t)(at - request - 4), 4);
    if (send(c->fd, request, (size_t)(at - request), MSG_NOSIGNAL) != at - request) die("send: %s", strerror(errno));
    c->asked_ns = now_ns();
}

/* length, correlation id, throttle, topics=1, name, partitions=1, index, error, two offsets, aborted, batches */
static void take_answer(struct conn *c, size_t length, int64_t now) {
    const char *at = c->in + 4 + 4 + 4 + 4 + 2 + strlen(name) + 4 + 4, *end = c->in + length;
    int16_t error = (int16_t)get(at, 2);
    if (error) die("the broker answered error %d", error);
    at += 2 + 8 + 8;
    int32_t aborted = (int32_t)get(at, 4);
    at += 4 + (aborted > 0 ? 16 * aborted : 0) + 4;
    int64_t before = c->offset;
    while (end - at >= 61 && end - at >= 12 + (int64_t)get(at + 8, 4)) { /* the last batch may be cut */
        if ((int64_t)get(at, 8) != c->offset)
            die("a batch begins at offset %lld instead of %lld", (long long)get(at, 8), (long long)c->offset);
        c->offset += (int64_t)get(at + 23, 4) + 1;
        at += 12 + get(at + 8, 4);
    }
    if (c->offset == before) die("nothing came at offset %lld of %lld", (long long)before, (long long)records);
    total += c->offset - before;
    if (now >= count_from_ns && now <= end_ns) {
        counted += c->offset - before;
        requests++;
        hist_add(&latency, now - c->asked_ns);
    }
    if (c->offset >= records) c->offset = 0;
}

static int take_input(struct conn *c) { /* whether an answer is complete */
    ssize_t n = recv(c->fd, c->in + c->in_bytes, IN_BYTES - c->in_bytes, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) die("recv: %s", n ? strerror(errno) : "the broker closed the connection");
    c->in_bytes += (size_t)n;
    if (c->in_bytes < 4) return 0;
    size_t length = 4 + get(c->in, 4);
    if (length > IN_BYTES) die("an answer of %zu bytes is too long", length);
    if (c->in_bytes < length) return 0;
    take_answer(c, length, now_ns());
    c->in_bytes = 0;
    return 1;
}

int main(int argc, char **argv) {
    int option;
    while ((option = getopt(argc, argv, "b:t:c:n:s:d:w:")) != -1) switch (option) {
        case 'b': split_address(optarg, &host, &port); break;
        case 't': name = optarg; break;
        case 'c': connections = atoi(optarg); break;
        case 'n': records = atoll(optarg); break;
        case 's': bytes = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'w': warm = atof(optarg); break;
        default: die("see the top of raw_fetch.c");
    }
    if (records <= 0) die("-n RECORDS is needed: see the top of raw_fetch.c");
    int epoll = epoll_create1(0);
    struct conn *all = calloc(connections, sizeof *all);
    count_from_ns = now_ns() + (int64_t)(warm * 1e9);
    end_ns = count_from_ns + (int64_t)(seconds * 1e9);
    for (int i = 0; i < connections; i++) {
        all[i].fd = connect_to(host, port);
        all[i].in = malloc(IN_BYTES);
        struct epoll_event event = {EPOLLIN, {.ptr = &all[i]}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
        ask(&all[i]);
    }
    struct epoll_event ready[64];
    for (int64_t heard_ns = now_ns(); now_ns() < end_ns;) {
        int n = epoll_wait(epoll, ready, 64, 1000);
        if (n) heard_ns = now_ns();
        if (now_ns() > heard_ns + 30000000000ll) die("nothing came for 30 s");
        for (int i = 0; i < n; i++)
            if (take_input(ready[i].data.ptr)) ask(ready[i].data.ptr);
    }
    printf("{\"requests\": %lld, \"records\": %lld, \"bytes\": %lld, \"seconds\": %.4f, \"records_per_s\": %.0f",
           (long long)requests, (long long)total, (long long)total * bytes, seconds, (double)counted / seconds);
    hist_print(&latency);
    printf("}\n");
    return 0;
}
