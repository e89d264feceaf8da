/* AMQP 0-9-1 with librabbitmq, as programs use it: a call, and a system call, for each message and each ack.
 * A consumer may ack many with one.
 *
 *   amqp_lib -b 127.0.0.1:5672 -t NAME -m publish|consume|both [-s BYTES] [-d SECONDS] [-w SECONDS] [-n MESSAGES]
 *            [-W WINDOW] [-P PREFETCH] [-A MESSAGES_AN_ACK]
 *
 * One queue, NAME-0, which amqp_raw has set up. Publishes are persistent and confirmed, up to WINDOW open; up to
 * PREFETCH deliveries are not yet acked. One ack is for MESSAGES_AN_ACK of them (1), or for fewer when no more
 * come. Both: a thread and a connection each. -d, -w and -n as in amqp_raw.
 */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>
#include "common.h"

static const char *host = "127.0.0.1", *name = "bench", *mode = "";
static char queue[256];
static int port = 5672, bytes = 100, window = 1000, prefetch = 1000, an_ack = 1;
static double seconds = 5, warm = 0;
static int64_t limit = INT64_MAX, start_ns, count_from_ns, end_ns, confirmed, acked, counted_out, counted_in;
static int64_t last_out_ns, last_in_ns;
static atomic_int consuming;

static void must(amqp_rpc_reply_t reply, const char *what) {
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    const char *why = "the broker refused";
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) why = amqp_error_string2(reply.library_error);
    die("%s: %s", what, why);
}

static amqp_connection_state_t log_in(void) {
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    if (!socket || amqp_socket_open(socket, host, port)) die("cannot connect to %s:%d", host, port);
    must(amqp_login(c, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"), "login");
    amqp_channel_open(c, 1);
    must(amqp_get_rpc_reply(c), "channel.open");
    return c;
}

/* One frame, which can only be a confirm; false if none is there and none should be waited for. */
static int read_confirm(amqp_connection_state_t c, char *done, int64_t next, int64_t *base, int wait) {
    struct timeval at_once = {0, 0}, a_minute = {60, 0};
    amqp_frame_t frame;
    int status = amqp_simple_wait_frame_noblock(c, &frame, wait ? &a_minute : &at_once);
    if (status == AMQP_STATUS_TIMEOUT && !wait) return 0;
    if (status != AMQP_STATUS_OK) die("waiting for confirms: %s", amqp_error_string2(status));
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
        die("the broker sent something else than a confirm");
    amqp_basic_ack_t *ack = frame.payload.method.decoded;
    int64_t tag = (int64_t)ack->delivery_tag, now = now_ns();
    for (int64_t i = ack->multiple ? *base : tag; i <= tag; i++) {
        if (done[i % window]) continue;
        done[i % window] = 1;
        confirmed++;
        if (now >= count_from_ns && now <= end_ns) counted_out++;
    }
    for (; *base < next && done[*base % window]; ++*base) done[*base % window] = 0;
    last_out_ns = now;
    amqp_maybe_release_buffers_on_channel(c, 1);
    return 1;
}

static void *publish(void *unused) {
    (void)unused;
    amqp_connection_state_t c = log_in();
    amqp_confirm_select(c, 1);
    must(amqp_get_rpc_reply(c), "confirm.select");
    char *payload = malloc((size_t)bytes), *done = calloc((size_t)window, 1);
    fill_payload(payload, (size_t)bytes, 2);
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
    amqp_bytes_t body = {(size_t)bytes, payload}, key = amqp_cstring_bytes(queue);
    int64_t next = 1, base = 1;
    while (next <= limit && now_ns() < end_ns) {
        int status = amqp_basic_publish(c, 1, amqp_empty_bytes, key, 0, 0, &properties, body);
        if (status) die("publish: %s", amqp_error_string2(status));
        next++;
        if (next - base < window) continue;
        read_confirm(c, done, next, &base, 1);
        while (amqp_frames_enqueued(c) || amqp_data_in_buffer(c))
            if (!read_confirm(c, done, next, &base, 0)) break;
    }
    while (base < next) read_confirm(c, done, next, &base, 1);
    amqp_destroy_connection(c);
    return NULL;
}

/* All up to this one. */
static void ack(amqp_connection_state_t c, uint64_t tag) {
    int status = amqp_basic_ack(c, 1, tag, an_ack > 1);
    if (status) die("ack: %s", amqp_error_string2(status));
}

static void *consume(void *unused) {
    (void)unused;
    uint64_t tag = 0, acked_tag = 0;
    amqp_connection_state_t c = log_in();
    amqp_basic_qos(c, 1, 0, (uint16_t)prefetch, 0);
    must(amqp_get_rpc_reply(c), "basic.qos");
    amqp_basic_consume(c, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    must(amqp_get_rpc_reply(c), "basic.consume");
    atomic_store(&consuming, 1);
    struct timeval patience = {0, 100000};
    while (acked < limit) {
        amqp_envelope_t envelope;
        amqp_maybe_release_buffers(c);
        amqp_rpc_reply_t reply = amqp_consume_message(c, &envelope, &patience, 0);
        int64_t now = now_ns();
        if (now > end_ns) break;
        if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && reply.library_error == AMQP_STATUS_TIMEOUT) {
            if (acked_tag < tag) ack(c, acked_tag = tag);
            continue;
        }
        must(reply, "consume");
        tag = envelope.delivery_tag;
        if (tag - acked_tag >= (uint64_t)an_ack) ack(c, acked_tag = tag);
        amqp_destroy_envelope(&envelope);
        acked++;
        last_in_ns = now;
        if (now >= count_from_ns) counted_in++;
    }
    if (acked_tag < tag) ack(c, tag);
    amqp_channel_close(c, 1, AMQP_REPLY_SUCCESS);   /* the acks before it have been read by then */
    amqp_destroy_connection(c);
    return NULL;
}

static void start_clock(void) {
    start_ns = now_ns();
    count_from_ns = start_ns + (int64_t)(warm * 1e9);
    end_ns = count_from_ns + (int64_t)(seconds * 1e9);
}

int main(int argc, char **argv) {
    int option;
    while ((option = getopt(argc, argv, "b:t:m:s:d:w:n:W:P:A:")) != -1) switch (option) {
        case 'b': { char *colon = strchr(optarg, ':'); if (colon) *colon = 0, port = atoi(colon + 1); host = optarg; break; }
        case 't': name = optarg; break;
        case 'm': mode = optarg; break;
        case 's': bytes = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'w': warm = atof(optarg); break;
        case 'n': limit = atoll(optarg); break;
        case 'W': window = atoi(optarg); break;
        case 'P': prefetch = atoi(optarg); break;
        case 'A': an_ack = atoi(optarg); break;
        default: die("see the top of amqp_lib.c");
    }
    snprintf(queue, sizeof queue, "%s-0", name);
    int publishes = strcmp(mode, "consume"), consumes = strcmp(mode, "publish");
    if (strcmp(mode, "both") && publishes && consumes) die("see the top of amqp_lib.c");
    pthread_t publisher, consumer;
    start_clock();
    if (consumes) pthread_create(&consumer, NULL, consume, NULL);
    while (consumes && publishes && !atomic_load(&consuming)) usleep(1000);
    if (publishes) start_clock(), pthread_create(&publisher, NULL, publish, NULL);
    if (consumes) pthread_join(consumer, NULL);
    if (publishes) pthread_join(publisher, NULL);
    if (limit < INT64_MAX && ((publishes && confirmed < limit) || (consumes && acked < limit)))
        die("%lld confirmed and %lld acked when time was up", (long long)confirmed, (long long)acked);
    double out_s = limit < INT64_MAX ? (double)(last_out_ns - start_ns) / 1e9 : seconds;
    double in_s = limit < INT64_MAX ? (double)(last_in_ns - start_ns) / 1e9 : seconds;
    double out = publishes ? (double)(limit < INT64_MAX ? confirmed : counted_out) / out_s : 0;
    double in = consumes ? (double)(limit < INT64_MAX ? acked : counted_in) / in_s : 0;
    printf("{\"messages_per_s\": %.0f, \"confirmed_per_s\": %.0f, \"acked_per_s\": %.0f, \"confirmed\": %lld, "
           "\"acked\": %lld, \"bytes\": %lld}\n",
           !consumes ? out : !publishes ? in : in < out ? in : out, out, in, (long long)confirmed, (long long)acked,
           (long long)(consumes ? acked : confirmed) * bytes);
    return 0;
}
