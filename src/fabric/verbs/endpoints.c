/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The endpoints of a device's threads (Zambre et al., sections VI and VII).
 *
 * Normal path: the category that is wished for is made, without queue pairs, and one line of the log says which one
 * became effective. Where there is no wish: a single thread contends with nobody, so it takes what a context has anyway
 * (static). Several get `dynamic`, a doorbell page each: the paper measured 94 % of the rate of MPI-everywhere with
 * 19 % of its pages, where static and shared-dynamic had 64 and 65 %; 2xdynamic had 108 %, but takes twice the pages.
 *
 * Failures: those of tt_endpoints_create(). A provider without thread domains is none.
 */
#include <string.h>

#include "base/log.h"
#include "endpoint/calls.h"
#include "fabric/verbs/device.h"

static tutti_status choose(const char *wish, uint32_t threads, enum tt_endpoint_category *category)
{
    if (wish == NULL) {
        *category = threads > 1 ? TT_ENDPOINT_DYNAMIC : TT_ENDPOINT_STATIC;
        return TUTTI_OK;
    }
    return tt_endpoint_category_parse(wish, category)
               ? TUTTI_OK
               : tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_ENDPOINTS=%s: no such category", wish);
}

tutti_status tt_verbs_endpoints_open(struct tt_verbs_device *device, struct ibv_device *of,
                                     const struct tt_verbs_device_options *options)
{
    struct tt_endpoint_options wish = {.device = of, .threads = options->threads > 0 ? options->threads : 1};
    bool is_auto = options->endpoints == NULL || strcmp(options->endpoints, "auto") == 0;
    tutti_status status = choose(is_auto ? NULL : options->endpoints, wish.threads, &wish.category);

    device->threads = wish.threads;
    device->calls = tt_endpoint_libibverbs();
    if (status == TUTTI_OK) {
        status = tt_endpoints_create(device->calls, &wish, &device->endpoints);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    const struct tt_endpoint_made *made = tt_endpoints_made(device->endpoints);
    device->shares_queue_pairs = tt_endpoint_recipe_of(made->effective)->one_for_all;
    TT_LOG(TT_PART_FABRIC, TT_LOG_INFO,
           "RDMA device %s: endpoints for %u threads: asked %s%s, effective %s (%u contexts, %u thread domains)",
           device->name, wish.threads, is_auto ? "auto, which is " : "", tt_endpoint_category_word(wish.category),
           tt_endpoint_category_word(made->effective), made->contexts, made->thread_domains + made->idle_domains);
    return TUTTI_OK;
}

const struct tt_endpoint_lane *tt_verbs_lane(const struct tt_verbs_device *device, uint32_t thread)
{
    return tt_endpoints_lane(device->endpoints, thread, 0);
}

const char *tt_verbs_device_endpoints(const struct tt_verbs_device *device)
{
    return tt_endpoint_category_word(tt_endpoints_made(device->endpoints)->effective);
}

void tt_verbs_show_doorbell(const struct tt_verbs_device *device, uint32_t thread, struct ibv_qp *pair)
{
    struct tt_endpoint_doorbell doorbell = {.known = false};

    device->calls->find_doorbell(pair, &doorbell);
    if (doorbell.known) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO,
               "RDMA device %s: queue pair 0x%x of thread %u rings at page 0x%llx + 0x%x%s", device->name, pair->qp_num,
               thread, (unsigned long long)doorbell.page, doorbell.offset, doorbell.blueflame ? " (BlueFlame)" : "");
    }
}
