/* Counts the streams and names those that hold the most records.
 *
 * The count is kept below the plugin's own prefix, as `report`, and written
 * again only when it differs. A tick looks at so many streams and no more; what
 * it has counted until then is kept as `pass`, so that the next tick goes on
 * there, on whichever node it runs. */
#include "aedile.h"
#include "census.h"

#include <string.h>

AEDILE_MANIFEST("manifest.json");

typedef struct config {
    uint64_t top;
    uint64_t streams_per_tick;
    uint64_t warn_records;
} config_t;

static bool configure(const plugin_string_t *json, config_t *config, plugin_string_t *error) {
    *config = (config_t){.top = 10, .streams_per_tick = 20000, .warn_records = UINT64_MAX};
    const aedile_field_t fields[] = {
        {"top", AEDILE_NUMBER, &config->top, 1, TOP_MOST},
        {"streams-per-tick", AEDILE_NUMBER, &config->streams_per_tick, 1, 100000},
        {"warn-records", AEDILE_NUMBER, &config->warn_records, 0, 9007199254740991},
    };
    return aedile_configure(json, fields, sizeof fields / sizeof *fields, error);
}

bool exports_aedile_maintenance_maintenance_validate_config(plugin_string_t *json,
                                                            plugin_string_t *error) {
    config_t config;
    return configure(json, &config, error);
}

/* The unfinished count of the ticks before; a new one if there is none, or if
 * it is not this plugin's writing. */
static bool resume(const aedile_buffer_t *key, census_t *census, uint64_t *after, uint64_t top) {
    *census = (census_t){.most = top};
    plugin_list_u8_t stored;
    if (!aedile_get(key, &stored)) return false;
    if (census_read(census, after, stored.ptr, stored.len)) return true;
    *census = (census_t){.most = top};
    return false;
}

/* Count the streams after this one. True if there are no more; false if the
 * tick has looked at as many as it may, or should stop. */
static bool count(census_t *census, bool *begun, uint64_t *after, uint64_t most,
                  uint64_t *looked) {
    while (*looked < most && !(*looked && aedile_maintenance_job_should_stop())) {
        uint64_t left = most - *looked;
        aedile_maintenance_state_list_stream_t page;
        aedile_maintenance_state_streams(*begun ? after : NULL,
                                         left < AEDILE_PAGE ? (uint32_t)left : AEDILE_PAGE, &page);
        if (page.len == 0) return true;
        for (size_t at = 0; at < page.len; at++) census_add(census, &page.ptr[at]);
        *begun = true;
        *after = page.ptr[page.len - 1].id;
        *looked += page.len;
        aedile_maintenance_state_list_stream_free(&page);
    }
    return false;
}

static void warn(const census_t *census, uint64_t most) {
    for (size_t at = 0; at < census->named && census->top[at].records > most; at++) {
        aedile_buffer_t line = {0};
        aedile_add(&line, "stream ");
        aedile_add_u64(&line, census->top[at].id);
        aedile_add(&line, " holds ");
        aedile_add_u64(&line, census->top[at].records);
        aedile_add(&line, " records, more than ");
        aedile_add_u64(&line, most);
        aedile_log(AEDILE_MAINTENANCE_LOGGING_LEVEL_WARN, &line);
    }
}

static void summarise(const census_t *census, aedile_buffer_t *text) {
    aedile_add_u64(text, census->streams);
    aedile_add(text, " streams, ");
    aedile_add_u64(text, census->open);
    aedile_add(text, " open, ");
    aedile_add_u64(text, census->records);
    aedile_add(text, " records");
}

/* Write the report if it differs from the one that is there. */
static bool publish(const census_t *census, const config_t *config, bool *changed,
                    aedile_failure_t *failure) {
    aedile_buffer_t key = aedile_own_key("report"), text = {0};
    census_write(census, &text);
    plugin_list_u8_t stored;
    *changed = !(aedile_get(&key, &stored) && stored.len == text.len &&
                 !memcmp(stored.ptr, text.ptr, text.len));
    if (!*changed) return true;
    if (!aedile_put(&key, &text, failure)) return false;
    warn(census, config->warn_records);
    return true;
}

bool exports_aedile_maintenance_maintenance_tick(aedile_report_t *report,
                                                 aedile_failure_t *failure) {
    plugin_string_t json, error;
    config_t config;
    aedile_maintenance_job_config(&json);
    if (!configure(&json, &config, &error)) return aedile_reject(failure, error);

    aedile_buffer_t pass = aedile_own_key("pass"), summary = {0};
    census_t census;
    uint64_t after = 0, looked = 0;
    bool resumed = resume(&pass, &census, &after, config.top);
    bool begun = resumed;

    if (!count(&census, &begun, &after, config.streams_per_tick, &looked)) {
        aedile_buffer_t text = {0};
        aedile_add(&text, "after ");
        aedile_add_u64(&text, after);
        aedile_add(&text, "\n");
        census_write(&census, &text);
        if (!aedile_put(&pass, &text, failure)) return false;
        aedile_add_u64(&summary, census.streams);
        aedile_add(&summary, " streams so far");
        *report = (aedile_report_t){aedile_text(&summary), looked, 0, true};
        return true;
    }

    aedile_gauge("streams", (double)census.streams);
    aedile_gauge("open_streams", (double)census.open);
    aedile_gauge("records", (double)census.records);
    bool changed;
    if (!publish(&census, &config, &changed, failure)) return false;
    /* Only now: a tick that ends in between counts the rest again, no more. */
    if (resumed && !aedile_delete(&pass, failure)) return false;
    if (changed) summarise(&census, &summary);
    *report = (aedile_report_t){aedile_text(&summary), changed ? looked : 0, 0, false};
    return true;
}
