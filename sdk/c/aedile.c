/* The layer of aedile.h over the generated bindings. */
#include "aedile.h"

#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

void aedile_add_bytes(aedile_buffer_t *buffer, const uint8_t *bytes, size_t len) {
    if (len > buffer->capacity - buffer->len) {
        size_t capacity = buffer->capacity * 2 > 64 ? buffer->capacity * 2 : 64;
        while (capacity - buffer->len < len) capacity *= 2;
        buffer->ptr = realloc(buffer->ptr, capacity);
        if (!buffer->ptr) abort();
        buffer->capacity = capacity;
    }
    if (len) memcpy(buffer->ptr + buffer->len, bytes, len);
    buffer->len += len;
}

void aedile_add(aedile_buffer_t *buffer, const char *text) {
    aedile_add_bytes(buffer, (const uint8_t *)text, strlen(text));
}

void aedile_add_u64(aedile_buffer_t *buffer, uint64_t value) {
    uint8_t digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value);
    aedile_add_bytes(buffer, digits + at, sizeof digits - at);
}

plugin_string_t aedile_text(const aedile_buffer_t *buffer) {
    return (plugin_string_t){buffer->ptr, buffer->len};
}

plugin_string_t aedile_static(const char *text) {
    return (plugin_string_t){(uint8_t *)text, strlen(text)};
}

/* ---- log and figures ---- */

void aedile_log(aedile_maintenance_logging_level_t level, const aedile_buffer_t *line) {
    plugin_string_t text = aedile_text(line);
    aedile_maintenance_logging_log(level, &text);
}

void aedile_gauge(const char *name, double value) {
    plugin_string_t text = aedile_static(name);
    aedile_maintenance_metrics_gauge(&text, value);
}

/* ---- failures ---- */

/* What is returned to the host is freed by it through the bindings, so it has
 * to lie on the heap. */
static plugin_string_t owned(plugin_string_t text) {
    plugin_string_t copy;
    plugin_string_dup_n(&copy, (const char *)text.ptr, text.len);
    return copy;
}

bool aedile_reject(aedile_failure_t *failure, plugin_string_t reason) {
    failure->tag = EXPORTS_AEDILE_MAINTENANCE_MAINTENANCE_FAILURE_REJECT;
    failure->val.reject = owned(reason);
    return false;
}

bool aedile_retry(aedile_failure_t *failure, uint64_t after_ms, plugin_string_t reason) {
    failure->tag = EXPORTS_AEDILE_MAINTENANCE_MAINTENANCE_FAILURE_RETRY;
    failure->val.retry.after_ms = after_ms;
    failure->val.retry.reason = owned(reason);
    return false;
}

bool aedile_fail(aedile_failure_t *failure, const aedile_maintenance_types_host_error_t *error) {
    if (error->tag == AEDILE_MAINTENANCE_TYPES_HOST_ERROR_UNAVAILABLE)
        return aedile_retry(failure, 0, error->val.unavailable);
    aedile_buffer_t text = {0};
    aedile_add(&text, "invalid argument: ");
    aedile_add_bytes(&text, error->val.invalid_argument.ptr, error->val.invalid_argument.len);
    return aedile_reject(failure, aedile_text(&text));
}

bool aedile_answers(const aedile_maintenance_commands_list_answer_t *answers,
                    aedile_failure_t *failure) {
    for (size_t at = 0; at < answers->len; at++) {
        const aedile_maintenance_commands_answer_t *answer = &answers->ptr[at];
        if (answer->tag == AEDILE_MAINTENANCE_TYPES_ANSWER_REJECTED)
            return aedile_reject(failure, answer->val.rejected);
    }
    return true;
}

/* ---- the plugin's own keys ---- */

aedile_buffer_t aedile_own_key(const char *name) {
    plugin_string_t plugin;
    aedile_maintenance_job_plugin(&plugin);
    aedile_buffer_t key = {0};
    aedile_add(&key, "aedile/kv/");
    aedile_add_bytes(&key, plugin.ptr, plugin.len);
    aedile_add(&key, "/");
    aedile_add(&key, name);
    plugin_string_free(&plugin);
    return key;
}

bool aedile_get(const aedile_buffer_t *key, plugin_list_u8_t *value) {
    plugin_string_t text = aedile_text(key);
    return aedile_maintenance_state_kv_get(&text, value);
}

bool aedile_put(const aedile_buffer_t *key, const aedile_buffer_t *value,
                aedile_failure_t *failure) {
    aedile_maintenance_commands_put_t put = {aedile_text(key), {value->ptr, value->len}};
    aedile_maintenance_commands_list_put_t puts = {&put, 1};
    aedile_maintenance_commands_list_answer_t answers;
    aedile_maintenance_commands_host_error_t error;
    if (!aedile_maintenance_commands_put_kv(&puts, &answers, &error))
        return aedile_fail(failure, &error);
    return aedile_answers(&answers, failure);
}

bool aedile_delete(const aedile_buffer_t *key, aedile_failure_t *failure) {
    plugin_string_t text = aedile_text(key);
    plugin_list_string_t keys = {&text, 1};
    aedile_maintenance_commands_list_answer_t answers;
    aedile_maintenance_commands_host_error_t error;
    if (!aedile_maintenance_commands_delete_kv(&keys, &answers, &error))
        return aedile_fail(failure, &error);
    return aedile_answers(&answers, failure);
}
