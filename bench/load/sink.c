/* The limit of the load itself: a "broker" that takes every batch, keeps nothing and says yes. What a
 * client reaches here is what no broker can exceed on this machine with that client.
 *
 *   sink -P PORT        serves ApiVersions, Metadata, CreateTopics 2 and Produce 7 until it is killed
 *
 * Every topic has as many partitions as the last one that was created.
 * One thread, epoll. Of a request only the first HEAD bytes are looked at, the rest is received and dropped.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "common.h"

#define HEAD 4096
#define OUT 65536

enum { PRODUCE = 0, METADATA = 3, API_VERSIONS = 18, CREATE_TOPICS = 19 };

struct conn {
    int fd;
    size_t have;      /* bytes of this request in head */
    size_t left;      /* bytes of this request still to come; 0 while its size is not known */
    int known;
    unsigned char head[HEAD];
};

static int partitions = 1, port;
static char in[1 << 20], out[OUT];

static uint32_t get(const unsigned char *at, int width) {
    uint32_t value = 0;
    while (width--) value = value << 8 | *at++;
    return value;
}

static char *put(char *to, uint64_t value, int width) { /* big endian */
    for (int i = 0; i < width; i++) to[i] = (char)(value >> (8 * (width - 1 - i)));
    return to + width;
}

static char *put_text(char *to, const void *text, size_t bytes) {
    to = put(to, bytes, 2);
    return (char *)memcpy(to, text, bytes) + bytes;
}

static char *api_versions(char *at, int version) { /* Fetch is named only because clients ask for it */
    static const int known[][3] = {{PRODUCE, 3, 7}, {1, 4, 4}, {METADATA, 0, 4}, {API_VERSIONS, 0, 3}};
    int count = sizeof known / sizeof *known, flexible = version >= 3;
    at = put(at, 0, 2);
    at = flexible ? put(at, (uint64_t)count + 1, 1) : put(at, (uint64_t)count, 4);
    for (int i = 0; i < count; i++) {
        for (int field = 0; field < 3; field++) at = put(at, (uint64_t)known[i][field], 2);
        if (flexible) at = put(at, 0, 1);
    }
    if (version >= 1) at = put(at, 0, 4);
    return flexible ? put(at, 0, 1) : at;
}

static char *metadata(char *at, int version, const unsigned char *body) {
    if (version >= 3) at = put(at, 0, 4);               /* throttle */
    at = put(put(at, 1, 4), 1, 4);                      /* one broker, number 1 */
    at = put(put_text(at, "127.0.0.1", 9), (uint64_t)port, 4);
    if (version >= 1) at = put(at, (uint64_t)-1, 2);    /* no rack */
    if (version >= 2) at = put(at, (uint64_t)-1, 2);    /* no cluster id */
    if (version >= 1) at = put(at, 1, 4);               /* controller */
    int32_t topics = (int32_t)get(body, 4);
    if (topics < 0) topics = 0;
    at = put(at, (uint64_t)topics, 4);
    for (body += 4; topics > 0; topics--) {
        size_t name = get(body, 2);
        at = put_text(put(at, 0, 2), body + 2, name);
        body += 2 + name;
        if (version >= 1) at = put(at, 0, 1);           /* not internal */
        at = put(at, (uint64_t)partitions, 4);
        for (int i = 0; i < partitions; i++) {
            at = put(put(put(at, 0, 2), (uint64_t)i, 4), 1, 4);
            at = put(put(at, 1, 4), 1, 4);              /* replicas */
            at = put(put(at, 1, 4), 1, 4);              /* in sync */
        }
    }
    return at;
}

static char *produced(char *at, const unsigned char *body) { /* of one topic and one partition, as clients send it */
    size_t id = get(body, 2) == 0xffff ? 0 : get(body, 2);
    body += 2 + id + 2 + 4 + 4;
    size_t name = get(body, 2);
    at = put_text(put(at, 1, 4), body + 2, name);
    at = put(at, 1, 4);
    at = put(at, get(body + 2 + name + 4, 4), 4);       /* which partition */
    at = put(put(put(put(at, 0, 2), 0, 8), (uint64_t)-1, 8), 0, 8);
    return put(at, 0, 4);
}

static char *created(char *at, const unsigned char *body) { /* of one topic */
    size_t name = get(body + 4, 2);
    partitions = (int)get(body + 6 + name, 4);
    if (partitions < 1 || partitions > 1000) die("a topic of %d partitions; 1 to 1000 are possible", partitions);
    at = put(put(at, 0, 4), 1, 4);
    return put(put(put_text(at, body + 6, name), 0, 2), (uint64_t)-1, 2);
}

static void answer(const struct conn *c) {
    const unsigned char *request = c->head + 4;
    int key = (int)get(request, 2), version = (int)get(request + 2, 2);
    size_t client = get(request + 8, 2) == 0xffff ? 0 : get(request + 8, 2);
    const unsigned char *body = request + 10 + client;
    char *at = put(out + 4, get(request + 4, 4), 4);
    switch (key) {
        case PRODUCE: at = produced(at, body); break;
        case METADATA: at = metadata(at, version, body); break;
        case CREATE_TOPICS: at = created(at, body); break;
        case API_VERSIONS: at = api_versions(at, version); break;
        default: die("a request with API key %d", key);
    }
    put(out, (uint64_t)(at - out - 4), 4);
    if (send(c->fd, out, (size_t)(at - out), MSG_NOSIGNAL) != at - out) die("send: %s", strerror(errno));
}

static void take(struct conn *c, const char *data, size_t bytes) {
    while (bytes) {
        size_t want = c->known ? c->left : 4 - c->have;
        size_t now = bytes < want ? bytes : want, kept = HEAD - c->have < now ? HEAD - c->have : now;
        memcpy(c->head + c->have, data, kept);
        c->have += kept;
        data += now;
        bytes -= now;
        if (!c->known) {
            if (c->have < 4) return;
            c->known = 1;
            c->left = get(c->head, 4);
        } else if (!(c->left -= now)) {
            answer(c);
            c->have = 0;
            c->known = 0;
        }
    }
}

int main(int argc, char **argv) {
    int option, on = 1, poll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0);
    while ((option = getopt(argc, argv, "P:")) != -1) {
        if (option != 'P') die("see the top of sink.c");
        port = atoi(optarg);
    }
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
        die("listen: %s", strerror(errno));
    struct epoll_event event = {EPOLLIN, {.ptr = NULL}}, events[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poll, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c) {
                c = calloc(1, sizeof *c);
                c->fd = accept(listener, NULL, NULL);
                setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event.data.ptr = c;
                epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event);
                continue;
            }
            ssize_t n = recv(c->fd, in, sizeof in, 0);
            if (n > 0) {
                take(c, in, (size_t)n);
            } else {
                close(c->fd);
                free(c);
            }
        }
    }
}
