/* librdkafka configuration with its defaults, plus what -X key=value asks for. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <librdkafka/rdkafka.h>
#include "common.h"

static inline void conf_set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char reason[512];
    if (rd_kafka_conf_set(conf, key, value, reason, sizeof reason) != RD_KAFKA_CONF_OK) die("-X %s: %s", key, reason);
}

static inline void conf_option(rd_kafka_conf_t *conf, const char *pair) { /* pair is "key=value" */
    char key[256];
    const char *equals = strchr(pair, '=');
    if (!equals || (size_t)(equals - pair) >= sizeof key) die("-X wants key=value, not %s", pair);
    memcpy(key, pair, (size_t)(equals - pair));
    key[equals - pair] = 0;
    conf_set(conf, key, equals + 1);
}

/* Connects before the clock starts: a run measures the stream, not the handshake. */
static inline void wait_for_topic(rd_kafka_t *rk, rd_kafka_topic_t *topic, int partitions) {
    for (int attempt = 0; attempt < 100; attempt++) {
        const struct rd_kafka_metadata *meta;
        if (!rd_kafka_metadata(rk, 0, topic, &meta, 5000)) {
            int found = meta->topic_cnt == 1 && !meta->topics[0].err ? meta->topics[0].partition_cnt : 0;
            rd_kafka_metadata_destroy(meta);
            if (found >= partitions) return;
        }
        struct timespec pause = {0, 50000000};
        nanosleep(&pause, NULL);
    }
    die("topic %s does not show %d partitions", rd_kafka_topic_name(topic), partitions);
}

#endif
