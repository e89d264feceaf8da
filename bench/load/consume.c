/* How fast a broker hands records to librdkafka. Reads partitions from offset 0 for a given time and
 * starts again at 0 when it has seen the whole of them, or reads N records once (for cold reads).
 *
 *   consume -b 127.0.0.1:9092 -t topic -f FIRST_PARTITION -p PARTITIONS (-n RECORDS | -e) [-d SECONDS] [-X key=value]...
 *
 * -e: from where they end now, for the given time, which runs from the first record until it is over.
 * -n is what all the named partitions hold together. Without -d they are read once, and time runs from the
 * start. With -d it runs from the first record of each pass to its last: to go back to 0 takes librdkafka about
 * as long as a pass does, whoever serves it.
 *
 * Linked with tcmalloc: librdkafka allocates each record in one thread and frees it in another, where glibc's
 * malloc contends so much that the program got slower the faster it was served.
 */
#include <unistd.h>
#include "client.h"

static int64_t seen, seen_bytes, pass_begin, first_ns, pass_ns, last_ns;

static void on_message(rd_kafka_message_t *message, void *opaque) {
    (void)opaque;
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) return;
    if (message->err) die("consume: %s", rd_kafka_message_errstr(message));
    if (seen == pass_begin) pass_ns = now_ns();
    seen++;
    seen_bytes += (int64_t)message->len;
}

int main(int argc, char **argv) {
    const char *brokers = "127.0.0.1:9092", *name = "bench";
    int first = 0, partitions = 1, option;
    double seconds = 0;
    int64_t records = 0, begin = 0;
    char reason[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    conf_set(conf, "group.id", "bench");
    conf_set(conf, "queued.min.messages", "1000000");
    conf_set(conf, "queued.max.messages.kbytes", "262144");
    while ((option = getopt(argc, argv, "b:t:f:p:n:ed:X:")) != -1) switch (option) {
        case 'b': brokers = optarg; break;
        case 't': name = optarg; break;
        case 'f': first = atoi(optarg); break;
        case 'p': partitions = atoi(optarg); break;
        case 'n': records = atoll(optarg); break;
        case 'e': begin = RD_KAFKA_OFFSET_END; break;
        case 'd': seconds = atof(optarg); break;
        case 'X': conf_option(conf, optarg); break;
        default: die("see the top of consume.c");
    }
    int at_tail = begin == RD_KAFKA_OFFSET_END;
    if (at_tail ? seconds <= 0 : records <= 0) die("-n RECORDS, or -e and -d SECONDS: see the top of consume.c");
    if (at_tail) records = INT64_MAX;
    conf_set(conf, "bootstrap.servers", brokers);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof reason);
    if (!rk) die("%s", reason);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    wait_for_topic(rk, topic, first + partitions);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);

    int64_t start = now_ns(), deadline = start + (int64_t)(seconds * 1e9), round_end = records;
    int64_t stalled_ns = start + 60000000000ll, before = 0, streamed_ns = 0;
    for (int i = first; i < first + partitions; i++)
        if (rd_kafka_consume_start_queue(topic, i, begin, queue)) die("start: %s", rd_kafka_err2str(rd_kafka_last_error()));
    for (;;) {
        rd_kafka_consume_callback_queue(queue, 100, on_message, NULL);
        int64_t now = now_ns();
        if (seen != before) before = seen, last_ns = now, stalled_ns = now + 60000000000ll;
        if (!first_ns) first_ns = pass_ns;
        if (now > stalled_ns) die("nothing arrived for 60 s after %lld of %lld records", (long long)seen, (long long)records);
        if (seconds > 0 && now >= deadline) break;
        if (seen < round_end) continue;
        if (seconds == 0) break;
        streamed_ns += last_ns - pass_ns;
        pass_begin = seen;
        round_end = seen + records;
        for (int i = first; i < first + partitions; i++)
            if (rd_kafka_seek(topic, i, 0, 5000)) die("seek: %s", rd_kafka_err2str(rd_kafka_last_error()));
    }
    if (!seen) die("nothing arrived within %.1f s", seconds);
    if (seen > pass_begin) streamed_ns += (at_tail ? now_ns() : last_ns) - pass_ns;
    double took = (double)(seconds > 0 ? streamed_ns : last_ns - start) / 1e9;
    printf("{\"records\": %lld, \"bytes\": %lld, \"seconds\": %.4f, \"first_ms\": %.3f, \"records_per_s\": %.0f}\n",
           (long long)seen, (long long)seen_bytes, took, (double)(first_ns - start) / 1e6, (double)seen / took);
    for (int i = first; i < first + partitions; i++) rd_kafka_consume_stop(topic, i);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(rk);
    return 0;
}
