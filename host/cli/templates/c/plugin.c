/* {{name}}: counts the keys that begin with a prefix, and notes each change.
 *
 * A plugin to start from. It has what most need: a configuration, a figure, a
 * note that outlives the leader, and nothing that is proposed twice. PicoMQ
 * names its streams by keys that begin with `/`: by default it counts those. */
#include "aedile.h"

#include <string.h>

AEDILE_MANIFEST("manifest.json");

/* What an operator can set. A misspelt key is an error, not a default. */
static bool configure(const plugin_string_t *json, plugin_string_t *prefix,
                      plugin_string_t *error) {
    *prefix = aedile_static("/");
    const aedile_field_t fields[] = {{"prefix", AEDILE_STRING, prefix, 0, 0}};
    if (!aedile_configure(json, fields, sizeof fields / sizeof *fields, error)) return false;
    if (prefix->len > 0) return true;
    plugin_string_dup(error, "configuration: prefix must not be empty");
    return false;
}

bool exports_aedile_maintenance_maintenance_validate_config(plugin_string_t *json,
                                                            plugin_string_t *error) {
    plugin_string_t prefix;
    return configure(json, &prefix, error);
}

/* Counts page by page: an empty page is the last one. */
static uint64_t count(plugin_string_t *prefix) {
    uint64_t keys = 0;
    plugin_string_t after = {0};
    for (;;) {
        plugin_list_string_t page;
        aedile_maintenance_state_kv_keys(prefix, keys ? &after : NULL, AEDILE_PAGE, &page);
        if (page.len == 0) return keys;
        keys += page.len;
        plugin_string_dup_n(&after, (const char *)page.ptr[page.len - 1].ptr,
                            page.ptr[page.len - 1].len);
        plugin_list_string_free(&page);
    }
}

bool exports_aedile_maintenance_maintenance_tick(aedile_report_t *report,
                                                 aedile_failure_t *failure) {
    plugin_string_t json, prefix, error;
    aedile_maintenance_job_config(&json);
    if (!configure(&json, &prefix, &error)) return aedile_reject(failure, error);

    uint64_t keys = count(&prefix);
    aedile_gauge("keys", (double)keys);

    /* What is to be remembered lies below the plugin's own prefix. The same note
     * a second time would be a log row for nothing. */
    aedile_buffer_t note = aedile_own_key("keys"), value = {0}, summary = {0};
    aedile_add_u64(&value, keys);
    plugin_list_u8_t stored;
    bool same = aedile_get(&note, &stored) && stored.len == value.len &&
                !memcmp(stored.ptr, value.ptr, value.len);
    if (!same) {
        if (!aedile_put(&note, &value, failure)) return false;
        aedile_add_u64(&summary, keys);
        aedile_add(&summary, " keys begin with ");
        aedile_add_bytes(&summary, prefix.ptr, prefix.len);
    }
    *report = (aedile_report_t){aedile_text(&summary), same ? 0 : 1, 0, false};
    return true;
}
