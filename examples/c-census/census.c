#include "census.h"

#include <string.h>

static uint64_t plus(uint64_t one, uint64_t other) {
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

/* Put a stream in its place among the largest. */
static void rank(census_t *census, entry_t entry) {
    size_t at = census->named;
    while (at > 0) {
        entry_t before = census->top[at - 1];
        if (before.records > entry.records ||
            (before.records == entry.records && before.id < entry.id))
            break;
        at--;
    }
    if (at >= census->most) return;
    if (census->named < census->most) census->named++;
    memmove(&census->top[at + 1], &census->top[at], (census->named - at - 1) * sizeof entry);
    census->top[at] = entry;
}

void census_add(census_t *census, const aedile_maintenance_state_stream_t *stream) {
    uint64_t records =
        stream->end_offset > stream->start_offset ? stream->end_offset - stream->start_offset : 0;
    census->streams++;
    census->open += stream->opened;
    census->records = plus(census->records, records);
    rank(census, (entry_t){stream->id, records});
}

static void line(aedile_buffer_t *text, const char *name, uint64_t value) {
    aedile_add(text, name);
    aedile_add(text, " ");
    aedile_add_u64(text, value);
    aedile_add(text, "\n");
}

void census_write(const census_t *census, aedile_buffer_t *text) {
    line(text, "streams", census->streams);
    line(text, "open", census->open);
    line(text, "records", census->records);
    for (size_t at = 0; at < census->named; at++) {
        aedile_add(text, "top ");
        aedile_add_u64(text, census->top[at].id);
        aedile_add(text, " ");
        aedile_add_u64(text, census->top[at].records);
        aedile_add(text, "\n");
    }
}

/* Take these characters. */
static bool word(const uint8_t **at, const uint8_t *end, const char *expected) {
    size_t len = strlen(expected);
    if ((size_t)(end - *at) < len || memcmp(*at, expected, len)) return false;
    *at += len;
    return true;
}

static bool number(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    const uint8_t *start = *at;
    for (*value = 0; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (*value > (UINT64_MAX - digit) / 10) return false;
        *value = *value * 10 + digit;
    }
    return *at > start;
}

static bool figure(const uint8_t **at, const uint8_t *end, const char *name, uint64_t *value) {
    return word(at, end, name) && number(at, end, value) && word(at, end, "\n");
}

bool census_read(census_t *census, uint64_t *after, const uint8_t *text, size_t len) {
    const uint8_t *end = text + len;
    if (!figure(&text, end, "after ", after) || !figure(&text, end, "streams ", &census->streams) ||
        !figure(&text, end, "open ", &census->open) ||
        !figure(&text, end, "records ", &census->records))
        return false;
    while (text < end) {
        entry_t entry;
        if (!word(&text, end, "top ") || !number(&text, end, &entry.id) || !word(&text, end, " ") ||
            !number(&text, end, &entry.records) || !word(&text, end, "\n"))
            return false;
        rank(census, entry);
    }
    return true;
}
