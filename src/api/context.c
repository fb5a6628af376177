/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions of contexts. Normal path: read the settings, set up the log, create the engine. Failures: settings
 * that cannot be, and what the engine reports.
 */
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/log.h"

#define STRINGIFY(x)                      #x
#define VERSION_TEXT(major, minor, patch) STRINGIFY(major) "." STRINGIFY(minor) "." STRINGIFY(patch)

const char *tutti_version(void)
{
    return VERSION_TEXT(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
}

const char *tutti_last_error(void)
{
    return tt_last_error();
}

static tutti_status read_settings(const tutti_context_options *options, struct tt_settings *settings)
{
    char message[512];
    tutti_status status = tt_settings_load(settings);

    for (size_t i = 0; status == TUTTI_OK && options != NULL && i < options->setting_count; i++) {
        if (options->settings[i].name == NULL || options->settings[i].value == NULL) {
            return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "setting %zu has no %s", i,
                            options->settings[i].name == NULL ? "name" : "value");
        }
        status = tt_settings_set(settings, options->settings[i].name, options->settings[i].value);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_log_configure(settings->log, settings->log_file[0] != '\0' ? settings->log_file : NULL, message,
                         sizeof message) != TUTTI_OK) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s", message);
    }
    if (settings->rank != TT_AUTO) {
        tt_log_rank((int)settings->rank);
    }
    return TUTTI_OK;
}

tutti_status tutti_context_create(const tutti_context_options *options, tutti_context **context)
{
    tutti_context *made;
    tutti_status status;

    tt_clear_error();
    if (context == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "context is NULL");
    }
    if (options != NULL && options->struct_size < sizeof *options) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the context options is %zu, not %zu",
                        options->struct_size, sizeof *options);
    }
    if (options != NULL && options->settings == NULL && options->setting_count > 0) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "settings is NULL, but setting_count is %zu",
                        options->setting_count);
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_NO_MEMORY, "no memory for a context");
    }
    pthread_mutex_init(&made->bootstrap_lock, NULL);
    status = read_settings(options, &made->settings);
    if (status == TUTTI_OK) {
        status = tt_engine_create(&made->settings, &made->engine);
    }
    if (status != TUTTI_OK) {
        pthread_mutex_destroy(&made->bootstrap_lock);
        free(made);
        return status;
    }
    *context = made;
    return TUTTI_OK;
}

tutti_status tutti_context_destroy(tutti_context *context)
{
    uint32_t groups;

    tt_clear_error();
    if (context == NULL) {
        return TUTTI_OK;
    }
    groups = atomic_load(&context->group_count);
    if (groups > 0) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "the context still has %u groups", groups);
    }
    tt_engine_destroy(context->engine);
    tt_bootstrap_destroy(context->bootstrap);
    tt_environment_release(&context->environment);
    pthread_mutex_destroy(&context->bootstrap_lock);
    free(context);
    return TUTTI_OK;
}
