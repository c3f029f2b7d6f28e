/* Write maintenance plugins for Aedile in C.
 *
 * `bindings/plugin.h` is the whole contract, generated from `wit/`: every host
 * function is there, under its full name. This header adds what nearly every
 * plugin needs: texts, a configuration that is checked, keys of its own, and
 * failures. It calls nothing that the plugin does not call, so a plugin's
 * imports stay its own.
 *
 * A plugin implements two functions of the contract,
 * `exports_aedile_maintenance_maintenance_validate_config` and `…_tick`, and
 * names its manifest once, with AEDILE_MANIFEST. Each tick runs in an instance of its
 * own which ends with it: a plugin frees pages in a loop, and nothing else.
 *
 * There is no standard input or output, no clock and no random number: printf
 * and time would be imports of WASI, which a host refuses. `snprintf` is fine. */
#ifndef AEDILE_H
#define AEDILE_H

#include "bindings/plugin.h"

/* Carries the file as the plugin's manifest: a section named
 * `aedile:manifest`. The path is as the compiler finds it, by -I or from the
 * folder that it runs in. Once in a plugin, outside of functions. */
#define AEDILE_MANIFEST(path)                                              \
    __asm__(".section \".custom_section.aedile:manifest\",\"\",@\n"        \
            ".incbin \"" path "\"\n"                                       \
            ".section .text,\"\",@\n")

/* Most items that a host gives in one page. */
#define AEDILE_PAGE 2000

/* ---- texts ---- */

/* A text that grows: UTF-8, without a zero at its end. Begin with `{0}`. */
typedef struct aedile_buffer {
    uint8_t *ptr;
    size_t len;
    size_t capacity;
} aedile_buffer_t;

/* Append a text that ends in a zero. */
void aedile_add(aedile_buffer_t *buffer, const char *text);
/* Append bytes. */
void aedile_add_bytes(aedile_buffer_t *buffer, const uint8_t *bytes, size_t len);
/* Append a number in decimal. */
void aedile_add_u64(aedile_buffer_t *buffer, uint64_t value);

/* The buffer as the bindings take it. It shares the buffer's bytes. */
plugin_string_t aedile_text(const aedile_buffer_t *buffer);
/* A text that ends in a zero, as the bindings take it. It shares its bytes. */
plugin_string_t aedile_static(const char *text);

/* ---- log and figures ---- */

/* Write one line to the host's log. The levels are
 * AEDILE_MAINTENANCE_LOGGING_LEVEL_DEBUG, …_INFO, …_WARN and …_ERROR. */
void aedile_log(aedile_maintenance_logging_level_t level, const aedile_buffer_t *line);
/* Set a gauge. Needs the grant `metrics`. */
void aedile_gauge(const char *name, double value);

/* ---- failures ---- */

typedef exports_aedile_maintenance_maintenance_failure_t aedile_failure_t;
typedef exports_aedile_maintenance_maintenance_report_t aedile_report_t;

/* Fail: only an operator can help. Always false, so that a tick can say
 * `return aedile_reject(…)`. */
bool aedile_reject(aedile_failure_t *failure, plugin_string_t reason);
/* Fail: try again after a while; 0 leaves the wait to the host. Always false. */
bool aedile_retry(aedile_failure_t *failure, uint64_t after_ms, plugin_string_t reason);
/* Fail with what a host function failed with. An argument out of its range is
 * the plugin's fault and stays so; a host that cannot serve may do so in the
 * next tick. Always false. */
bool aedile_fail(aedile_failure_t *failure, const aedile_maintenance_types_host_error_t *error);

/* Take the answers of commands. True if none was rejected: what was redundant
 * or is unknown needs nothing done. False fills in the rule that was broken. */
bool aedile_answers(const aedile_maintenance_commands_list_answer_t *answers,
                    aedile_failure_t *failure);

/* ---- the plugin's own keys ---- */

/* `aedile/kv/<plugin>/<name>`: a key that this plugin may write. */
aedile_buffer_t aedile_own_key(const char *name);
/* The value of a key; false if it is not there. Needs the grant `state`. */
bool aedile_get(const aedile_buffer_t *key, plugin_list_u8_t *value);
/* Store a value. Needs the grant `commands.put-kv`. */
bool aedile_put(const aedile_buffer_t *key, const aedile_buffer_t *value,
                aedile_failure_t *failure);
/* Remove a key. Needs the grant `commands.delete-kv`. */
bool aedile_delete(const aedile_buffer_t *key, aedile_failure_t *failure);

/* ---- configuration ---- */

/* What a key of the configuration holds. */
typedef enum aedile_kind {
    /* A whole number from `least` to `most`, into a uint64_t. */
    AEDILE_NUMBER,
    /* true or false, into a bool. */
    AEDILE_BOOL,
    /* A text, into a plugin_string_t. */
    AEDILE_STRING,
} aedile_kind_t;

/* A key of the configuration. */
typedef struct aedile_field {
    const char *name;
    aedile_kind_t kind;
    /* Where its value goes. It keeps what was there if the key is absent. */
    void *into;
    uint64_t least;
    uint64_t most;
} aedile_field_t;

/* Read a configuration: JSON, an object with nothing but these keys. False
 * fills in what is wrong, for the operator: a misspelt key is an error, not a
 * default. */
bool aedile_configure(const plugin_string_t *json, const aedile_field_t *fields, size_t count,
                      plugin_string_t *error);

#endif
