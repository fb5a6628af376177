/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the real verbs, and the way to ask mlx5 for a queue pair's doorbell register.
 *
 * Normal path: the table is handed to tt_endpoints_create(). mlx5's own functions are looked up in its library where
 * the provider has been loaded by libibverbs already, so that nothing here depends on it.
 *
 * Failures: a device that is not mlx5's, or a build without its header: the register is not known.
 */
#include "endpoint/calls.h"

#include <dlfcn.h>
#include <string.h>

#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>
#define HAS_MLX5DV 1
#else
#define HAS_MLX5DV 0
#endif

/* ibv_reg_mr is a macro. */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t length_bytes, int access)
{
    return ibv_reg_mr(pd, address, length_bytes, access);
}

/* And so is this one; the port's attributes of older libraries are a part of the struct. */
static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes)
{
    return ibv_query_port(context, port, attributes);
}

#if HAS_MLX5DV

enum { UAR_PAGE_BYTES = 4096 };

typedef bool is_supported_function(struct ibv_device *device);
typedef int init_obj_function(struct mlx5dv_obj *object, uint64_t type);

/* A function of the provider's library, or NULL where no mlx5 device has been opened. */
static void *mlx5_function(const char *name)
{
    void *library = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *function = library != NULL ? dlsym(library, name) : NULL;

    if (library != NULL) {
        dlclose(library); /* the provider keeps it loaded */
    }
    return function;
}

static void find_doorbell(struct ibv_qp *qp, struct tt_endpoint_doorbell *doorbell)
{
    void *found_is_supported = mlx5_function("mlx5dv_is_supported"), *found_init = mlx5_function("mlx5dv_init_obj");
    is_supported_function *is_supported;
    init_obj_function *init_obj;
    struct mlx5dv_qp mlx5_qp = {0};
    struct mlx5dv_obj object = {.qp = {.in = qp, .out = &mlx5_qp}};

    if (found_is_supported == NULL || found_init == NULL) {
        return;
    }
    memcpy(&is_supported, &found_is_supported, sizeof(is_supported)); /* C has no cast from data to function */
    memcpy(&init_obj, &found_init, sizeof(init_obj));
    if (!is_supported(qp->context->device) || init_obj(&object, MLX5DV_OBJ_QP) != 0) {
        return;
    }
    uint64_t address = (uintptr_t)mlx5_qp.bf.reg;
    doorbell->known = true;
    doorbell->blueflame = mlx5_qp.bf.size != 0;
    doorbell->page = address & ~(uint64_t)(UAR_PAGE_BYTES - 1);
    doorbell->offset = (uint32_t)(address & (UAR_PAGE_BYTES - 1));
}

#else

static void find_doorbell(struct ibv_qp *qp, struct tt_endpoint_doorbell *doorbell)
{
    (void)qp;
    (void)doorbell;
}

#endif

static const struct tt_endpoint_calls libibverbs = {
    .open_device = ibv_open_device,
    .close_device = ibv_close_device,
    .alloc_pd = ibv_alloc_pd,
    .alloc_parent_domain = ibv_alloc_parent_domain,
    .dealloc_pd = ibv_dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = ibv_dereg_mr,
    .alloc_td = ibv_alloc_td,
    .dealloc_td = ibv_dealloc_td,
    .create_cq_ex = ibv_create_cq_ex,
    .create_cq = ibv_create_cq,
    .destroy_cq = ibv_destroy_cq,
    .create_qp = ibv_create_qp,
    .destroy_qp = ibv_destroy_qp,
    .get_device_list = ibv_get_device_list,
    .free_device_list = ibv_free_device_list,
    .query_device = ibv_query_device,
    .query_port = query_port,
    .query_gid = ibv_query_gid,
    .modify_qp = ibv_modify_qp,
    .post_send = ibv_post_send,
    .poll_cq = ibv_poll_cq,
    .wc_status_str = ibv_wc_status_str,
    .find_doorbell = find_doorbell,
};

const struct tt_endpoint_calls *tt_endpoint_libibverbs(void)
{
    return &libibverbs;
}
