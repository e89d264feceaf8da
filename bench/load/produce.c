/* How fast a broker takes records from librdkafka: one producer, as many as it can for a given time,
 * then a flush. The rate counts records acknowledged, and time runs until the last acknowledgement.
 *
 *   produce -b 127.0.0.1:9092 -t topic -p PARTITIONS -s BYTES (-d SECONDS | -n RECORDS) [-r RUN] [-X key=value]...
 *
 * RUN records go to one partition, then as many to the next (1,000 unless told). With runs of 1 librdkafka
 * itself is the limit: it takes as long to sort the records as a broker that keeps nothing to take them.
 */
#include <unistd.h>
#include "client.h"

#define CHUNK 1000              /* records handed to librdkafka in one call */
#define POOL_BYTES (8 << 20)    /* records point into this: not copied, and not the same bytes again and again */

static int64_t failed;

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque; /* with delivery.report.only.error only failures come here */
    if (message->err && failed++ < 3) fprintf(stderr, "delivery failed: %s\n", rd_kafka_err2str(message->err));
}

int main(int argc, char **argv) {
    const char *brokers = "127.0.0.1:9092", *name = "bench";
    int partitions = 1, bytes = 100, run = 1000, option;
    double seconds = 5;
    int64_t records = INT64_MAX;
    char reason[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    conf_set(conf, "queue.buffering.max.messages", "500000");
    conf_set(conf, "delivery.report.only.error", "true");
    conf_set(conf, "acks", "all");
    while ((option = getopt(argc, argv, "b:t:p:s:d:n:r:X:")) != -1) switch (option) {
        case 'b': brokers = optarg; break;
        case 't': name = optarg; break;
        case 'p': partitions = atoi(optarg); break;
        case 's': bytes = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'n': records = atoll(optarg); seconds = 1e6; break;
        case 'r': run = atoi(optarg); break;
        case 'X': conf_option(conf, optarg); break;
        default: die("see the top of produce.c");
    }
    conf_set(conf, "bootstrap.servers", brokers);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (!rk) die("%s", reason);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    wait_for_topic(rk, topic, partitions);

    char *pool = malloc(POOL_BYTES + bytes);
    fill_payload(pool, POOL_BYTES + bytes, 1);
    static rd_kafka_message_t chunk[CHUNK];
    int64_t sent = 0, start = now_ns(), deadline = start + (int64_t)(seconds * 1e9);
    while (sent < records && now_ns() < deadline) {
        int count = records - sent < CHUNK ? (int)(records - sent) : CHUNK;
        for (int i = 0; i < count; i++) {
            chunk[i].payload = pool + (uint64_t)(sent + i) * bytes % POOL_BYTES;
            chunk[i].len = bytes;
            chunk[i].partition = (int32_t)((sent + i) / run % partitions);
            chunk[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
        }
        for (int done = 0; done < count;) {
            int taken = partitions == 1
                            ? rd_kafka_produce_batch(topic, 0, 0, chunk + done, count - done)
                            : rd_kafka_produce_batch(topic, 0, RD_KAFKA_MSG_F_PARTITION, chunk + done, count - done);
            /* The queue being full refuses the tail of a chunk; anything else is an error. */
            if (taken < count - done && chunk[done + taken].err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                die("produce: %s", rd_kafka_err2str(chunk[done + taken].err));
            done += taken;
            sent += taken;
            if (done < count) rd_kafka_poll(rk, 1);
        }
    }
    if (rd_kafka_flush(rk, 60000)) die("flush: %s", "not everything was acknowledged within 60 s");
    double took = (double)(now_ns() - start) / 1e9;
    printf("{\"records\": %lld, \"failed\": %lld, \"seconds\": %.4f, \"bytes\": %lld, \"records_per_s\": %.0f}\n",
           (long long)sent, (long long)failed, took, (long long)sent * bytes, (double)(sent - failed) / took);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(rk);
    return failed != 0;
}
