/* End-to-end latency at a fixed rate: one librdkafka producer and one consumer in this process. A record
 * carries the time at which it was due to be sent, so a producer that falls behind counts as latency.
 *
 *   e2e -b 127.0.0.1:9092 -t topic -p PARTITIONS -s BYTES -r RECORDS_PER_S -d SECONDS [-w SECONDS] [-X key=value]...
 *
 * Reading starts where the topic ends. -w seconds at the start are sent but not counted.
 */
#include <pthread.h>
#include <unistd.h>
#include "client.h"

static const char *brokers = "127.0.0.1:9092", *name = "bench";
static int partitions = 1, bytes = 100;
static double rate = 10000, seconds = 10, warm = 1;
static rd_kafka_t *producer;
static volatile int64_t sent, counted_from;
static volatile int sending = 1;
static int64_t seen;
static struct hist latency;

static void *send_all(void *unused) {
    (void)unused;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, name, NULL);
    char *payload = malloc(bytes);
    fill_payload(payload, bytes, 2);
    int64_t total = (int64_t)(rate * (warm + seconds)), start = now_ns();
    counted_from = start + (int64_t)(warm * 1e9);
    for (int64_t i = 0; i < total; i++) {
        int64_t due = start + (int64_t)((double)i * 1e9 / rate);
        struct timespec at = {due / 1000000000, due % 1000000000};
        if (due > now_ns()) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        memcpy(payload, &due, sizeof due);
        while (rd_kafka_produce(topic, (int32_t)(i % partitions), RD_KAFKA_MSG_F_COPY, payload, bytes, NULL, 0, NULL)) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(producer, 1);
        }
        sent = i + 1;
        if (i % 100 == 0) rd_kafka_poll(producer, 0);
    }
    if (rd_kafka_flush(producer, 60000)) die("flush: %s", "not everything was acknowledged within 60 s");
    rd_kafka_topic_destroy(topic);
    free(payload);
    sending = 0;
    return NULL;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    if (message->err) die("delivery failed: %s", rd_kafka_err2str(message->err));
}

static void on_message(rd_kafka_message_t *message, void *opaque) {
    (void)opaque;
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) return;
    if (message->err) die("consume: %s", rd_kafka_message_errstr(message));
    int64_t due;
    memcpy(&due, message->payload, sizeof due);
    seen++;
    if (due >= counted_from) hist_add(&latency, now_ns() - due);
}

static rd_kafka_t *client(rd_kafka_type_t type, char **options, int count) {
    char reason[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    conf_set(conf, "bootstrap.servers", brokers);
    if (type == RD_KAFKA_PRODUCER) {
        conf_set(conf, "acks", "all");
        conf_set(conf, "delivery.report.only.error", "true");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    }
    for (int i = 0; i < count; i++) conf_option(conf, options[i]);
    rd_kafka_t *rk = rd_kafka_new(type, conf, reason, sizeof reason);
    if (!rk) die("%s", reason);
    return rk;
}

int main(int argc, char **argv) {
    char *options[32];
    int option_count = 0, option;
    while ((option = getopt(argc, argv, "b:t:p:s:r:d:w:X:")) != -1) switch (option) {
        case 'b': brokers = optarg; break;
        case 't': name = optarg; break;
        case 'p': partitions = atoi(optarg); break;
        case 's': bytes = atoi(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'w': warm = atof(optarg); break;
        case 'X': if (option_count < 32) options[option_count++] = optarg; break;
        default: die("see the top of e2e.c");
    }
    if (bytes < 8) die("-s must be at least 8: a record carries its time");
    producer = client(RD_KAFKA_PRODUCER, options, option_count);
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, options, option_count);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, name, NULL);
    wait_for_topic(consumer, topic, partitions);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
    for (int i = 0; i < partitions; i++) {
        int64_t low, end;
        if (rd_kafka_query_watermark_offsets(consumer, name, i, &low, &end, 10000)) die("partition %d has no end", i);
        rd_kafka_consume_start_queue(topic, i, end, queue);
    }

    pthread_t thread;
    pthread_create(&thread, NULL, send_all, NULL);
    int64_t stalled_ns = 0;
    while (sending || seen < sent) {
        int64_t before = seen;
        rd_kafka_consume_callback_queue(queue, 100, on_message, NULL);
        if (seen != before || sending) stalled_ns = now_ns() + 10000000000ll;
        if (now_ns() > stalled_ns) die("%lld of %lld records arrived", (long long)seen, (long long)sent);
    }
    pthread_join(thread, NULL);
    printf("{\"records\": %lld, \"counted\": %llu, \"bytes\": %lld", (long long)seen, (unsigned long long)latency.total,
           (long long)seen * bytes);
    hist_print(&latency);
    printf("}\n");
    for (int i = 0; i < partitions; i++) rd_kafka_consume_stop(topic, i);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(consumer);
    rd_kafka_destroy(producer);
    return 0;
}
