/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The average of all ranks' gradients, in place, as a step of data-parallel training needs it, and the largest of their
 * losses at one rank.
 *
 * Both requests are made once and posted in every step: first the allreduce, then the small reduce behind it, which are
 * under way together. At the end each rank checks what it has. Start it with `tutti run -n 4 ./allreduce`.
 *
 * Failures: a rank that died, was too slow, or combines something else ends the wait on all others with a status and a
 * sentence; it is printed, and the program ends with status 1.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/reduction.h>

enum { STEPS = 10, GRADIENTS = 1 << 18 };

static void check(tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, tutti_status_text(status), tutti_last_error());
        exit(1);
    }
}

int main(void)
{
    static float gradients[GRADIENTS];
    tutti_context *context;
    tutti_group *group;
    tutti_request *average, *worst;
    double loss, worst_loss = 0;

    check(tutti_context_create(NULL, &context), "context");
    check(tutti_group_create_from_environment(context, &group), "group");
    uint32_t rank = tutti_group_rank(group), size = tutti_group_size(group);

    check(tutti_allreduce_init(group, TUTTI_IN_PLACE, gradients, GRADIENTS, TUTTI_FP32, TUTTI_AVERAGE, NULL, NULL,
                               &average),
          "allreduce");
    check(tutti_reduce_init(group, &loss, &worst_loss, 1, TUTTI_FP64, TUTTI_MAX, NULL, 0, NULL, &worst), "reduce");
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < GRADIENTS; i++) {
            gradients[i] = (float)(rank + (uint32_t)step);
        }
        loss = 1.0 / (step + 1) + rank;
        check(tutti_post(average), "post");
        check(tutti_post(worst), "post");
        check(tutti_wait(average), "wait");
        check(tutti_wait(worst), "wait");
        for (int i = 0; i < GRADIENTS; i++) {
            float expected = (float)step + (float)(size - 1) / 2;

            if (gradients[i] != expected) {
                fprintf(stderr, "rank %u: gradient %d is %f, not %f\n", rank, i, (double)gradients[i],
                        (double)expected);
                return 1;
            }
        }
    }
    if (rank == 0) {
        printf("%u ranks, %d steps: every gradient is the average; the worst loss was %g\n", size, STEPS, worst_loss);
    }
    check(tutti_finalize(average), "finalize");
    check(tutti_finalize(worst), "finalize");
    check(tutti_group_destroy(group), "group");
    check(tutti_context_destroy(context), "context");
    return 0;
}
