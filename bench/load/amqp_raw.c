/* AMQP 0-9-1 by hand from one thread: the load that a client library is too slow to make.
 *
 *   amqp_raw -b 127.0.0.1:5672 -t NAME -m MODE [-q QUEUES] [-x EXCHANGE_KIND] [-T QUEUE_TYPE]
 *            [-s BYTES] [-d SECONDS] [-w SECONDS] [-n MESSAGES] [-p PUBLISHERS] [-c CONSUMERS]
 *            [-W WINDOW] [-P PREFETCH] [-B MESSAGES_A_SEND] [-r MESSAGES_PER_S] [-D MS] [-L DUE_PER_S]
 *
 * MODE  setup    declares the queues NAME-0, NAME-1, ... (durable), and with -x an exchange NAME with a binding each
 *       purge    empties them;  count: how many messages they have ready;  delete: removes them (these on
 *                as many connections as there would be CONSUMERS)
 *       publish  persistent messages with confirms, to queues by chance; up to WINDOW not yet confirmed
 *       consume  acks every message by itself; up to PREFETCH not yet acked, for each queue
 *       both     at once, on connections of their own
 *
 * Publishes go out MESSAGES_A_SEND at a time, acks likewise or when a read is done. With -n it ends after so many
 * messages (of each side), and -d is the longest it may take; without, it counts for SECONDS after -w seconds.
 * With -r a message is due at a fixed time, and latency (from due to delivered) counts from there. With -x
 * x-delayed-message the i-th message is delayed until MS + i / DUE_PER_S after the start, and latency is how late
 * it comes. A message carries its number: -v with -n tells how many of them never came, and how many came twice.
 */
#define _GNU_SOURCE
#include "amqp.h"

enum { NO_MODE, SETUP, PURGE, COUNT, DELETE, PUBLISH_ONLY, CONSUME_ONLY, BOTH };
static const char *modes[] = {"", "setup", "purge", "count", "delete", "publish", "consume", "both"};

struct conn {
    struct amqp wire;
    int publishes;                      /* else it consumes */
    int64_t next_tag, base_tag;         /* of publishes: the next one; all below the base are confirmed */
    char *confirmed;                    /* ring of WINDOW, from base_tag on */
    int64_t tag;                        /* of the delivery that is being read, as the next three */
    uint64_t body_left, body_bytes;
    char head[16];                      /* its body's first bytes */
    int64_t *to_ack;                    /* tags of deliveries that were read and not acked */
    int to_ack_count;
};

static const char *host = "127.0.0.1", *name = "bench", *exchange_kind = "", *queue_type = "classic";
static int port = 5672, mode, queues = 1, bytes = 100, publishers = 1, consumers = 1, window = 1000, prefetch = 1000;
static int a_send = 64, verify, consuming;
static double seconds = 5, warm = 0, rate = 0, first_ms = 0, due_per_s = 10000;
static int64_t limit = INT64_MAX, start_ns, count_from_ns, end_ns;
static int64_t published, confirmed, delivered, redelivered, twice, counted_out, counted_in, last_in_ns, last_out_ns;
static char **message, *seen;           /* one prepared message per queue */
static size_t *message_bytes, body_at_from_end, delay_at;
static struct hist latency;
static uint64_t chance = 88172645463325252ull;

static int is_delayed(void) { return !strcmp(exchange_kind, "x-delayed-message"); }
static const char *exchange(void) { return *exchange_kind ? name : ""; }
static const char *queue_name(int i) {
    static char text[256];
    snprintf(text, sizeof text, "%s-%d", name, i);
    return text;
}

/* Publish method, header and body as they lie on the wire. */
static void prepare_messages(void) {
    int distinct = strcmp(exchange_kind, "fanout") ? queues : 1;
    message = calloc((size_t)distinct, sizeof *message);
    message_bytes = calloc((size_t)distinct, sizeof *message_bytes);
    for (int i = 0; i < distinct; i++) {
        char *start = message[i] = malloc((size_t)bytes + 1024), *frame = start;
        char *at = put(begin_method(frame, 1, PUBLISH), 0, 2);
        at = put_short(put_short(at, exchange()), queue_name(i));
        frame = end_frame(frame, put(at, 0, 1));
        at = put(put(put(begin_frame(frame, HEADER, 1), 60, 2), 0, 2), (uint64_t)bytes, 8);
        at = put(at, is_delayed() ? 0x3000 : 0x1000, 2);
        if (is_delayed()) {             /* headers: x-delay, a signed number of four bytes */
            at = put_short(put(at, 13, 4), "x-delay");
            *at++ = 'I';
            delay_at = (size_t)(at - start);
            at = put(at, 0, 4);
        }
        frame = end_frame(frame, put(at, 2, 1));   /* persistent */
        at = begin_frame(frame, BODY, 1);
        fill_payload(at, (size_t)bytes, (uint64_t)i + 7);
        frame = end_frame(frame, at + bytes);
        message_bytes[i] = (size_t)(frame - start);
    }
    body_at_from_end = (size_t)bytes + 1;
}

static int64_t due_of(int64_t number) {
    if (is_delayed()) return start_ns + (int64_t)(first_ms * 1e6 + (double)number * 1e9 / due_per_s);
    return rate > 0 ? start_ns + (int64_t)((double)number * 1e9 / rate) : 0;
}

static void put_message(struct conn *c, int64_t now) {
    int which = strcmp(exchange_kind, "fanout") && queues > 1 ? (int)(random_next(&chance) % (uint64_t)queues) : 0;
    char *to = out_room(&c->wire, message_bytes[which]);
    memcpy(to, message[which], message_bytes[which]);
    int64_t number = published++, due = due_of(number);
    if (is_delayed()) {
        int64_t delay_ms = due > now ? (due - now) / 1000000 : 0;
        put(to + delay_at, (uint64_t)delay_ms, 4);
        due = now + delay_ms * 1000000;
    }
    if (!due) due = now;
    char *end = to + message_bytes[which];
    memcpy(end - body_at_from_end, &due, 8);
    memcpy(end - body_at_from_end + 8, &number, 8);
    out_done(&c->wire, end);
    c->next_tag++;
}

static void watch(struct conn *c, int epoll) {
    int want = !flush_some(&c->wire);
    if (want == c->wire.want_write) return;
    c->wire.want_write = want;
    struct epoll_event event = {EPOLLIN | (want ? EPOLLOUT : 0), {.ptr = c}};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->wire.fd, &event);
}

/* As many whole sends as the window has room for. */
static void publish(struct conn *c, int64_t now, int epoll) {
    while (c->wire.out_head == c->wire.out_tail && published < limit && now < end_ns) {
        int64_t room = window - (c->next_tag - c->base_tag), wanted = a_send;
        if (wanted > limit - published) wanted = limit - published;
        if (room < wanted) break;
        int64_t before = published;
        while (published - before < wanted && (!(rate > 0) || due_of(published) <= now)) put_message(c, now);
        if (published == before) break;
        watch(c, epoll);
    }
}

static void take_confirm(struct conn *c, const struct frame *f, int64_t now) {
    int64_t tag = (int64_t)get(f->data, 8), first = f->data[8] & 1 ? c->base_tag : tag;
    if (f->id == NACK) die("the broker refused message %lld", (long long)tag);
    if (tag >= c->next_tag || first < c->base_tag) die("tag %lld was confirmed, which is not open", (long long)tag);
    for (; first <= tag; first++) {
        if (c->confirmed[first % window]) continue;
        c->confirmed[first % window] = 1;
        confirmed++;
        if (now >= count_from_ns && now <= end_ns) counted_out++;
    }
    for (; c->base_tag < c->next_tag && c->confirmed[c->base_tag % window]; c->base_tag++)
        c->confirmed[c->base_tag % window] = 0;
    last_out_ns = now;
}

static void send_acks(struct conn *c, int epoll) {
    char *at = out_room(&c->wire, (size_t)c->to_ack_count * 21);
    for (int i = 0; i < c->to_ack_count; i++)
        at = end_frame(at, put(put(begin_method(at, 1, ACK), (uint64_t)c->to_ack[i], 8), 0, 1));
    out_done(&c->wire, at);
    c->to_ack_count = 0;
    watch(c, epoll);
}

static void take_delivery(struct conn *c, int64_t now, int epoll) {
    int64_t due, number;
    memcpy(&due, c->head, 8);
    memcpy(&number, c->head + 8, 8);
    delivered++;
    last_in_ns = now;
    if (now >= count_from_ns && now <= end_ns) {
        counted_in++;
        if (!is_delayed() || due > count_from_ns) hist_add(&latency, now - due);
    }
    if (seen && number >= 0 && number < limit) twice += seen[number], seen[number] = 1;
    c->to_ack[c->to_ack_count++] = c->tag;
    if (c->to_ack_count == a_send) send_acks(c, epoll);
}

static void take_frame(struct conn *c, const struct frame *f, int64_t now, int epoll) {
    if (f->type == METHOD && (f->id == ACK || f->id == NACK)) take_confirm(c, f, now);
    else if (f->type == METHOD && f->id == DELIVER) {
        const char *at = f->data + 1 + (unsigned char)f->data[0];
        c->tag = (int64_t)get(at, 8);
        redelivered += at[8] & 1;
    } else if (f->type == METHOD && f->id == CONSUME_OK) consuming++;
    else if (f->type == HEADER) c->body_left = c->body_bytes = get(f->data + 4, 8);
    else if (f->type == BODY) {
        uint64_t done = c->body_bytes - c->body_left;
        if (done < sizeof c->head) memcpy(c->head + done, f->data, f->bytes < sizeof c->head - done ? f->bytes : sizeof c->head - done);
        c->body_left -= f->bytes;
        if (!c->body_left) take_delivery(c, now, epoll);
    }
}

static void take_input(struct conn *c, int epoll) {
    struct frame f;
    if (!read_some(&c->wire)) return;
    int64_t now = now_ns();
    while (next_frame(&c->wire, &f)) take_frame(c, &f, now, epoll);
    if (c->to_ack_count) send_acks(c, epoll);
}

static void start_publisher(struct conn *c) {
    c->confirmed = calloc((size_t)window, 1);
    c->next_tag = c->base_tag = 1;
    char *start = out_room(&c->wire, 64);
    call(&c->wire, start, put(begin_method(start, 1, CONFIRM), 0, 1), CONFIRM_OK);
}

/* Every CONSUMERS-th queue. The answers come among the first deliveries, so the loop reads them. */
static void start_consumer(struct conn *c, int number) {
    c->to_ack = calloc((size_t)a_send, sizeof *c->to_ack);
    char *start = out_room(&c->wire, 64);
    call(&c->wire, start, put(put(put(begin_method(start, 1, QOS), 0, 4), (uint64_t)prefetch, 2), 0, 1), QOS_OK);
    for (int i = number; i < queues; i += consumers) {
        char tag[32];
        snprintf(tag, sizeof tag, "%d", i);
        start = out_room(&c->wire, 600);
        char *at = put_short(put_short(put(begin_method(start, 1, CONSUME), 0, 2), queue_name(i)), tag);
        at = put(put(at, 0, 1), 0, 4);
        out_done(&c->wire, end_frame(start, at));
    }
}

static void start_clock(void) {
    start_ns = now_ns();
    count_from_ns = start_ns + (int64_t)(warm * 1e9);
    end_ns = count_from_ns + (int64_t)(seconds * 1e9);
}

static int is_over(int64_t now, int64_t open) {
    int64_t wanted = mode == CONSUME_ONLY || mode == BOTH ? limit : 0;
    if (limit < INT64_MAX && confirmed >= (mode == CONSUME_ONLY ? 0 : limit) && delivered >= wanted) return 1;
    if (now < end_ns) return 0;
    if (limit < INT64_MAX && !verify) die("%lld sent, %lld confirmed, %lld delivered when time was up", (long long)published,
                               (long long)confirmed, (long long)delivered);
    if (now > end_ns + 60000000000ll) die("%lld messages were never confirmed", (long long)open);
    return !open;
}

static void run(struct conn *all, int count, int epoll) {
    struct epoll_event ready[256];
    int waits = mode == BOTH;           /* for all consumers: to begin is not what is measured */
    for (;;) {
        if (waits && consuming == queues) waits = 0, start_clock();
        int64_t now = now_ns(), next = now + 100000000, open = 0;
        for (int i = 0; i < count && !waits; i++) {
            if (!all[i].publishes) continue;
            publish(&all[i], now, epoll);
            open += all[i].next_tag - all[i].base_tag;
        }
        if (!waits && is_over(now, open)) return;
        if (!waits && rate > 0 && published < limit && now < end_ns && due_of(published) < next) next = due_of(published);
        int64_t pause_ns = next > now ? next - now : 0;
        struct timespec pause = {pause_ns / 1000000000, pause_ns % 1000000000};
        int n = epoll_pwait2(epoll, ready, 256, &pause, NULL);
        for (int i = 0; i < n; i++) {
            struct conn *c = ready[i].data.ptr;
            if (ready[i].events & EPOLLOUT) watch(c, epoll);
            if (ready[i].events & ~EPOLLOUT) take_input(c, epoll);
        }
    }
}

static void report(void) {
    double out_s = limit < INT64_MAX ? (double)(last_out_ns - start_ns) / 1e9 : seconds;
    double in_s = limit < INT64_MAX ? (double)(last_in_ns - start_ns) / 1e9 : seconds;
    double out = mode == CONSUME_ONLY ? 0 : (double)(limit < INT64_MAX ? confirmed : counted_out) / out_s;
    double in = mode == PUBLISH_ONLY ? 0 : (double)(limit < INT64_MAX ? delivered : counted_in) / in_s;
    double both = mode == PUBLISH_ONLY ? out : mode == CONSUME_ONLY ? in : in < out ? in : out;
    int64_t lost = 0;
    for (int64_t i = 0; seen && i < limit; i++) lost += !seen[i];
    printf("{\"messages_per_s\": %.0f, \"confirmed_per_s\": %.0f, \"acked_per_s\": %.0f, \"confirmed\": %lld, "
           "\"acked\": %lld, \"redelivered\": %lld, \"lost\": %lld, \"twice\": %lld, \"bytes\": %lld",
           both, out, in, (long long)confirmed, (long long)delivered, (long long)redelivered, (long long)lost,
           (long long)twice, (long long)(mode == PUBLISH_ONLY ? confirmed : delivered) * bytes);
    if (latency.total) hist_print(&latency);
    printf("}\n");
}

static void load(void) {
    int first_consumer = mode == CONSUME_ONLY ? 0 : publishers;
    int count = first_consumer + (mode == PUBLISH_ONLY ? 0 : consumers), epoll = epoll_create1(0);
    struct conn *all = calloc((size_t)count, sizeof *all);
    prepare_messages();
    if (verify) seen = calloc((size_t)limit, 1);
    for (int i = 0; i < count; i++) {
        all[i].publishes = i < first_consumer;
        log_in(&all[i].wire, host, port);
        if ((uint32_t)bytes + FRAME_EXTRA > all[i].wire.frame_max) die("-s: a body must fit in a frame");
        if (all[i].publishes) start_publisher(&all[i]);
        struct epoll_event event = {EPOLLIN, {.ptr = &all[i]}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].wire.fd, &event);
    }
    start_clock();
    for (int i = first_consumer; i < count; i++) {
        start_consumer(&all[i], i - first_consumer);
        watch(&all[i], epoll);
    }
    run(all, count, epoll);
    for (int i = first_consumer; i < count; i++) {  /* the acks before it have been read by then */
        char *start = out_room(&all[i].wire, 64);
        call(&all[i].wire, start, put(put(put(begin_method(start, 1, QOS), 0, 4), 1, 2), 0, 1), QOS_OK);
    }
    report();
}

static void put_declare(struct amqp *c, int i) {
    char *start = out_room(c, 1024), *at = put(begin_method(start, 1, QUEUE_DECLARE), 0, 2), *table;
    at = put(put_short(at, queue_name(i)), mode == COUNT ? 1 : 2, 1);   /* passive, or durable */
    table = at;
    at = put_entry(at + 4, "x-queue-type", queue_type);
    put(table, (uint64_t)(at - table - 4), 4);
    out_done(c, end_frame(start, mode == COUNT ? put(table, 0, 4) : at));
    if (mode == COUNT || !*exchange_kind) return;
    at = put_short(put(begin_method(start = out_room(c, 1024), 1, QUEUE_BIND), 0, 2), queue_name(i));
    at = put(put(put_short(put_short(at, name), queue_name(i)), 0, 1), 0, 4);
    out_done(c, end_frame(start, at));
}

static void put_purge(struct amqp *c, int i) {
    char *start = out_room(c, 1024), *at = begin_method(start, 1, mode == PURGE ? QUEUE_PURGE : QUEUE_DELETE);
    out_done(c, end_frame(start, put(put_short(put(at, 0, 2), queue_name(i)), 0, 1)));
}

static void declare_exchange(struct amqp *c) {
    char *start = out_room(c, 1024), *at = put(begin_method(start, 1, EXCHANGE_DECLARE), 0, 2), *table;
    at = put(put_short(put_short(at, name), exchange_kind), 2, 1);
    table = at;
    at = is_delayed() ? put_entry(at + 4, "x-delayed-type", "direct") : at + 4;
    put(table, (uint64_t)(at - table - 4), 4);
    call(c, start, at, EXCHANGE_DECLARE_OK);
}

/* The same for every queue, on all connections in turn, each MESSAGES_A_SEND ahead of its answers. */
static void topology(void) {
    struct amqp *all = calloc((size_t)consumers, sizeof *all);
    int64_t messages = 0, begun = now_ns();
    for (int i = 0; i < consumers; i++) log_in(&all[i], host, port);
    if (mode == SETUP && *exchange_kind) declare_exchange(all);
    uint32_t answer = mode == PURGE ? QUEUE_PURGE_OK : mode == DELETE ? QUEUE_DELETE_OK : QUEUE_DECLARE_OK;
    for (int sent = 0, answered = 0; answered < queues; answered++) {
        for (; sent < queues && sent - answered < a_send * consumers; sent++) {
            struct amqp *c = &all[sent % consumers];
            if (mode == SETUP || mode == COUNT) put_declare(c, sent);
            else put_purge(c, sent);
            flush_some(c);
        }
        struct amqp *c = &all[answered % consumers];
        struct frame f = wait_for(c, answer);
        if (mode == COUNT) messages += (int64_t)get(f.data + 1 + (unsigned char)f.data[0], 4);
        if (mode == PURGE || mode == DELETE) messages += (int64_t)get(f.data, 4);
        if (mode == SETUP && *exchange_kind) wait_for(c, QUEUE_BIND_OK);
    }
    printf("{\"queues\": %d, \"messages\": %lld, \"seconds\": %.4f}\n", queues, (long long)messages,
           (double)(now_ns() - begun) / 1e9);
}

int main(int argc, char **argv) {
    int option;
    while ((option = getopt(argc, argv, "b:t:m:q:x:T:s:d:w:n:p:c:W:P:B:r:D:L:v")) != -1) switch (option) {
        case 'b': split_address(optarg, &host, &port); break;
        case 't': name = optarg; break;
        case 'm': for (int i = SETUP; i <= BOTH; i++) if (!strcmp(optarg, modes[i])) mode = i; break;
        case 'q': queues = atoi(optarg); break;
        case 'x': exchange_kind = optarg; break;
        case 'T': queue_type = optarg; break;
        case 's': bytes = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'w': warm = atof(optarg); break;
        case 'n': limit = atoll(optarg); break;
        case 'p': publishers = atoi(optarg); break;
        case 'c': consumers = atoi(optarg); break;
        case 'W': window = atoi(optarg); break;
        case 'P': prefetch = atoi(optarg); break;
        case 'B': a_send = atoi(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'D': first_ms = atof(optarg); break;
        case 'L': due_per_s = atof(optarg); break;
        case 'v': verify = 1; break;
        default: die("see the top of amqp_raw.c");
    }
    if (!mode || queues < 1 || a_send < 1 || a_send > window || bytes < 16) die("see the top of amqp_raw.c");
    if (verify && limit == INT64_MAX) die("-v needs -n");
    if (mode < PUBLISH_ONLY) topology();
    else load();
    return 0;
}
