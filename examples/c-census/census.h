/* What is known of the streams so far. */
#ifndef CENSUS_H
#define CENSUS_H

#include "aedile.h"

/* Most streams that can be named. */
#define TOP_MOST 100

/* A stream and how many records it holds. */
typedef struct entry {
    uint64_t id;
    uint64_t records;
} entry_t;

/* The count. Begin with `{0}` and the number of streams to name. */
typedef struct census {
    uint64_t streams;
    uint64_t open;
    uint64_t records;
    /* The largest streams: most records first, lowest id first among equals. */
    entry_t top[TOP_MOST];
    size_t named;
    size_t most;
} census_t;

/* Count one more stream. */
void census_add(census_t *census, const aedile_maintenance_state_stream_t *stream);

/* The count as text, a line for each figure. */
void census_write(const census_t *census, aedile_buffer_t *text);

/* Read back an unfinished count: the id of the last stream and what
 * census_write wrote. False if the text is not one; `census` is then spoilt. */
bool census_read(census_t *census, uint64_t *after, const uint8_t *text, size_t len);

#endif
