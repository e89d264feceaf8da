/* The limit of the load itself: a "broker" that takes every batch, keeps nothing and says yes, and that
 * answers every Fetch with the same batch from memory, again and again under the offsets that were asked for.
 * What a client reaches here is about what no broker can exceed on this machine with that client.
 *
 *   sink -P PORT [-d FOLDER]     serves ApiVersions, Metadata, CreateTopics 2, Produce 7 and Fetch 4 until it is killed
 *
 * Every topic has as many partitions as the last one that was created, and no end. The batch that Fetch gets
 * is the first large one that was produced after that; it lies in a file without a name in FOLDER, as files of a
 * disk stay in memory in larger pieces than those of memfd_create, and the kernel sends them for a quarter less.
 * One thread, epoll. Of a request only the first HEAD bytes are looked at, the rest is received and dropped.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <unistd.h>
#include "wire.h"

#define HEAD 4096
#define OUT 65536
#define LARGE 50000 /* bytes of a Produce request that is worth keeping for Fetch */

enum { PRODUCE = 0, FETCH = 1, METADATA = 3, API_VERSIONS = 18, CREATE_TOPICS = 19 };

struct conn {
    int fd;
    size_t have;      /* bytes of this request in head */
    size_t left;      /* bytes of this request still to come; 0 while its size is not known */
    int known;
    unsigned char head[HEAD];
    char *whole;      /* all of this request, if Fetch shall serve it */
    size_t got;       /* bytes in whole */
};

static int partitions = 1, port;
static char in[1 << 20], out[OUT];
static const char *folder = ".";
static int batch_fd = -1;
static size_t batch_bytes, batch_records;

static char *api_versions(char *at, int version) {
    static const int known[][3] = {{PRODUCE, 3, 7}, {FETCH, 4, 4}, {METADATA, 0, 4}, {API_VERSIONS, 0, 3}};
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

static size_t batch_at(const unsigned char *head, const unsigned char *body) {
    const unsigned char *topic = body + 2 + (get(body, 2) == 0xffff ? 0 : get(body, 2)) + 2 + 4 + 4;
    return (size_t)(topic - head) + 2 + get(topic, 2) + 4 + 4 + 4;
}

/* The batch of a Produce request, which follows its length. Its own first eight bytes are its offset. */
static void keep(const char *request, size_t bytes, size_t at) {
    batch_bytes = get(request + at - 4, 4);
    if (at + batch_bytes > bytes) die("a batch longer than its request");
    batch_records = get(request + at + 23, 4) + 1;
    batch_fd = open(folder, O_RDWR | O_TMPFILE, 0600);
    if (batch_fd < 0) die("a file for the batch: %s", strerror(errno));
    if (write(batch_fd, request + at, batch_bytes) != (ssize_t)batch_bytes) die("keep: %s", strerror(errno));
}

/* Of one topic and one partition; the batches follow. */
static char *fetched(char *at, const unsigned char *body, uint64_t *offset, uint64_t *batches) {
    body += 4 + 4 + 4 + 4 + 1 + 4;
    size_t name = get(body, 2);
    const unsigned char *partition = body + 2 + name + 4;
    at = put(put(at, 0, 4), 1, 4);
    at = put(put_text(at, body + 2, name), 1, 4);
    at = put(put(at, get(partition, 4), 4), 0, 2);
    at = put(put(at, INT64_MAX, 8), INT64_MAX, 8);      /* the end of the topic is far away */
    *offset = get(partition + 4, 8);
    *batches = get(partition + 12, 4) / batch_bytes;
    if (!*batches) *batches = 1;
    return put(put(at, (uint64_t)-1, 4), *batches * batch_bytes, 4); /* no aborted transactions */
}

/* The first one's offset went with the head of the answer. That goes at once, not with MSG_MORE: the client wakes
 * up while the rest is on its way, which saves a sixth of the time. */
static void send_batches(int fd, uint64_t offset, uint64_t count) {
    char base[8];
    for (uint64_t sent = 0; sent < count; sent++) {
        put(base, offset + sent * batch_records, 8);
        if (sent && send(fd, base, 8, MSG_NOSIGNAL) != 8) return; /* the next recv notices a client that went */
        for (off_t at = 8; at < (off_t)batch_bytes;)
            if (sendfile(fd, batch_fd, &at, batch_bytes - (size_t)at) < 0) return;
    }
}

static char *created(char *at, const unsigned char *body) { /* of one topic */
    size_t name = get(body + 4, 2);
    partitions = (int)get(body + 6 + name, 4);
    if (partitions < 1 || partitions > 1000) die("a topic of %d partitions; 1 to 1000 are possible", partitions);
    if (batch_fd >= 0) batch_fd = (close(batch_fd), -1);
    at = put(put(at, 0, 4), 1, 4);
    return put(put(put_text(at, body + 6, name), 0, 2), (uint64_t)-1, 2);
}

static void answer(const struct conn *c) {
    const unsigned char *request = c->head + 4;
    int key = (int)get(request, 2), version = (int)get(request + 2, 2);
    size_t client = get(request + 8, 2) == 0xffff ? 0 : get(request + 8, 2);
    const unsigned char *body = request + 10 + client;
    char *at = put(out + 4, get(request + 4, 4), 4);
    uint64_t offset = 0, batches = 0;
    switch (key) {
        case PRODUCE:
            at = produced(at, body);
            if (c->whole && batch_fd < 0) keep(c->whole, c->got, batch_at(c->head, body));
            break;
        case FETCH:
            if (batch_fd < 0) die("a Fetch before anything large was produced");
            at = fetched(at, body, &offset, &batches);
            break;
        case METADATA: at = metadata(at, version, body); break;
        case CREATE_TOPICS: at = created(at, body); break;
        case API_VERSIONS: at = api_versions(at, version); break;
        default: die("a request with API key %d", key);
    }
    put(out, (uint64_t)(at - out - 4) + batches * batch_bytes, 4);
    if (batches) at = put(at, offset, 8);
    if (send(c->fd, out, (size_t)(at - out), MSG_NOSIGNAL) == at - out && batches)
        send_batches(c->fd, offset, batches);
}

static void take(struct conn *c, const char *data, size_t bytes) {
    while (bytes) {
        size_t want = c->known ? c->left : 4 - c->have;
        size_t now = bytes < want ? bytes : want, kept = HEAD - c->have < now ? HEAD - c->have : now;
        memcpy(c->head + c->have, data, kept);
        c->have += kept;
        if (c->whole) memcpy(c->whole + c->got, data, now), c->got += now;
        data += now;
        bytes -= now;
        if (!c->known) {
            if (c->have < 4) return;
            c->known = 1;
            c->left = get(c->head, 4);
            if (batch_fd < 0 && c->left >= LARGE) {
                c->whole = malloc(4 + c->left);
                c->got = 4;
                memcpy(c->whole, c->head, 4);
            }
        } else if (!(c->left -= now)) {
            answer(c);
            free(c->whole);
            c->whole = NULL;
            c->have = 0;
            c->known = 0;
        }
    }
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* sendfile to a client that went away */
    int option, on = 1, poll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0);
    while ((option = getopt(argc, argv, "P:d:")) != -1) switch (option) {
        case 'P': port = atoi(optarg); break;
        case 'd': folder = optarg; break;
        default: die("see the top of sink.c");
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
                setsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* pacing only costs on loopback */
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
