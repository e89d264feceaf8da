/* How fast a broker takes records from librdkafka: producers that send as many as they can for a given time,
 * then flush. The rate counts records acknowledged, and time runs until the last acknowledgement.
 *
 *   produce -b 127.0.0.1:9092 -t topic -p PARTITIONS -s BYTES (-d SECONDS | -n RECORDS) [-k PRODUCERS] [-r RUN]
 *           [-X key=value]...
 *
 * Each of the PRODUCERS (1 unless told) is a librdkafka of its own with its own connection; -n is for each.
 * RUN records go to one partition, then as many to the next (1,000 unless told). With runs of 1 librdkafka
 * itself is the limit: it takes as long to sort the records as a broker that keeps nothing to take them.
 */
#include <pthread.h>
#include <unistd.h>
#include "client.h"

#define CHUNK 1000              /* records handed to librdkafka in one call */
#define POOL_BYTES (8 << 20)    /* records point into this: not copied, and not the same bytes again and again */
#define MOST_PRODUCERS 16

static int partitions = 1, bytes = 100, run = 1000;
static double seconds = 5;
static int64_t records = INT64_MAX;
static char *pool;

struct producer {
    rd_kafka_t *rk;
    rd_kafka_topic_t *topic;
    pthread_t thread;
    int64_t start, sent, failed, done_ns;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk; /* with delivery.report.only.error only failures come here */
    struct producer *p = opaque;
    if (message->err && p->failed++ < 3) fprintf(stderr, "delivery failed: %s\n", rd_kafka_err2str(message->err));
}

static void *produce(void *of) {
    struct producer *p = of;
    rd_kafka_message_t *chunk = calloc(CHUNK, sizeof *chunk);
    int64_t deadline = p->start + (int64_t)(seconds * 1e9);
    while (p->sent < records && now_ns() < deadline) {
        int count = records - p->sent < CHUNK ? (int)(records - p->sent) : CHUNK;
        for (int i = 0; i < count; i++) {
            chunk[i].payload = pool + (uint64_t)(p->sent + i) * bytes % POOL_BYTES;
            chunk[i].len = bytes;
            chunk[i].partition = (int32_t)((p->sent + i) / run % partitions);
            chunk[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
        }
        for (int done = 0; done < count;) {
            int flags = partitions == 1 ? 0 : RD_KAFKA_MSG_F_PARTITION;
            int taken = rd_kafka_produce_batch(p->topic, 0, flags, chunk + done, count - done);
            /* The queue being full refuses the tail of a chunk; anything else is an error. */
            if (taken < count - done && chunk[done + taken].err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                die("produce: %s", rd_kafka_err2str(chunk[done + taken].err));
            done += taken;
            p->sent += taken;
            if (done < count) rd_kafka_poll(p->rk, 1);
        }
    }
    if (rd_kafka_flush(p->rk, 60000)) die("flush: %s", "not everything was acknowledged within 60 s");
    p->done_ns = now_ns();
    free(chunk);
    return NULL;
}

static void connect_producer(struct producer *p, const rd_kafka_conf_t *shared, const char *name) {
    char reason[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(shared);
    rd_kafka_conf_set_opaque(conf, p);
    p->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (!p->rk) die("%s", reason);
    p->topic = rd_kafka_topic_new(p->rk, name, NULL);
    wait_for_topic(p->rk, p->topic, partitions);
}

int main(int argc, char **argv) {
    const char *brokers = "127.0.0.1:9092", *name = "bench";
    int producers = 1, option;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    conf_set(conf, "queue.buffering.max.messages", "500000");
    conf_set(conf, "delivery.report.only.error", "true");
    conf_set(conf, "acks", "all");
    while ((option = getopt(argc, argv, "b:t:p:s:d:n:k:r:X:")) != -1) switch (option) {
        case 'b': brokers = optarg; break;
        case 't': name = optarg; break;
        case 'p': partitions = atoi(optarg); break;
        case 's': bytes = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'n': records = atoll(optarg); seconds = 1e6; break;
        case 'k': producers = atoi(optarg); break;
        case 'r': run = atoi(optarg); break;
        case 'X': conf_option(conf, optarg); break;
        default: die("see the top of produce.c");
    }
    if (producers < 1 || producers > MOST_PRODUCERS) die("-k %d: 1 to %d producers", producers, MOST_PRODUCERS);
    conf_set(conf, "bootstrap.servers", brokers);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    pool = malloc(POOL_BYTES + bytes);
    fill_payload(pool, POOL_BYTES + bytes, 1);
    static struct producer all[MOST_PRODUCERS];
    for (int i = 0; i < producers; i++) connect_producer(&all[i], conf, name);

    int64_t start = now_ns(), end = start, sent = 0, failed = 0;
    for (int i = 0; i < producers; i++) {
        all[i].start = start;
        if (pthread_create(&all[i].thread, NULL, produce, &all[i])) die("thread: %s", strerror(errno));
    }
    for (int i = 0; i < producers; i++) {
        pthread_join(all[i].thread, NULL);
        sent += all[i].sent;
        failed += all[i].failed;
        if (all[i].done_ns > end) end = all[i].done_ns;
    }
    double took = (double)(end - start) / 1e9;
    printf("{\"records\": %lld, \"failed\": %lld, \"seconds\": %.4f, \"bytes\": %lld, \"records_per_s\": %.0f}\n",
           (long long)sent, (long long)failed, took, (long long)sent * bytes, (double)(sent - failed) / took);
    for (int i = 0; i < producers; i++) {
        rd_kafka_topic_destroy(all[i].topic);
        rd_kafka_destroy(all[i].rk);
    }
    rd_kafka_conf_destroy(conf);
    return failed != 0;
}
