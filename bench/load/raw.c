/* Raw pipelined Produce requests (version 7, acks=all) from one thread: the load that a client library
 * is too slow to make. Each connection keeps up to M requests in flight.
 *
 *   raw -b 127.0.0.1:9092 -t topic -p PARTITIONS -c CONNECTIONS -m IN_FLIGHT -R RECORDS -s BYTES -d SECONDS
 *       [-w SECONDS] [-r REQUESTS_PER_S] [-n REQUESTS]
 *
 * Without -r the loop is closed: an answer sends the next request. With -r requests are due at fixed
 * times, and latency counts from the time a request was due, not from when it could be sent.
 * -w seconds at the start are sent but not counted. With -n it ends after so many requests.
 */
#define _GNU_SOURCE
#include <unistd.h>
#include "wire.h"

#define IN_BYTES 65536

struct conn {
    int fd, in_flight, want_write;
    int64_t issued, answered;
    int64_t *due_ns;                    /* ring of in_flight_max: brokers answer a connection in order */
    char *out;                          /* requests not yet taken by the socket: [out_head, out_tail) */
    size_t out_head, out_tail;
    char in[IN_BYTES];
    size_t in_bytes;
};

static const char *host = "127.0.0.1", *name = "bench";
static int port = 9092, partitions = 1, connections = 1, in_flight_max = 1, records = 1, bytes = 100;
static double seconds = 5, warm = 0, rate = 0;
static char **request;                  /* one prepared request per partition; only the correlation id changes */
static size_t request_bytes;
static int64_t start_ns, count_from_ns, end_ns, counted, to_issue = INT64_MAX;
static struct hist latency;

static uint32_t crc32c(const char *data, size_t length) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++) value = value & 1 ? (value >> 1) ^ 0x82f63b78u : value >> 1;
            table[i] = value;
        }
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) crc = (crc >> 8) ^ table[(crc ^ (uint8_t)data[i]) & 255];
    return ~crc;
}

static char *put_varint(char *to, int64_t value) { /* zigzag, as records use it */
    uint64_t coded = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (; coded > 127; coded >>= 7) *to++ = (char)(coded | 128);
    *to++ = (char)coded;
    return to;
}

static int varint_bytes(int64_t value) {
    char scratch[10];
    return (int)(put_varint(scratch, value) - scratch);
}

static char *put_batch(char *to, int partition) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t now_ms = (uint64_t)wall.tv_sec * 1000 + (uint64_t)wall.tv_nsec / 1000000;
    char *length_at = to + 8, *crc_at = to + 17, *at = crc_at + 4;
    put(to, 0, 8);                      /* base offset: the broker's to set */
    put(to + 12, (uint64_t)-1, 4);      /* leader epoch */
    to[16] = 2;                         /* magic */
    at = put(at, 0, 2);                 /* attributes: no compression, create time */
    at = put(at, (uint64_t)(records - 1), 4);
    at = put(at, now_ms, 8);
    at = put(at, now_ms, 8);
    at = put(at, (uint64_t)-1, 8);      /* producer id, epoch and sequence: none */
    at = put(at, (uint64_t)-1, 2);
    at = put(at, (uint64_t)-1, 4);
    at = put(at, (uint64_t)records, 4);
    for (int i = 0; i < records; i++) {
        int body = 1 + 1 + varint_bytes(i) + 1 + varint_bytes(bytes) + bytes + 1;
        at = put_varint(at, body);
        *at++ = 0;                      /* attributes */
        at = put_varint(at, 0);         /* timestamp delta */
        at = put_varint(at, i);
        at = put_varint(at, -1);        /* no key */
        at = put_varint(at, bytes);
        fill_payload(at, bytes, (uint64_t)partition * 1000003 + i + 7);
        at = put_varint(at + bytes, 0); /* no headers */
    }
    put(length_at, (uint64_t)(at - length_at - 4), 4);
    put(crc_at, crc32c(crc_at + 4, (size_t)(at - crc_at - 4)), 4);
    return at;
}

static void prepare_requests(void) {
    request = calloc(partitions, sizeof *request);
    for (int i = 0; i < partitions; i++) {
        char *start = request[i] = malloc(512 + strlen(name) + (size_t)records * (bytes + 32));
        char *at = put(start + 4, 0, 2);        /* Produce */
        at = put(at, 7, 2);
        at = put(at, 0, 4);                     /* correlation id: set when sent */
        at = put_string(at, "bench-raw");
        at = put(at, (uint64_t)-1, 2);          /* no transactional id */
        at = put(at, (uint64_t)-1, 2);          /* acks=all */
        at = put(at, 30000, 4);
        at = put(at, 1, 4);                     /* one topic, one partition */
        at = put_string(at, name);
        at = put(at, 1, 4);
        at = put(at, (uint64_t)i, 4);
        char *batch = put_batch(at + 4, i);
        put(at, (uint64_t)(batch - at - 4), 4);
        put(start, (uint64_t)(batch - start - 4), 4);
        request_bytes = (size_t)(batch - start);
    }
}

static void flush_out(struct conn *c, int epoll) {
    while (c->out_head < c->out_tail) {
        ssize_t n = send(c->fd, c->out + c->out_head, c->out_tail - c->out_head, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) die("send: %s", strerror(errno));
        c->out_head += (size_t)n;
    }
    if (c->out_head == c->out_tail) c->out_head = c->out_tail = 0;
    int want = c->out_tail != 0;
    if (want == c->want_write) return;
    c->want_write = want;
    struct epoll_event event = {EPOLLIN | (want ? EPOLLOUT : 0), {.ptr = c}};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
}

static int64_t due_at(const struct conn *c, const struct conn *all) {
    return rate > 0 ? start_ns + (int64_t)((double)(c->issued * connections + (c - all)) * 1e9 / rate) : 0;
}

static void issue(struct conn *c, const struct conn *all, int64_t now, int epoll) {
    while (c->in_flight < in_flight_max && now < end_ns && to_issue) {
        int64_t due = due_at(c, all);
        if (due > now) break;
        if (c->out_tail + request_bytes > (size_t)in_flight_max * request_bytes) { /* make room at the front */
            memmove(c->out, c->out + c->out_head, c->out_tail - c->out_head);
            c->out_tail -= c->out_head;
            c->out_head = 0;
        }
        int partition = (int)((c->issued + (c - all)) % partitions);
        memcpy(c->out + c->out_tail, request[partition], request_bytes);
        put(c->out + c->out_tail + 8, (uint64_t)c->issued, 4);
        c->out_tail += request_bytes;
        c->due_ns[c->issued % in_flight_max] = rate > 0 ? due : now;
        c->issued++;
        to_issue--;
        c->in_flight++;
    }
    flush_out(c, epoll);
}

/* length, correlation id, topics=1, name, partitions=1, index, error, ... */
static void take_answer(struct conn *c, const char *answer, size_t length, int64_t now) {
    size_t error_at = 4 + 4 + 4 + 2 + strlen(name) + 4 + 4;
    if (length < error_at + 2) die("an answer of %zu bytes is too short", length);
    if (get(answer + 4, 4) != (uint32_t)c->answered) die("answers came out of order");
    int16_t error = (int16_t)get(answer + error_at, 2);
    if (error) die("the broker answered error %d", error);
    int64_t due = c->due_ns[c->answered % in_flight_max];
    c->answered++;
    c->in_flight--;
    if (now < count_from_ns || now > end_ns) return;
    counted++;
    hist_add(&latency, now - due);
}

static void take_input(struct conn *c) {
    ssize_t n = recv(c->fd, c->in + c->in_bytes, IN_BYTES - c->in_bytes, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) die("recv: %s", n ? strerror(errno) : "the broker closed the connection");
    c->in_bytes += (size_t)n;
    int64_t now = now_ns();
    size_t at = 0;
    while (c->in_bytes - at >= 4) {
        size_t length = 4 + get(c->in + at, 4);
        if (length > IN_BYTES) die("an answer of %zu bytes is too long", length);
        if (c->in_bytes - at < length) break;
        take_answer(c, c->in + at, length, now);
        at += length;
    }
    memmove(c->in, c->in + at, c->in_bytes - at);
    c->in_bytes -= at;
}

static void connect_one(struct conn *c, int epoll) {
    c->fd = connect_to(host, port);
    c->due_ns = calloc(in_flight_max, sizeof *c->due_ns);
    c->out = malloc((size_t)in_flight_max * request_bytes);
    struct epoll_event event = {EPOLLIN, {.ptr = c}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
}

static void run(struct conn *all, int epoll) {
    struct epoll_event ready[256];
    for (;;) {
        int64_t now = now_ns(), next = now + 100000000, waiting = 0;
        for (int i = 0; i < connections; i++) {
            if (rate > 0 && now < end_ns) {
                issue(&all[i], all, now, epoll);
                int64_t due = due_at(&all[i], all);
                if (all[i].in_flight < in_flight_max && due < next) next = due;
            }
            waiting += all[i].in_flight;
        }
        if ((now >= end_ns || !to_issue) && !waiting) return;
        if (now >= end_ns + 30000000000ll) die("%lld requests were never answered", (long long)waiting);
        int64_t pause_ns = next > now ? next - now : 0;
        struct timespec pause = {pause_ns / 1000000000, pause_ns % 1000000000};
        int n = epoll_pwait2(epoll, ready, 256, &pause, NULL);
        for (int i = 0; i < n; i++) {
            struct conn *c = ready[i].data.ptr;
            if (ready[i].events & EPOLLOUT) flush_out(c, epoll);
            if (!(ready[i].events & ~EPOLLOUT)) continue;
            take_input(c);
            issue(c, all, now_ns(), epoll);
        }
    }
}

int main(int argc, char **argv) {
    int option;
    while ((option = getopt(argc, argv, "b:t:p:c:m:R:s:d:w:r:n:")) != -1) switch (option) {
        case 'b': split_address(optarg, &host, &port); break;
        case 't': name = optarg; break;
        case 'p': partitions = atoi(optarg); break;
        case 'c': connections = atoi(optarg); break;
        case 'm': in_flight_max = atoi(optarg); break;
        case 'R': records = atoi(optarg); break;
        case 's': bytes = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'w': warm = atof(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'n': to_issue = atoll(optarg); break;
        default: die("see the top of raw.c");
    }
    prepare_requests();
    int epoll = epoll_create1(0);
    struct conn *all = calloc(connections, sizeof *all);
    for (int i = 0; i < connections; i++) connect_one(&all[i], epoll);
    start_ns = now_ns();
    count_from_ns = start_ns + (int64_t)(warm * 1e9);
    end_ns = count_from_ns + (int64_t)(seconds * 1e9);
    for (int i = 0; i < connections; i++) issue(&all[i], all, start_ns, epoll);
    run(all, epoll);
    int64_t total = 0;
    for (int i = 0; i < connections; i++) total += all[i].answered;
    printf("{\"requests\": %lld, \"records\": %lld, \"bytes\": %lld, \"seconds\": %.4f, \"requests_per_s\": %.0f, "
           "\"records_per_s\": %.0f, \"request_bytes\": %zu",
           (long long)total, (long long)total * records, (long long)total * records * bytes, seconds,
           (double)counted / seconds, (double)counted * records / seconds, request_bytes);
    hist_print(&latency);
    printf("}\n");
    return 0;
}
