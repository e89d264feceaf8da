/* What the programs that speak AMQP 0-9-1 by hand share: frames, a connection with buffers, logging in, and calls
 * that wait for their answer. Header only, as common.h. */
#ifndef BENCH_AMQP_H
#define BENCH_AMQP_H

#include <poll.h>
#include <unistd.h>
#include "wire.h"

enum { METHOD = 1, HEADER = 2, BODY = 3, FRAME_END = 0xce, FRAME_EXTRA = 8, IN_ROOM = 1 << 18 };
#define ID(class, method) ((class) << 16 | (method))
enum {
    START = ID(10, 10), START_OK = ID(10, 11), TUNE = ID(10, 30), TUNE_OK = ID(10, 31), OPEN = ID(10, 40),
    OPEN_OK = ID(10, 41), CLOSE = ID(10, 50), CHANNEL_OPEN = ID(20, 10), CHANNEL_OPEN_OK = ID(20, 11),
    CHANNEL_CLOSE = ID(20, 40), EXCHANGE_DECLARE = ID(40, 10), EXCHANGE_DECLARE_OK = ID(40, 11),
    QUEUE_DECLARE = ID(50, 10), QUEUE_DECLARE_OK = ID(50, 11), QUEUE_BIND = ID(50, 20), QUEUE_BIND_OK = ID(50, 21),
    QUEUE_PURGE = ID(50, 30), QUEUE_PURGE_OK = ID(50, 31), QUEUE_DELETE = ID(50, 40), QUEUE_DELETE_OK = ID(50, 41),
    QOS = ID(60, 10), QOS_OK = ID(60, 11), CONSUME = ID(60, 20), CONSUME_OK = ID(60, 21), PUBLISH = ID(60, 40),
    DELIVER = ID(60, 60), ACK = ID(60, 80), NACK = ID(60, 120), CONFIRM = ID(85, 10), CONFIRM_OK = ID(85, 11),
};

struct amqp {
    int fd, want_write;
    uint32_t frame_max;
    char *out;                          /* not yet taken by the socket: [out_head, out_tail) */
    size_t out_head, out_tail, out_room;
    char *in;                           /* not yet looked at: [in_head, in_tail) */
    size_t in_head, in_tail;
};

struct frame {
    int type, channel;
    uint32_t id, bytes;                 /* of a method: which one; bytes of `data` */
    const char *data;                   /* a method's arguments, otherwise the payload */
};

static inline char *put_short(char *to, const char *text) { /* a text of up to 255 bytes */
    size_t bytes = strlen(text);
    if (bytes > 255) die("%s is too long", text);
    *to++ = (char)bytes;
    return (char *)memcpy(to, text, bytes) + bytes;
}

static inline char *put_entry(char *to, const char *key, const char *value) { /* of a table: a text */
    to = put_short(to, key);
    *to++ = 'S';
    to = put(to, strlen(value), 4);
    return (char *)memcpy(to, value, strlen(value)) + strlen(value);
}

/* A frame is put at `start`: begin, then the payload, then end. */
static inline char *begin_frame(char *start, int type, int channel) { return put(put(put(start, type, 1), channel, 2), 0, 4); }
static inline char *begin_method(char *start, int channel, uint32_t id) { return put(begin_frame(start, METHOD, channel), id, 4); }
static inline char *end_frame(char *start, char *end) {
    put(start + 3, (uint64_t)(end - start - 7), 4);
    *end = (char)FRAME_END;
    return end + 1;
}

/* Room for so many bytes more at the end of what is to be sent. */
static inline char *out_room(struct amqp *c, size_t bytes) {
    if (c->out_head == c->out_tail) c->out_head = c->out_tail = 0;
    if (c->out_tail + bytes > c->out_room && c->out_head) {
        memmove(c->out, c->out + c->out_head, c->out_tail - c->out_head);
        c->out_tail -= c->out_head;
        c->out_head = 0;
    }
    if (c->out_tail + bytes > c->out_room) c->out = realloc(c->out, c->out_room = (c->out_tail + bytes) * 2);
    return c->out + c->out_tail;
}

static inline void out_done(struct amqp *c, const char *end) { c->out_tail = (size_t)(end - c->out); }

/* Hands over what the socket takes; false if something is left. */
static inline int flush_some(struct amqp *c) {
    while (c->out_head < c->out_tail) {
        ssize_t n = send(c->fd, c->out + c->out_head, c->out_tail - c->out_head, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) return 0;
        if (n < 0) die("send: %s", strerror(errno));
        c->out_head += (size_t)n;
    }
    return 1;
}

static inline int read_some(struct amqp *c) {
    if (c->in_head) {
        memmove(c->in, c->in + c->in_head, c->in_tail - c->in_head);
        c->in_tail -= c->in_head;
        c->in_head = 0;
    }
    ssize_t n = recv(c->fd, c->in + c->in_tail, IN_ROOM - c->in_tail, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) die("recv: %s", n ? strerror(errno) : "the broker closed the connection");
    c->in_tail += (size_t)n;
    return 1;
}

/* The next whole frame of what was read; false if more has to be read. */
static inline int next_frame(struct amqp *c, struct frame *f) {
    const char *at = c->in + c->in_head;
    size_t there = c->in_tail - c->in_head;
    if (there < 7) return 0;
    uint32_t bytes = (uint32_t)get(at + 3, 4);
    if (bytes > IN_ROOM - FRAME_EXTRA) die("a frame of %u bytes", bytes);
    if (there < bytes + FRAME_EXTRA) return 0;
    if ((unsigned char)at[7 + bytes] != FRAME_END) die("a frame does not end where it should");
    *f = (struct frame){at[0], (int)get(at + 1, 2), 0, bytes, at + 7};
    if (f->type == METHOD) f->id = (uint32_t)get(at + 7, 4), f->data += 4, f->bytes -= 4;
    if (f->id == CLOSE || f->id == CHANNEL_CLOSE)
        die("the broker says %d: %.*s", (int)get(f->data, 2), (unsigned char)f->data[2], f->data + 3);
    c->in_head += bytes + FRAME_EXTRA;
    return 1;
}

/* Sends everything and waits for this answer; frames that come before it are passed over. */
static inline struct frame wait_for(struct amqp *c, uint32_t id) {
    struct frame f;
    for (;;) {
        while (next_frame(c, &f))
            if (f.id == id) return f;
        struct pollfd waiting = {c->fd, (short)(POLLIN | (flush_some(c) ? 0 : POLLOUT)), 0};
        if (poll(&waiting, 1, 600000) == 0) die("no answer within 600 s");
        if (waiting.revents & ~POLLOUT) read_some(c);
    }
}

/* One call with arguments made by the caller, from `begin_method(out_room(...))` on. */
static inline struct frame call(struct amqp *c, char *start, char *end, uint32_t answer) {
    out_done(c, end_frame(start, end));
    return wait_for(c, answer);
}

/* A connection, logged in, with channel 1 open. */
static inline void log_in(struct amqp *c, const char *host, int port) {
    *c = (struct amqp){.fd = connect_to(host, port), .in = malloc(IN_ROOM)};
    out_done(c, memcpy(out_room(c, 8), "AMQP\0\0\x09\x01", 8) + 8);
    wait_for(c, START);
    char *start = out_room(c, 256), *at = put(begin_method(start, 0, START_OK), 0, 4);  /* no properties */
    at = put_short(at, "PLAIN");
    at = put(at, 12, 4);
    at = put_short(memcpy(at, "\0guest\0guest", 12) + 12, "en_US");
    struct frame tune = call(c, start, at, TUNE);
    uint64_t channel_max = get(tune.data, 2);
    c->frame_max = (uint32_t)get(tune.data + 2, 4);
    at = put(begin_method(start = out_room(c, 64), 0, TUNE_OK), channel_max, 2);
    at = put(put(at, c->frame_max, 4), 0, 2);   /* no heartbeats */
    out_done(c, end_frame(start, at));
    at = put(put_short(begin_method(start = out_room(c, 64), 0, OPEN), "/"), 0, 2);
    call(c, start, at, OPEN_OK);
    at = put(begin_method(start = out_room(c, 64), 1, CHANNEL_OPEN), 0, 1);
    call(c, start, at, CHANNEL_OPEN_OK);
}

#endif
