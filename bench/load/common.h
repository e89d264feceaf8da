/* What the load programs share: a clock, payload that does not compress away, a latency histogram,
 * and one line of JSON as the result. Header only, so that each program is one gcc call. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline int64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static inline uint64_t random_next(uint64_t *state) { /* xorshift64*: fast, seeded, the same on every run */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ull;
}

/* Hex digits: four bits of chance in each byte, so a compressor gets about half and never a run of zeros. */
static inline void fill_payload(char *to, size_t bytes, uint64_t seed) {
    static const char digits[] = "0123456789abcdef";
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    for (size_t i = 0; i < bytes; i++) to[i] = digits[random_next(&state) >> 60];
}

/* Latencies in 128 linear steps per power of two: below 2 % of error, any length of run in one array. */
#define HIST_STEPS 128
#define HIST_SIZE (HIST_STEPS * 58)
struct hist {
    uint64_t count[HIST_SIZE];
    uint64_t total;
    int64_t max_ns;
};

static inline void hist_add(struct hist *h, int64_t ns) {
    uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
    int shift = value < HIST_STEPS ? 0 : 64 - __builtin_clzll(value) - 7;
    h->count[(uint64_t)shift * HIST_STEPS + (value >> shift)]++;
    h->total++;
    if ((int64_t)value > h->max_ns) h->max_ns = (int64_t)value;
}

static inline double hist_us(const struct hist *h, double quantile) {
    uint64_t need = (uint64_t)(quantile * (double)h->total), seen = 0;
    for (int i = 0; i < HIST_SIZE; i++) {
        seen += h->count[i];
        if (seen > need) return (double)((uint64_t)(i % HIST_STEPS) << (i / HIST_STEPS)) / 1000.0;
    }
    return (double)h->max_ns / 1000.0;
}

static inline void hist_print(const struct hist *h) {
    printf(", \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f", hist_us(h, 0.5),
           hist_us(h, 0.99), hist_us(h, 0.999), (double)h->max_ns / 1000.0);
}

#endif
