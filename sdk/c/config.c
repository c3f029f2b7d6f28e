/* Reads a configuration: a JSON object whose values are numbers, truth values
 * and texts. */
#include "aedile.h"

#include <string.h>

/* What is left to read, and what was wrong. */
typedef struct reader {
    const uint8_t *at;
    const uint8_t *end;
    plugin_string_t *error;
} reader_t;

static bool wrong(reader_t *reader, const char *what, const uint8_t *detail, size_t len,
                  const char *rest) {
    aedile_buffer_t text = {0};
    aedile_add(&text, "configuration: ");
    aedile_add(&text, what);
    aedile_add_bytes(&text, detail, len);
    aedile_add(&text, rest);
    *reader->error = aedile_text(&text);
    return false;
}

static bool malformed(reader_t *reader, const char *what) {
    return wrong(reader, what, NULL, 0, "");
}

static void space(reader_t *reader) {
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at) reader->at++;
}

/* Take this character, after white space. */
static bool take(reader_t *reader, uint8_t expected) {
    space(reader);
    if (reader->at == reader->end || *reader->at != expected) return false;
    reader->at++;
    return true;
}

/* Four hexadecimal digits; 65536 or more if they are not. */
static uint32_t four(reader_t *reader) {
    uint32_t code = 0;
    for (int digit = 0; digit < 4; digit++) {
        if (reader->at == reader->end) return 0x10000;
        uint8_t c = *reader->at++;
        uint32_t value = c >= '0' && c <= '9'   ? c - '0'
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10u
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10u
                                                : 16;
        if (value == 16) return 0x10000;
        code = code << 4 | value;
    }
    return code;
}

static void add_code(aedile_buffer_t *into, uint32_t code) {
    uint8_t bytes[4];
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t first[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t at = len; at-- > 1; code >>= 6) bytes[at] = (uint8_t)(0x80 | (code & 0x3f));
    bytes[0] = (uint8_t)(first[len] | code);
    aedile_add_bytes(into, bytes, len);
}

/* What follows a backslash. */
static bool escape(reader_t *reader, aedile_buffer_t *into) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end) return false;
    uint8_t c = *reader->at++;
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        aedile_add_bytes(into, (const uint8_t *)to + (found - from), 1);
        return true;
    }
    if (c != 'u') return false;
    uint32_t code = four(reader);
    if (code >= 0xd800 && code < 0xdc00) {
        if (reader->end - reader->at < 6 || reader->at[0] != '\\' || reader->at[1] != 'u')
            return false;
        reader->at += 2;
        uint32_t low = four(reader);
        if (low < 0xdc00 || low >= 0xe000) return false;
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    } else if (code >= 0xdc00 && (code < 0xe000 || code == 0x10000)) {
        return false;
    }
    add_code(into, code);
    return true;
}

static bool string(reader_t *reader, plugin_string_t *into) {
    if (!take(reader, '"')) return false;
    aedile_buffer_t text = {0};
    while (reader->at < reader->end) {
        uint8_t c = *reader->at++;
        if (c == '"') {
            *into = aedile_text(&text);
            return true;
        }
        if (c < 0x20) return false;
        if (c != '\\')
            aedile_add_bytes(&text, &c, 1);
        else if (!escape(reader, &text))
            return false;
    }
    return false;
}

static bool word(reader_t *reader, const char *expected) {
    size_t len = strlen(expected);
    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, expected, len)) return false;
    reader->at += len;
    return true;
}

/* A whole number, without a sign, a fraction or an exponent. */
static bool number(reader_t *reader, uint64_t *into) {
    const uint8_t *start = reader->at;
    uint64_t value = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        uint64_t digit = (uint64_t)(*reader->at - '0');
        if (value > (UINT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (reader->at == start || (reader->at - start > 1 && *start == '0')) return false;
    if (reader->at < reader->end && strchr("+-.eE", *reader->at) && *reader->at) return false;
    *into = value;
    return true;
}

static bool value(reader_t *reader, const aedile_field_t *field) {
    aedile_buffer_t must = {0};
    space(reader);
    switch (field->kind) {
    case AEDILE_NUMBER: {
        uint64_t found;
        if (number(reader, &found) && found >= field->least && found <= field->most) {
            *(uint64_t *)field->into = found;
            return true;
        }
        aedile_add(&must, " must be a whole number from ");
        aedile_add_u64(&must, field->least);
        aedile_add(&must, " to ");
        aedile_add_u64(&must, field->most);
        break;
    }
    case AEDILE_BOOL: {
        bool yes = word(reader, "true");
        if (yes || word(reader, "false")) {
            *(bool *)field->into = yes;
            return true;
        }
        aedile_add(&must, " must be true or false");
        break;
    }
    case AEDILE_STRING: {
        plugin_string_t found;
        if (string(reader, &found)) {
            *(plugin_string_t *)field->into = found;
            return true;
        }
        aedile_add(&must, " must be a text");
        break;
    }
    }
    aedile_add_bytes(&must, (const uint8_t *)"", 1);
    return wrong(reader, "", (const uint8_t *)field->name, strlen(field->name),
                 (const char *)must.ptr);
}

static const aedile_field_t *known(const plugin_string_t *name, const aedile_field_t *fields,
                                   size_t count) {
    for (size_t at = 0; at < count; at++)
        if (strlen(fields[at].name) == name->len && !memcmp(fields[at].name, name->ptr, name->len))
            return &fields[at];
    return NULL;
}

bool aedile_configure(const plugin_string_t *json, const aedile_field_t *fields, size_t count,
                      plugin_string_t *error) {
    reader_t reader = {json->ptr, json->ptr + json->len, error};
    if (!take(&reader, '{')) return malformed(&reader, "must be a JSON object");
    if (!take(&reader, '}')) {
        do {
            plugin_string_t name;
            if (!string(&reader, &name) || !take(&reader, ':'))
                return malformed(&reader, "is not JSON");
            const aedile_field_t *field = known(&name, fields, count);
            if (!field) return wrong(&reader, "unknown key `", name.ptr, name.len, "`");
            if (!value(&reader, field)) return false;
        } while (take(&reader, ','));
        if (!take(&reader, '}')) return malformed(&reader, "is not JSON");
    }
    space(&reader);
    return reader.at == reader.end || malformed(&reader, "is not JSON: text follows the object");
}
