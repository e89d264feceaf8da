/* What the programs that speak Kafka's protocol by hand share: numbers and texts in its byte order, and a
 * connection. Header only, as common.h. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "common.h"

static inline uint64_t get(const void *from, int width) { /* big endian */
    const unsigned char *at = from;
    uint64_t value = 0;
    while (width--) value = value << 8 | *at++;
    return value;
}

static inline char *put(char *to, uint64_t value, int width) {
    for (int i = 0; i < width; i++) to[i] = (char)(value >> (8 * (width - 1 - i)));
    return to + width;
}

static inline char *put_text(char *to, const void *text, size_t bytes) {
    to = put(to, bytes, 2);
    return (char *)memcpy(to, text, bytes) + bytes;
}

static inline char *put_string(char *to, const char *text) { return put_text(to, text, strlen(text)); }

/* "host:port" cut in two, in place. */
static inline void split_address(char *text, const char **host, int *port) {
    char *colon = strchr(text, ':');
    if (colon) *colon = 0, *port = atoi(colon + 1);
    *host = text;
}

static inline int connect_to(const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

#endif
